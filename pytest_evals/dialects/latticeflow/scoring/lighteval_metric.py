"""``lighteval``: a metric of lighteval's by its name, with one answer a sample.

No scorer of LatticeFlow's; other tools refuse the type.
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
from pytest_evals.dialects.latticeflow.metrics.measures import lacking, mean_measure
from pytest_evals.dialects.latticeflow.metrics.rows import flat
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.dialects.latticeflow.scoring.scorer import ScorerParts
from pytest_evals.dialects.latticeflow.scoring.strings import (
    answer_said,
    needs_answer,
    rendered,
)
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.solver_model import SolverChain
from pytest_evals.dialects.latticeflow.solvers.template_fields import (
    Lines,
    line_to,
    required_text,
    template,
)
from pytest_evals.dialects.latticeflow.task_metrics import NOTHING, Number
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.lighteval.judge_adapter import JudgedMetric, judged
from pytest_evals.scorers.lighteval.judges.judge_lm import JudgeQuestion
from pytest_evals.scorers.lighteval.metric import SamplingMethod
from pytest_evals.scorers.lighteval.metric_entry import lighteval_metric
from pytest_evals.scorers.lighteval.response import ModelResponse
from pytest_evals.scorers.lighteval.task_metric import TaskMetric
from pytest_evals.scorers.metric_value import plain


def read_named(section: Section, lines: Lines, has_solver: bool) -> ScorerParts:
    """The scorer of a section; what is wrong with it are problems of the file."""
    metric = _metric(section)
    truth = template(section, "ground_truth", "…", required=False)
    value = template(section, "value", "{{ sample.answer }}", required=False)
    needs_answer(section, has_solver or value is not None)
    judge = _judge(section, metric, lines)
    if metric is None:
        return ScorerParts()
    named = _Named(metric, truth, value, judge)
    return ScorerParts(
        dialogue=named.dialogue,
        scores=metric.names,
        numbers=tuple(_numbers(metric)),
        target=rendered(truth) if truth else None,
    )


def _metric(section: Section) -> TaskMetric | None:
    name = required_text(section, "metric", "rouge_t5")
    arguments = section.take("arguments", dict, {})
    if not name:
        return None
    try:
        metric = lighteval_metric(name, arguments)
        _check(metric, name)
        metric.check_made(may_execute=True)
    except EvalsError as error:
        section.problem("metric", str(error))
        return None
    return metric


def _check(metric: TaskMetric, name: str) -> None:
    if metric.metric.category is not SamplingMethod.GENERATIVE:
        raise EvalsError(f"metric {name!r} measures log-probabilities, and no answers")
    if getattr(metric.metric.sample_level_fn, "executes_answers", False):
        raise EvalsError(f"metric {name!r} executes answers, and this dialect does not")
    wanted = metric.metric.num_samples()
    if wanted is not None and wanted > 1:
        raise EvalsError(
            f"metric {name!r} needs {wanted} answers at once, and a scorer sees one\n"
            "  fix: trials, whose aggregators add up several"
        )


def _judge(
    section: Section, metric: TaskMetric | None, lines: Lines
) -> SolverChain | None:
    if metric is not None and metric.judges:
        return line_to(section, "model_key", lines)
    if section.raw("model_key") is not None and metric is not None:
        section.problem("model_key", f"metric {metric.names[0]!r} asks no judge")
    return None


@dataclass(frozen=True, slots=True)
class _Named:
    """A metric, and what it is shown.

    Args:
        metric: The metric.
        truth: Gives the reference, if there is one.
        value: Gives the answer; without it the solver's counts.
        judge: Whom the metric asks, if it asks somebody.
    """

    metric: TaskMetric
    truth: SampleTemplate | None
    value: SampleTemplate | None
    judge: SolverChain | None

    def dialogue(
        self, sample: Sample, output: SolverOutput | None
    ) -> Dialogue[SampleScore]:
        """What the metric says of a sample."""
        golds = [self.truth.render({"sample": sample})] if self.truth else []
        doc = Doc(
            _question(output), golds, list(range(len(golds))), specific=dict(sample)
        )
        response = ModelResponse(text=[answer_said(self.value, sample, output)])
        part = JudgedMetric(self.metric, doc, response)
        response = yield from judged(part, partial(self._ask, sample), self._read)
        measured = self.metric.measure(doc, response)
        for one in measured:
            if one.unscored:
                raise DocumentError(one.unscored)
        values = {one.metric: _listed(plain(one.value)) for one in measured}
        metadata = {"answer_gt": golds[0]} if golds else {}
        return SampleScore(values, {**metadata, "answer_pred": response.text[0]})

    def _read(self, response: Response) -> str:
        assert self.judge is not None, "read_named gives a judge to who asks one"
        return self.judge.read(response).text

    def _ask(self, sample: Sample, question: JudgeQuestion) -> Ask:
        assert self.judge is not None, "read_named gives a judge to who asks one"
        request = question.request
        messages = [
            {"role": one.role, "content": one.content}
            for one in request.prompt
            if not isinstance(one, str)
        ]
        given = {"messages": messages, "max_tokens": request.max_tokens}
        return self.judge.ask(given, sample)


def _listed(value: Any) -> Any:
    """Pairs as lists: a tuple would be taken for a sample's rows."""
    return list(value) if isinstance(value, tuple) else value


def _question(output: SolverOutput | None) -> str:
    """What the user said last, for metrics that look at the question."""
    return (output.trace.get_last_user_text() or "") if output else ""


def _numbers(metric: TaskMetric) -> list[Number]:
    """What adds up as in other dialects, each under its own name."""
    found = []
    for house in metric.metrics("none"):
        if house.is_mean:
            read = partial(_value, house.name)
            lack, better = lacking(house.name), house.higher_is_better
            how = mean_measure(house.name, read, lack, better, span=house.span).how
        else:
            how = partial(_over_rows, house)
        found.append(
            Number(
                scorer="",
                metric="lighteval",
                name=house.name,
                read=partial(_read, house.name),
                how=how,
                tells_right=house.is_mean and house.higher_is_better is True,
            )
        )
    return found


def _over_rows(house: Metric, name: str) -> Metric:
    """A number of all rows together; rows of one sample stand in a tuple."""
    number = house.number
    return replace(
        house,
        name=name,
        aggregate=lambda values: house.aggregate(flat(values)),
        number=None if number is None else lambda values: number(flat(values)),
        totals=None,  # sums of documents, of which rows are none
        statistic=None,
        lacking=lacking(name),
    )


def _value(name: str, values: Mapping[str, Any]) -> Any:
    return values.get(name)


def _read(name: str, score: SampleScore) -> Any:
    return score.values.get(name, NOTHING)
