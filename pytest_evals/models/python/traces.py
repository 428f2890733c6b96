"""Tool calls, usage and retrieved texts of a case, read from OpenTelemetry's spans.

The attributes are those of OpenTelemetry's conventions for generative AI (``gen_ai.*``;
opentelemetry-semantic-conventions 0.66b2) and of OpenInference
(``openinference.span.kind``). Tool calls are spans of executed tools; calls that a
model only asked for are not counted. A case is one trace: spans of a thread that the
application starts on its own are of another trace and belong to no case.
"""

from __future__ import annotations

import inspect
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from threading import Lock
from typing import Any, NamedTuple

from pytest_evals.core.finite import is_finite
from pytest_evals.core.request import Response
from pytest_evals.core.returned import calls_of, contexts_of, json_value, text_of
from pytest_evals.errors import DocumentError, ModelError
from pytest_evals.models.python.functions import COUNTS, response_in

MISSING = "traces need OpenTelemetry\n  fix: install pytest-model-evals[traces]"
NO_SPANS = (
    "the case has traces: true, and the application made no span in its trace\n"
    "  fix: instrument the application, and set its TracerProvider when it is imported"
)
NO_ARGUMENTS = (
    "spans of tools have no arguments, so calls are compared without them\n"
    "  fix: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, or let the "
    "instrumentation record content"
)
ORPHANS = (
    "spans of models and tools belong to no case: work that the application gives to "
    "its own threads starts a new trace\n"
    "  fix: run it in contextvars.copy_context(), or install "
    "opentelemetry-instrumentation-threading"
)
_KINDS = {
    "tool": ("execute_tool", "tool"),
    "llm": ("chat", "text_completion", "generate_content", "llm"),
    "agent": ("invoke_agent", "create_agent", "agent"),
    "retrieval": ("retrieval", "retriever"),
}
"""Kind of a span → operations of ``gen_ai``, and the kind of OpenInference."""


class _Span(NamedTuple):
    """A finished span: a ``tool``, ``llm``, ``agent``, ``retrieval`` or empty kind."""

    id: int
    parent: int
    name: str
    start: int
    kind: str
    attributes: Mapping[str, Any]
    error: str = ""


@dataclass(slots=True)
class CaseTrace:
    """The spans of one case."""

    spans: list[_Span] = field(default_factory=list)

    def fields(self) -> dict[str, Any]:
        """Return ``calls``, ``usage`` and ``contexts`` of the response."""
        spans = sorted(self.spans, key=lambda one: one.start)
        known = {one.id: one for one in spans}
        calls = [_call(one, known) for one in spans if one.kind == "tool"]
        models = [
            one
            for one in spans
            if one.kind == "llm" and not any(up.kind == "llm" for up in _up(one, known))
        ]
        retrievals = (one for one in spans if one.kind == "retrieval")
        found: dict[str, Any] = {
            "calls": calls_of(calls),
            "contexts": contexts_of(chain.from_iterable(map(_texts, retrievals))),
        }
        if models:
            found["usage"] = {"requests": len(models)} | _tokens(models)
        return found

    @property
    def lacks_arguments(self) -> bool:
        """Whether there are tool spans, none of which has arguments."""
        tools = [one for one in self.spans if one.kind == "tool"]
        return bool(tools) and all(_arguments(one) is None for one in tools)


class SpanError(DocumentError):
    """The spans of a case are missing."""


class TracedValue(NamedTuple):
    """What an application returned for a case, and its spans."""

    value: Any
    trace: CaseTrace


