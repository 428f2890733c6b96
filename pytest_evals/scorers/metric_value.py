"""The value of a metric for a document, and the score made from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pytest_evals.core.record import Score
from pytest_evals.errors import DocumentError


class MetricValue(NamedTuple):
    """A metric's value for a document, and the answer to show with it. ``unscored`` is
    the reason if there is no value; ``lender`` is the metric whose function returned it
    under another name. ``is_tied``: whether several choices are equally likely."""

    metric: str
    value: Any
    answer: str = ""
    explanation: str = ""
    unscored: str = ""
    lender: str = ""
    is_tied: bool = False


def unscored_value(name: str, why: str) -> MetricValue:
    """A metric without a value."""
    return MetricValue(name, None, unscored=why)


T = TypeVar("T")


def all_or_unscored(
    parts: Collection[tuple[Sequence[str], Callable[[], list[T]]]],
    unscored: Callable[[str, str], T],
) -> list[T]:
    """The values of several metrics; one that fails is unscored, and the others keep
    their values. ``parts``: names of a metric's values, and the function that returns
    the values. ``unscored``: name and error → an entry without a value. Raises
    DocumentError if all of them fail, with the first error."""
    values: list[T] = []
    errors: list[DocumentError] = []
    for names, measure in parts:
        try:
            values += measure()
        except DocumentError as error:
            errors.append(error)
            values += [unscored(name, str(error)) for name in names]
    if errors and len(errors) == len(parts):
        raise errors[0]
    return values


def score_of(
    value: MetricValue,
    filter: str,  # noqa: A002 - the word of results files
    filtered: tuple[Any, ...],
    decides: object,
) -> Score:
    """The score of a value. ``filtered``: filtered responses, one for each request.
    ``decides``: true if 1 means correct and 0 wrong; ``bool()`` is called only for
    these values."""
    number = plain(value.value)
    binary = isinstance(number, (bool, int, float)) and number in (0, 1)
    return Score(
        metric=value.metric,
        filter=filter,
        value=number,
        correct=number == 1 if binary and decides else None,
        answer=value.answer,
        filtered=filtered,
        explanation=value.explanation,
        unscored=value.unscored,
        lender=value.lender,
        is_tied=value.is_tied,
    )


def plain(value: Any) -> Any:
    """Convert scalars of NumPy or torch to Python's, also inside lists, tuples and
    mappings; arrays are unchanged."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (list, tuple)):
        inner = [plain(item) for item in value]
        return tuple(inner) if isinstance(value, tuple) else inner
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    return value
