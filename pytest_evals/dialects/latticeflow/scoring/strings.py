"""Scorers that compare texts: ``string_equals``, ``string_equals_mcqa``, ``bleu``.

Facts: ``latticeflow-core`` 3.17.0 for the first two. The third is nowhere said; ours is
sacrebleu's sentence BLEU (13a, exponential smoothing, effective order), from 0 to 1.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
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
from pytest_evals.dialects.latticeflow.solvers.template_fields import Lines, template
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import MissingExtraError
from pytest_evals.scorers.corpus import check_library


def read_equals(section: Section, _lines: Lines, has_solver: bool) -> ScorerParts:
    """``string_equals``: exactly, with case and white space."""
    return _comparing(section, has_solver, _equal, ("is_correct",))


def _equal(truth: str, said: str) -> SampleScore:
    values = {"is_correct": truth == said}
    return SampleScore(values, {"answer_gt": truth, "answer_pred": said})


def read_bleu(section: Section, _lines: Lines, has_solver: bool) -> ScorerParts:
    """``bleu``: how much of the words' sequence is the same."""
    try:
        check_library("bleu")
    except MissingExtraError as error:
        section.problem("type", str(error))
    return _comparing(section, has_solver, _bleu, ("bleu_score",))


def _bleu(truth: str, said: str) -> SampleScore:
    from sacrebleu.metrics.bleu import BLEU

    score = BLEU(effective_order=True, force=True).sentence_score(said, [truth]).score
    metadata = {"answer_gt": truth, "answer_pred": said}
    return SampleScore({"bleu_score": score / 100}, metadata)


def _comparing(
    section: Section,
    has_solver: bool,
    compare: Callable[[str, str], SampleScore],
    scores: tuple[str, ...],
) -> ScorerParts:
    """A scorer that holds an answer against a truth."""
    truth = template(section, "ground_truth", "{{ sample.target }}")
    value = template(section, "value", "{{ sample.answer }}", required=False)
    needs_answer(section, has_solver or section.values.get("value") is not None)
    if truth is None:
        return ScorerParts()

    def dialogue(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
        yield from ()
        said = answer_said(value, sample, output)
        return compare(truth.render({"sample": sample}), said)

    return ScorerParts(dialogue=dialogue, scores=scores, target=rendered(truth))


def rendered(template: SampleTemplate) -> Target:
    """What a template makes of a sample alone."""
    return lambda sample: template.render({"sample": sample})


def answer_said(
    value: SampleTemplate | None, sample: Sample, output: SolverOutput | None
) -> str:
    """What is held against the truth: ``value``, or what the assistant said last."""
    if value is not None:
        more = {} if output is None else {"solver_output": output}
        return value.render({"sample": sample, **more})
    assert output is not None, "without a solver there is a value"
    return output.answer


def needs_answer(section: Section, has_answer: bool) -> None:
    """Make sure that there is something to score; its lack is a problem."""
    if not has_answer:
        what = "there is no solver, so that value must say what is compared"
        section.problem("value", what, 'value: "{{ sample.answer }}"')


def read_mcqa(section: Section, _lines: Lines, has_solver: bool) -> ScorerParts:
    """``string_equals_mcqa``: the first character of the answer is the choice."""
    right = _by_column(section, "ground_truth_choice", "ground_truth_choice_field")
    choices = _by_column(section, "choices", "choices_field")
    if not has_solver:
        section.problem("type", "string_equals_mcqa needs a task with a solver")
    if right is None or choices is None:
        return ScorerParts()

    def dialogue(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
        yield from ()
        assert output is not None, "there is a solver"
        known = listed(choices, sample)
        truth, said = right.render({"sample": sample}), output.answer[:1]
        return SampleScore(
            {"is_correct": said == truth},
            {
                "ground_truth_choices": known,
                "ground_truth_correct_choice": truth,
                "predicted_choice": said,
                "completion_validity": _validity(said, known),
            },
        )

    return ScorerParts(
        dialogue=dialogue, scores=("is_correct",), target=rendered(right)
    )


def _validity(said: str, known: Any) -> str:
    if not isinstance(known, list | tuple):
        return "unknown"
    return "valid" if said in known else "invalid"


def _by_column(section: Section, key: str, old: str) -> SampleTemplate | None:
    """The template under a key, or that of a column which an older key names."""
    column = section.text(old)
    if section.values.get(key) is not None or not column:
        return template(section, key, f"{{{{ sample.{key} }}}}")
    section.raw(key)
    text = f"{{{{ sample[{json.dumps(column)}] }}}}"
    return compile_template(text, section.place(old), old)


def listed(template: SampleTemplate, sample: Sample) -> Any:
    """A value that a template has rendered into a text: JSON, or as Python writes it.

    Raises:
        FieldError: It is neither.
    """
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
