"""The words of a gate: a claim such as ``gsm8k/exact_match,strict-match >= 75%``.

A tiny grammar, read by hand and never by ``eval``; faults know their column. What a
gate is made of beyond its claim is :mod:`pytest_evals.gates.rules.grammar`'s business.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal, NamedTuple, cast

from pytest_evals.core.gate import Bound

__all__ = [
    "Claim",
    "ClaimError",
    "LackError",
    "Subject",
    "read_claim",
    "read_number",
    "split_subject",
]

# A single "=" belongs to a name (pass@k:k=1); "==", "=>" and the like end it.
_SUBJECT = re.compile(r"(?:(?![=!~]+[<>]|[=!~]=)[^\s<>≤≥\x00-\x1f\x7f])*")
_OPERATOR = re.compile(r"[<>=!≤≥~]+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?", re.ASCII)
_OPERATORS = (">=", ">", "<=", "<")
_MEANT = {"=>": ">=", "≥": ">=", "=<": "<=", "≤": "<=", ">>": ">", "<<": "<"}
_EXAMPLE = "acc >= 0.75"
_LONGEST = 40
"""Characters of a number; no double has more digits that matter."""


class ClaimError(ValueError):
    """A fault in what a gate says: what, and how to mend it."""

    def __init__(self, what: str, fix: str = "") -> None:
        """Keep both for the problem that it becomes."""
        super().__init__(what)
        self.what = what
        self.fix = fix


class LackError(ClaimError):
    """A gate lacks a key; where one of those that will do is misspelt, that is told."""

    def __init__(self, what: str, fix: str, keys: Sequence[str]) -> None:
        """Keep the keys."""
        super().__init__(what, fix)
        self.keys = keys


class Subject(NamedTuple):
    """What a claim is about; ``task`` and ``filter`` are empty where not given."""

    task: str
    metric: str
    filter: str


class Claim(NamedTuple):
    """A short form, taken apart; ``subject`` is ``[TASK/]METRIC[,FILTER]``."""

    subject: str
    bound: Bound


def read_claim(text: str) -> Claim:
    """Take ``SUBJECT OPERATOR NUMBER`` apart.

    Raises:
        ClaimError: It does not follow the grammar; the text points to the column.
    """
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
    value, end = _number_at(text, at, f"{name} {operator} 0.75")
    rest = _skip_space(text, end)
    if rest < len(text):
        what = f"unexpected {text[rest:]!r} after the number"
        raise _fault(text, rest, what, f"{name} {operator} {text[at:end]}")
    op = cast("Literal['>=', '>', '<=', '<']", operator)
    return Claim(name, Bound(op, value))


def split_subject(subject: str, task: str) -> Subject:
    """Task, metric and filter of ``[TASK/]METRIC[,FILTER]``.

    Args:
        subject: As written.
        task: The task that the gate belongs to, empty if it stands outside of one.

    Raises:
        ClaimError: A part is empty, or the prefix names another task.
    """
    path, comma, pipeline = subject.partition(",")
    prefix, slash, metric = path.rpartition("/")
    if task and path.startswith(f"{task}/"):
        prefix, metric = task, path[len(task) + 1 :]
    if (slash and not prefix) or not metric or (comma and not pipeline):
        what = f"{subject!r} has an empty part; it is read as [TASK/]METRIC[,FILTER]"
        raise ClaimError(what, "metric: exact_match,strict-match")
    if prefix and task and prefix != task:
        what = f"the gate names task {prefix!r} but belongs to task {task!r}"
        raise ClaimError(what, f"leave {prefix + '/'!r} out")
    return Subject(prefix or task, metric.strip(), pipeline.strip())


def read_number(value: object, name: str) -> Decimal:
    """A bound out of a mapping: a number, or text such as ``75%``.

    Args:
        value: What the file gives.
        name: Its key, for messages.

    Raises:
        ClaimError: It is no finite number.
    """
    # repr gives the shortest decimal that is this float: what was typed, as a rule.
    text = value.strip() if isinstance(value, str) else repr(value)
    known = isinstance(value, (int, float, str)) and not isinstance(value, bool)
    match = _NUMBER.match(text) if known and len(text) <= _LONGEST else None
    rest = text[match.end() :].strip() if match else text
    if match is None or rest not in ("", "%"):
        what = f"{name} must be a finite number or a percentage, not {value!r}"
        raise ClaimError(what, f"{name}: 0.75")
    return _decimal(match.group(), percent=rest == "%")


def _number_at(text: str, at: int, example: str) -> tuple[Decimal, int]:
    match = _NUMBER.match(text, at)
    if match is None or len(match.group()) > _LONGEST:
        what = f"a finite number is wanted, not {text[at:]!r}"
        raise _fault(text, at, what if text[at:] else "the number is missing", example)
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


def _operator_fault(text: str, at: int, found: str, name: str) -> ClaimError:
    if found in ("==", "=", "!="):
        what = "a gate is a bound: equality cannot be asked for"
        return _fault(text, at, what, _EXAMPLE)
    if found in _MEANT:
        what = f"no operator called {found!r}; did you mean {_MEANT[found]!r}?"
        rest = text[at + len(found) :].strip()
        return _fault(text, at, what, f"{name} {_MEANT[found]} {rest}")
    return _fault(text, at, "one of >=, >, <=, < is wanted", f"{name} >= 0.75")


def _fault(text: str, at: int, what: str, fix: str) -> ClaimError:
    """The fault with its column, and with a caret below it if the text can be shown."""
    shown = f"gate {text!r}, column {at + 1}: {what}"
    if not text.isprintable():
        return ClaimError(shown, _EXAMPLE)
    return ClaimError(f"{shown}\n    {text}\n    {' ' * at}^", fix)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
