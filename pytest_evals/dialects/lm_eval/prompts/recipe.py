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
    """Names of the splits; ``None`` if the task file does not set them."""

    training: str | None = None  # default split of few-shot examples
    validation: str | None = None
    """Second default of few-shot examples; evaluated if there is no test split."""
    test: str | None = None  # evaluated split; last default of few-shot examples
    fewshot: str | None = None  # split of few-shot examples, if the task sets one
    places: Mapping[str, Place] = field(default_factory=dict)
    """Key of the task file, such as ``test_split`` → file and line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Fields that turn a row into a question and an answer."""

    text: Field  # the question, or the index of the correct one among ``choices``
    target: Field  # the answer: a string, an index among ``choices``, or a list
    choices: Field | None = None
    prefix: Field | None = None  # beginning of the answer (``gen_prefix``)
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shots:
    """Few-shot examples."""

    n: int = 0
    sampler: str | Callable[..., Any] = "default"
    """``default``, ``first_n``, or a function that creates a sampler
    (:class:`~pytest_evals.dialects.lm_eval.prompts.shots.CustomSampler`)."""
    samples: Sequence[Mapping[str, Any]] | Callable[[], Any] | None = None
    """Rows, or a function that returns them, if they are not from a split."""
    process_docs: Field | None = None
    """Transforms the rows of the split ``Splits.fewshot``."""
    fields: Fields
    place: Place  # file and line of the number of examples


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A task's rows, documents and requests."""

    name: str
    output_type: str  # one of lm-eval's four output types
    place: Place
    source: Source
    splits: Splits
    process_docs: Field | None = None  # transforms the rows of a split first
    fields: Fields
    description: Field | None = None
    images: Field | None = None
    sound: Field | None = None  # audio of a document, which is not supported
    shots: Shots
    sampling: Sampling
    repeats: int = 1
    metrics: tuple[str, ...] = ()  # names of the task's metrics that come from lm-eval
    unconditioned_query: str | None = None
    """Prompt for scoring choices without the question, for metrics that do not come
    from lm-eval."""
    own_scoring: bool = False
    """Whether a user function computes the scores (``process_results``)."""
    may_be_identical: bool = False  # whether all documents may have identical requests
    generates_choices: bool = False
    """Whether documents with choices are answered by generation, so that documents have
    their description and few-shot examples."""
    options: TaskOptions
