"""The documents of a task of a module: in lighteval's order, with their shots, and what
the model is asked about each.

The order and the draw of shots equal lighteval 0.13.0, ``tasks/lighteval_task.py``:
documents are shuffled by one generator, which then draws the shots of each. Unlike in
other dialects the prompt function sees every row when the task is collected, since it
may skip some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.core.request import GRAMMAR, IMAGES, Loglikelihood, Request, Rolling
from pytest_evals.core.task import Asked, TaskOptions
from pytest_evals.data.calls import FieldError
from pytest_evals.data.rows import Table, document_ids, selection
from pytest_evals.dialects.lighteval.chat_turns import TURNS
from pytest_evals.dialects.lighteval.data import Data, Made, pool_split
from pytest_evals.dialects.lighteval.grammar import grammar_text
from pytest_evals.dialects.lighteval.prompt import prompt_of
from pytest_evals.dialects.lighteval.shots import Pool, ShotSampler, sampler_of
from pytest_evals.errors import DocumentError, EvalsError, Problem, TaskFileError
from pytest_evals.prompts.generation import Sampling, read_sampling
from pytest_evals.prompts.identical_prompts import (
    ALLOWED,
    IdenticalPrompts,
    are_allowed,
)
from pytest_evals.prompts.images import data_url, without_images
from pytest_evals.scorers.lighteval.metric import SamplingMethod

_ORDER = 42
"""lighteval's seed of the order."""
_MEANT = f"--evals-metadata={ALLOWED}=true"
_SIZE = 256
"""Most new tokens where neither the task nor the document says a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """What the metrics of a task want to know of the model.

    Args:
        methods: Kinds of requests, in the order of the metrics.
        n_samples: Answers to each prompt.
        unconditioned: Whether choices are also asked without the question.
    """

    methods: tuple[SamplingMethod, ...]
    n_samples: int = 1
    unconditioned: bool = False


class TaskDocuments:
    """The documents of a task (:class:`~pytest_evals.core.task.Rows` and
    ``Task.ask``)."""

    def __init__(
        self, data: Data, wants: Wants, n_shots: int, options: TaskOptions
    ) -> None:
        """Nothing is read yet."""
        self._data, self._wants = data, wants
        self._n_shots, self._options = n_shots, options
        self._notes: dict[str, None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the documents that were looked at so far."""
        return tuple(self._notes)

    def ids(self) -> Sequence[str]:
        """Unique ids of the documents to run, in order.

        Raises:
            TaskFileError: The dataset or a split does not exist, the first document
                cannot be built, or the pool of shots is too small.
        """
        everything = self._loaded.ids
        return [everything[i] for i in self.indices()]

    def indices(self) -> Sequence[int]:
        """Positions of these documents in the order of the task."""
        options = self._options
        return selection(self.total(), options.limit, options.sample, options.seed)

    def total(self) -> int:
        """Number of documents before limit or sample."""
        return len(self._loaded.made)

    def sizes(self) -> Sequence[int]:
        """About how much text each of these documents has."""
        made = self._loaded.made
        return [_size(made[i].doc) for i in self.indices()]

    def ask(self, index: int) -> Asked:
        """The document at a position, and its requests.

        Raises:
            DocumentError: It cannot be built, or lacks what a metric needs.
            TaskFileError: As for :meth:`ids`.
        """
        asked = self._ask(index)
        if not are_allowed(self._options.metadata) and self._identical.n:
            fix = f"correct the prompt function; if it is meant: {_MEANT}"
            raise FieldError(self._identical.text, self._data.place, fix)
        return asked

    @cached_property
    def _identical(self) -> IdenticalPrompts:
        return IdenticalPrompts(self._sent, self.total)

    def _sent(self, index: int) -> Any:
        """What is sent about a document, without its shots; and what is sent later."""
        doc = self._loaded.made[index].doc
        if isinstance(doc, FieldError):
            raise doc
        alone = replace(doc, fewshot_samples=[], **_limits(self._data.config, doc))
        return self._requests(alone), (doc.specific or {}).get(TURNS)

    def _ask(self, index: int) -> Asked:
        loaded = self._loaded
        made, config = loaded.made[index], self._data.config
        if isinstance(made.doc, FieldError):
            raise made.doc
        try:
            shots = loaded.shots_of(index)
            doc = replace(
                made.doc,
                id=loaded.ids[index],
                task_name=f"{config.name}|{self._n_shots}",
                specific=None if made.doc.specific is None else {**made.doc.specific},
                fewshot_samples=shots or made.doc.fewshot_samples,
                sampling_methods=list(self._wants.methods),
                num_samples=self._wants.n_samples,
                row=without_images(made.row),
                **_limits(config, made.doc),
            )
            doc.target = _target(doc)
            return Asked(doc, self._requests(doc))
        except IndexError:
            what = "gold_index is beyond the choices of the document, or of a shot"
            raise FieldError(what, self._data.place) from None

    def _requests(self, doc: Doc) -> tuple[Request, ...]:
        wants, options = self._wants, self._options
        prompt = prompt_of(
            doc,
            options.system_instruction or None,
            as_chat=options.chat,
            multiturn=options.fewshot_as_multiturn,
        )
        requests: list[Request] = []
        if doc.images and wants.methods != (SamplingMethod.GENERATIVE,):
            raise DocumentError("only generated answers can be asked about images")
        if SamplingMethod.GENERATIVE in wants.methods:
            sampling = self._sampling(doc)
            given = tuple(sorted((*sampling.options, *_besides(doc))))
            sampling = replace(sampling, options=given)
            requests += sampling.requests(prompt, wants.n_samples)
        if SamplingMethod.LOGPROBS in wants.methods:
            choices = _choices(doc)
            requests += [Loglikelihood(prompt, choice) for choice in choices]
            if wants.unconditioned:
                alone = _alone(doc)
                requests += [Loglikelihood(alone, choice) for choice in choices]
        if SamplingMethod.PERPLEXITY in wants.methods:
            requests.append(Rolling(doc.query))
        return tuple(requests)

    def _sampling(self, doc: Doc) -> Sampling:
        given: dict[str, Any] = {"until": list(doc.stop_sequences or ())}
        given["max_gen_toks"] = doc.generation_size or _SIZE
        try:
            made, warnings = read_sampling(given, self._options.gen_kwargs, "")
        except EvalsError as error:
            raise DocumentError(str(error)) from None
        self._notes.update(dict.fromkeys(warnings))
        if self._wants.n_samples > 1 and made.temperature == 0:
            self._notes.setdefault(
                f"all {self._wants.n_samples} answers to a prompt are the same greedy "
                "one; sample them: --evals-gen-kwargs temperature=0.8"
            )
        return made

    @cached_property
    def _loaded(self) -> _Loaded:
        loaded = _Loaded(self._data, self._n_shots, self._options, self._notes)
        first = loaded.made[0]
        self.__dict__["_loaded"] = loaded
        try:
            self._ask(0)
        except DocumentError as error:
            del self.__dict__["_loaded"]
            place = self._data.place
            found = getattr(error, "problem", None) or Problem(str(error), place)
            what = f"{found.what} ({_row(first)})"
            raise TaskFileError([Problem(what, found.where, found.fix)]) from error
        return loaded


