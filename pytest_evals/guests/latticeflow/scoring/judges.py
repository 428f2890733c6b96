"""Scorers that call a model: classifier, labeler and grader.

The default system prompts and the instructions after the task's prompt are our own,
because LatticeFlow does not publish its instructions. A bare label or number is
accepted as well as the requested JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.core.metric import Span
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.metrics.reader import FREQUENCY
from pytest_evals.guests.latticeflow.prompts.output import SampleScore, SolverOutput
from pytest_evals.guests.latticeflow.scoring.scorer import (
    SampleScorer,
    ScorerContext,
    Scoring,
    variables_of,
)
from pytest_evals.guests.latticeflow.solvers.model_client import Sample, model_client
from pytest_evals.scorers.judge_replies import read_grade, read_label

_JUDGE = "You judge the work of another model, carefully and fairly."
_LABELER = "You label texts and data, carefully and consistently."


class _Form(NamedTuple):
    """Format of a reply: a value, the reasoning and the confidence."""

    key: str
    value: dict[str, Any]  # its JSON schema
    words: str


def _response_format(form: _Form) -> dict[str, Any]:
    properties = {
        "reasoning": {"type": "string"},
        form.key: form.value,
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
        "json_schema": {"name": form.key, "strict": True, "schema": schema},
    }


def _read_judge(
    section: Keys,
    task: ScorerContext,
    system: str,
    form: _Form,
    read: Callable[[str], SampleScore],
) -> Scoring:
    """Return the dialogue of a scorer. ``read``: reply of the judge → score."""
    client = model_client(section, "model_key", task.models)
    text = section.text("system_prompt", system)
    system_prompt = section.text_template("system_prompt", text)
    user_prompt = section.template("user_prompt", "Is {{ sample.answer }} right?")
    is_structured = section.flag("use_structured_outputs")
    instructions = (
        "Reply with a JSON object and nothing else. It has the keys "
        f'"{form.key}" ({form.words}), "reasoning" (a short text) and "confidence" '
        "(a number from 0 to 1)."
    )

    def dialogue(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
        variables = variables_of(sample, output)
        user = f"{user_prompt.render(variables)}\n\n{instructions}"
        model_input: dict[str, Any] = {
            "messages": [
                {"role": "system", "content": system_prompt.render(variables)},
                {"role": "user", "content": user},
            ]
        }
        if is_structured:
            model_input["response_format"] = _response_format(form)
        ask = client.readable(client.ask(model_input, sample), read)
        (response,) = yield (ask,)
        score: SampleScore = ask.read(response)
        return score

    return dialogue


def read_classifier(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return a ``model_as_a_judge_classifier`` scorer."""
    correct = _labels(section, "correct_labels", required=True)
    incorrect = _labels(section, "incorrect_labels", required=True)
    for label in sorted({*correct} & {*incorrect}):
        message = f"{label!r} is both a correct and an incorrect label"
        section.problem("incorrect_labels", message)
    if not (section.values.get("correct_labels") or incorrect):
        section.problem("correct_labels", "labels are missing", "correct_labels: [A]")
    labels = [*correct, *incorrect]

    def read(reply: str) -> SampleScore:
        judgement = read_label(reply, ("prediction", "label"), labels)
        metadata = {"prediction": judgement.value, **judgement.metadata}
        return SampleScore({"is_correct": judgement.value in correct}, metadata)

    form = _label_form("prediction", labels)
    dialogue = _read_judge(section, task, _JUDGE, form, read)
    return SampleScorer(dialogue=dialogue, shares=("is_correct",))


def read_labeler(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return a ``labeler_via_model``: a label, from the valid ones."""
    labels = _labels(section, "valid_labels")

    def read(reply: str) -> SampleScore:
        judgement = read_label(reply, ("label", "prediction"), labels)
        return SampleScore({"label": judgement.value}, judgement.metadata)

    form = _label_form("label", labels)
    dialogue = _read_judge(section, task, _LABELER, form, read)
    metrics = (FREQUENCY,)
    return SampleScorer(dialogue=dialogue, others=("label",), metric_values=metrics)


def read_grader(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return a ``model_as_a_judge_scorer``: a score, scaled to 0 to 1."""
    minimum = float(section.take("score_min", (int, float), 0.0))
    maximum = float(section.take("score_max", (int, float), 1.0))
    if not (math.isfinite(minimum) and math.isfinite(maximum) and minimum < maximum):
        message = (
            f"score_max ({maximum:g}) must be greater than score_min ({minimum:g})"
        )
        section.problem("score_max", message)

    def read(reply: str) -> SampleScore:
        judgement = read_grade(reply, minimum, maximum)
        share = (judgement.value - minimum) / (maximum - minimum)
        metadata = {"raw_score": judgement.value, **judgement.metadata}
        return SampleScore({"score": share}, metadata)

    value = {"type": "number", "minimum": minimum, "maximum": maximum}
    form = _Form("score", value, f"a number from {minimum:g} to {maximum:g}")
    dialogue = _read_judge(section, task, _JUDGE, form, read)
    scale = Span(minimum, maximum)
    return SampleScorer(dialogue=dialogue, shares=("score",), scale=scale)


def _label_form(key: str, labels: Sequence[str]) -> _Form:
    if not labels:
        return _Form(key, {"type": "string"}, "a short label")
    words = ", ".join(json.dumps(x, ensure_ascii=False) for x in labels)
    value = {"type": "string", "enum": list(labels)}
    return _Form(key, value, f"one of {words}")


def _labels(section: Keys, key: str, *, required: bool = False) -> list[str]:
    if required and not section.need(key, '["…"]'):
        return []
    labels = section.take(key, list, [])
    for label in labels:
        if isinstance(label, str) and label.strip():
            continue
        fix = ""
        if isinstance(label, bool):
            fix = "quote it: YAML reads yes, no, on and off as true and false"
        elif isinstance(label, int | float):
            fix = f'"{label}"'
        section.problem(key, f"a label must be a string, not {label!r}", fix)
    return [one for one in labels if isinstance(one, str) and one.strip()]
