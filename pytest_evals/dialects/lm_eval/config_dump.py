"""The resolved configuration of a task as JSON values, for results files.

Keys, order and defaults as lm-eval 0.4.13 writes them (``config/task.py``): keys
without a value are left out, and a function stands as its source text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_evals.dialects.detect import TASK_KEYS
from pytest_evals.dialects.json_values import as_json
from pytest_evals.dialects.lm_eval.prompts.recipe import Recipe
from pytest_evals.dialects.own_metadata import without_own
from pytest_evals.masking.values import masked
from pytest_evals.prompts.generation import GREEDY


def dumped(
    values: Mapping[str, Any], recipe: Recipe, metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """The configuration, without secrets.

    Args:
        values: Keys of the task file with its includes; functions are functions.
        recipe: What became of them.
        metadata: The metadata, always a mapping.
    """
    known = {
        **values,
        "unsafe_code": bool(values.get("unsafe_code")),
        "description": values.get("description") or "",
        "target_delimiter": recipe.fields.target_delimiter,
        "fewshot_delimiter": recipe.fields.fewshot_delimiter,
        "fewshot_config": _shots(values, recipe),
        "num_fewshot": recipe.shots.n,
        "output_type": recipe.output_type,
        "repeats": recipe.repeats,
        "should_decontaminate": bool(values.get("should_decontaminate")),
        "metadata": without_own(metadata) or None,
    }
    if recipe.output_type == "generate_until":
        known["generation_kwargs"] = _generation(values, recipe)
    found = {k: as_json(known[k]) for k in TASK_KEYS if known.get(k) is not None}
    return masked(found)


def _shots(values: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    shots, fields = recipe.shots, recipe.shots.fields
    typed = values.get("fewshot_config") or {}
    return {
        "sampler": shots.sampler,
        "split": recipe.splits.fewshot,
        "process_docs": shots.process_docs and shots.process_docs.spec,
        "fewshot_indices": typed.get("fewshot_indices"),
        "samples": shots.samples,
        "doc_to_text": fields.text.spec,
        "doc_to_choice": fields.choices and fields.choices.spec,
        "doc_to_target": fields.target.spec,
        "gen_prefix": fields.prefix and fields.prefix.spec,
        "fewshot_delimiter": fields.fewshot_delimiter,
        "target_delimiter": fields.target_delimiter,
    }


def _generation(values: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """As typed, with lm-eval's defaults and the overrides of the command line; what it
    means is in the requests of the samples."""
    given = values.get("generation_kwargs")
    typed = dict(GREEDY if given is None else given)
    if typed.get("temperature") is not None:
        typed["temperature"] = float(typed["temperature"])
    typed.setdefault("until", [recipe.fields.fewshot_delimiter])
    return {**typed, **recipe.options.gen_kwargs}
