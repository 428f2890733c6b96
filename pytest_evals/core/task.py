"""A task, ready to run: the result of all dialects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from pytest_evals.core.dialogue import Dialogue, ModelSource
from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import BOOTSTRAP_ITERS, Metric
from pytest_evals.core.reasoning import REFUSALS
from pytest_evals.core.record import Record, Score
from pytest_evals.core.request import Request
from pytest_evals.core.variant import Variant
from pytest_evals.errors import Place


class IndexEntry(NamedTuple):
    """The definition of a name.

    ``path`` is the file that defines a task or a group, ``None`` for a tag; ``members``
    are the sorted names of the tasks with a tag.
    """

    name: str
    kind: Literal["task", "group", "tag"]
    path: Path | None = None
    members: tuple[str, ...] = ()


class NameIndex(Protocol):
    """An index of names."""

    def find(self, name: str, near: Path) -> IndexEntry | None:
        """Return the definition of a name in a file; ``None`` if missing."""

    def names(self, near: Path) -> Iterable[str]:
        """Return all names that a file may use."""

    def clash(self, name: str, near: Path) -> str:
        """Return the conflict in the definition of a name, empty if missing."""


MOST_REPEATS = 10_000
"""Maximum number of responses to each request; more are probably a mistake."""
REASONING_TAGS = (("<think>", "</think>"),)  # tags around the reasoning of most models


@dataclass(slots=True, kw_only=True, eq=False)
class SuiteFiles:
    """The files of a session, for dialects whose files refer to each other."""

    collected: Callable[[], Sequence[Path]] = tuple
    """Returns the files and folders that are read."""
    skips: Callable[[Path], bool] = lambda _: False  # whether a folder is skipped
    parameters: set[str] = field(default_factory=set)
    """Names of the parameters that tasks declare, which dialects add."""
    indexes: dict[str, Any] = field(default_factory=dict)
    """Dialect → its index of the files, so that each is read once."""


# Functions with a name, so that options can be pickled.
def _all(_: Sequence[str]) -> bool:
    return True


def _as_it_is(_: Sequence[str]) -> tuple[Variant, ...]:
    return (Variant(),)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TaskOptions:
    """Options of the command line that apply to all tasks."""

    takes: Callable[[Sequence[str]], bool] = _all
    """Whether a task with these names (its own and its tags) is selected; called before
    the rest of its file is read."""
    variants: Callable[[Sequence[str]], tuple[Variant, ...]] = _as_it_is
    """Name of a task → the selected variants, at least one."""
    limit: float | None = None
    """The first N documents (an integer from 1) or a share of them (below 1); ``None``
    for all."""
    sample: float | None = None  # as limit, but a seeded, nested sample
    num_fewshot: int | None = None
    """Number of few-shot examples; ``None`` for the task's own number. A task file with
    0 keeps 0."""
    exclude_own_shots: bool = False
    """Whether a document is excluded from its own few-shot examples even where lm-eval
    includes it."""
    seed: int = 1234
    """Seed of the few-shot sampling; and, with ``sample``, of the documents."""
    typed_seed: int | None = None
    """The seed if the user set it; it overrides the seeds of tasks."""
    chat: bool = False
    """Whether prompts are chats that the model renders with its chat template."""
    fewshot_as_multiturn: bool = True
    """Whether few-shot examples are separate chat turns."""
    system_instruction: str = ""  # system prompt: text in front of every prompt
    choices: str = ""
    """How documents with choices are answered: ``generate`` or ``loglikelihood``; empty
    for each task's own way."""
    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Generation arguments that override the task's."""
    reasoning_tags: tuple[tuple[str, str], ...] | None = None
    """Start and end tags of reasoning, which is removed from answers before scoring. By
    default ``None``: lighteval tasks and generated choices use :data:`REASONING_TAGS`,
    other tasks score the whole answer."""
    bootstrap_iters: int = BOOTSTRAP_ITERS
    """Resamples of a bootstrapped standard error; 0 disables standard errors."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Entries that override the metadata of every task file."""
    model_arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the model; functions that create a dataset get them, with the
    metadata."""
    allow_unsafe_code: bool = False  # whether tasks may run that execute generated code
    sandbox: str = "auto"
    """Level of isolation of generated code, as for ``--evals-sandbox``."""
    base: str = ""  # folder for relative paths that are not found next to the task file
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Values of parameters that tasks declare."""
    has_model: bool = False
    """Whether a model is tested; it then replaces the model that a file names."""
    has_judge: bool = False
    """Whether there is a judge; it then replaces the judges of providers."""
    typed_csv: bool = True
    """Whether columns of CSV files with only numbers or booleans are converted."""
    call_s: float = 30.0
    """Time limit in seconds for one call of Python code in a task file; 0 for none."""
    code_roots: tuple[str, ...] | None = None
    """Folders whose task files may run Python code from them; ``None`` for all."""
    function_roots: tuple[str, ...] | None = None
    """Folders of the modules that ``!function`` may name by a path; ``None`` for all.
    """
    root: str = ""  # folder of the whole suite, empty for that of each file
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """The user's metrics, by the names that task files may use."""
    library: NameIndex | None = None
    """Index of the names in groups; ``None`` for the folder of the group's file."""
    files: SuiteFiles | None = None
    """The files of the session; ``None`` to read one file alone."""

    @property
    def default_reasoning_tags(self) -> tuple[tuple[str, str], ...]:
        """The tags for tasks that remove reasoning by default."""
        return REASONING_TAGS if self.reasoning_tags is None else self.reasoning_tags

    def __repr__(self) -> str:
        default, names = TaskOptions(), [one.name for one in fields(self)]
        values = {name: getattr(self, name) for name in names}
        shown = (f"{k}={v!r}" for k, v in values.items() if v != getattr(default, k))
        return f"TaskOptions({', '.join(shown)})"


