"""A task as a module of lighteval's describes it: ``LightevalTaskConfig`` (0.13.0,
``tasks/lighteval_task.py``), with the fields of earlier releases that public modules
still use. Data only; :mod:`.validation` looks at the values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_DEPTH = 40
"""Frames that are remembered: a table may be built by functions and classes."""


@dataclass
class LightevalTaskConfig:
    """One task; modules derive classes from it.

    Args:
        name: The task's name; ``family:part`` belongs to a family.
        prompt_function: Row and name of the task → document, or ``None`` to skip it.
        hf_repo: A dataset of the Hub, a folder, or a builder such as ``json``.
        hf_subset: Its configuration.
        metrics: What is measured.
        solver: inspect-ai's; without effect here, as the next four.
        scorer: See ``solver``.
        sample_fields: See ``solver``.
        sample_to_fewshot: See ``solver``.
        filter: See ``solver``.
        hf_revision: Revision of the dataset.
        hf_filter: Which rows are used, of every split.
        hf_avail_splits: Splits among which the pool of shots is looked for.
        evaluation_splits: Splits that are run, in order.
        few_shots_split: The pool of shots; ``None`` to look for one.
        few_shots_select: How shots are chosen; ``None`` for ``balanced``.
        generation_size: Most new tokens of an answer.
        generation_grammar: What an answer must look like.
        stop_sequence: Texts that end an answer.
        num_samples: Answers to each prompt, at least; a list for its largest number.
        original_num_docs: Without effect, as in lighteval.
        effective_num_docs: Without effect, as in lighteval.
        must_remove_duplicate_docs: Whether equal documents count once.
        num_fewshots: Shots, where nobody asks for another number.
        version: Shown in results.
        hf_data_files: Files of the dataset: a name, a list, or either by split; of a
            development version, and no field of 0.13.0.
        metric: The name of ``metrics`` in earlier releases.
        suite: Of earlier releases; means nothing.
        trust_dataset: Of earlier releases; means nothing.
        limited_num_docs: Of earlier releases; means nothing.
        frames: Where the call stands: file and line, the innermost first.
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
        """Take the old name of a field, and remember the place."""
        self.metrics = self.metrics or self.metric
        pool: Any = self.few_shots_split
        if isinstance(pool, list | tuple) and len(pool) == 1:
            self.few_shots_split = pool[0]  # as some of lighteval's own tasks have it
        frame, found = sys._getframe(1), []
        for _ in range(_DEPTH):
            found.append((frame.f_code.co_filename, frame.f_lineno))
            if frame.f_back is None:
                break
            frame = frame.f_back
        self.frames = tuple(found)

    @property
    def full_name(self) -> str:
        """Name and number of shots: ``gsm8k|5``."""
        return f"{self.name}|{self.num_fewshots}"


def line_of(config: Any, file: str) -> int:
    """The line of a module that makes a task: the outermost one that is in it; 0 if
    that is not known."""
    lines = [line for name, line in getattr(config, "frames", ()) if name == file]
    return lines[-1] if lines else 0
