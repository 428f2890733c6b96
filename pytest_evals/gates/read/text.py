"""The short form of gates, ``gsm8k/exact_match,strict-match >= 75%``, and gate ids.

The parser is hand-written; syntax errors give the column. An id is the last part of a
gate's node id. It does not contain thresholds, so history, links and reruns survive a
changed threshold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain, count
from numbers import Real
from pathlib import PurePath
from typing import Literal, NamedTuple, cast

from pytest_evals.core.gate import Bound, Gate
from pytest_evals.errors import Problem, TaskFileError

# A single "=" belongs to a name (pass@k:k=1); "==", "=>" and the like end it.
_SUBJECT = re.compile(r"(?:(?![=!~]+[<>]|[=!~]=)[^\s<>≤≥\x00-\x1f\x7f])*")
_OPERATOR = re.compile(r"[<>=!≤≥~]+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?", re.ASCII)
_OPERATORS = (">=", ">", "<=", "<")
_COMMA = re.compile(r",\d+%?")
_MEANT = {"=>": ">=", "≥": ">=", "=<": "<=", "≤": "<=", ">>": ">", "<<": "<"}
_SPACE = re.compile(r"\s*")
_EXAMPLE = "acc >= 0.75"
_LONGEST = 40  # maximum length of a number; no double has more significant digits
_MOST_BITS = 130  # bits of an integer; the largest have about _LONGEST digits


class ConditionError(ValueError):
    """A gate is invalid. ``fix`` is an example of the correct form."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class MissingKeyError(ConditionError):
    """A required key is missing. Not reported if a similar unknown key is.

    Args:
        fix: An example of the correct form.
        keys: The keys, any of which is enough.
    """

    def __init__(self, message: str, fix: str, keys: Sequence[str]) -> None:
        super().__init__(message, fix)
        self.keys = keys


class Subject(NamedTuple):
    """Task, metric and filter of a gate; ``task`` and ``filter`` may be empty."""

    task: str
    metric: str
    filter: str


def read_condition(text: str) -> tuple[str, Bound]:
    """Parse ``[TASK/]METRIC[,FILTER] OPERATOR NUMBER``: the text before the operator,
    and the bound. Raises ``ConditionError`` if the syntax is invalid; the message gives
    the column."""
    start = _skip_space(text, 0)
    name_end = _end(_SUBJECT, text, start)
    name = text[start:name_end]
    if not name:
        raise _fault(text, start, "the metric's name is missing", _EXAMPLE)
    at = _skip_space(text, name_end)
    operator = text[at : _end(_OPERATOR, text, at)]
    if operator not in _OPERATORS:
        raise _operator_fault(text, at, operator, name)
    at = _skip_space(text, at + len(operator))
    value, end = _number_at(text, at, _meant(name, operator, text[at:]))
    rest = _skip_space(text, end)
    if rest < len(text):
        message = f"unexpected {text[rest:]!r} after the number"
        number = text[at:end]
        if _COMMA.fullmatch(text[rest:]):  # 0,9
            number, message = (
                f"{number}.{text[rest + 1 :]}",
                "a decimal point is needed",
            )
        fix = f"{name} {operator} {number}"
        if re.match(r"and\b|or\b|&|\|", text[rest:]):
            fix += ", and a second entry for the other condition"
        raise _fault(text, rest, message, fix)
    op = cast("Literal['>=', '>', '<=', '<']", operator)
    return name, Bound(op, value)


def split_subject(subject: str, task: str) -> Subject:
    """Task, metric and filter of ``[TASK/]METRIC[,FILTER]``. Raises ``ConditionError``
    if a part is empty, or the prefix names another task."""
    path, comma, pipeline = subject.partition(",")
    prefix, slash, metric = path.rpartition("/")
    if task and path.startswith(f"{task}/"):
        prefix, metric = task, path[len(task) + 1 :]
    if (slash and not prefix) or not metric or (comma and not pipeline):
        message = f"{subject!r} has an empty part; it is read as [TASK/]METRIC[,FILTER]"
        raise ConditionError(message, "metric: exact_match,strict-match")
    if prefix and task and prefix != task:
        message = f"the gate names task {prefix!r} but belongs to task {task!r}"
        raise ConditionError(message, f"leave {prefix + '/'!r} out")
    return Subject(prefix or task, metric.strip(), pipeline.strip())


