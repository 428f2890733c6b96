"""Scorers that ask a model: a classifier, a labeler and a grader.

The default system prompts and the instructions after the task's own prompt are ours:
LatticeFlow does not publish its instructions. A bare label or number is understood as
well as the JSON that they ask for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.core.metric import Span
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.dialects.latticeflow.scoring.scorer import ScorerParts, variables_of
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.solver_model import SolverChain
from pytest_evals.dialects.latticeflow.solvers.template_fields import (
    Lines,
    line_to,
    template,
    text_template,
)
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.scorers.judge_replies import (
    JudgeLabel,
    read_grade,
    read_label,
)

_JUDGE = "You judge the work of another model, carefully and fairly."
_LABELER = "You label texts and data, carefully and consistently."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """A model, what it is asked, and how its reply is read.

    Args:
        line: To the model.
        system: Who it is.
        user: What it is asked.
        form: What its reply holds.
        is_structured: Whether the model is made to keep to that form.
    """

    line: SolverChain
    system: SampleTemplate
    user: SampleTemplate
    form: _Form
    is_structured: bool

    def ask(self, sample: Sample, output: SolverOutput | None) -> Dialogue[str]:
        """Its reply."""
        variables = variables_of(sample, output)
        user = f"{self.user.render(variables)}\n\n{self.form.instructions}"
        given: dict[str, Any] = {
            "messages": [
                {"role": "system", "content": self.system.render(variables)},
                {"role": "user", "content": user},
            ]
        }
        if self.is_structured:
            given["response_format"] = self.form.response_format
        (response,) = yield (self.line.ask(given, sample),)
        return self.line.read(response).text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """What a reply holds: a value, the reasoning and how sure the judge is.

    Args:
        key: Name of the value.
        value: Its JSON schema.
        words: What it is, in words.
    """

    key: str
    value: dict[str, Any]
    words: str

    @property
    def instructions(self) -> str:
        """In words."""
        return (
            "Reply with a JSON object and nothing else. It has the keys "
            f'"{self.key}" ({self.words}), "reasoning" (a short text) and "confidence" '
            "(a number from 0 to 1)."
        )

    @property
    def response_format(self) -> dict[str, Any]:
        """As OpenAI's API takes it."""
        properties = {
            "reasoning": {"type": "string"},
            self.key: self.value,
            "confidence": {"type": "number"},
        }
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        return {
            "type": "json_schema",
            "json_schema": {"name": self.key, "strict": True, "schema": schema},
        }


def read_classifier(section: Section, lines: Lines, _has_solver: bool) -> ScorerParts:
    """``model_as_a_judge_classifier``: right where the label is one of the correct."""
    right = _labels(section, "correct_labels", required=True)
    wrong = _labels(section, "incorrect_labels", required=True)
    for label in sorted({*right} & {*wrong}):
        what = f"{label!r} is a correct label and an incorrect one"
        section.problem("incorrect_labels", what)
    if not (section.values.get("correct_labels") or wrong):
        section.problem("correct_labels", "there are no labels", "correct_labels: [A]")
    labels = [*right, *wrong]
    judge = _read(section, lines, _JUDGE, _label_form("prediction", labels))

    def read(reply: str) -> SampleScore:
        verdict = read_label(reply, ("prediction", "label"), labels)
        values = {"is_correct": verdict.value in right}
        metadata = {"prediction": verdict.value, **verdict.metadata}
        return SampleScore(values, metadata)

    return _scoring(judge, read, "is_correct")


def read_labeler(section: Section, lines: Lines, _has_solver: bool) -> ScorerParts:
    """``labeler_via_model``: a label, of those that are valid."""
    labels = _labels(section, "valid_labels", required=False)
    judge = _read(section, lines, _LABELER, _label_form("label", labels))

    def read(reply: str) -> SampleScore:
        verdict = read_label(reply, ("label", "prediction"), labels)
        return SampleScore({"label": verdict.value}, verdict.metadata)

    return _scoring(judge, read, "label")


def read_grader(section: Section, lines: Lines, _has_solver: bool) -> ScorerParts:
    """``model_as_a_judge_scorer``: a grade, of which 0 to 1 is made."""
    least = float(section.take("score_min", (int, float), 0.0))
    most = float(section.take("score_max", (int, float), 1.0))
    if not (math.isfinite(least) and math.isfinite(most) and least < most):
        what = (
            f"score_max is more than score_min, and {most:g} is not more than {least:g}"
        )
        section.problem("score_max", what)
    form = _Form(
        key="score",
        value={"type": "number", "minimum": least, "maximum": most},
        words=f"a number from {least:g} to {most:g}",
    )
    judge = _read(section, lines, _JUDGE, form)

    def read(reply: str) -> SampleScore:
        verdict: JudgeLabel = read_grade(reply, least, most)
        share = (verdict.value - least) / (most - least)
        metadata = {"raw_score": verdict.value, **verdict.metadata}
        return SampleScore({"score": share}, metadata)

    return replace(_scoring(judge, read, "score"), scale=Span(least, most))


def _scoring(
    judge: _Judge | None, read: Callable[[str], SampleScore], score: str
) -> ScorerParts:
    if judge is None:
        return ScorerParts()

    def dialogue(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
        reply = yield from judge.ask(sample, output)
        return read(reply)

    return ScorerParts(dialogue=dialogue, scores=(score,))


def _read(section: Section, lines: Lines, system: str, form: _Form) -> _Judge | None:
    line = line_to(section, "model_key", lines)
    who = text_template(section, "system_prompt", section.text("system_prompt", system))
    user = template(section, "user_prompt", "Is {{ sample.answer }} right?")
    is_structured = section.flag("use_structured_outputs")
    if who is None or user is None:
        return None
    return _Judge(
        line=line, system=who, user=user, form=form, is_structured=is_structured
    )


def _label_form(key: str, labels: Sequence[str]) -> _Form:
    value: dict[str, Any] = {"type": "string"}
    words = "a short label"
    if labels:
        value["enum"] = list(labels)
        words = f"one of {', '.join(json.dumps(x, ensure_ascii=False) for x in labels)}"
    return _Form(key=key, value=value, words=words)


def _labels(section: Section, key: str, *, required: bool) -> list[str]:
    if required and section.values.get(key) is None:
        section.raw(key)
        section.problem(key, f"{key} is missing", f'{key}: ["…"]')
        return []
    found = []
    for label in section.take(key, list, []):
        if isinstance(label, str) and label.strip():
            found.append(label)
            continue
        fix = ""
        if isinstance(label, bool):
            fix = "quote it: YAML reads yes, no, on and off as true and false"
        elif isinstance(label, int | float):
            fix = f'"{label}"'
        section.problem(key, f"a label is a text, not {label!r}", fix)
    return found
