"""Output of a solver: its trace and the model's raw outputs. One class covers both
versions of LatticeFlow's format. Source: ``latticeflow-core`` 3.17.0.

LatticeFlow's documentation uses ``solver_output.output`` as "the last model output":
as text in prompts and comparisons, and as an object with ``choices`` elsewhere. In
LatticeFlow it is an object whose string lists its fields and which equals no text, so
correct answers score 0. Here it is a string that also has the fields.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Iterable, Mapping, Sequence
from copy import copy, deepcopy
from functools import partialmethod
from typing import Any, ClassVar, NoReturn

from pytest_evals.errors import DocumentError
from pytest_evals.guests.latticeflow.prompts.items import (
    CustomTaskInputMessage,
    CustomTaskOutputMessage,
    Message,
    Part,
    Structured,
    items_of,
    part_kind,
    reply_items,
    text_of,
    unwrap,
    wrap,
)
from pytest_evals.guests.latticeflow.prompts.trace import Trace, trace_of

ChatCompletionOutputMessage = part_kind(
    "ChatCompletionOutputMessage",
    __name__,
    role="assistant",
    content=None,
    refusal=None,
)
ChatCompletionModelOutputChoice = part_kind("ChatCompletionModelOutputChoice", __name__)


# ABCMeta, so that OutputText counts as one in isinstance() of snippets.
class ChatCompletionModelOutput(Part, metaclass=ABCMeta):
    """Output of a chat model with its fields; ``str()`` is the first answer."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"choices": [], "usage": None}

    def __str__(self) -> str:
        text = self.answer()
        if text is None:
            raise _no_answer()
        return text

    def answer(self) -> str | None:
        """Return the text or the refusal of the first answer, or ``None``."""
        for choice in self["choices"][:1]:
            message = choice.get("message") or {}
            content = text_of({"content": message.get("content")})
            refusal = message.get("refusal")
            return refusal if not content and isinstance(refusal, str) else content
        return None


class _NoAnswer(ChatCompletionModelOutput):
    """An output without text, for example with function calls only. Its fields are
    available; using it as text is an error, not an empty answer."""

    def __bool__(self) -> bool:
        return False  # as for an empty string

    def _fail(self, *_: object) -> NoReturn:
        raise _no_answer()

    __len__ = __iter__ = _fail

    def __contains__(self, key: object) -> bool:
        if key in self.keys():  # "in self" would recurse
            return True
        raise _no_answer()

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            raise _no_answer()
        return super().__getitem__(key)

    def _refuse(self, other: object) -> None:
        if isinstance(other, str):
            raise _no_answer()

    def __getattr__(self, name: str) -> Any:
        if hasattr(str, name):
            raise _no_answer()
        return super().__getattr__(name)


