"""Documents of a task: lighteval's order, few-shot examples, and requests.

The order and the random choice of few-shot examples equal lighteval 0.13.0,
``tasks/lighteval_task.py``: one generator shuffles the documents and then draws the
examples of each. Unlike in other dialects, the prompt function runs on every row when
the task is collected, because it may skip rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from random import Random
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.core.request import (
    GRAMMAR,
    IMAGES,
    Loglikelihood,
    Request,
    Rolling,
    with_images,
)
from pytest_evals.core.task import Asked, TaskOptions
from pytest_evals.data.calls import FieldError
from pytest_evals.data.images import RowImage
from pytest_evals.data.rows import Table, document_ids, selection
from pytest_evals.errors import DocumentError, EvalsError, Problem, TaskFileError
from pytest_evals.guests.lighteval.config import grammar_text
from pytest_evals.guests.lighteval.data import BuiltDocument, Data, pool_split
from pytest_evals.guests.lighteval.prompt import (
    Pool,
    ShotSampler,
    prompt_of,
    sampler_of,
)
from pytest_evals.guests.lighteval.scoring import TURNS
from pytest_evals.guests.lighteval.task_metrics import TaskMetrics
from pytest_evals.prompts.document_warnings import (
    ALLOWED,
    IdenticalPrompts,
    are_allowed,
)
from pytest_evals.prompts.generation import Sampling, read_sampling
from pytest_evals.prompts.images import without_images
from pytest_evals.scorers.custom_metrics.metric import SamplingMethod

_ORDER = 42
"""lighteval's seed for the order of documents."""
_ALLOW = f"--evals-metadata={ALLOWED}=true"
_SIZE = 256
"""Maximum number of new tokens if neither the task nor the document sets it."""


