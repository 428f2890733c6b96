"""Few-shot examples of a document as chat turns; each row is rendered once."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_evals.core.doc import Doc
from pytest_evals.data.calls import FieldError
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
        """Create the sampler; ``own`` is true if lm-eval would allow a document as its
        own few-shot example.

        Raises:
            TaskFileError: Too few rows.
        """
        shots, splits = recipe.shots, recipe.splits
        # lm-eval compares the names of the splits; two missing names are equal.
        excluded_by_lm_eval = splits.fewshot == splits.test
        own = tables.pool is tables.asked and not excluded_by_lm_eval
        excluded = excluded_by_lm_eval or (own and recipe.options.exclude_own_shots)
        self._shots, self._readers, self._pool = shots, readers, tables.pool
        self._multiple_inputs, self._notes = multiple_inputs, notes
        self._turns: dict[int, tuple[Turn, ...]] = {}
        try:
            self._sampler = _sampler_of(recipe, tables, excluded)
        except EvalsError as error:
            what = f"{error} in {tables.pool_name}"
            fix = "lower num_fewshot or set fewshot_split to a larger split"
            fix = fix if isinstance(shots.sampler, str) else ""
            raise TaskFileError([Problem(what, shots.place, fix)]) from None
        self.own = own

    def of(self, index: int) -> Sequence[Turn]:
        """The turns of the few-shot examples of the document at a position.

        Raises:
            DocumentError: Too few other rows, or a row is not a valid example.
        """
        return [
            turn for position in self._positions(index) for turn in self._shot(position)
        ]

    def _positions(self, index: int) -> Sequence[int]:
        try:
            return self._sampler.shots(index)
        except EvalsError as error:
            raise FieldError(f"num_fewshot: {error}", self._shots.place) from None

    def documents(self, index: int) -> Sequence[Doc]:
        """The few-shot examples of the document at a position, with their choices.

        Raises:
            DocumentError: Too few other rows, or a row is not a valid example.
        """
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

    def _shot(self, position: int) -> tuple[Turn, ...]:
        turns = self._turns.get(position)
        if turns is None:
            turns = self._turns[position] = self._render(position)
        return turns

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
    from pytest_evals.dialects.lm_eval.prompts.custom_sampler import CustomSampler

    others = tables.asked if excluded else ()
    return CustomSampler(shots.sampler, tables.pool, shots.n, seed, others)
