"""Documents of a task file: rows → documents → requests.

Rows are read and rendered on demand. The result of :meth:`Documents.ask` for a position
depends on the task file, the dataset and the options, never on earlier calls.

Also contains warnings about tasks that run with unexpected results. In most cases
lm-eval 0.4.13 computes an unexpected value; we compute the same value and show a
warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.core.request import LEADING_IMAGES, Request, with_images
from pytest_evals.core.task import Asked
from pytest_evals.data.calls import ColumnError, FieldError
from pytest_evals.data.images import RowImage
from pytest_evals.data.rows import EncodingError, Ids, SelectedRows, document_ids
from pytest_evals.data.sources import not_utf8
from pytest_evals.dialects.lm_eval.prompts.question import (
    BUILDERS,
    BuiltRequests,
    PromptContext,
    Question,
    Readers,
    Shape,
)
from pytest_evals.dialects.lm_eval.prompts.recipe import Fields, Recipe
from pytest_evals.dialects.lm_eval.prompts.shots import ShotTurns
from pytest_evals.dialects.lm_eval.prompts.tables import Tables, load_tables
from pytest_evals.errors import Problem, TaskFileError, suggestion
from pytest_evals.prompts.chat import Turn, join_text
from pytest_evals.prompts.document_warnings import (
    DocumentWarnings,
    IdenticalPrompts,
    warning_text,
)
from pytest_evals.prompts.fields import Field, Row, number_or_text
from pytest_evals.prompts.images import image_reader, without_images


class Documents(SelectedRows):
    """Rows and requests of a task (``Task.ask``); the dataset is read on first use."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe.options)
        self._recipe = recipe
        self._notes = DocumentWarnings()

    @property
    def positions(self) -> Sequence[int]:
        """Positions of all documents. Raises TaskFileError if the dataset, the split or
        a column does not exist, or the first document cannot be built."""
        return range(len(self._loaded.tables.asked))

    def _load_ids(self) -> Ids:
        return self._loaded.ids

    def _sizes_of(self, indices: Sequence[int]) -> Sequence[int]:
        sizes = self._loaded.tables.asked.sizes()
        return [sizes[n] for n in indices]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the documents that were built so far."""
        return self._notes.texts()

    def ask(self, index: int) -> Asked:
        """The document at a position of the full dataset, with its requests."""
        if (field := self._recipe.sound) is not None:
            message = f"{field.key}: audio is not supported"
            raise FieldError(message, field.place)
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
        for text in task_warnings(self._recipe, loaded.tables, loaded.own_shots):
            self._notes.add(text)
        identical = IdenticalPrompts(loaded.sent, lambda: len(loaded.tables.asked))
        is_expected = self._recipe.may_be_identical or self._recipe.sound is not None
        if not is_expected and identical.n:
            self._notes.add(warning_text(identical.text))
        return loaded


class _Loaded:
    """Documents of a task whose dataset has been read."""

    def __init__(self, recipe: Recipe, tables: Tables, notes: DocumentWarnings) -> None:
        self.tables, self._recipe, self._notes = tables, recipe, notes
        self.ids = document_ids(tables.asked)
        for text in self.ids.warnings:
            notes.add(text)
        self._has_functions = _has_functions(recipe.fields)
        digits = recipe.fields.choices is not None
        columns = frozenset(tables.asked.columns)
        shot_fields = recipe.shots.fields
        try:
            self._readers = Readers(
                recipe.fields, columns, recipe.description, digits=digits
            )
            with _with_document_id(0, self.ids.ids):
                first = self._question(tables.asked[0])
            shots = Readers(shot_fields, columns, digits=digits, for_shots=True)
            self._images: Callable[[Row], tuple[RowImage, ...]] | None = None
            if recipe.images is not None:
                base = recipe.source.base
                self._images = image_reader(recipe.images, columns, base)
        except FieldError as error:
            raise TaskFileError([error.problem]) from error
        self._shape = _shape_of(first, recipe)
        self._shots: ShotTurns | None = None
        if recipe.shots.n:
            inputs = self._shape.multiple_inputs
            self._shots = ShotTurns(recipe, tables, shots, inputs, notes)
        self.own_shots = self._shots is not None and self._shots.shared

    def ask(self, index: int) -> Asked:
        recipe, row = self._recipe, self.tables.asked[index]
        question = self._question(row)
        generates = recipe.generates_choices and recipe.output_type == "multiple_choice"
        is_rolling = recipe.output_type == "loglikelihood_rolling"
        shots: Sequence[Turn] = ()
        if self._shots is not None and not generates and not is_rolling:
            shots = self._shots.of(index)
        built = self._build(index, row, question, shots)
        doc = Doc(
            built.query,
            built.choices,
            built.gold,
            unconditioned_query=recipe.unconditioned_query,
            id=self.ids.ids[index],
            task_name=recipe.name,
            row=row if self._images is None else without_images(row, built.requests),
            target=question.target,
        )
        if generates:
            self._add_context(doc, question, index)
        warnings = target_warnings(recipe, question, self._shape, built.gold)
        for text in (*question.notes, *warnings):
            self._notes.add(text, doc.id)
        return Asked(doc, built.requests)

    def _add_context(self, doc: Doc, question: Question, index: int) -> None:
        """Add what the prompt of a generated answer contains besides the document."""
        if self._shape.multiple_inputs:
            end = self._recipe.fields.target_delimiter + doc.query
            doc.choices, doc.query = [one + end for one in doc.choices], ""
        doc.instruction = question.description or None
        if self._shots is not None:
            doc.fewshot_samples = list(self._shots.documents(index))

    def sent(self, index: int) -> tuple[Request, ...]:
        """The requests of a document without few-shot examples, which may differ even
        if the documents are identical."""
        row = self.tables.asked[index]
        return self._build(index, row, self._question(row), ()).requests

    def _build(
        self, index: int, row: Row, question: Question, shots: Sequence[Turn]
    ) -> BuiltRequests:
        recipe = self._recipe
        turns = self._turns(question, shots)
        frame = PromptContext(recipe=recipe, shape=self._shape, turns=turns)
        with _with_document_id(index, self.ids.ids):
            built = BUILDERS[recipe.output_type](question, frame)
            if self._images is None:
                return built
            images = ((LEADING_IMAGES, self._images(row)),)
            requests = tuple(with_images(one, images) for one in built.requests)
        return built._replace(requests=requests)

    def _question(self, row: Row) -> Question:
        # User functions get a copy, because they may modify the row.
        return self._readers.question(deepcopy(row) if self._has_functions else row)

    def _turns(self, question: Question, shots: Sequence[Turn]) -> Sequence[Turn]:
        if self._recipe.output_type == "loglikelihood_rolling":
            return ()
        instruction = self._recipe.options.system_instruction
        if not (instruction or question.description):
            return shots
        system = join_text(
            instruction, question.description, self._recipe.fields.fewshot_delimiter
        )
        return [Turn("system", system), *shots]


@contextmanager
def _with_document_id(index: int, ids: Sequence[str]) -> Iterator[None]:
    """Add the document's id to errors of the first document, which are reported for the
    whole task; other errors are reported next to their id."""
    try:
        yield
    except ColumnError:
        raise
    except FieldError as error:
        if index:
            raise
        message = f"{error.problem.message} (document {ids[0]})"
        raise FieldError(message, error.problem.where, error.problem.fix) from error


def _has_functions(fields: Fields) -> bool:
    specs: list[Any] = [fields.text.spec, fields.target.spec]
    specs += [f.spec for f in (fields.choices, fields.prefix) if f is not None]
    return any(callable(spec) for spec in specs)


def _shape_of(question: Question, recipe: Recipe) -> Shape:
    """Properties of the first document that determine how all documents are handled."""
    inputs = isinstance(question.text, int) and recipe.fields.choices is not None
    if inputs and recipe.output_type != "multiple_choice":
        field = recipe.fields.text
        message = f"{field.key} returned an index; only output_type multiple_choice "
        message += "supports this"
        raise TaskFileError([Problem(message, field.place)])
    if inputs and isinstance(question.choices, str):
        place = recipe.fields.choices.place if recipe.fields.choices else recipe.place
        message = (
            "doc_to_choice returned a string, but doc_to_text an index of a question"
        )
        raise TaskFileError([Problem(message, place)])
    return Shape(inputs, isinstance(question.target, list))


def task_warnings(recipe: Recipe, tables: Tables, own_shots: bool) -> Iterator[str]:
    """Warnings that require only the first document. ``own_shots``: whether a
    document may be its own few-shot example in lm-eval."""
    if tables.shuffled:
        yield (
            "process_docs uses the global random generator; it is seeded here, while "
            "lm-eval's result depends on caches of the machine"
        )
    if own_shots and recipe.options.exclude_own_shots:
        yield (
            "documents are excluded from their own few-shot examples "
            "(--evals-exclude-own-shots), which come from the same "
            f"{tables.pool_name}; lm-eval's prompts differ"
        )
    elif own_shots:
        yield (
            "few-shot examples come from the evaluated documents "
            f"({tables.pool_name}), so a document can be its own example, as in "
            "lm-eval; set a different fewshot_split or pass --evals-exclude-own-shots"
        )
    if recipe.images is not None and recipe.shots.n:
        yield "few-shot examples are shown without their images, as in lm-eval"
    for field in (recipe.fields.text, recipe.fields.target):
        yield from _misspelled_columns(recipe, field, tables.asked.columns)


def target_warnings(
    recipe: Recipe, question: Question, shape: Shape, gold: int | list[int]
) -> Iterator[str]:
    """Warnings about the target of one document."""
    key = recipe.fields.target.key
    if isinstance(question.choices, str):
        yield (
            "doc_to_choice returns a string, so each character is a choice, "
            "as in lm-eval"
        )
    if isinstance(question.target, list) != shape.multiple_targets:
        one, many = "a single target", "a list of targets"
        first, later = (many, one) if shape.multiple_targets else (one, many)
        yield (
            f"{key} returns {first} for the first document and {later} for others; "
            "all are scored like the first one, as in lm-eval"
        )
    if not recipe.own_scoring:
        yield from _scoring_warnings(recipe, question.target, shape, gold)
        if recipe.output_type == "multiple_choice" and _is_ambiguous(question):
            yield (
                f"{recipe.fields.target.place}: {key} is the position of one choice, "
                "from 0, and the text of another; the position counts, as in lm-eval"
            )
    for value in (question.text, question.target):
        if recipe.fields.choices is not None and _has_unparsed_digits(value):
            yield (
                f"{value!r} consists of digits but is not a number; it is used as "
                "a string"
            )


def _is_ambiguous(question: Question) -> bool:
    """Whether a target is the position of a choice and the text of another one."""
    target, choices = question.target, question.choices
    golds = target if isinstance(target, list | tuple) else [target]
    return any(
        type(gold) is int
        and 0 <= gold < len(choices)
        and str(choices[gold]) != str(gold)
        and str(gold) in map(str, choices)
        for gold in golds
    )


def _scoring_warnings(
    recipe: Recipe, target: Any, shape: Shape, gold: int | list[int]
) -> Iterator[str]:
    if recipe.output_type == "multiple_choice":
        golds = gold if isinstance(gold, list) else [gold]
        if not golds or min(golds) < 0:
            place, key = recipe.fields.target.place, recipe.fields.target.key
            yield (
                f"{place}: {key} is neither a choice nor the position of one, from 0, "
                "so the answer counts as wrong, as in lm-eval; correct the target"
            )
        return
    listed = target if isinstance(target, list) else [target]
    if recipe.output_type == "generate_until" and None in listed:
        key = recipe.fields.target.key
        place = recipe.fields.target.place
        yield f"{place}: {key} is null, so the reference is 'None', as in lm-eval"
    if shape.multiple_targets:
        yield from _multiple_target_warnings(recipe, target)


def _multiple_target_warnings(recipe: Recipe, targets: Any) -> Iterator[str]:
    graded = [metric for metric in recipe.metrics if metric != "exact_match"]
    if graded:
        yield (
            f"with several targets, {', '.join(graded)} is 1 if the value "
            "for any of them is above 0, else 0, as in lm-eval"
        )
    texts = any(isinstance(target, str) for target in targets)
    if "exact_match" in recipe.metrics and not texts:
        yield (
            f"{recipe.fields.target.key} returns several targets, but none is a "
            "string; exact_match never equals a number to a string, as in lm-eval"
        )


def _misspelled_columns(
    recipe: Recipe, field: Field, columns: tuple[str, ...]
) -> Iterator[str]:
    spec = field.spec
    if isinstance(spec, str) and spec.isidentifier() and spec not in columns:
        hint = suggestion(spec, columns).replace("known", "columns")
        yield (
            f"{field.place}: {field.key}: {spec!r} is not a column and is used as a "
            f"literal, as in lm-eval{hint}"
        )


def _has_unparsed_digits(value: Any) -> bool:
    return isinstance(value, str) and value.isdigit() and number_or_text(value) == value
