"""The scorers of evals in Python: values, functions and names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pytest_evals.dialects.native.eval_file import SCORERS
from pytest_evals.dialects.native.task import Scorer
from pytest_evals.errors import EvalsError, suggestion
from pytest_evals.scorers.answers import AnswerScorer, exact
from pytest_evals.scorers.functions import FunctionScorer, function_scorer
from pytest_evals.scorers.rubric import RubricScorer


def scorers_of(
    given: Iterable[Any], added: Sequence[tuple[str, Any]] = ()
) -> tuple[Scorer, ...]:
    """Return the scorers of an eval; ``exact()`` if missing.

    Args:
        given: Scorer values and functions.
        added: Names and functions that were added later; a name may be empty.

    Raises:
        EvalsError: One is not a scorer, or two have the same name.
    """
    found = [_scorer(one) for one in given]
    found += [function_scorer(function, name) for name, function in added]
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise EvalsError(
                f"two scorers are called {name!r}\n"
                f"  fix: give one of them a name: contains('hello', name='greets')"
            )
    return tuple(found) or (exact(),)


def _scorer(given: Any) -> Scorer:
    if isinstance(given, AnswerScorer | RubricScorer | FunctionScorer):
        return given
    if isinstance(given, str):
        return _named(given)
    if callable(given):
        name = getattr(given, "__name__", "")
        if getattr(given, "__module__", "") == "pytest_evals.scorers.answers":
            raise EvalsError(f"score: {name} is not called\n  fix: {name}()")
        return function_scorer(given)
    raise EvalsError(
        f"score: {given!r:.60} is not a scorer\n  fix: score=[pytest_evals.exact()]"
    )


def _named(name: str) -> Scorer:
    if name not in SCORERS:
        hint = suggestion(name, [*SCORERS])
        raise EvalsError(f"score: unknown scorer {name!r}{hint}")
    try:
        return SCORERS[name][0]()
    except TypeError:
        raise EvalsError(
            f"score: {name} needs arguments\n  fix: pytest_evals.{name}(…)"
        ) from None
