"""The finished recipe that every front end produces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from pytest_evals.core.dialogue import Dialogue, ModelSource
from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Gate
from pytest_evals.core.library import Library
from pytest_evals.core.metric import BOOTSTRAP_ITERS, Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.core.request import Request
from pytest_evals.core.variant import Variant
from pytest_evals.errors import Place

REASONING_TAGS = (("<think>", "</think>"),)
"""Around the reasoning of most models."""


def _all(names: Sequence[str]) -> bool:
    return True


def _as_it_is(names: Sequence[str]) -> tuple[Variant, ...]:
    return (Variant(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What the command line changes in every task.

    Args:
        takes: Whether a task with these names (its own and its tags) is wanted; asked
            before the rest of its file is looked at.
        variants: Names of a task → the ways in which it is wanted, at least one.
        limit: The first N documents (an integer from 1) or a share of them (below 1);
            ``None`` for all.
        sample: As ``limit``, but a seeded, nested draw.
        num_fewshot: Shots; ``None`` for the task's own number. A task file that says 0
            keeps 0.
        exclude_own_shots: Whether a document is kept out of its own shots also where
            lm-eval lets it in.
        seed: Seed of the draw of shots; and, with ``sample``, of the documents.
        typed_seed: The same where somebody has given it; tasks that have a seed of
            their own leave that one for it alone.
        chat: Whether prompts are chats that the model renders with its own template.
        fewshot_as_multiturn: In a chat, each shot as a turn of its own.
        system_instruction: Text in front of every prompt.
        gen_kwargs: Generation arguments that override the task's.
        reasoning_tags: Start and end tags; tasks of lighteval remove what is between
            them from answers before they are scored.
        bootstrap_iters: Resamples of a bootstrapped standard error; with 0 there are no
            standard errors at all.
        metadata: Entries of every task's metadata that override the file's.
        model_arguments: What the model was opened with; functions that make a dataset
            get it, with the metadata.
        allow_unsafe_code: Whether tasks may run that execute what the model writes.
        base: Folder that relative paths are tried from after the task file's own.
        parameters: Values of parameters that tasks declare.
        has_model: Whether there is a model to test, so that it stands for the one that
            a file names.
        has_judge: Whether there is a judge, so that it stands for those of providers.
        typed_csv: Whether cells of CSV files are numbers and truths where their whole
            column is.
        call_s: Seconds that one call of Python in a task file may take; 0 for ever.
        code_roots: Folders whose task files may run Python that stands in them;
            ``None`` for all.
        root: Folder that holds the whole suite, empty for that of each file.
        metrics: Metrics of the user's own, by the names that task files may use.
        library: Where the names in groups are looked up; ``None`` for the folder of the
            group's file.
    """

    takes: Callable[[Sequence[str]], bool] = _all
    variants: Callable[[Sequence[str]], tuple[Variant, ...]] = _as_it_is
    limit: float | None = None
    sample: float | None = None
    num_fewshot: int | None = None
    exclude_own_shots: bool = False
    seed: int = 1234
    typed_seed: int | None = None
    chat: bool = False
    fewshot_as_multiturn: bool = True
    system_instruction: str = ""
    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)
    reasoning_tags: tuple[tuple[str, str], ...] = REASONING_TAGS
    bootstrap_iters: int = BOOTSTRAP_ITERS
    metadata: Mapping[str, Any] = field(default_factory=dict)
    model_arguments: Mapping[str, Any] = field(default_factory=dict)
    allow_unsafe_code: bool = False
    base: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    has_model: bool = False
    has_judge: bool = False
    typed_csv: bool = True
    call_s: float = 30.0
    code_roots: tuple[str, ...] | None = None
    root: str = ""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    library: Library | None = None


class Rows(Protocol):
    """The documents of a task, known by their ids. Loaded when first looked at."""

    def ids(self) -> Sequence[str]:
        """Unique ids of the documents to run, in order, after limit or sample.

        Raises:
            TaskFileError: The dataset, the split or a column does not exist, or the
                first document cannot be built.
        """
        ...

    def indices(self) -> Sequence[int]:
        """Positions of these documents in the whole dataset: 0, 1, 2, … unless
        sampled."""
        ...

    def total(self) -> int:
        """Number of documents before limit or sample."""
        ...


@runtime_checkable
class SizedRows(Rows, Protocol):
    """Rows that know how much there is to read in each; others count alike."""

    def sizes(self) -> Sequence[int]:
        """Bytes of text in the rows of the documents to run, in order."""
        ...


class Asked(NamedTuple):
    """A document and what the model is asked about it."""

    doc: Doc
    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task, ready to run; every dialect ends here.

    Args:
        name: Unique within the session.
        source: File and line that define it.
        rows: Its documents.
        ask: Position in the whole dataset → document and requests. Positions may come
            in any order; the answer never depends on which came before. Raises
            ``DocumentError`` for a document that cannot be built.
        follow_up: Record with the first responses → its dialogue: a generator that
            yields lists of ``Ask`` and is sent lists of ``Response``. Its requests
            depend on the record and the responses alone. Raises ``DocumentError`` if
            the document cannot be continued.
        models: Names in ``Ask.model`` → auxiliary models, such as judges.
        asks_model: Whether the tested model is asked anything at all.
        shows_images: Whether it is shown images, as far as the task's file says.
        score: Answered record → scores. Raises ``DocumentError`` for a document that
            cannot be scored.
        exclude: Scored record → why its scores are in no metric; empty if they are.
            Raises ``DocumentError`` where that cannot be said: an error of the
            document, whose scores count.
        metrics: What the scores add up to.
        metric_for: Name and filter of scores that ``metrics`` does not list → what they
            add up to, ``None`` for nothing; without it, their mean.
        score_repeats: As ``score``, with the value of each answer by itself beside;
            ``None`` where nothing is asked several times.
        gates: Claims about these metrics.
        output_type: Kind of its requests, as in lm-eval.
        alias: Name shown in tables.
        overall: Name of an average over all tasks that name it, which results files
            have next to the tasks; empty for none.
        tags: Markers of its documents.
        version: As the file gives it.
        n_shots: Shots of each prompt.
        repeats: Answers asked for each request.
        config: The resolved configuration, as JSON values, for results files.
        warnings: What is odd about it, as far as it has been read: more is known after
            its rows were looked at, and after its documents were asked.
    """

    name: str
    source: Place
    rows: Rows
    ask: Callable[[int], Asked]
    score: Callable[[Record], tuple[Score, ...]]
    metrics: tuple[Metric, ...]
    metric_for: Callable[[str, str], Metric | None] | None = None
    score_repeats: Callable[[Record], tuple[Score, ...]] | None = None
    exclude: Callable[[Record], str] | None = None
    follow_up: Callable[[Record], Dialogue[object]] | None = None
    models: Mapping[str, ModelSource] = field(default_factory=dict)
    asks_model: bool = True
    shows_images: bool = False
    gates: tuple[Gate, ...] = ()
    output_type: str = ""
    alias: str = ""
    overall: str = ""
    tags: tuple[str, ...] = ()
    version: str | int | float | None = None
    n_shots: int = 0
    repeats: int = 1
    config: Mapping[str, Any] = field(default_factory=dict)
    warnings: Callable[[], tuple[str, ...]] = tuple