class Rows(Protocol):
    """The documents of a task, by id. Loaded on first access."""

    def ids(self) -> Sequence[str]:
        """Unique ids of the documents to run, in order, after limit or sample. Raises
        ``TaskFileError`` if the dataset, the split or a column does not exist, or the
        first document cannot be built."""

    def indices(self) -> Sequence[int]:
        """Positions of these documents in the dataset: 0, 1, 2, … unless sampled."""

    def total(self) -> int:
        """Number of documents before limit or sample."""


@runtime_checkable
class SizedRows(Rows, Protocol):
    """Rows whose sizes are known, for balanced sharding; others count equally."""

    def sizes(self) -> Sequence[int]:
        """Size in bytes of the text in the selected rows, in order."""


class Asked(NamedTuple):
    """A document and its requests."""

    doc: Doc
    requests: tuple[Request, ...]


RowLines = tuple[Path, Sequence[int]]


class ModelUse(NamedTuple):
    """What asks an auxiliary model."""

    name: str  # a scorer, or user
    place: Place  # where the model is set
    shows_images: bool = False  # whether its requests have images


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task, ready to run."""

    name: str
    """Unique within the session. That of a variant ends with it: ``capitals[short]``.
    """
    source: Place  # file and line that define it
    rows: Rows  # its documents
    ask: Callable[[int], Asked]
    """Position in the whole dataset → document and requests. Positions may come in any
    order; the result must not depend on the order. Raises ``DocumentError`` for a
    document that cannot be built."""
    score: Callable[[Record], tuple[Score, ...]]
    """Answered record → scores. Raises ``DocumentError`` for a document that cannot be
    scored."""
    metrics: tuple[Metric, ...]  # the metrics of its scores
    metric_for: Callable[[str, str], Metric | None] | None = None
    """Name and filter of scores that ``metrics`` does not list → their metric, ``None``
    for none; without it, their mean."""
    score_repeats: Callable[[Record], tuple[Score, ...]] | None = None
    """As ``score``, with the value of each answer in addition; ``None`` if there is one
    answer to each request."""
    begin: Callable[[Record], None] | None = None
    """Answered record → starts work in the background whose result ``score`` needs,
    such as async scorers."""
    exclude: Callable[[Record], str] | None = None
    """Scored record → why its scores are in no metric; empty if they are. Raises
    ``DocumentError`` if that cannot be determined: an error of the document, whose
    scores count."""
    follow_up: Callable[[Record], Dialogue[object]] | None = None
    """Record with the first responses → its dialogue: a generator that yields lists of
    ``Ask`` and is sent lists of ``Response``. Its requests depend on the record and the
    responses alone. Raises ``DocumentError`` if the document cannot be continued."""
    longest: Callable[[Record], Dialogue[object]] | None = None
    """As ``follow_up``, but for answers that lead to as many requests as possible, so
    that a plan can count them; ``None`` if requests are not bounded."""
    models: Mapping[str, ModelSource] = field(default_factory=dict)
    """Names in ``Ask.model`` → auxiliary models, such as judges."""
    model_uses: Mapping[str, ModelUse] = field(default_factory=dict)
    """The same names → what asks them, if it is known."""
    asks_model: bool = True  # whether the tested model gets any requests
    shows_images: bool = False
    """Whether its requests have images, if the task's file determines it."""
    sends_tools: bool = False  # whether its requests have tools
    gates: tuple[Gate, ...] = ()  # gates on these metrics
    output_type: str = ""  # kind of its requests, as in lm-eval
    alias: str = ""  # name shown in tables
    overall: str = ""
    """Name of an average over all tasks with the same name, which results files list
    next to the tasks; empty for none."""
    tags: tuple[str, ...] = ()  # markers of its documents
    version: str | int | float | None = None  # as in the file
    n_shots: int = 0  # few-shot examples in each prompt
    repeats: int = 1  # number of responses to each request
    refusals: str = REFUSALS[0]
    """Whether a refusal of the model is the document's ``error`` or its ``answer``."""
    reasoning_tags: tuple[tuple[str, str], ...] | None = None
    """Tags of reasoning; answers are scored without the text up to the last end tag.
    Empty if they are scored with it on purpose, ``None`` if nobody has set it."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The resolved configuration, as JSON values, for results files."""
    variant: str = ""  # which of an eval's prompts it has; empty if the eval has one
    remedies: Mapping[str, str] = field(default_factory=dict)
    """Cause of wrong answers → how the task file removes it
    (:mod:`pytest_evals.scorers.near_misses`)."""
    row_lines: Callable[[], RowLines] | None = None
    """Returns the text file of its rows and the first line of each, from 1; no lines if
    they are unknown."""
    warnings: Callable[[], tuple[str, ...]] = tuple
    """Warnings known so far: more are added after its rows were read, and after its
    documents were prompted."""

    @property
    def node_name(self) -> str:
        """Its name in node ids, which all variants share."""
        return (
            self.name.removesuffix(f"[{self.variant}]") if self.variant else self.name
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One metric of a group: the average of a metric over its tasks."""

    metric: str
    filters: tuple[str, ...] | None = None
    """Filter pipelines that are averaged, each separately; ``None`` for all filters of
    the tasks."""
    weighted: bool = True
    """Whether tasks are weighted by their numbers of documents; if not, all tasks have
    the same weight."""
    higher_is_better: bool | None = None
    """Direction if the tasks have none or different ones."""

    def takes(self, filter_: str) -> bool:
        """Whether the metric is averaged under this filter pipeline."""
        return self.filters is None or filter_ in self.filters


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group and its members."""

    name: str  # unique within the session, among tasks too
    source: Place  # file and line that define it
    children: tuple[Task | Group, ...] = ()  # its tasks and groups, with unique names
    aggregates: tuple[Aggregate, ...] = ()
    """Its metrics; without any, it is only a heading."""
    gates: tuple[Gate, ...] = ()  # gates on these metrics
    alias: str = ""  # name shown in tables
    version: str = "N/A"  # as in the file, as a string
    warnings: tuple[str, ...] = ()  # warnings about its file

    def tasks(self) -> Iterator[Task]:
        """All tasks of the group, in order; a task that belongs to several subgroups is
        repeated."""
        for child in self.children:
            if isinstance(child, Group):
                yield from child.tasks()
            else:
                yield child

    def groups(self) -> Iterator[Group]:
        """The group itself and all its subgroups, each before its members."""
        yield self
        for child in self.children:
            if isinstance(child, Group):
                yield from child.groups()
