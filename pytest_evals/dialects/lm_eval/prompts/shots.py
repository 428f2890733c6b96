"""Few-shot examples of a document as chat turns; each row is rendered once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.data.calls import FieldError, error_text
from pytest_evals.dialects.lm_eval.prompts.question import (
    Readers,
    answer_text,
    choice_at,
    gold_of,
    text_of,
)
from pytest_evals.dialects.lm_eval.prompts.recipe import Recipe
from pytest_evals.dialects.lm_eval.prompts.tables import Tables
from pytest_evals.errors import EvalsError, Problem, TaskFileError
from pytest_evals.prompts.chat import Turn, example_turns
from pytest_evals.prompts.document_warnings import DocumentWarnings
from pytest_evals.prompts.fewshot import SAMPLERS, Sampler

Rows = Sequence[Mapping[str, Any]]


class ShotTurns:
    """Chat turns of the few-shot examples of each document."""

    def __init__(
        self,
        recipe: Recipe,
        tables: Tables,
        readers: Readers,
        multiple_inputs: bool,
        notes: DocumentWarnings,
    ) -> None:
        """Create the sampler; ``shared`` is true if lm-eval would allow a document as
        its own few-shot example. Raises TaskFileError if there are too few rows."""
        shots, splits = recipe.shots, recipe.splits
        # lm-eval compares the names of the splits; two missing names are equal.
        excluded_by_lm_eval = splits.fewshot == splits.test
        shared = tables.pool is tables.asked and not excluded_by_lm_eval
        excluded = excluded_by_lm_eval or (shared and recipe.options.exclude_own_shots)
        self._shots, self._readers, self._pool = shots, readers, tables.pool
        self._multiple_inputs, self._notes = multiple_inputs, notes
        self._turns: dict[int, tuple[Turn, ...]] = {}
        self._last: tuple[Sequence[int], Sequence[Turn]] = ((), ())
        try:
            self._sampler = _sampler_of(recipe, tables, excluded)
        except EvalsError as error:
            message = f"{error} in {tables.pool_name}"
            more = "set fewshot_split to a larger split"
            if shots.samples is not None:
                more = "add rows to fewshot_config.samples"
            fix = f"lower num_fewshot or {more}"
            fix = fix if isinstance(shots.sampler, str) else ""
            raise TaskFileError([Problem(message, shots.place, fix)]) from None
        self.shared = shared

    def of(self, index: int) -> Sequence[Turn]:
        """The turns of the few-shot examples of the document at a position. Raises
        DocumentError if there are too few other rows, or if one is not valid."""
        positions = self._positions(index)
        last, turns = self._last
        if positions != last:
            for one in positions:
                if one not in self._turns:
                    self._turns[one] = self._render(one)
            turns = [turn for one in positions for turn in self._turns[one]]
            self._last = positions, turns
        return turns

    def _positions(self, index: int) -> Sequence[int]:
        try:
            return self._sampler.shots(index)
        except EvalsError as error:
            raise FieldError(f"num_fewshot: {error}", self._shots.place) from None

    def documents(self, index: int) -> Sequence[Doc]:
        """The few-shot examples of the document at a position, with their choices.
        Raises as :meth:`of`."""
        return [self._document(position) for position in self._positions(index)]

    def _document(self, position: int) -> Doc:
        fields = self._shots.fields
        question = self._readers.question(self._pool[position])
        choices = [text_of(one, fields.text) for one in question.choices]
        if not self._multiple_inputs:
            gold = gold_of(question.target, choices, fields.target)
            return Doc(text_of(question.text, fields.text), choices, gold)
        end = fields.target_delimiter + str(question.target)
        gold = gold_of(question.text, choices, fields.text)
        return Doc("", [one + end for one in choices], gold)

    def _render(self, position: int) -> tuple[Turn, ...]:
        fields = self._shots.fields
        question = self._readers.question(self._pool[position])
        for text in question.notes:
            self._notes.add(f"in a few-shot example, {text}")
        text, choices = question.text, question.choices
        if self._multiple_inputs:
            text, choices = choice_at(choices, text, fields.text), ()
        return example_turns(
            text_of(text, fields.text),
            answer_text(question.target, choices, fields.target),
            question.prefix,
            fields.target_delimiter,
            fields.fewshot_delimiter,
        )


def _sampler_of(recipe: Recipe, tables: Tables, excluded: bool) -> Sampler:
    shots, seed = recipe.shots, recipe.options.seed
    if isinstance(shots.sampler, str):
        asked = tables.asked if excluded else None
        return SAMPLERS[shots.sampler](tables.pool, shots.n, seed, asked)
    others = tables.asked if excluded else ()
    return CustomSampler(shots.sampler, tables.pool, shots.n, seed, others)


# A sampler draws rows in document order. It is called in that order, up to the
# requested document, and its rows are stored as positions.
class CustomSampler:
    """Few-shot examples drawn by a user's sampler."""

    def __init__(
        self, make: Callable[..., Any], pool: Rows, n: int, seed: int, excluded: Rows
    ) -> None:
        """Create the sampler, as lm-eval 0.4.13 does (``api/task.py``). ``make``:
        called with the rows of the pool and ``rnd=None``; returns an object with
        ``set_rnd(seed)`` and ``sample(n=…, eval_doc=…)``. ``excluded``: the documents,
        if each must be excluded from its own few-shot examples; otherwise empty. Raises
        EvalsError if creating it failed."""
        self._pool, self._n, self._excluded = list(pool), n, excluded
        self._positions = {id(row): i for i, row in enumerate(self._pool)}
        self._drawn: list[tuple[int, ...] | str] = []
        self._name = getattr(make, "__name__", type(make).__name__)
        try:
            self._sampler = make(list(self._pool), rnd=None)
            self._sampler.set_rnd(seed)
        except Exception as error:
            raise EvalsError(f"{self._name}: {error_text(error)}") from error

    def shots(self, index: int) -> tuple[int, ...]:
        """Positions in the pool; earlier documents are drawn first. Raises EvalsError
        if the sampler failed for this document, or returned a row that is not in the
        pool."""
        while len(self._drawn) <= index:
            self._drawn.append(self._draw(len(self._drawn)))
        drawn = self._drawn[index]
        if isinstance(drawn, str):
            raise EvalsError(drawn)
        return drawn

    def _draw(self, index: int) -> tuple[int, ...] | str:
        row = self._excluded[index] if self._excluded else None
        try:
            rows = list(self._sampler.sample(n=self._n, eval_doc=row))
        except Exception as error:  # noqa: BLE001  reported with its document
            return f"{self._name}: {error_text(error)}"
        positions = [self._position(each) for each in rows]
        if None in positions:
            return f"{self._name} returned a row that is not in the pool"
        return tuple(at for at in positions if at is not None)

    def _position(self, row: Mapping[str, Any]) -> int | None:
        known = self._positions.get(id(row))
        if known is None and row in self._pool:
            return self._pool.index(row)
        return known
