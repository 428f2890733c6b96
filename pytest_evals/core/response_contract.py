"""The contract of models: their names, and the valid values of each field of a
response.

It is the same for all kinds of models, and checked only here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from types import NoneType
from typing import Any, get_args

from pytest_evals.core.finite import LARGEST
from pytest_evals.core.model import AdaptedModel, Model
from pytest_evals.core.request import Finish, Generate, Request, Response
from pytest_evals.core.returned import (
    NotJsonError,
    calls_of,
    contexts_of,
    json_value,
    mapping_of,
    mappings_of,
    messages_of,
)
from pytest_evals.core.top_logprobs import MAX_LOGPROB, read_top_logprobs
from pytest_evals.errors import ModelError, abbreviated
from pytest_evals.masking.registry import hidden

MAX_COUNT = 2**53
"""Counts of tokens are below; sums of larger ones are no longer exact as floats."""
_COUNTS = ("n_prompt_tokens", "n_tokens", "n_truncated")
_FINISH = get_args(Finish)
_FIX = "  fix: yield (position in requests, Response) once for each request"
_SHOWN = 61  # length of an invalid value, or of a refusal, in messages
_PLAIN = {
    (str, logprob, greedy, int, int, int, str, elapsed, latency, cost, str)
    for logprob in (NoneType, float)
    for greedy in (NoneType, bool)
    for elapsed in (int, float)
    for latency in (int, float)
    for cost in (NoneType, int, float)
}
"""The types of the fields of responses that need no conversion."""


def as_model(given: object, source: str) -> Model:
    """A model from an object of user code; objects that are not a :class:`Model` are
    adapted.

    Args:
        source: Where it comes from, for messages: "the fixture eval_model".

    Raises:
        ModelError: It has no method ``answer``; or its name, ``info`` or ``notes`` is
            of another type.
    """
    if isinstance(given, type) or not callable(getattr(given, "answer", None)):
        raise ModelError(
            f"{source} gave {described(given)}, which is not a model\n"
            "  fix: return an object with a name and a method answer(requests)"
        )
    name = getattr(given, "name", None)
    if not isinstance(name, str) or not name:
        found, fix = f"name is {described(name)}", 'a str, such as name = "my-model"'
    else:
        model = given if isinstance(given, Model) else AdaptedModel(given)
        info, notes = model.info, model.notes
        if not isinstance(info, Mapping):
            found, fix = f"info is {described(info)}", "a mapping of JSON values"
        elif not isinstance(notes, list | tuple):
            found, fix = f"notes is {described(notes)}", "a list or a tuple of str"
        else:
            return model
    raise ModelError(f"the model {type(given).__name__}: its {found}\n  fix: use {fix}")


def responses_of(
    requests: Sequence[Request], model: Model
) -> Iterator[tuple[int, Response]]:
    """The responses of a model, each with the position of its request.

    An invalid response becomes an error of its request (:func:`checked_response`), and
    so does a refusal.

    Raises:
        ModelError: The positions are not those of the requests, each at most once.
    """
    if not requests:
        return
    n, seen = len(requests), bytearray(len(requests))
    for pair in _given(requests, model):
        match pair:
            case (int() as position, response):
                pass
            case _:
                raise ModelError(
                    f"{model.name}: answer() gave {described(pair)}\n{_FIX}"
                )
        if not 0 <= position < n or seen[position]:
            raise ModelError(
                f"{model.name}: answer() gave position {position!r} of {n} requests, "
                f"which is none of them or was given before\n{_FIX}"
            )
        seen[position] = 1
        yield position, checked_response(requests[position], response, model)


def _given(requests: Sequence[Request], model: Model) -> Iterator[object]:
    """The output of ``answer()``. An exception that ends generators, or ended its own,
    keeps the traceback into the model's code."""
    try:
        given: object = model.answer([*requests])  # a model may change its list
        if not isinstance(given, Iterable):
            message = f"{model.name}: answer() returned {described(given)}"
            raise ModelError(f"{message}\n{_FIX}")
        yield from given
    except (StopIteration, RuntimeError) as error:
        cause = error.__cause__ if isinstance(error, RuntimeError) else error
        if not isinstance(cause, StopIteration):
            raise
        message = f"{model.name}: answer() raised StopIteration"
        raise RuntimeError(message).with_traceback(cause.__traceback__) from None


def checked_response(request: Request, given: object, model: Model) -> Response:
    """A model's response if it is valid for the request, else a response with an error
    that names the model, the field, its value and the expected values.

    Numbers of other types, such as NumPy's, are converted to Python's. Known secrets
    are masked in errors; answers are masked where they are written, after scoring.
    """
    if not isinstance(given, Response):
        return _invalid(model, f"{described(given)} instead of a Response")
    kinds = (
        type(given.text),
        type(given.logprob),
        type(given.greedy),
        type(given.n_prompt_tokens),
        type(given.n_tokens),
        type(given.n_truncated),
        type(given.finish),
        type(given.elapsed_s),
        type(given.latency_s),
        type(given.cost),
        type(given.error),
    )
    alone = (  # nothing in addition to the answer
        given.data is given.usage is given.metadata is None
        and given.steps == given.calls == given.contexts == given.messages == ()
    )
    if given.error and kinds[-1] is str and alone and not given.is_refusal:
        return _without_secrets(given)
    is_plain = kinds in _PLAIN and given.top_logprobs == () and alone
    if not is_plain or not _in_range(given):
        try:
            given = _converted(given)
        except _FieldError as error:
            return _invalid(model, str(error))
    why = "" if given.error else _misfit(request, given)
    if given.finish == "refused" and not (given.error or why):
        said = f": {abbreviated(given.text, _SHOWN)!r}" if given.text else ""
        given = replace(given, error=f"{model.name}: the model refused{said}")
    return _invalid(model, why) if why else _without_secrets(given)


