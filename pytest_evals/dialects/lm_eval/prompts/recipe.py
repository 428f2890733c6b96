"""What the prompts of a task are made of: everything that a front end must say so that
rows become documents and requests. Data only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.core.task import TaskOptions
from pytest_evals.data.sources import Source
from pytest_evals.errors import Place
from pytest_evals.prompts.fields import Field
from pytest_evals.prompts.generation import Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    """Which split is used for what; ``None`` where the task file names none.

    Args:
        training: First choice of a pool of shots.
        validation: Second choice; evaluated if there is no test split.
        test: What is evaluated; last choice of a pool.
        fewshot: The pool of shots, if the task names one.
        places: Key of the task file, such as ``test_split`` → where it stands.
    """

    training: str | None = None
    validation: str | None = None
    test: str | None = None
    fewshot: str | None = None
    places: Mapping[str, Place] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """How a row becomes a question and an answer.

    Args:
        text: The question; or the position of the right one among ``choices``.
        target: The answer: a text, a position among ``choices``, or a list.
        choices: The choices.
        prefix: How the answer begins (``gen_prefix``).
        target_delimiter: Between question and answer.
        fewshot_delimiter: After an answer.
    """

    text: Field
    target: Field
    choices: Field | None = None
    prefix: Field | None = None
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shots:
    """The examples in front of a question.

    Args:
        n: How many.
        sampler: ``default``, ``first_n``, or what makes a sampler
            (:class:`~pytest_evals.dialects.lm_eval.prompts.custom_sampler.OwnSampler`).
        samples: The pool, or a function that gives it, if it is no split.
        process_docs: What the rows of the split ``Splits.fewshot`` go through.
        fields: How they become questions and answers.
        place: Where the number of shots stands.
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
        name: Name of the task.
        output_type: One of lm-eval's four.
        place: Where the task is defined.
        source: Where rows come from.
        splits: Which of them are used for what.
        process_docs: A function that a split goes through before anything else.
        fields: How a row becomes a question and an answer.
        description: Text in front of everything.
        images: What gives the images of a document.
        sound: What gives its sound, which no model hears.
        shots: The examples in front of a question.
        sampling: How answers are generated.
        repeats: How often each request is made.
        metrics: Names of the task's metrics, as far as they are lm-eval's.
        unconditioned_query: What stands for the question where choices are also asked
            without it, for metrics that are not lm-eval's.
        own_scoring: Whether a function of the user scores (``process_results``).
        may_be_identical: Whether all documents may send the same.
        options: What the command line changes.
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
    options: TaskOptions