class Traces:
    """Collects the spans of cases that are open, by trace."""

    def __init__(self) -> None:
        """Add a span processor to the application's tracer provider; set one if there
        is none; ``ModelError`` if OpenTelemetry is not installed."""
        try:
            from opentelemetry import trace
            from opentelemetry.sdk.trace import TracerProvider
        except ImportError:
            raise ModelError(MISSING) from None
        self._open: dict[int, CaseTrace] = {}
        self._lock = Lock()  # spans end in threads of the application
        self._is_closed = False
        self._n_orphans = 0
        self._lacks_arguments = False
        provider = trace.get_tracer_provider()
        if not isinstance(provider, TracerProvider):
            trace.set_tracer_provider(TracerProvider())
            provider = trace.get_tracer_provider()
        provider.add_span_processor(_processor(self))  # type: ignore[attr-defined]
        self._tracer = provider.get_tracer("pytest_evals")

    @contextmanager
    def case(self) -> Iterator[CaseTrace]:
        """Collect the spans of the code inside as those of a case: it runs in a span
        that begins a trace. ``ModelError`` if the application's sampler drops it."""
        from opentelemetry.context import Context

        start = self._tracer.start_as_current_span("pytest_evals case", Context())
        with start as span:
            if not span.is_recording():
                raise ModelError(
                    "the sampler of the application's TracerProvider drops traces\n"
                    "  fix: set OTEL_TRACES_SAMPLER=always_on"
                )
            found, key = CaseTrace(), span.get_span_context().trace_id
            with self._lock:
                self._open[key] = found
            try:
                yield found
            finally:
                with self._lock:
                    del self._open[key]

    def end(self, span: Any) -> None:
        """Take a span that has ended."""
        made = _span(span)
        with self._lock:
            case = self._open.get(span.context.trace_id)
            if case is not None:
                case.spans.append(made)
            elif made.kind and not self._is_closed:
                self._n_orphans += 1

    def traced(self, call: Callable[[], Any], *, is_async: bool) -> Callable[[], Any]:
        """Return a call that returns a :class:`TracedValue`. A function that is not
        async may return a coroutine, which is awaited in a separate trace."""

        async def awaited(work: Callable[[], Awaitable[Any]]) -> TracedValue:
            with self.case() as trace:
                value = await work()
            return self._checked(value, trace)

        def called() -> Any:
            with self.case() as trace:
                value = call()
            if inspect.isawaitable(value):
                return awaited(lambda: value)
            return self._checked(value, trace)

        return partial(awaited, call) if is_async else called

    def _checked(self, value: Any, trace: CaseTrace) -> TracedValue:
        self._lacks_arguments |= trace.lacks_arguments
        return TracedValue(value, trace)

    @property
    def notes(self) -> list[str]:
        """Warnings about the spans so far."""
        notes = [f"{self._n_orphans} {ORPHANS}"] if self._n_orphans else []
        return notes + ([NO_ARGUMENTS] if self._lacks_arguments else [])

    def close(self) -> None:
        """Take no further spans; providers cannot remove a processor."""
        self._is_closed = True


def response_of(traced: TracedValue) -> Response:
    """The response of a case, with calls, usage and contexts from its spans where the
    application returned none; ``SpanError`` if the case has no span, ``DocumentError``
    if the application returned a value of another type."""
    response = response_in(traced.value)
    if not traced.trace.spans and not response.error:
        raise SpanError(NO_SPANS)
    found = traced.trace.fields()
    usage = found.get("usage") or {}
    for key, name in COUNTS.items():
        if key in usage:
            found[name] = usage[key]
    missing = {name: one for name, one in found.items() if not getattr(response, name)}
    return replace(response, **missing)


def _processor(traces: Traces) -> Any:
    from opentelemetry.sdk.trace import SpanProcessor

    class Processor(SpanProcessor):
        """Hands spans over in the thread that ends them, without a queue."""

        def on_end(self, span: Any) -> None:
            traces.end(span)

    return Processor()


def _span(span: Any) -> _Span:
    from opentelemetry.trace import StatusCode

    attributes = dict(span.attributes or {})
    failed = span.status.status_code is StatusCode.ERROR
    why = span.status.description or attributes.get("error.type") or "error"
    return _Span(
        id=span.context.span_id,
        parent=span.parent.span_id if span.parent is not None else 0,
        name=span.name,
        start=span.start_time or 0,
        kind=_kind(span.name, attributes),
        attributes=attributes,
        error=str(why) if failed else "",
    )


def _kind(name: str, attributes: Mapping[str, Any]) -> str:
    operation = attributes.get("gen_ai.operation.name")
    other = str(attributes.get("openinference.span.kind", "")).lower()
    for kind, (*operations, last) in _KINDS.items():
        if operation in operations or other == last:
            return kind
    return "tool" if name.startswith("execute_tool ") else ""


