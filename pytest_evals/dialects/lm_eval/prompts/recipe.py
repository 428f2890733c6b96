"""Recipe of a task: everything needed to build documents and requests from rows. Data
only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.core.task import TaskOptions
from pytest_evals.data.source_paths import Source
from pytest_evals.errors import Place
from pytest_evals.prompts.fields import Field
from pytest_evals.prompts.generation import Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    """Names of the splits; ``None`` if the task file does not set them.

    Args:
        training: Default split of few-shot examples.
        validation: Second default of few-shot examples; evaluated if there is no test
            split.
        test: Evaluated split; last default of few-shot examples.
        fewshot: Split of few-shot examples, if the task sets one.
        places: Key of the task file, such as ``test_split`` → file and line.
    """

    training: str | None = None
    validation: str | None = None
    test: str | None = None
    fewshot: str | None = None
    places: Mapping[str, Place] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Fields that turn a row into a question and an answer.

    Args:
        text: The question, or the index of the correct one among ``choices``.
        target: The answer: a string, an index among ``choices``, or a list.
        prefix: Beginning of the answer (``gen_prefix``).
    """

    text: Field
    target: Field
    choices: Field | None = None
    prefix: Field | None = None
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shots:
    """Few-shot examples.

    Args:
        sampler: ``default``, ``first_n``, or a function that creates a sampler
            (:class:`~pytest_evals.dialects.lm_eval.prompts.shots.CustomSampler`).
        samples: Rows, or a function that returns them, if they are not from a split.
        process_docs: Transforms the rows of the split ``Splits.fewshot``.
        place: File and line of the number of examples.
    """

    n: int = 0
    sampler: str | Callable[..., Any] = "default"
    samples: Sequence[Mapping[str, Any]] | Callable[[], Any] | None = None
    process_docs: Field | None = None
    fields: Fields
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A task's rows, documents and requests.

    Args:
        output_type: One of lm-eval's four output types.
        process_docs: Transforms the rows of a split first.
        sound: Audio of a document, which is not supported.
        metrics: Names of the task's metrics that come from lm-eval.
        unconditioned_query: Prompt for scoring choices without the question, for
            metrics that do not come from lm-eval.
        own_scoring: Whether a user function computes the scores (``process_results``).
        may_be_identical: Whether all documents may have identical requests.
        generates_choices: Whether documents with choices are answered by generation,
            so that documents have their description and few-shot examples.
    """

    name: str
    output_type: str
    place: Place
    source: Source
    splits: Splits
    process_docs: Field | None = None
    fields: Fields
    description: Field | None = None
    images: Field | None = None
    sound: Field | None = None
    shots: Shots
    sampling: Sampling
    repeats: int = 1
    metrics: tuple[str, ...] = ()
    unconditioned_query: str | None = None
    own_scoring: bool = False
    may_be_identical: bool = False
    generates_choices: bool = False
    options: TaskOptions