class _Loaded:
    """The documents after their rows were read."""

    def __init__(
        self, data: Data, n_shots: int, options: TaskOptions, notes: dict[str, None]
    ) -> None:
        self._data, self._notes = data, notes
        config, splits = data.config, data.splits()
        made = [
            one
            for split in config.evaluation_splits
            for one in data.made(splits, split, False)
        ]
        if config.must_remove_duplicate_docs:
            made = _distinct(made)
        if not made:
            what = "there are no documents: the splits are empty, or all rows skipped"
            raise TaskFileError([Problem(what, data.place)])
        ids = self._ids(made)
        random = Random(_ORDER)
        order = list(range(len(made)))
        random.shuffle(order)
        self.made = [made[i] for i in order]
        self.ids = [ids[i] for i in order]
        self._sampler: ShotSampler | None = None
        if n_shots:
            self._sampler = self._sampler_of(splits, n_shots, options, random)

    def shots_of(self, index: int) -> list[Doc]:
        """The shots of the document at a position."""
        if self._sampler is None:
            return []
        return [self._pool.docs[at] for at in self._sampler.shots(index)]

    def _ids(self, made: Sequence[Made]) -> list[str]:
        found = document_ids(Table([one.row for one in made]))
        self._notes.update(dict.fromkeys(found.warnings))
        if found.ids != [str(i) for i in range(len(made))]:
            return found.ids
        several = len(self._data.config.evaluation_splits) > 1
        return [f"{m.split}-{m.number}" if several else str(m.number) for m in made]

    def _sampler_of(
        self,
        splits: Mapping[str, Any],
        n: int,
        options: TaskOptions,
        random: Random,
    ) -> ShotSampler:
        self._pool = self._pool_of(splits)
        place = self._data.place
        try:
            chosen = self._data.config.few_shots_select
            seed = options.typed_seed or 0
            sampler = sampler_of(chosen, self._pool, n, seed, random)
        except EvalsError as error:
            fix = "ask for fewer shots or name a larger few_shots_split"
            raise TaskFileError([Problem(str(error), place, fix)]) from None
        if len(self._pool.docs) - bool(self._pool.own) < n:
            self._notes[f"the pool has fewer than {n} shots; all of them are used"] = (
                None
            )
        return sampler

    def _pool_of(self, splits: Mapping[str, Any]) -> Pool:
        config, data = self._data.config, self._data
        split = pool_split(config, [str(name) for name in splits])
        if split is None:
            self._notes["shots come from the documents that are run"] = None
        names = [split] if split is not None else list(config.evaluation_splits)
        made = [one for name in names for one in data.made(splits, name, True)]
        docs: list[Doc] = []
        for one in made:
            if isinstance(one.doc, FieldError):
                what = (
                    f"{one.doc.problem.what} (row {one.number} of split {one.split!r})"
                )
                raise TaskFileError([Problem(what, data.place)])
            docs.append(one.doc)
        at = {(one.split, one.number): i for i, one in enumerate(made)}
        keys = ((one.split, one.number) for one in self.made)
        own = {i: at[key] for i, key in enumerate(keys) if key in at}
        return Pool(docs, own)


