"""``LightevalTaskConfig`` (lighteval 0.13.0, ``tasks/lighteval_task.py``), with the
fields of earlier releases that public modules still use (data only; :mod:`.tasks`
checks the values), and ``generation_grammar``: a JSON schema or regular expression that
constrains answers, in huggingface_hub's format.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from traceback import walk_stack
from typing import Any

from pytest_evals.errors import EvalsError


@dataclass
class TextGenerationInputGrammarType:
    """huggingface_hub's class of that name. ``type``: ``json``, ``json_schema`` or
    ``regex``; ``value``: a schema or a regular expression."""

    type: str
    value: Any


def grammar_text(given: Any) -> str:
    """A grammar serialized for the request option ``GRAMMAR``."""
    fields = given if isinstance(given, Mapping) else getattr(given, "__dict__", {})
    kind, value = fields.get("type"), fields.get("value")
    if kind in ("json", "json_schema") and isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            message = f"generation_grammar is not valid JSON: {value!r:.120}"
            raise EvalsError(message) from None
    if kind in ("json", "json_schema") and isinstance(value, Mapping):
        return json.dumps({"type": "json", "value": value}, sort_keys=True)
    if kind == "regex" and isinstance(value, str):
        try:
            re.compile(value)
        except re.error as error:
            message = f"invalid regular expression in generation_grammar ({error})"
            raise EvalsError(f"{message}: {value!r:.120}") from None
        return json.dumps({"type": "regex", "value": value})
    raise EvalsError(
        "generation_grammar must have a type (json or regex) and a value (the schema "
        f"or the expression), not {given!r:.120}"
    )


_DEPTH = 40
"""Stack frames to keep: a table may be built by nested functions and classes."""


@dataclass
class LightevalTaskConfig:
    """Configuration of one task; modules may subclass it.

    Args:
        name: Name of the task; ``family:part`` belongs to the group ``family``.
        prompt_function: Row and name of the task → document, or ``None`` to skip it.
        hf_repo: A dataset of the Hub, a folder, or a builder such as ``json``.
        hf_subset: Configuration of the dataset.
        solver: For inspect-ai; ignored, like the next four.
        hf_filter: Keeps a row of any split if it returns true.
        hf_avail_splits: Splits to search for few-shot examples.
        evaluation_splits: Splits to evaluate, in order.
        few_shots_split: Split of few-shot examples; ``None`` to search for one.
        few_shots_select: Selection of few-shot examples; ``None`` for ``balanced``.
        generation_size: Maximum number of new tokens of an answer.
        generation_grammar: JSON schema or regular expression that constrains answers.
        stop_sequence: Strings that end an answer.
        num_samples: Minimum number of answers to each prompt; the maximum of a list.
        original_num_docs: Ignored, as in lighteval, like ``effective_num_docs``.
        must_remove_duplicate_docs: Whether to drop duplicate documents.
        num_fewshots: Default number of few-shot examples.
        version: Shown in results.
        hf_data_files: Files of the dataset: a name, a list, or either by split. From a
            development version; 0.13.0 does not have this field.
        metric: Name of ``metrics`` in earlier releases; the next three are from them,
            too, and are ignored.
        frames: File and line of each stack frame of the call, innermost first.
    """

    name: str
    prompt_function: Callable[[dict[str, Any], str], Any]
    hf_repo: str
    hf_subset: str | None = None
    metrics: Sequence[Any] = ()
    solver: Any = None
    scorer: Any = None
    sample_fields: Any = None
    sample_to_fewshot: Any = None
    filter: Any = None
    hf_revision: str | None = None
    hf_filter: Callable[[dict[str, Any]], bool] | None = None
    hf_avail_splits: Sequence[str] | None = ("train", "validation", "test")
    evaluation_splits: Sequence[str] = ("validation",)
    few_shots_split: str | None = None
    few_shots_select: str | None = None
    generation_size: int | None = None
    generation_grammar: Any = None
    stop_sequence: Sequence[str] | None = None
    num_samples: int | Sequence[int] | None = None
    original_num_docs: int = -1
    effective_num_docs: int = -1
    must_remove_duplicate_docs: bool = False
    num_fewshots: int = 0
    version: int | str = 0
    hf_data_files: str | Sequence[str] | Mapping[str, Any] | None = None
    metric: Sequence[Any] = ()
    suite: Any = None
    trust_dataset: Any = None
    limited_num_docs: Any = None
    frames: tuple[tuple[str, int], ...] = field(
        init=False, default=(), repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Resolve the former name of a field and record the call stack."""
        self.metrics = self.metrics or self.metric
        pool: Any = self.few_shots_split
        if isinstance(pool, list | tuple) and len(pool) == 1:
            self.few_shots_split = pool[0]  # some of lighteval's tasks pass a list
        stack = islice(walk_stack(sys._getframe(1)), _DEPTH)
        self.frames = tuple((one.f_code.co_filename, line) for one, line in stack)

    @property
    def full_name(self) -> str:
        """Name and number of few-shot examples: ``gsm8k|5``."""
        return f"{self.name}|{self.num_fewshots}"


def line_of(config: Any, file: str) -> int:
    """Line of the module that creates the task (its outermost frame); 0 if unknown."""
    lines = [line for name, line in getattr(config, "frames", ()) if name == file]
    return lines[-1] if lines else 0
