"""Scorers that compare strings: ``string_equals``, ``string_equals_mcqa``, ``bleu``.

Source: ``latticeflow-core`` 3.17.0 for the first two. ``bleu`` is not specified; ours
is sacrebleu's sentence BLEU (13a, exponential smoothing, effective order), from 0 to 1.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.prompts.templates import (
    SampleTemplate,
    compile_template,
)
from pytest_evals.dialects.latticeflow.scoring.scorer import ScorerParts, Target
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.template_fields import Models, template
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import DocumentError, MissingExtraError
from pytest_evals.prompts.choice_letters import labels_of
from pytest_evals.scorers.choice_answers import UNPARSABLE, select
from pytest_evals.scorers.corpus import check_library


def read_equals(section: Section, _models: Models, has_solver: bool) -> ScorerParts:
    """Return a ``string_equals`` scorer: exact match, including case and whitespace."""
    return _comparison_scorer(section, has_solver, _equal, ("is_correct",))


def _equal(reference: str, predicted: str) -> SampleScore:
    values = {"is_correct": reference == predicted}
    return SampleScore(values, {"answer_gt": reference, "answer_pred": predicted})


def read_bleu(section: Section, _models: Models, has_solver: bool) -> ScorerParts:
    """Return a ``bleu`` scorer: n-gram overlap."""
    try:
        check_library("bleu")
    except MissingExtraError as error:
        section.problem("type", str(error))
    return _comparison_scorer(section, has_solver, _bleu, ("bleu_score",))


def _bleu(reference: str, predicted: str) -> SampleScore:
    from sacrebleu.metrics.bleu import BLEU

    score = (
        BLEU(effective_order=True, force=True)
        .sentence_score(predicted, [reference])
        .score
    )
    metadata = {"answer_gt": reference, "answer_pred": predicted}
    return SampleScore({"bleu_score": score / 100}, metadata)


def _comparison_scorer(
    section: Section,
    has_solver: bool,
    compare: Callable[[str, str], SampleScore],
    scores: tuple[str, ...],
) -> ScorerParts:
    """Return a scorer that compares the answer with a reference."""
    reference = template(section, "ground_truth", "{{ sample.target }}")
    value = template(section, "value", "{{ sample.answer }}", required=False)
    needs_answer(section, has_solver or section.values.get("value") is not None)
    if reference is None:
        return ScorerParts()

    def dialogue(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
        yield from ()
        predicted = answer_text(value, sample, output)
        return compare(reference.render({"sample": sample}), predicted)

    return ScorerParts(dialogue=dialogue, scores=scores, target=target_from(reference))


def target_from(template: SampleTemplate) -> Target:
    """Return a function that renders the reference of a sample."""
    return lambda sample: template.render({"sample": sample})


def answer_text(
    value: SampleTemplate | None, sample: Sample, output: SolverOutput | None
) -> str:
    """Return the answer to compare: ``value``, or the assistant's last text."""
    if value is not None:
        more = {} if output is None else {"solver_output": output}
        return value.render({"sample": sample, **more})
    assert output is not None, "without a solver there is a value"
    return output.answer


def needs_answer(section: Section, has_answer: bool) -> None:
    """Report a problem if there is no answer to score."""
    if not has_answer:
        what = "value is required in a task without a solver"
        section.problem("value", what, 'value: "{{ sample.answer }}"')


def read_mcqa(section: Section, _models: Models, has_solver: bool) -> ScorerParts:
    """Return a ``string_equals_mcqa`` scorer: an answer's first character counts."""
    correct_choice = _column_template(
        section, "ground_truth_choice", "ground_truth_choice_field"
    )
    choices = _column_template(section, "choices", "choices_field")
    if not has_solver:
        section.problem("type", "string_equals_mcqa needs a task with a solver")
    if correct_choice is None or choices is None:
        return ScorerParts()

    def dialogue(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
        yield from ()
        assert output is not None, "there is a solver"
        known = parse_literal(choices, sample)
        reference, predicted = (
            correct_choice.render({"sample": sample}),
            output.answer[:1],
        )
        return SampleScore(
            {"is_correct": predicted == reference},
            {
                "ground_truth_choices": known,
                "ground_truth_correct_choice": reference,
                "predicted_choice": predicted,
                "completion_validity": _validity(predicted, known),
            },
        )

    return ScorerParts(
        dialogue=dialogue, scores=("is_correct",), target=target_from(correct_choice)
    )


def read_parsed_mcqa(section: Section, models: Models, has_solver: bool) -> ScorerParts:
    """Return a ``string_equals_mcqa`` scorer that extracts the choice from the answer
    by letter or text (``--evals-choices=generate``)."""
    first_letter = read_mcqa(section, models, has_solver)
    if first_letter.dialogue is None:
        return first_letter

    def dialogue(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
        assert output is not None, "there is a solver"
        assert first_letter.dialogue is not None, "checked above"
        score = yield from first_letter.dialogue(sample, output)
        known = score.metadata["ground_truth_choices"]
        reference = score.metadata["ground_truth_correct_choice"]
        if not isinstance(known, list | tuple) or not known:
            raise DocumentError(f"choices must be a list of choices, not {known!r:.80}")
        texts = [str(one) for one in known]
        has_labels = reference in texts
        labels = texts if has_labels else labels_of(len(texts))
        found = select(output.answer, labels, () if has_labels else texts)
        predicted = "" if found.choice is None else labels[found.choice]
        return SampleScore(
            {
                "is_correct": predicted == reference,
                UNPARSABLE: found.choice is None,
            },
            {
                **score.metadata,
                "predicted_choice": predicted,
                "completion_validity": found.fault or "valid",
            },
        )

    scores = (*first_letter.scores, UNPARSABLE)
    return replace(first_letter, dialogue=dialogue, scores=scores)


def _validity(predicted: str, known: Any) -> str:
    if not isinstance(known, list | tuple):
        return "unknown"
    return "valid" if predicted in known else "invalid"


def _column_template(
    section: Section, key: str, deprecated_key: str
) -> SampleTemplate | None:
    """Return the template under a key, or of the column that a deprecated key names."""
    column = section.text(deprecated_key)
    if section.values.get(key) is not None or not column:
        return template(section, key, f"{{{{ sample.{key} }}}}")
    section.raw(key)
    text = f"{{{{ sample[{json.dumps(column)}] }}}}"
    return compile_template(text, section.place(deprecated_key), deprecated_key)


def parse_literal(template: SampleTemplate, sample: Sample) -> Any:
    """Return a rendered value, parsed as JSON or as a Python literal."""
    text = template.render({"sample": sample})
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        shown = text if len(text) <= 80 else text[:79] + "…"
        what = f"{template.what} is neither JSON nor Python: {shown!r}"
        fix = f"{{{{ sample.{template.what} | tojson }}}}"
        raise FieldError(what, template.place, fix) from None