def _up(span: _Span, known: Mapping[int, _Span]) -> Iterator[_Span]:
    """Yield the spans around a span, the nearest first."""
    seen = {span.id}
    while (above := known.get(span.parent)) is not None and above.id not in seen:
        seen.add(above.id)
        span = above
        yield span


def _call(span: _Span, known: Mapping[int, _Span]) -> dict[str, Any]:
    get = span.attributes.get
    names = (get("gen_ai.tool.name"), get("tool.name"), span.name)
    texts = (str(one or "").removeprefix("execute_tool").strip() for one in names)
    arguments = _arguments(span)
    call = {
        "id": _id(span),
        "name": next(filter(None, texts), "(no name)"),
        "arguments": {} if arguments is None else arguments,
    }
    result = get("gen_ai.tool.call.result", get("output.value"))
    if span.error:
        call["error"] = span.error
    elif result is not None:
        call["result"] = _json(result)
    above = [*_up(span, known)]
    for kind, key, name in (("tool", "parent", _id), ("agent", "agent", _agent)):
        nearest = next((one for one in above if one.kind == kind), None)
        if nearest is not None:
            call[key] = name(nearest)
    return call


def _id(span: _Span) -> str:
    return str(span.attributes.get("gen_ai.tool.call.id") or f"{span.id:016x}")


def _agent(span: _Span) -> str:
    name = span.attributes.get("gen_ai.agent.name")
    return str(name or span.name.removeprefix("invoke_agent "))


def _arguments(span: _Span) -> Any:
    """The arguments of a tool; ``None`` if they were not recorded."""
    get = span.attributes.get
    found = _json(get("gen_ai.tool.call.arguments", get("input.value")))
    if isinstance(found, dict) and found.keys() == {"input_str", "inputs"}:
        return found["inputs"]  # OpenLLMetry's wrapper
    return found


def _tokens(models: Sequence[_Span]) -> dict[str, int]:
    """Sums of tokens over the requests to models, where known."""
    found = {}
    for name, keys in _COUNTS.items():
        counts = [_count(one, keys) for one in models]
        if None not in counts:
            found[name] = sum(one for one in counts if one is not None)
    return found


def _count(span: _Span, keys: Iterable[str]) -> int | None:
    values = (span.attributes.get(key) for key in keys)
    return next((int(v) for v in values if is_finite(v) and v >= 0), None)


_COUNTS = {
    "input_tokens": (
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.token_count.prompt",
    ),
    "output_tokens": (
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.token_count.completion",
    ),
}
"""Name in ``usage`` → attributes, the newest convention first."""


def _texts(span: _Span) -> Iterator[dict[str, Any]]:
    listed = _json(span.attributes.get("gen_ai.retrieval.documents"))
    for one in listed if isinstance(listed, list) else _flattened(span):
        given = one if isinstance(one, Mapping) else {"text": one}
        text, score = given.get("text", given.get("content")), given.get("score")
        found = {
            "id": given.get("id"),
            "text": None if text is None else text_of(text),
            "score": score if is_finite(score) else None,
        }
        kept = {key: value for key, value in found.items() if value is not None}
        if {"id", "text"} & kept.keys():
            yield kept


def _flattened(span: _Span) -> Iterator[Mapping[str, Any]]:
    """Yield the documents of OpenInference: ``retrieval.documents.0.document.id``."""
    start = "retrieval.documents."
    found: dict[int, dict[str, Any]] = defaultdict(dict)
    for key, value in span.attributes.items():
        number, _, name = key.removeprefix(start).partition(".document.")
        if key.startswith(start) and number.isdecimal():
            found[int(number)][name] = value
    yield from (found[number] for number in sorted(found))


def _json(value: Any) -> Any:
    """The value of JSON text; other values are JSON values as they are, or texts."""
    try:
        return json_value(json.loads(value) if isinstance(value, str) else value)
    except (TypeError, ValueError, RecursionError):
        return str(value)