def _row(made: Made) -> str:
    return f"row {made.number} of split {made.split!r}"


def _besides(doc: Doc) -> Iterator[tuple[str, Any]]:
    """Options of a request that are the document's own."""
    if doc.images:
        yield IMAGES, tuple(map(data_url, doc.images))
    if doc.generation_grammar is not None:
        try:
            yield GRAMMAR, grammar_text(doc.generation_grammar)
        except EvalsError as error:
            raise DocumentError(str(error)) from None


def _limits(config: Any, doc: Doc) -> dict[str, Any]:
    """What ends an answer: as the task says, else as its document does."""
    size = config.generation_size
    return {
        "generation_size": doc.generation_size if size in (None, -1) else size,
        "stop_sequences": list(config.stop_sequence or doc.stop_sequences or ()),
        "generation_grammar": config.generation_grammar or doc.generation_grammar,
    }


def _target(doc: Doc) -> Any:
    """What a report shows as the right answer."""
    if not doc.choices:
        return None
    golds = doc.get_golds()
    return golds[0] if len(golds) == 1 else golds


def _choices(doc: Doc) -> list[str]:
    if not doc.choices:
        raise DocumentError("it has no choices whose log-probability could be asked")
    for choice in doc.choices:
        if not isinstance(choice, str):
            raise DocumentError(f"a choice is a text, not {choice!r:.80}")
    return doc.choices


def _alone(doc: Doc) -> str:
    if doc.unconditioned_query is None:
        raise DocumentError(
            "PMI compares with the choices alone: set unconditioned_query of the Doc, "
            'such as "Answer:"'
        )
    return doc.unconditioned_query


def _size(doc: Doc | FieldError) -> int:
    if isinstance(doc, FieldError):
        return 0
    return len(doc.query) + sum(len(str(choice)) for choice in doc.choices)


def _distinct(made: Sequence[Made]) -> list[Made]:
    """One of each content; lighteval compares ids too and so removes nothing."""
    first: dict[str, Made] = {}
    for one in made:
        key = repr(one.doc) if isinstance(one.doc, Doc) else f"{one.split}{one.number}"
        first.setdefault(key, one)
    return list(first.values())
