"""Rows → documents → requests: the documents of one task.

Nothing is read or rendered before it is asked for. What :meth:`Documents.ask` gives for
a position depends on the task file, the dataset and the options, never on what was
asked before.

Warnings about a task that nevertheless gives a number are here too. Most are for cases
where lm-eval 0.4.13 gives an unexpected number; we give the same number and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.core.request import LEADING_IMAGES, Generate, Request
from pytest_evals.core.task import Asked
from pytest_evals.data.calls import ColumnError, FieldError
from pytest_evals.data.rows import EncodingError, document_ids, selection
from pytest_evals.data.sources import not_utf8
from pytest_evals.dialects.lm_eval.prompts.question import (
    BUILDERS,
    Built,
    Frame,
    Question,
    Readers,
    Shape,
)
from pytest_evals.dialects.lm_eval.prompts.recipe import Fields, Recipe
from pytest_evals.dialects.lm_eval.prompts.shots import ShotTurns
from pytest_evals.dialects.lm_eval.prompts.tables import Tables, load_tables
from pytest_evals.errors import Problem, TaskFileError, did_you_mean
from pytest_evals.prompts.chat import Turn, joined
from pytest_evals.prompts.document_warnings import Notes
from pytest_evals.prompts.fields import Field, Row, number_or_text
from pytest_evals.prompts.identical_prompts import IdenticalPrompts, noted
from pytest_evals.prompts.images import image_reader, without_images


class Documents:
    """The documents of a task: its rows, and the function that asks them
    (:class:`~pytest_evals.core.task.Rows` and ``Task.ask``)."""

    def __init__(self, recipe: Recipe) -> None:
        """Nothing is read yet."""
        self._recipe = recipe
        self._notes = Notes()

    def ids(self) -> Sequence[str]:
        """Unique ids of the documents to run, in order.

        Raises:
            TaskFileError: The dataset, the split or a column does not exist, or the
                first document cannot be built.
        """
        everything = self._loaded.ids
        return [everything[i] for i in self.indices()]

    def indices(self) -> Sequence[int]:
        """Positions of these documents in the whole dataset."""
        options = self._recipe.options
        return selection(self.total(), options.limit, options.sample, options.seed)

    def total(self) -> int:
        """Number of documents before limit or sample."""
        return len(self._loaded.tables.asked)

    def sizes(self) -> Sequence[int]:
        """Bytes of text in the rows of these documents."""
        everything = self._loaded.tables.asked.sizes()
        return [everything[i] for i in self.indices()]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the documents that were looked at so far."""
        return self._notes.texts()

    def ask(self, index: int) -> Asked:
        """The document at a position of the whole dataset, and its requests.

        Raises:
            DocumentError: It cannot be built, or no model can take what belongs to it.
            TaskFileError: As for :meth:`ids`.
        """
        if (field := self._recipe.sound) is not None:
            what = f"{field.key}: models are asked with texts and images only"
            raise FieldError(what, field.place)
        return self._loaded.ask(index)

    @cached_property
    def _loaded(self) -> _Loaded:
        try:
            loaded = _Loaded(self._recipe, load_tables(self._recipe), self._notes)
            loaded.ask(0)
        except EncodingError as error:
            raise not_utf8(self._recipe.source) from error
        except FieldError as error:
            raise TaskFileError([error.problem]) from error
        for text in known_at_start(self._recipe, loaded.tables, loaded.own_shots):
            self._notes.add(text)
        identical = IdenticalPrompts(loaded.sent, lambda: len(loaded.tables.asked))
        silent = self._recipe.may_be_identical or self._recipe.sound is not None
        if not silent and identical.n:
            self._notes.add(noted(identical.text))
        return loaded


