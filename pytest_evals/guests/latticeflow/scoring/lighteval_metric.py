"""Reads ``lighteval`` scorers: one of lighteval's metrics, by name, with one answer per
sample.

This type is an extension; other LatticeFlow tools reject it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import methodcaller

from pytest_evals.core.dialogue import Ask, Dialogue
from pytest_evals.core.doc import Doc
from pytest_evals.core.metric import Metric
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.metrics.measures import (
    Column,
    ScorerValue,
    flatten,
    mean_measure,
    missing_message,
)
from pytest_evals.guests.latticeflow.prompts.output import SampleScore, SolverOutput
from pytest_evals.guests.latticeflow.scoring.scorer import SampleScorer, ScorerContext
from pytest_evals.guests.latticeflow.solvers.model_client import (
    ModelClient,
    Sample,
    model_client,
)
from pytest_evals.scorers.custom_metrics.judged import JudgeQuestion
from pytest_evals.scorers.custom_metrics.metric import SamplingMethod
from pytest_evals.scorers.custom_metrics.response import ModelResponse
from pytest_evals.scorers.custom_metrics.task_metric import (
    JudgedMetric,
    TaskMetric,
    judge_dialogue,
)
from pytest_evals.scorers.metric_value import plain
from pytest_evals.scorers.metrics import family_metric


def read_lighteval(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return the scorer."""
    metric = _metric(section)
    reference = section.optional_template("ground_truth")
    answer = task.answer(section)
    judge = ModelClient()
    if metric is not None and metric.judges:
        judge = model_client(section, "model_key", task.models)
    elif section.raw("model_key") is not None and metric is not None:
        section.problem("model_key", f"metric {metric.names[0]!r} does not use a judge")
    if metric is None:
        return SampleScorer()
    target = reference.for_sample if reference else None

    def dialogue(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
        golds = [target(sample)] if target else []
        # The last user message, for metrics that use the question.
        question = (output.trace.get_last_user_text() or "") if output else ""
        positions = list(range(len(golds)))
        doc = Doc(question, golds, positions, specific=dict(sample))
        response = ModelResponse(text=[answer(sample, output)])
        part = JudgedMetric(metric, doc, response)
        ask = partial(_ask, judge, sample)
        response = yield from judge_dialogue(part, ask, lambda r: judge.read(r).text)
        measured = metric.measure(doc, response)
        for one in measured:
            if one.unscored:
                raise DocumentError(one.unscored)
        values = {one.metric: plain(one.value) for one in measured}
        # A tuple would be the values of several rows.
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
        metadata = {"answer_gt": golds[0]} if golds else {}
        return SampleScore(values, {**metadata, "answer_pred": response.text[0]})

    return SampleScorer(
        dialogue=dialogue,
        others=metric.names,
        metric_values=tuple(map(_value, metric.metrics("none"))),
        target=target,
    )


def _ask(judge: ModelClient, sample: Sample, question: JudgeQuestion) -> Ask:
    request = question.request
    messages = [
        {"role": one.role, "content": one.content}
        for one in request.prompt
        if not isinstance(one, str)
    ]
    given = {"messages": messages, "max_tokens": request.max_tokens}
    return judge.readable(judge.ask(given, sample), question.read)


def _metric(section: Keys) -> TaskMetric | None:
    name = section.required_text("metric", "rouge_t5")
    arguments = section.take("arguments", dict, {})
    if not name:
        return None
    try:
        metric = family_metric(f"lighteval:{name}", arguments)
        if metric.metric.category is not SamplingMethod.GENERATIVE:
            raise EvalsError(f"metric {name!r} scores log-probabilities, not answers")
        n_answers = metric.metric.num_samples()
        if n_answers is not None and n_answers > 1:
            raise EvalsError(
                f"metric {name!r} needs {n_answers} answers at once, but a "
                "scorer gets one\n"
                "  fix: use trials with aggregators"
            )
        metric.check_requirements(may_execute=False)  # the sandbox has the consent
    except EvalsError as error:
        section.problem("metric", str(error))
        return None
    return metric


def _value(metric: Metric) -> ScorerValue:
    """Return a value of a metric under its own name, aggregated as elsewhere."""
    name, missing = metric.name, missing_message(metric.name)
    read = methodcaller("get", name)
    if metric.is_mean:
        better = metric.higher_is_better
        column = Column(read, missing, higher_is_better=better)
        mean = mean_measure(name, column, metric.span)
        return replace(mean, metric="lighteval", is_correctness=better is True)
    number = metric.number
    how = replace(
        metric,
        aggregate=lambda values: metric.aggregate(flatten(values)),
        number=None if number is None else lambda values: number(flatten(values)),
        totals=None,  # sums are per document, not per row
        statistic=None,
        lacking=missing,
    )
    return ScorerValue(name=name, metric="lighteval", read=read, how=how)
