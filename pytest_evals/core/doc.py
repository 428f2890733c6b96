"""What is asked: one document of a task.

The fields, their order and their defaults are lighteval's (0.13.0,
``lighteval.tasks.requests.Doc``), so that its task modules run as they are. ``row`` and
``target`` are ours and come last. It is the one record that is not frozen, because
those modules write to it; everybody else treats it as frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.errors import GoldIndexError


@dataclass(slots=True)
class Doc:
    """One document: its question, its choices and which of them are right.

    Args:
        query: The question as the model sees it, without shots and instruction. The
            text itself when its log-likelihood is asked (rolling).
        choices: Possible answers, without delimiter; for generation the reference
            answers.
        gold_index: Position of the right choice, or a list of positions when several
            are right.
        instruction: Text in front of everything, kept apart from the query.
        images: PIL images for models that take them.
        specific: Whatever the task wants to keep for its metrics.
        unconditioned_query: The query without content, for PMI normalisation.
        original_query: The text before any change.
        id: The document's id within its task.
        task_name: The task it belongs to.
        fewshot_samples: The shots, as documents.
        sampling_methods: Which kinds of request are made of it.
        fewshot_sorting_class: Label for balanced shots.
        generation_size: Most new tokens of an answer.
        stop_sequences: Texts that end an answer.
        use_logits: Whether logits are wanted.
        num_samples: Answers per prompt.
        generation_grammar: Grammar that constrains an answer.
        row: The row of the dataset that it was made of, after ``process_docs``.
        target: What the task file gives as target, before it was turned into choices
            and positions.
    """

    query: str
    choices: list[str]
    gold_index: int | list[int]
    instruction: str | None = None
    images: list[Any] | None = None
    specific: dict[str, Any] | None = None
    unconditioned_query: str | None = None
    original_query: str | None = None
    id: str = ""
    task_name: str = ""
    fewshot_samples: list[Doc] = field(default_factory=list)
    sampling_methods: list[Any] = field(default_factory=list)
    fewshot_sorting_class: str | None = None
    generation_size: int | None = None
    stop_sequences: list[str] | None = None
    use_logits: bool = False
    num_samples: int = 1
    generation_grammar: Any = None
    row: Mapping[str, Any] = field(default_factory=dict)
    target: Any = None

    def get_golds(self) -> list[str]:
        """The right answers as texts; a choice that is itself a list adds all its
        synonyms.

        Raises:
            GoldIndexError: A gold index lies outside the choices.
        """
        golds: list[str] = []
        for index in as_list(self.gold_index):
            try:
                golds.extend(as_list(self.choices[index]))
            except IndexError:
                n = f"{len(self.choices)} choices" if self.choices else "no choices"
                what = f"gold_index is {index}, and the document has {n}"
                raise GoldIndexError(what) from None
        return golds


def as_list(value: Any) -> list[Any]:
    """A list as it is, a tuple as a list, all else as a list of one."""
    if isinstance(value, list):
        return value
    return list(value) if isinstance(value, tuple) else [value]