class _Loaded:
    """The documents after their rows were read."""

    def __init__(self, recipe: Recipe, tables: Tables, notes: Notes) -> None:
        self.tables, self._recipe, self._notes = tables, recipe, notes
        self.ids, remarks = document_ids(tables.asked)
        for text in remarks:
            notes.add(text)
        digits = recipe.fields.choices is not None
        columns = frozenset(tables.asked.columns)
        shown = recipe.shots.fields
        try:
            self._readers = Readers(
                recipe.fields, columns, recipe.description, digits=digits
            )
            with _named(0, self.ids):
                first = self._question(0)
            shots = Readers(shown, columns, digits=digits, for_shots=True)
            self._images = _images_of(recipe, columns)
        except FieldError as error:
            raise TaskFileError([error.problem]) from error
        self._shape = _shape_of(first, recipe)
        self._shots: ShotTurns | None = None
        if recipe.shots.n:
            inputs = self._shape.multiple_inputs
            self._shots = ShotTurns(recipe, tables, shots, inputs, notes)
        self.own_shots = self._shots is not None and self._shots.own

    def ask(self, index: int) -> Asked:
        """The document at a position, and its requests."""
        recipe, row = self._recipe, self.tables.asked[index]
        question = self._question(index)
        built = self._built(index, question, self._shots_of(index))
        doc = Doc(
            built.query,
            built.choices,
            built.gold,
            unconditioned_query=recipe.unconditioned_query,
            id=self.ids[index],
            task_name=recipe.name,
            row=row if self._images is None else without_images(row),
            target=question.target,
        )
        odd = odd_target(recipe, question, self._shape, built.gold)
        for text in (*question.notes, *odd):
            self._notes.add(text, doc.id)
        return Asked(doc, built.requests)

    def sent(self, index: int) -> tuple[Request, ...]:
        """The requests of the document at a position, without its shots, which may
        differ where the document does not."""
        return self._built(index, self._question(index), ()).requests

    def _built(self, index: int, question: Question, shots: Sequence[Turn]) -> Built:
        recipe = self._recipe
        turns = self._turns(question, shots)
        frame = Frame(recipe=recipe, shape=self._shape, turns=turns)
        with _named(index, self.ids):
            built = BUILDERS[recipe.output_type](question, frame)
            requests = self._with_images(built.requests, self.tables.asked[index])
        return built._replace(requests=requests)

    def _with_images(
        self, requests: tuple[Request, ...], row: Row
    ) -> tuple[Request, ...]:
        if self._images is None:
            return requests
        shown = (LEADING_IMAGES, self._images(row))
        return tuple(
            replace(request, options=tuple(sorted((*request.options, shown))))
            for request in requests
            if isinstance(request, Generate)
        )

    def _question(self, index: int) -> Question:
        row = self.tables.asked[index]
        # A function of the user's may change its row; the next reader sees it whole.
        return self._readers.question(
            deepcopy(row) if _has_functions(self._recipe.fields) else row
        )

    def _shots_of(self, index: int) -> Sequence[Turn]:
        if self._shots is None or self._recipe.output_type == "loglikelihood_rolling":
            return ()
        return self._shots.of(index)

    def _turns(self, question: Question, shots: Sequence[Turn]) -> Sequence[Turn]:
        if self._recipe.output_type == "loglikelihood_rolling":
            return ()
        system = joined(
            self._recipe.options.system_instruction,
            question.description,
            self._recipe.fields.fewshot_delimiter,
        )
        return [Turn("system", system), *shots] if system else shots


@contextmanager
def _named(index: int, ids: Sequence[str]) -> Iterator[None]:
    """Faults of the first document say which one it is, since they are reported for the
    whole task; those of all others are reported beside their id.

    Raises:
        FieldError: As inside.
    """
    try:
        yield
    except ColumnError:
        raise
    except FieldError as error:
        if index:
            raise
        what = f"{error.problem.what} (document {ids[0]})"
        raise FieldError(what, error.problem.where, error.problem.fix) from error


def _images_of(
    recipe: Recipe, columns: Collection[str]
) -> Callable[[Row], tuple[str, ...]] | None:
    field = recipe.images
    return None if field is None else image_reader(field, columns, recipe.source.base)


def _has_functions(fields: Fields) -> bool:
    specs: list[Any] = [fields.text.spec, fields.target.spec]
    specs += [f.spec for f in (fields.choices, fields.prefix) if f is not None]
    return any(callable(spec) for spec in specs)