class OutputText(str):
    """Text of a chat model's first answer, with the output's fields as attributes and
    items: ``output.choices``, ``output["usage"]``; also the methods of a mapping."""

    __slots__ = ("_output",)
    _output: ChatCompletionModelOutput

    def __new__(cls, text: str, output: ChatCompletionModelOutput) -> OutputText:
        """Create the text of an output."""
        self = super().__new__(cls, text)
        self._output = output
        return self

    def __getitem__(self, key: Any) -> Any:
        return self._output[key] if isinstance(key, str) else super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._output, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> OutputText:
        return OutputText(str(self), deepcopy(self._output, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        return OutputText, (str(self), self._output)


ChatCompletionModelOutput.register(OutputText)


def chat_view(raw: Any) -> Any:
    """Return a model's output as chat output; that of a custom task unchanged."""
    if isinstance(raw, OutputText):
        return raw
    if isinstance(raw, Mapping) and "choices" in raw:
        return _text_with_fields(ChatCompletionModelOutput(raw))
    if isinstance(raw, Mapping) and isinstance(raw.get("items"), list):
        return chat_output(
            Trace(raw["items"]).get_last_assistant_text(), raw.get("usage")
        )
    return wrap(raw)


def chat_output(text: str | None, usage: Any = None) -> Any:
    """Return the output of a chat model with this answer, or with none."""
    message = ChatCompletionOutputMessage(content=text)
    choices = [] if text is None else [ChatCompletionModelOutputChoice(message=message)]
    return _text_with_fields(ChatCompletionModelOutput(choices=choices, usage=usage))


def _text_with_fields(output: ChatCompletionModelOutput) -> Any:
    text = output.answer()
    return _NoAnswer(output) if text is None else OutputText(text, output)


def raw_output_of(output: Any) -> Any:
    """Return the raw output to store; for a chat, its fields."""
    return output._output if isinstance(output, OutputText) else wrap(output)


def _no_answer() -> DocumentError:
    return DocumentError("no answer: the model's output has no text")


class ModelResponse(Structured):
    """Response to one call, from the raw output of a chat, an agent or a custom task;
    ``str()`` is its text."""

    def __init__(self, raw_output: Any) -> None:
        self.raw_output = raw_output_of(raw_output)
        self.items = _items(self.raw_output)

    @property
    def text(self) -> str:
        """The model's last text."""
        text = Trace(self.items).get_last_assistant_text()
        if text is None and self.items and "content" in self.items[-1]:
            content = self.items[-1]["content"]
            text = content if isinstance(content, str) else None
        if text is None:
            raise DocumentError(
                f"the model's output has no text: {self.raw_output!r:.80}"
            )
        return text

    def __str__(self) -> str:
        return self.text


def _items(raw: Any) -> list[Part]:
    """Return the items of an output; of several choices only the first is used."""
    if isinstance(raw, Mapping) and "choices" in raw:
        items = []
        for choice in raw["choices"][:1]:
            references = choice.get("references") or ()
            items += reply_items(choice.get("message") or {}, references)
        return items
    if isinstance(raw, Mapping) and isinstance(raw.get("items"), list):
        return items_of(raw["items"])
    return [CustomTaskOutputMessage(content=raw)]


class SolverTrace(Structured):
    """A trace that a snippet builds; ``str()`` is its messages."""

    def __init__(self, trace: Trace | None = None) -> None:
        self.trace = trace or Trace()
        self.raw_outputs: list[Any] = []
        self.direct_ios: list[Any] = []

    def __str__(self) -> str:
        return str(self.trace)

    @property
    def items(self) -> list[Part]:
        """Items so far."""
        return self.trace.items

    def append(self, item: Any) -> None:
        """Add an item, or an OpenAI chat message."""
        self.extend([item])

    def extend(self, items: Iterable[Any]) -> None:
        """Add several items."""
        self.trace.items += items_of(list(items))

    def _append_text(self, role: str, text: str) -> None:
        if text is None:
            raise DocumentError("the text of a message is null")
        self.append(Message(role=role, content=text))

    append_user_message = partialmethod(_append_text, "user")
    append_system_message = partialmethod(_append_text, "system")

    def append_custom_task_input_message(self, content: Any) -> None:
        """Add an input of a custom task's model."""
        self.append(CustomTaskInputMessage(content=content))

    def add_model_response(self, response: ModelResponse) -> None:
        """Add a model's response; ``predict`` must have been awaited."""
        if not isinstance(response, ModelResponse):
            is_open = inspect.isawaitable(response)
            kind = "coroutine" if is_open else type(response).__name__
            raise DocumentError(
                "add_model_response needs the response of model.predict, not "
                f"{kind}; await it"
            )
        self.trace.items += response.items
        self.raw_outputs.append(response.raw_output)


class SolverOutput(Structured):
    """Output of a solver, as scorers see it; snippets create outputs too. ``str()`` is
    the answer.

    Args:
        trace: The conversation, in any supported form.
        raw_outputs: Outputs of the model, one per call.
        direct_ios: Recorded calls, in any form.
        solver_outputs: Outputs of a grouped solver, one per call.
        output: The last output, if there are no raw outputs.
    """

    def __init__(
        self,
        trace: Any = None,
        raw_outputs: Sequence[Any] = (),
        direct_ios: Sequence[Any] = (),
        solver_outputs: Any = None,
        output: Any = None,
    ) -> None:
        self.raw_outputs = [raw_output_of(one) for one in raw_outputs]
        if output is not None and not self.raw_outputs:
            self.raw_outputs = [raw_output_of(output)]
        if trace is None:
            trace = [item for raw in self.raw_outputs for item in _items(raw)]
        self.trace = trace_of(trace)
        self.direct_ios = list(direct_ios)
        self.solver_outputs = solver_outputs

    def __deepcopy__(self, memo: dict[int, Any]) -> SolverOutput:
        copied = copy(self)
        copied.trace = deepcopy(self.trace, memo)
        copied.raw_outputs = deepcopy(self.raw_outputs, memo)
        copied.direct_ios = list(self.direct_ios)  # can be any objects: shared
        return copied

    @property
    def output(self) -> Any:
        """The last output: for a chat, the answer's text with the output's fields;
        without an output, the assistant's last text."""
        if self.raw_outputs:
            return chat_view(self.raw_outputs[-1])
        return chat_output(self.trace.get_last_assistant_text())

    @property
    def outputs(self) -> list[Any]:
        """All outputs, as chat outputs."""
        return [chat_view(raw) for raw in self.raw_outputs]

    @property
    def messages(self) -> list[Any]:
        """The conversation as messages with role and content, without calls."""
        messages: list[Any] = []
        for item in self.trace.items:
            if item.get("type") == "message":
                messages.append(Part(role=item["role"], content=text_of(item) or ""))
            elif str(item.get("type")).startswith("custom_task_"):
                messages.append(item.get("content"))
        return messages

    @property
    def answer(self) -> str:
        """The assistant's last text, or a custom task model's output if a string."""
        text = self.trace.get_last_assistant_text()
        if text is None and isinstance(self.output, str):
            text = self.output
        if text is None:
            raise DocumentError("no answer: the trace has no assistant message")
        return text

    @property
    def references(self) -> list[str]:
        """The passages that the last answer cites."""
        messages = [i for i in self.trace.items if i.get("role") == "assistant"]
        return [
            str(note["content"])
            for part in (messages[-1]["content"] if messages else ())
            for note in part.get("annotations") or ()
            if note.get("type") == "text_citation"
        ]

    def __str__(self) -> str:
        return self.answer

    def to_dict(self) -> dict[str, Any]:
        """Return the output as JSON values."""
        return {"trace": self.trace.to_dict(), "raw_outputs": unwrap(self.raw_outputs)}


class SampleScore:
    """JSON values by name, and metadata, which is not aggregated. ``score["x"]`` is
    ``score.values["x"]``. Comparing a score with a string, number or boolean, which it
    never equals, raises ``TypeError``."""

    __slots__ = ("metadata", "values")

    def __init__(
        self,
        values: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.values = dict(values or {})
        self.metadata = dict(metadata or {})

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: object) -> bool:
        return name in self.values

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value with that name, or a default."""
        return self.values.get(name, default)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str | int | float):
            known = ", ".join(map(repr, self.values))
            raise TypeError(
                f"SampleScore was compared with {other!r:.60}, which is never equal; "
                f"compare one of its values: {known}"
            )
        return (
            isinstance(other, SampleScore)
            and self.values == other.values
            and self.metadata == other.metadata
        )

    __hash__ = None  # type: ignore[assignment]  # its values may change

    def __repr__(self) -> str:
        return f"SampleScore({self.values!r}, {self.metadata!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return the score as JSON values."""
        return {"values": self.values, "metadata": self.metadata}