def read_number(value: object, name: str) -> Decimal:
    """A threshold from a mapping: a number, or text such as ``75%``. Raises
    ``ConditionError`` if it is not a finite number, or has too many digits."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:  # repr() may raise
        message = f"{name} is out of range: about 2**{value.bit_length() - 1}"
        raise ConditionError(message, f"{name}: 0.75")
    # The shortest decimal that is this float, usually as typed; NumPy's numbers too.
    text = str(value).strip()
    is_supported = isinstance(value, (Real, Decimal, str))
    is_supported = is_supported and not isinstance(value, bool)
    match = _NUMBER.match(text) if is_supported and len(text) <= _LONGEST else None
    rest = text[match.end() :].strip() if match else text
    if match is None or rest not in ("", "%"):
        message = f"{name} must be a finite number or a percentage, not {value!r:.80}"
        raise ConditionError(message, f"{name}: 0.75")
    return _decimal(match.group(), percent=rest == "%")


def _meant(name: str, operator: str, rest: str) -> str:
    """Return the gate that may be meant by one with something else than a number."""
    if _NUMBER.fullmatch(name) and rest:  # 0.9 <= acc
        return f"{rest} {operator.translate(str.maketrans('<>', '><'))} {name}"
    if re.match(r"\w+\s*[-+]", rest):  # main - 0.02
        return f"{{metric: {name}, baseline: main, max_drop: 0.02}}"
    found = _NUMBER.search(rest)
    return f"{name} {operator} {found[0] if found else 0.75}"


def _number_at(text: str, at: int, example: str) -> tuple[Decimal, int]:
    match = _NUMBER.match(text, at)
    if match is None or len(match.group()) > _LONGEST:
        message = f"expected a finite number, not {text[at:]!r}"
        raise _fault(
            text, at, message if text[at:] else "the number is missing", example
        )
    end = _skip_space(text, match.end())
    if text[end : end + 1] == "%":
        return _decimal(match.group(), percent=True), end + 1
    return _decimal(match.group(), percent=False), match.end()


def _decimal(digits: str, *, percent: bool) -> Decimal:
    # Arithmetic would round to the context's precision; moving the exponent is exact.
    sign, figures, exponent = Decimal(digits).as_tuple()
    assert isinstance(exponent, int)  # finite, since the pattern has digits only
    value = Decimal((sign, figures, exponent - 2 if percent else exponent))
    return Decimal(f"{value:f}") if -12 <= value.adjusted() <= 12 else value


def _operator_fault(text: str, at: int, operator: str, name: str) -> ConditionError:
    if operator in ("==", "=", "!="):
        message = "a gate is a threshold; equality is not supported"
        rest = text[at + len(operator) :].strip()
        return _fault(text, at, message, f"{name} >= {rest}" if rest else _EXAMPLE)
    if operator in _MEANT:
        message = f"unknown operator {operator!r}; did you mean {_MEANT[operator]!r}?"
        rest = text[at + len(operator) :].strip()
        return _fault(text, at, message, f"{name} {_MEANT[operator]} {rest}")
    fix = _meant(name, ">=", f"={text[at:]}")
    return _fault(text, at, "expected one of >=, >, <=, <", fix)


def _fault(text: str, at: int, message: str, fix: str) -> ConditionError:
    """The error with its column, and a caret below it if the text is printable."""
    shown = f"gate {text!r}, column {at + 1}: {message}"
    if not text.isprintable():
        return ConditionError(shown, _EXAMPLE)
    return ConditionError(f"{shown}\n    {text}\n    {' ' * at}^", fix)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _skip_space(text: str, at: int) -> int:
    return _end(_SPACE, text, at)


_UNFIT = re.compile(r"::|[\[\]\s]")


def fit_for_id(text: str) -> str:
    """The text with ``-`` for all that a node id cannot contain: ``::``, brackets,
    white space and control characters."""
    fit = _UNFIT.sub("-", text)
    return "".join(char if char.isprintable() else "-" for char in fit)


def default_id(gate: Gate) -> str:
    """The id of a gate without an ``id``: ``acc``, ``exact_match,strict-match``,
    ``acc-vs-main``, ``acc-vs-reference``, ``must-pass`` or ``every``."""
    if gate.is_about_documents:
        return gate.document_key.replace("_", "-")
    name = f"{gate.metric},{gate.filter}" if gate.filter else gate.metric
    if gate.baseline:
        # Of a run's folder, the last part is enough; of a model, the name without its
        # arguments, which may be secret.
        baseline = gate.baseline.partition(",")[0]
        name += f"-vs-{PurePath(baseline).name or baseline}"
    elif gate.published:
        name += "-vs-reference"
    return fit_for_id(name)


def with_unique_ids(gates: Iterable[Gate]) -> tuple[Gate, ...]:
    """The gates in their order, with unique ids within each task.

    A second gate on the same metric becomes ``acc#2``, a third ``acc#3``.

    Raises:
        TaskFileError: Two gates of one task have the same custom id.
    """
    every = [(gate, gate.id == default_id(gate)) for gate in gates]
    used: dict[tuple[str, str], Gate] = {}
    problems = []
    for gate, is_default in every:
        first = gate if is_default else used.setdefault((gate.task, gate.id), gate)
        if first is not gate:
            message = f"gate id {gate.id!r} is taken by the gate at {first.source}"
            problems.append(Problem(message, gate.source, f"id: {gate.id}-2"))
    if problems:
        raise TaskFileError(problems)
    unique = []
    for gate, is_default in every:
        if is_default:
            others = (f"{gate.id}#{n}" for n in count(2))
            free = (
                one for one in chain([gate.id], others) if (gate.task, one) not in used
            )
            gate = replace(gate, id=next(free))
            used[gate.task, gate.id] = gate
        unique.append(gate)
    return tuple(unique)