def _without_secrets(given: Response) -> Response:
    """Errors of servers may repeat parts of requests."""
    if not given.error:
        return given
    error = hidden(given.error)
    return given if error is given.error else replace(given, error=error)


def _misfit(request: Request, given: Response) -> str:
    if isinstance(request, Generate):
        if given.logprob is not None and not given.text:
            return "a log-probability and no text for a request to generate"
    elif given.logprob is None:
        return f"no log-probability for a request of kind {request.kind!r}"
    return ""


def _in_range(given: Response) -> bool:
    logprob = given.logprob
    return (
        (logprob is None or logprob <= MAX_LOGPROB)  # false for NaN
        and 0 <= given.n_prompt_tokens < MAX_COUNT
        and 0 <= given.n_tokens < MAX_COUNT
        and 0 <= given.n_truncated < MAX_COUNT
        and 0 <= given.elapsed_s < math.inf
        and 0 <= given.latency_s < math.inf
        and (given.cost is None or 0 <= given.cost < math.inf)
        and given.finish in _FINISH
    )


class _FieldError(ValueError):
    """A field has an invalid value; the message names both."""


def _converted(given: Response) -> Response:
    fields: dict[str, Any] = {}
    for name, (convert, expected) in _FIELDS.items():
        value = getattr(given, name)
        try:
            fields[name] = convert(value)
        except (TypeError, ValueError, OverflowError) as error:
            why = f", and {error}" if isinstance(error, NotJsonError) else ""
            raise _FieldError(
                f"{name}={described(value)}; expected {expected}{why}"
            ) from None
    return replace(given, **fields)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return str(value)


def _finish(value: object) -> str:
    if value not in _FINISH:
        raise ValueError
    return str(value)


def _real(value: object) -> float:
    # Not `float(value)`: that also accepts strings and booleans.
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError
    return float(value)


def _number(least: float, most: float) -> Callable[[object], float | None]:
    """A converter of numbers between two others; ``None`` is unknown."""

    def convert(value: object) -> float | None:
        number = None if value is None else _real(value)
        if number is not None and not least <= number <= most:
            raise ValueError
        return number

    return convert


def _greedy(value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError
    number = int(value)
    if not 0 <= number < MAX_COUNT:
        raise ValueError
    return number


def _elapsed(value: object) -> float:
    number = _real(value)
    if not math.isfinite(number):
        raise ValueError
    # A clock that was set back must not lose a response.
    return max(number, 0.0)


_A_COUNT = (_count, "a whole number, 0 or more")
_FIELDS: Mapping[str, tuple[Callable[[object], object], str]] = {
    "error": (_text, "a str"),
    "top_logprobs": (
        read_top_logprobs,
        "one (token, ((token, log-probability), …)) for each generated token",
    ),
    "steps": (mappings_of, "a list of mappings of JSON values"),
    "data": (json_value, "a JSON value"),
    "calls": (calls_of, 'a list of calls: {"name": "search", "arguments": {…}}'),
    "contexts": (contexts_of, 'a list of texts, or of {"text": …, "id": …}'),
    "messages": (messages_of, 'a list of {"role": …, "content": …}'),
    "usage": (mapping_of, "a mapping of JSON values"),
    "metadata": (mapping_of, "a mapping of JSON values"),
    "text": (_text, "a str"),
    "logprob": (
        _number(-math.inf, MAX_LOGPROB),
        "a log-probability: a number of at most 0, in nats",
    ),
    "greedy": (_greedy, "True, False or None"),
    **dict.fromkeys(_COUNTS, _A_COUNT),
    "finish": (_finish, "'', 'stop', 'length', 'refused' or 'unsent'"),
    "elapsed_s": (_elapsed, "seconds: a finite number"),
    "latency_s": (_elapsed, "seconds: a finite number"),
    "cost": (_number(0, LARGEST), "None or a finite number, 0 or more"),
}


def described(value: object) -> str:
    """The representation of any value in a message."""
    try:
        text = ascii(value)
    except Exception:  # noqa: BLE001 - somebody else's __repr__
        text = "?"
    kind = type(value).__name__
    if len(text) > _SHOWN:
        text = abbreviated(hidden(text), _SHOWN)
    return text if isinstance(value, NoneType | bool | float) else f"{text} ({kind})"


def _invalid(model: Model, message: str) -> Response:
    return Response(error=model._gave(message))