def _shape_of(question: Question, recipe: Recipe) -> Shape:
    """What the first document shows of all.

    Raises:
        TaskFileError: The output type cannot ask this.
    """
    inputs = isinstance(question.text, int) and recipe.fields.choices is not None
    if inputs and recipe.output_type != "multiple_choice":
        field = recipe.fields.text
        what = f"{field.key} gave a position, which only multiple_choice can ask"
        raise TaskFileError([Problem(what, field.place)])
    if inputs and isinstance(question.choices, str):
        place = recipe.fields.choices.place if recipe.fields.choices else recipe.place
        what = "doc_to_choice gave one text, and doc_to_text a position among questions"
        raise TaskFileError([Problem(what, place)])
    return Shape(inputs, isinstance(question.target, list))


def known_at_start(recipe: Recipe, tables: Tables, own_shots: bool) -> Iterator[str]:
    """What can be said before any document but the first is read.

    Args:
        recipe: The task.
        tables: Its rows.
        own_shots: Whether a document may be one of its own shots in lm-eval.
    """
    if tables.shuffled:
        yield (
            "process_docs draws from the global random generator; here "
            "it is seeded, while lm-eval's number depends on caches of the machine"
        )
    if own_shots and recipe.options.exclude_own_shots:
        yield (
            "documents are kept out of their own shots (--evals-exclude-own-shots), "
            f"which come from the same {tables.pool_name}; lm-eval's prompts are others"
        )
    elif own_shots:
        yield (
            f"shots are taken from the documents that are asked "
            f"({tables.pool_name}), so a document can be one of its own shots, as in "
            "lm-eval; name another fewshot_split, or --evals-exclude-own-shots"
        )
    if recipe.images is not None and recipe.shots.n:
        yield "shots are shown without their images, as in lm-eval"
    for field in (recipe.fields.text, recipe.fields.target):
        yield from _misspelt(recipe, field, tables.asked.columns)


def odd_target(
    recipe: Recipe, question: Question, shape: Shape, gold: int | list[int]
) -> Iterator[str]:
    """What is odd about the target of one document."""
    key = recipe.fields.target.key
    if isinstance(question.choices, str):
        yield (
            "doc_to_choice gives one text, and each of its characters is a choice, as "
            "in lm-eval"
        )
    if isinstance(question.target, list) != shape.multiple_targets:
        one, many = "a single target", "a list of targets"
        first, later = (many, one) if shape.multiple_targets else (one, many)
        yield (
            f"{key} gives {first} for the first document and {later} for others, "
            "which are scored as if they were like the first, as in lm-eval"
        )
    if not recipe.own_scoring:
        yield from _oddly_scored(recipe, question.target, shape, gold)
    for given in (question.text, question.target):
        if recipe.fields.choices is not None and _odd_digits(given):
            yield f"{given!r} has digits but is no number, and is kept as text"


def _oddly_scored(
    recipe: Recipe, target: Any, shape: Shape, gold: int | list[int]
) -> Iterator[str]:
    if recipe.output_type == "multiple_choice":
        golds = gold if isinstance(gold, list) else [gold]
        if not golds or min(golds) < 0:
            yield "the target is not among the choices, which counts as wrong"
        return
    listed = target if isinstance(target, list) else [target]
    if recipe.output_type == "generate_until" and None in listed:
        key = recipe.fields.target.key
        yield f"{key} is null and the reference reads 'None', as in lm-eval"
    if shape.multiple_targets:
        yield from _odd_targets(recipe, target)


def _odd_targets(recipe: Recipe, targets: Any) -> Iterator[str]:
    graded = [metric for metric in recipe.metrics if metric != "exact_match"]
    if graded:
        yield (
            f"with several targets {', '.join(graded)} is 1 if any of them "
            "gives more than 0, else 0, as in lm-eval"
        )
    texts = any(isinstance(target, str) for target in targets)
    if "exact_match" in recipe.metrics and not texts:
        yield (
            f"{recipe.fields.target.key} gives several targets and none of them is a "
            "text; exact_match finds no number equal to a text, as in lm-eval"
        )


def _misspelt(recipe: Recipe, field: Field, columns: tuple[str, ...]) -> Iterator[str]:
    spec = field.spec
    if isinstance(spec, str) and spec.isidentifier() and spec not in columns:
        hint = did_you_mean(spec, columns)
        yield (f"{field.key}: {spec!r} is no column and is used as it stands{hint}")


def _odd_digits(given: Any) -> bool:
    return isinstance(given, str) and given.isdigit() and number_or_text(given) == given
