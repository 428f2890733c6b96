"""The scorers of evals: by name in YAML; values, functions and names in Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from pytest_evals.dialects.native.checks import COLUMN, Read, cached, checks_by
from pytest_evals.dialects.native.parts import Scorer
from pytest_evals.errors import EvalsError, suggestion
from pytest_evals.scorers import (
    answers,
    claims,
    contexts,
    semantic,
    spending,
    tool_calls,
    values,
)
from pytest_evals.scorers.answers import AnswerScorer
from pytest_evals.scorers.arguments import checked_arguments, gate_fix
from pytest_evals.scorers.extract import extraction_of
from pytest_evals.scorers.functions import FunctionScorer, function_scorer
from pytest_evals.scorers.goal import goal_reached
from pytest_evals.scorers.model_scorer import ModelScorer
from pytest_evals.scorers.pairs import pairwise
from pytest_evals.scorers.rubric import judge


@checked_arguments
def checks(*, name: str = COLUMN) -> AnswerScorer:
    """The share of the checks in a row's column ``checks`` that an answer passes, such
    as ``checks: [{contains: refund}, {not_called: delete_user}]``; the case is correct
    if all do."""
    return checks_by(check_reader(Path()), name)


def check_reader(folder: Path) -> Read:
    """Return a function from an entry of ``checks`` to its scorer. ``folder``: folder
    of the eval, for paths of schemas."""

    @cached
    def read(given: Any) -> AnswerScorer:
        found = scorer_of_entry(given, folder, None)
        if not isinstance(found, AnswerScorer):
            raise EvalsError(f"checks: {found.name} asks a model\n  fix: use score")
        return found

    return read


SCORERS: Mapping[str, tuple[Callable[..., Scorer], str]] = {
    "exact": (answers.exact, ""),
    "contains": (answers.contains, "text"),
    "starts_with": (answers.starts_with, "text"),
    "regex": (answers.regex, "pattern"),
    "json": (answers.json, "schema"),
    "json_schema": (answers.json, "schema"),
    "similar": (answers.similar, "threshold"),
    "semantic": (semantic.semantic, "threshold"),
    "judge": (judge, "rubric"),
    "pairwise": (pairwise, ""),
    "goal_reached": (goal_reached, "goal"),
    "checks": (checks, ""),
    "equals": (values.equals, "tolerance"),
    "json_path": (values.json_path, "paths"),
    "contains_json": (values.contains_json, "schema"),
    "tool_calls": (tool_calls.tool_calls, ""),
    "tool_names": (tool_calls.tool_names, ""),
    "tool_arguments": (tool_calls.tool_arguments, ""),
    "tool_f1": (tool_calls.tool_f1, ""),
    "no_tool_calls": (tool_calls.no_tool_calls, ""),
    "called": (tool_calls.called, "calls"),
    "not_called": (tool_calls.not_called, "calls"),
    "max_calls": (tool_calls.max_calls, "most"),
    "call_order": (tool_calls.call_order, "tools"),
    "context_recall": (contexts.context_recall, "k"),
    "context_precision": (contexts.context_precision, "k"),
    "mrr": (contexts.mrr, "k"),
    "ndcg": (contexts.ndcg, "k"),
    "faithfulness": (claims.faithfulness, "threshold"),
    "answer_relevance": (claims.answer_relevance, "threshold"),
    "context_relevance": (claims.context_relevance, "threshold"),
    "max_latency": (spending.max_latency, "most"),
    "max_cost": (spending.max_cost, "most"),
    "max_output_tokens": (spending.max_output_tokens, "most"),
}
"""Name in ``score`` → the scorer, and the argument that a bare value sets."""


def scorers_of(
    given: Iterable[Any],
    added: Sequence[tuple[str, Any, tuple[float, float] | None]] = (),
) -> tuple[Scorer, ...]:
    """Return the scorers of an eval; ``exact()`` if missing. ``added``: names,
    functions and ranges that were added later; a name may be empty. Raises EvalsError
    if one is not a scorer, or two have the same name."""
    found = [_scorer(one) for one in given]
    found += [function_scorer(function, name, ends) for name, function, ends in added]
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise EvalsError(
                f"two scorers are called {name!r}\n"
                f"  fix: give one of them a name: contains('hello', name='greets')"
            )
    return tuple(found) or (answers.exact(),)


def range_of(given: Any) -> tuple[float, float] | None:
    """Return the range of a scorer, ``None`` if it is not set. Raises EvalsError if it
    is not two finite, ascending numbers."""
    if given is None:
        return None
    try:
        low, high = map(float, given)
    except (TypeError, ValueError):
        low = high = 0.0
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise EvalsError(
            f"range must be the lowest and the highest score, not {given!r}\n"
            "  fix: range=(0, 10)"
        )
    return low, high


def _scorer(given: Any) -> Scorer:
    if isinstance(given, AnswerScorer | ModelScorer | FunctionScorer):
        return given
    if isinstance(given, str):
        return _scorer_of_name(given)
    if callable(given):
        name = getattr(given, "__name__", "")
        if getattr(given, "__module__", "") == "pytest_evals.scorers.answers":
            raise EvalsError(f"score: {name} is not called\n  fix: {name}()")
        return function_scorer(given)
    raise EvalsError(
        f"score: {given!r:.60} is not a scorer\n  fix: score=[pytest_evals.exact()]"
    )


def _scorer_of_name(name: str) -> Scorer:
    if name not in SCORERS:
        raise EvalsError(f"score: unknown scorer {name!r}{_hint(name)}")
    try:
        return SCORERS[name][0]()
    except TypeError:
        raise EvalsError(
            f"score: {name} needs arguments\n  fix: pytest_evals.{name}(…)"
        ) from None


def fixtures_of_scorers(
    scorers: Iterable[Scorer],
) -> Mapping[str, list[FunctionScorer]]:
    """Name of a fixture → the scorers that request it."""
    found = dict[str, list[FunctionScorer]]()
    for scorer in scorers:
        if isinstance(scorer, FunctionScorer):
            for name in scorer.fixtures:
                found.setdefault(name, []).append(scorer)
    return found


_MAPPINGS = ("calls", "paths", "schema")  # arguments whose bare value may be a mapping
Written = Callable[[Any], Mapping[Any, str]]
"""Mapping or list of a file → its values that are not strings, as they are written."""
_TEXTS = ("str", "str | None", "Sequence[str]")
"""Annotations of arguments that are text."""


def scorer_of_entry(given: Any, folder: Path, written: Written | None) -> Scorer:
    """Return the scorer of an entry of ``score`` in a file: a name, or a name with
    arguments. ``folder``: folder of the file, for paths of schemas. ``written``: values
    of the file; those of arguments that are text are used as they are written; ``None``
    if unknown, then these must be text. Raises EvalsError if the entry is invalid."""
    if isinstance(given, str):
        given = {given: None}
    if not isinstance(given, Mapping) or len(given) != 1:
        message = "score: each entry is a name, or one name with its arguments"
        raise EvalsError(f"{message}\n  fix: - contains: {{text: hello}}")
    ((name, value),) = given.items()
    if name == "not":
        return _opposite(scorer_of_entry(value, folder, written))
    if name not in SCORERS:
        raise EvalsError(f"score: unknown scorer {name!r}{_hint(str(name))}")
    make, bare = SCORERS[name]
    arguments = _arguments(name, value, bare, make)
    extract = arguments.pop("extract", None)
    parameters = signature(make).parameters
    for key in arguments:
        if str(parameters[key].annotation) in _TEXTS:
            arguments[key] = _text_of(given, key, arguments[key], bare, written)
    if name == "checks":
        return checks_by(check_reader(folder), **arguments)
    if make is answers.json:
        _set_schema(name, arguments, folder)
    try:
        return with_extract(make(**arguments), extract)
    except TypeError as error:
        raise EvalsError(f"score: {name}: {error}") from None


def _hint(name: str) -> str:
    word, colon, rest = name.partition(": ")
    if colon and word in SCORERS:
        return f", which is text\n  fix: write a mapping: {{{word}: {rest}}}"
    return suggestion(name, [*SCORERS, "not"])


def _opposite(scorer: Scorer) -> Scorer:
    if not isinstance(scorer, AnswerScorer):
        raise EvalsError(f"score: not cannot be applied to {scorer.name}")
    return ~scorer


def _set_schema(name: str, arguments: dict[str, Any], folder: Path) -> None:
    if isinstance(arguments.get("schema"), str):
        arguments["schema"] = folder / arguments["schema"]
    if name == "json_schema" and arguments.get("schema") is None:
        raise EvalsError("score: json_schema needs a schema")
    arguments.setdefault("name", name)


def _text_of(
    given: Mapping[Any, Any], key: str, value: Any, bare: str, written: Written | None
) -> Any:
    """An argument that is text, as it is written. If that is unknown, a number is an
    error, since its digits may have been written in another way."""
    ((name, arguments),) = given.items()
    if written is not None:
        text = written(given).get(name) if key == bare else None
        return as_written(value, written(arguments).get(key, text), written)
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, bool | int | float):
            raise EvalsError(f"{name}: {key} is {one!r}, not text\n  fix: quote it")
    return value


def with_extract(scorer: Scorer, extract: Any) -> Scorer:
    """Return a scorer of a part of answers. Raises EvalsError if the scorer does not
    compare texts, or ``extract`` is invalid."""
    if extract is None:
        return scorer
    if not isinstance(scorer, AnswerScorer):
        raise EvalsError(f"{scorer.name} takes no extract\n  fix: set it for the eval")
    settings = {**scorer.settings, "extract": extract}
    return replace(scorer, extract=extraction_of(extract), settings=settings)


def as_written(value: Any, text: str | None, written: Written) -> Any:
    """Return a value of a file that is text: itself as it is written (``text``), or the
    items of a list; nulls remain."""
    if isinstance(value, list):
        texts = written(value)
        items = enumerate(value)
        return [one if one is None else texts.get(n, one) for n, one in items]
    return value if value is None or text is None else text


def _arguments(
    name: str, value: Any, bare: str, make: Callable[..., Scorer]
) -> dict[str, Any]:
    if value is None:
        return {}
    parameters = [*signature(make).parameters]
    is_value = bare in _MAPPINGS and isinstance(value, Mapping)
    if not isinstance(value, Mapping) or (is_value and not set(value) & {*parameters}):
        if not bare:
            raise EvalsError(f"score: {name} takes named arguments: {{{name}: {{}}}}")
        return {bare: value}
    for key in value:
        if key not in (*parameters, "extract"):
            hint = suggestion(key, parameters)
            fix = gate_fix(name, key, value[key])
            message = f"score: {name} has no argument {key!r}"
            raise EvalsError(f"{message}{fix or hint}")
    return dict(value)
