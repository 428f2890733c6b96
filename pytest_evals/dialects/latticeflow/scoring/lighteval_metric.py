"""Reads ``lighteval`` scorers: one of lighteval's metrics, by name, with one answer per
sample.

This type is an extension; other LatticeFlow tools reject it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pytest_evals.core.dialogue import Ask, Dialogue
from pytest_evals.core.doc import Doc
from pytest_evals.core.metric import Metric
from pytest_evals.core.request import Response
from pytest_evals.dialects.latticeflow.metric_values import NOTHING, ScorerValue
from pytest_evals.dialects.latticeflow.metrics.measures import (
    flatten,
    mean_measure,
    missing_message,
)
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.dialects.latticeflow.scoring.scorer import ScorerParts
from pytest_evals.dialects.latticeflow.scoring.strings import (
    answer_text,
    needs_answer,
    target_from,
)
from pytest_evals.dialects.latticeflow.solvers.model_client import ModelClient
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.template_fields import (
    Models,
    model_client,
    required_text,
    template,
)
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.lighteval.judge_adapter import JudgedMetric, judge_dialogue
from pytest_evals.scorers.lighteval.judges.judge_lm import JudgeQuestion
from pytest_evals.scorers.lighteval.metric import SamplingMethod
from pytest_evals.scorers.lighteval.metric_entry import lighteval_metric
from pytest_evals.scorers.lighteval.response import ModelResponse
from pytest_evals.scorers.lighteval.task_metric import TaskMetric
from pytest_evals.scorers.metric_value import plain


def read_lighteval(section: Section, models: Models, has_solver: bool) -> ScorerParts:
    """Return the scorer; errors are added to the problems of the section."""
    metric = _metric(section)
    reference = template(section, "ground_truth", "…", required=False)
    value = template(section, "value", "{{ sample.answer }}", required=False)
    needs_answer(section, has_solver or value is not None)
    judge = _judge(section, metric, models)
    if metric is None:
        return ScorerParts()
    scorer = _LightevalScorer(metric, reference, value, judge)
    return ScorerParts(
        dialogue=scorer.dialogue,
        scores=metric.names,
        metric_values=tuple(_numbers(metric)),
        target=target_from(reference) if reference else None,
    )


def _metric(section: Section) -> TaskMetric | None:
    name = required_text(section, "metric", "rouge_t5")
    arguments = section.take("arguments", dict, {})
    if not name:
        return None
    try:
        metric = lighteval_metric(name, arguments)
        _check(metric, name)
        metric.check_requirements(may_execute=True)
    except EvalsError as error:
        section.problem("metric", str(error))
        return None
    return metric


def _check(metric: TaskMetric, name: str) -> None:
    if metric.metric.category is not SamplingMethod.GENERATIVE:
        raise EvalsError(f"metric {name!r} scores log-probabilities, not answers")
    if getattr(metric.metric.sample_level_fn, "executes_answers", False):
        raise EvalsError(
            f"metric {name!r} executes answers, which LatticeFlow tasks do not support"
        )
    n_answers = metric.metric.num_samples()
    if n_answers is not None and n_answers > 1:
        raise EvalsError(
            f"metric {name!r} needs {n_answers} answers at once, but a "
            "scorer gets one\n"
            "  fix: use trials with aggregators"
        )


def _judge(
    section: Section, metric: TaskMetric | None, models: Models
) -> ModelClient | None:
    if metric is not None and metric.judges:
        return model_client(section, "model_key", models)
    if section.raw("model_key") is not None and metric is not None:
        section.problem("model_key", f"metric {metric.names[0]!r} does not use a judge")
    return None


@dataclass(frozen=True, slots=True)
class _LightevalScorer:
    """A lighteval metric and its inputs.

    Args:
        reference: Template of the reference, if any.
        value: Template of the answer; without it, the solver's answer.
        judge: Client of the judge that the metric calls, if any.
    """

    metric: TaskMetric
    reference: SampleTemplate | None
    value: SampleTemplate | None
    judge: ModelClient | None

    def dialogue(
        self, sample: Sample, output: SolverOutput | None
    ) -> Dialogue[SampleScore]:
        """Return the score of a sample."""
        golds = [self.reference.render({"sample": sample})] if self.reference else []
        doc = Doc(
            _question(output), golds, list(range(len(golds))), specific=dict(sample)
        )
        response = ModelResponse(text=[answer_text(self.value, sample, output)])
        part = JudgedMetric(self.metric, doc, response)
        response = yield from judge_dialogue(
            part, partial(self._ask, sample), self._read
        )
        measured = self.metric.measure(doc, response)
        for one in measured:
            if one.unscored:
                raise DocumentError(one.unscored)
        values = {one.metric: _as_list(plain(one.value)) for one in measured}
        metadata = {"answer_gt": golds[0]} if golds else {}
        return SampleScore(values, {**metadata, "answer_pred": response.text[0]})

    def _read(self, response: Response) -> str:
        assert self.judge is not None, "metrics with a judge have a client"
        return self.judge.read(response).text

    def _ask(self, sample: Sample, question: JudgeQuestion) -> Ask:
        assert self.judge is not None, "metrics with a judge have a client"
        request = question.request
        messages = [
            {"role": one.role, "content": one.content}
            for one in request.prompt
            if not isinstance(one, str)
        ]
        given = {"messages": messages, "max_tokens": request.max_tokens}
        return self.judge.readable(self.judge.ask(given, sample), question.read)


def _as_list(value: Any) -> Any:
    """Return tuples as lists, because a tuple contains the values of several rows."""
    return list(value) if isinstance(value, tuple) else value


def _question(output: SolverOutput | None) -> str:
    """Return the last user message, for metrics that use the question."""
    return (output.trace.get_last_user_text() or "") if output else ""


def _numbers(metric: TaskMetric) -> list[ScorerValue]:
    """Return the metric's values, aggregated as elsewhere, by their own names."""
    found = []
    for one in metric.metrics("none"):
        if one.is_mean:
            read = partial(_value, one.name)
            missing, better = missing_message(one.name), one.higher_is_better
            how = mean_measure(one.name, read, missing, better, span=one.span).how
        else:
            how = partial(_over_rows, one)
        found.append(
            ScorerValue(
                scorer="",
                metric="lighteval",
                name=one.name,
                read=partial(_read, one.name),
                how=how,
                is_correctness=one.is_mean and one.higher_is_better is True,
            )
        )
    return found


def _over_rows(metric: Metric, name: str) -> Metric:
    """Return a metric over all rows; several rows of one sample are a tuple."""
    number = metric.number
    return replace(
        metric,
        name=name,
        aggregate=lambda values: metric.aggregate(flatten(values)),
        number=None if number is None else lambda values: number(flatten(values)),
        totals=None,  # sums are per document, not per row
        statistic=None,
        lacking=missing_message(name),
    )


def _value(name: str, values: Mapping[str, Any]) -> Any:
    return values.get(name)


def _read(name: str, score: SampleScore) -> Any:
    return score.values.get(name, NOTHING)
