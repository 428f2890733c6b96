"""Warnings about a task that nevertheless gives a number.

Most are for cases where lm-eval 0.4.13 gives a number that one would not expect; we
give the same number and say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_evals.dialects.lm_eval.prompts.question import Question
from pytest_evals.dialects.lm_eval.prompts.recipe import Recipe
from pytest_evals.dialects.lm_eval.prompts.requests import Shape
from pytest_evals.dialects.lm_eval.prompts.tables import Tables
from pytest_evals.errors import did_you_mean
from pytest_evals.prompts.fields import Field, number_or_text


def known_at_start(recipe: Recipe, tables: Tables, own_shots: bool) -> Iterator[str]:
    """What can be said before any document but the first is read.

    Args:
        recipe: The task.
        tables: Its rows.
        own_shots: Whether a document may be one of its own shots in lm-eval.
    """
    if tables.shuffled:
        yield (
            "process_docs draws from the global random generator; here "
            "it is seeded, while lm-eval's number depends on caches of the machine"
        )
    if own_shots and recipe.options.exclude_own_shots:
        yield (
            "documents are kept out of their own shots (--evals-exclude-own-shots), "
            f"which come from the same {tables.pool_name}; lm-eval's prompts are others"
        )
    elif own_shots:
        yield (
            f"shots are taken from the documents that are asked "
            f"({tables.pool_name}), so a document can be one of its own shots, as in "
            "lm-eval; name another fewshot_split, or --evals-exclude-own-shots"
        )
    if recipe.images is not None and recipe.shots.n:
        yield "shots are shown without their images, as in lm-eval"
    for field in (recipe.fields.text, recipe.fields.target):
        yield from _misspelt(recipe, field, tables.asked.columns)


def odd_target(
    recipe: Recipe, question: Question, shape: Shape, gold: int | list[int]
) -> Iterator[str]:
    """What is odd about the target of one document."""
    key = recipe.fields.target.key
    if isinstance(question.choices, str):
        yield (
            "doc_to_choice gives one text, and each of its characters is a choice, as "
            "in lm-eval"
        )
    if isinstance(question.target, list) != shape.multiple_targets:
        one, many = "a single target", "a list of targets"
        first, later = (many, one) if shape.multiple_targets else (one, many)
        yield (
            f"{key} gives {first} for the first document and {later} for others, "
            "which are scored as if they were like the first, as in lm-eval"
        )
    if not recipe.own_scoring:
        yield from _oddly_scored(recipe, question.target, shape, gold)
    for given in (question.text, question.target):
        if recipe.fields.choices is not None and _odd_digits(given):
            yield f"{given!r} has digits but is no number, and is kept as text"


def _oddly_scored(
    recipe: Recipe, target: Any, shape: Shape, gold: int | list[int]
) -> Iterator[str]:
    if recipe.output_type == "multiple_choice":
        golds = gold if isinstance(gold, list) else [gold]
        if not golds or min(golds) < 0:
            yield "the target is not among the choices, which counts as wrong"
        return
    listed = target if isinstance(target, list) else [target]
    if recipe.output_type == "generate_until" and None in listed:
        key = recipe.fields.target.key
        yield f"{key} is null and the reference reads 'None', as in lm-eval"
    if shape.multiple_targets:
        yield from _odd_targets(recipe, target)


def _odd_targets(recipe: Recipe, targets: Any) -> Iterator[str]:
    graded = [metric for metric in recipe.metrics if metric != "exact_match"]
    if graded:
        yield (
            f"with several targets {', '.join(graded)} is 1 if any of them "
            "gives more than 0, else 0, as in lm-eval"
        )
    texts = any(isinstance(target, str) for target in targets)
    if "exact_match" in recipe.metrics and not texts:
        yield (
            f"{recipe.fields.target.key} gives several targets and none of them is a "
            "text; exact_match finds no number equal to a text, as in lm-eval"
        )


def _misspelt(recipe: Recipe, field: Field, columns: tuple[str, ...]) -> Iterator[str]:
    spec = field.spec
    if isinstance(spec, str) and spec.isidentifier() and spec not in columns:
        hint = did_you_mean(spec, columns)
        yield (f"{field.key}: {spec!r} is no column and is used as it stands{hint}")


def _odd_digits(given: Any) -> bool:
    return isinstance(given, str) and given.isdigit() and number_or_text(given) == given