class TaskDocuments:
    """The documents of a task (:class:`~pytest_evals.core.task.Rows` and
    ``Task.ask``)."""

    def __init__(
        self, data: Data, metrics: TaskMetrics, n_shots: int, options: TaskOptions
    ) -> None:
        # The dataset is read on first use.
        self._data, self._metrics = data, metrics
        self._n_shots, self._options = n_shots, options
        self._notes: dict[str, None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the documents that were built so far."""
        return tuple(self._notes)

    def ids(self) -> Sequence[str]:
        """Unique ids of the documents to run, in order.

        Raises:
            TaskFileError: The dataset or a split does not exist, the first document
                cannot be built, or too few few-shot examples are available.
        """
        everything = self._dataset.ids
        return [everything[i] for i in self.indices()]

    def indices(self) -> Sequence[int]:
        """Positions of these documents in the order of the task."""
        options = self._options
        return selection(self.total(), options.limit, options.sample, options.seed)

    def total(self) -> int:
        """Number of documents before limit or sample."""
        return len(self._dataset.built)

    def sizes(self) -> Sequence[int]:
        """Approximate length of each of these documents, in characters."""
        built = self._dataset.built
        return [_size(built[i].doc) for i in self.indices()]

    def ask(self, index: int) -> Asked:
        """The document at a position, with its requests."""
        asked = self._ask(index)
        if not are_allowed(self._options.metadata) and self._identical.n:
            fix = f"correct the prompt function; if this is intended, pass {_ALLOW}"
            raise FieldError(self._identical.text, self._data.place, fix)
        return asked

    @cached_property
    def _identical(self) -> IdenticalPrompts:
        return IdenticalPrompts(self._sent, self.total)

    def _sent(self, index: int) -> Any:
        """The prompt and follow-up turns of a document, without few-shot examples."""
        doc = self._dataset.built[index].doc
        if isinstance(doc, FieldError):
            raise doc
        alone = replace(doc, fewshot_samples=[], **_limits(self._data.config, doc))
        return self._requests(alone), (doc.specific or {}).get(TURNS)

    def _ask(self, index: int) -> Asked:
        loaded = self._dataset
        built, config = loaded.built[index], self._data.config
        if isinstance(built.doc, FieldError):
            raise built.doc
        try:
            shots = loaded.shots_of(index)
            doc = replace(
                built.doc,
                id=loaded.ids[index],
                task_name=f"{config.name}|{self._n_shots}",
                specific=None if built.doc.specific is None else {**built.doc.specific},
                fewshot_samples=shots or built.doc.fewshot_samples,
                sampling_methods=list(self._metrics.methods),
                num_samples=self._metrics.n_samples,
                row=without_images(built.row),
                **_limits(config, built.doc),
            )
            doc.target = _target(doc)
            return Asked(doc, self._requests(doc))
        except IndexError:
            message = (
                "gold_index is out of range of the choices of the document, or of "
                "a few-shot example; the first choice has the index 0"
            )
            raise FieldError(message, self._data.place) from None

    def _requests(self, doc: Doc) -> tuple[Request, ...]:
        metrics, options = self._metrics, self._options
        prompt = prompt_of(
            doc,
            options.system_instruction or None,
            as_chat=options.chat,
            multiturn=options.fewshot_as_multiturn,
        )
        requests: list[Request] = []
        images = _images(doc)
        if SamplingMethod.GENERATIVE in metrics.methods:
            sampling = self._sampling(doc)
            merged = tuple(sorted((*sampling.options, *images, *_grammar(doc))))
            sampling = replace(sampling, options=merged)
            requests += sampling.requests(prompt, metrics.n_samples)
        if SamplingMethod.LOGPROBS in metrics.methods:
            choices = _choices(doc)
            pairs = [Loglikelihood(prompt, choice) for choice in choices]
            requests += [with_images(pair, images) for pair in pairs]
            if metrics.needs_unconditioned:
                if (query := doc.unconditioned_query) is None:
                    raise DocumentError(
                        "PMI normalization scores the choices without the question; "
                        'set unconditioned_query of the Doc, such as "Answer:"'
                    )
                requests += [Loglikelihood(query, choice) for choice in choices]
        if SamplingMethod.PERPLEXITY in metrics.methods:
            requests.append(Rolling(doc.query))
        return tuple(requests)

    def _sampling(self, doc: Doc) -> Sampling:
        size, stops = doc.generation_size or _SIZE, list(doc.stop_sequences or ())
        arguments = {"until": stops, "max_gen_toks": size}
        try:
            sampling, warnings = read_sampling(arguments, self._options.gen_kwargs, "")
        except EvalsError as error:
            raise DocumentError(str(error)) from None
        self._notes.update(dict.fromkeys(warnings))
        if self._metrics.n_samples > 1 and sampling.temperature == 0:
            self._notes.setdefault(
                f"all {self._metrics.n_samples} answers to a prompt are identical: "
                "decoding is greedy; set --evals-gen-kwargs temperature=0.8 to sample"
            )
        return sampling

    @cached_property
    def _dataset(self) -> _LoadedDataset:
        loaded = _LoadedDataset(self._data, self._n_shots, self._options, self._notes)
        first = loaded.built[0]
        self.__dict__["_dataset"] = loaded
        try:
            self._ask(0)
        except DocumentError as error:
            del self.__dict__["_dataset"]
            place = self._data.place
            problem = getattr(error, "problem", None) or Problem(str(error), place)
            row = f"row {first.number} of split {first.split!r}"
            message = f"{problem.message} ({row})"
            raise TaskFileError(
                [Problem(message, problem.where, problem.fix)]
            ) from error
        return loaded


class _LoadedDataset:
    """Documents and few-shot examples of a task whose dataset has been read."""

    def __init__(
        self, data: Data, n_shots: int, options: TaskOptions, notes: dict[str, None]
    ) -> None:
        self._data, self._notes = data, notes
        config, splits = data.config, data.splits()
        names = config.evaluation_splits
        built = [one for name in names for one in data.build(splits, name, False)]
        if config.must_remove_duplicate_docs:
            built = _distinct(built)
        if not built:
            message = "the splits are empty, or the prompt function skips all rows"
            raise TaskFileError([Problem(f"no documents: {message}", data.place)])
        ids = self._ids(built)
        random = Random(_ORDER)
        order = list(range(len(built)))
        random.shuffle(order)
        self.built = [built[i] for i in order]
        self.ids = [ids[i] for i in order]
        self._sampler: ShotSampler | None = None
        if n_shots:
            self._sampler = self._sampler_of(splits, n_shots, options, random)

    def shots_of(self, index: int) -> list[Doc]:
        if self._sampler is None:
            return []
        return [self._pool.docs[at] for at in self._sampler.shots(index)]

    def _ids(self, built: Sequence[BuiltDocument]) -> list[str]:
        found = document_ids(Table([one.row for one in built]))
        self._notes.update(dict.fromkeys(found.warnings))
        if found.ids != [str(i) for i in range(len(built))]:
            return found.ids
        several = len(self._data.config.evaluation_splits) > 1
        return [f"{b.split}-{b.number}" if several else str(b.number) for b in built]

    def _sampler_of(
        self, splits: Mapping[str, Any], n: int, options: TaskOptions, random: Random
    ) -> ShotSampler:
        self._pool = self._pool_of(splits)
        method, seed = self._data.config.few_shots_select, options.typed_seed or 0
        try:
            sampler = sampler_of(method, self._pool, n, seed, random)
        except EvalsError as error:
            fix = "lower num_fewshots or set few_shots_split to a larger split"
            raise TaskFileError([Problem(str(error), self._data.place, fix)]) from None
        if len(self._pool.docs) - bool(self._pool.positions) < n:
            self._notes[
                f"fewer than {n} few-shot examples are available; all of them are used"
            ] = None
        return sampler

    def _pool_of(self, splits: Mapping[str, Any]) -> Pool:
        config, data = self._data.config, self._data
        split = pool_split(config, [str(name) for name in splits])
        if split is None:
            self._notes["few-shot examples come from the evaluated documents"] = None
        names = [split] if split is not None else list(config.evaluation_splits)
        built = [one for name in names for one in data.build(splits, name, True)]
        docs: list[Doc] = []
        for one in built:
            if isinstance(one.doc, FieldError):
                row = f"row {one.number} of split {one.split!r}"
                message = f"{one.doc.problem.message} ({row})"
                raise TaskFileError([Problem(message, data.place)])
            docs.append(one.doc)
        at = {(one.split, one.number): i for i, one in enumerate(built)}
        keys = ((one.split, one.number) for one in self.built)
        positions = {i: at[key] for i, key in enumerate(keys) if key in at}
        return Pool(docs, positions)


def _grammar(doc: Doc) -> tuple[tuple[str, Any], ...]:
    if doc.generation_grammar is None:
        return ()
    try:
        return ((GRAMMAR, grammar_text(doc.generation_grammar)),)
    except EvalsError as error:
        raise DocumentError(str(error)) from None


def _images(doc: Doc) -> tuple[tuple[str, Any], ...]:
    return ((IMAGES, tuple(map(RowImage, doc.images))),) if doc.images else ()


def _limits(config: Any, doc: Doc) -> dict[str, Any]:
    """Length limit, stop sequences and grammar of an answer; the task's come first."""
    size = config.generation_size
    return {
        "generation_size": doc.generation_size if size in (None, -1) else size,
        "stop_sequences": list(config.stop_sequence or doc.stop_sequences or ()),
        "generation_grammar": config.generation_grammar or doc.generation_grammar,
    }


def _target(doc: Doc) -> Any:
    if not doc.choices:
        return None
    golds = doc.get_golds()
    return golds[0] if len(golds) == 1 else golds


def _choices(doc: Doc) -> list[str]:
    if not doc.choices:
        raise DocumentError("the document has no choices to score by log-probability")
    for choice in doc.choices:
        if not isinstance(choice, str):
            raise DocumentError(f"choices must be strings, not {choice!r:.80}")
    return doc.choices


def _size(doc: Doc | FieldError) -> int:
    if isinstance(doc, FieldError):
        return 0
    return len(doc.query) + sum(len(str(choice)) for choice in doc.choices)


def _distinct(documents: Sequence[BuiltDocument]) -> list[BuiltDocument]:
    # lighteval compares ids, too, and so never removes a duplicate.
    first: dict[str, BuiltDocument] = {}
    for one in documents:
        key = repr(one.doc) if isinstance(one.doc, Doc) else f"{one.split}{one.number}"
        first.setdefault(key, one)
    return list(first.values())
