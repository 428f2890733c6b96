"""A metric in a task: its requirements, the values of a document, their aggregation,
and its dialogue with judges. Called by
:mod:`pytest_evals.dialects.lm_eval.scoring.scorer`.

A metric that calls judges runs with the available replies. If it needs another one, it
is interrupted (see :mod:`.judged`), its requests are yielded, and it runs again. It
must therefore depend only on its document and the replies.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import (
    JUDGE,
    Ask,
    Dialogue,
    ModelSource,
    ReadAsk,
    together,
)
from pytest_evals.core.doc import Doc, WatchedRow
from pytest_evals.core.metric import ANYTHING, SHARE, Span
from pytest_evals.core.metric import Metric as CoreMetric
from pytest_evals.core.request import Response
from pytest_evals.errors import DocumentError, EvalsError, MissingExtraError
from pytest_evals.sandbox.session import current_sandbox
from pytest_evals.scorers.aggregations import metric_of
from pytest_evals.scorers.custom_metrics.aggregation import aggregations_of
from pytest_evals.scorers.custom_metrics.judged import (
    JudgeLM,
    JudgeQuestion,
    NoScoreError,
    PendingQuestions,
    ReplyQueue,
    judges_in,
)
from pytest_evals.scorers.custom_metrics.metric import (
    Metric,
    SampleLevelComputation,
    SamplingMethod,
)
from pytest_evals.scorers.custom_metrics.response import ModelResponse
from pytest_evals.scorers.extraction import remove_reasoning_tags
from pytest_evals.scorers.metric_value import MetricValue
from pytest_evals.scorers.user_aggregation import Decides, PrefersOnes, estimate_user
from pytest_evals.scorers.user_code import UserCode

ITERATIONS = 1000  # bootstrap resamples, lighteval's default
REQUIRED_METHOD = {
    "generate_until": SamplingMethod.GENERATIVE,
    "loglikelihood": SamplingMethod.LOGPROBS,
    "loglikelihood_rolling": SamplingMethod.PERPLEXITY,
    "multiple_choice": SamplingMethod.LOGPROBS,
}
_FIX = {
    SamplingMethod.GENERATIVE: "generate_until",
    SamplingMethod.LOGPROBS: "multiple_choice",
    SamplingMethod.PERPLEXITY: "loglikelihood_rolling",
}


@dataclass(frozen=True, slots=True)
class TaskMetric:
    """A metric in a task. ``reasoning_tags``: start and end tags; the text between them
    is removed from responses. ``unconditioned_query``: prompt for scoring choices
    without the question."""

    metric: Metric
    reasoning_tags: tuple[tuple[str, str], ...] = ()
    unconditioned_query: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its numbers."""
        return self.metric.names

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return warnings about the documents that were scored so far."""
        part = self.metric.sample_level_fn
        part = getattr(part, "computation", part)  # unwrap a renamed one
        parts = (part, getattr(part, "sample_scoring_function", None))
        metrics = (p for p in parts if isinstance(p, SampleLevelComputation))
        return tuple(text for one in metrics for text in getattr(one, "warnings", ()))

    @property
    def needs_unconditioned(self) -> bool:
        """Return whether choices are also scored without the question."""
        return bool(getattr(self.metric.sample_level_fn, "needs_unconditioned", False))

    def with_aggregation(
        self,
        aggregation: str | Callable[[Any], Any] | None,
        higher_is_better: bool | None,
    ) -> TaskMetric:
        """Replace the aggregation or direction of a metric that is a plain function.
        ``aggregation``: name or function; ``None`` to leave it. ``higher_is_better``:
        direction; ``None`` to leave it. Raises EvalsError if the metric defines its own
        aggregation."""
        metric = self.metric
        if not inspect.isroutine(metric.sample_level_fn) or type(metric) is not Metric:
            raise EvalsError(
                f"metric {self.names[0]!r} defines its own aggregation and direction"
            )
        if aggregation is not None:
            metric = replace(metric, corpus_level_fn=aggregation)
        if higher_is_better is not None:
            metric = replace(metric, higher_is_better=higher_is_better)
        return replace(self, metric=metric)

    def check(self, output_type: str, repeats: int, *, may_execute: bool) -> None:
        """Check that the metric can score the documents of a task. Raises EvalsError if
        the output type is not supported, or the metric needs more responses or an
        argument; MissingExtraError if it needs a library that is not installed."""
        metric, shown = self.metric, repr(self.names[0])
        if metric.category != REQUIRED_METHOD.get(output_type):
            raise EvalsError(
                f"metric {shown} cannot be computed with output_type {output_type}\n"
                f"  fix: output_type: {_FIX[metric.category]}"
            )
        needed = metric.num_samples()
        if needed is not None and needed > repeats:
            raise EvalsError(
                f"metric {shown} needs {needed} responses per prompt, but repeats is "
                f"{repeats}\n  fix: repeats: {needed}"
            )
        self.check_requirements(may_execute=may_execute)

    def check_requirements(self, *, may_execute: bool) -> None:
        """Check the metric's arguments, permissions and libraries. ``may_execute``:
        whether model output may be executed as code at any level of isolation. Raises
        EvalsError if an argument is missing, or executing code is not allowed;
        MissingExtraError if it needs a library that is not installed."""
        metric, shown = self.metric, repr(self.names[0])
        for name in getattr(metric.sample_level_fn, "required", ()):
            if getattr(metric.sample_level_fn, name) is None:
                raise EvalsError(f"metric {shown} needs {name!r}\n  fix: {name}: 4")
        executes = getattr(metric.sample_level_fn, "executes_answers", False)
        if executes and not current_sandbox().may_run(consents=may_execute):
            message = f"metric {shown} executes model output"
            raise EvalsError(f"{message}\n  fix: {current_sandbox().remedy}")
        for part in (metric.sample_level_fn, metric.corpus_level_fn):
            for module, library, extra in getattr(part, "libraries", ()):
                if find_spec(module) is None:
                    raise MissingExtraError(f"metric {shown}", library, extra)

    def measure(self, doc: Doc, response: ModelResponse) -> list[MetricValue]:
        """Compute the values of a document. ``doc.specific`` defaults to the row."""
        try:
            return self._measured(doc, response)
        except PendingQuestions as missing:
            raise DocumentError(
                f"metric {self.names[0]!r}: {len(missing.questions)} judge requests "
                "have no reply"
            ) from None

    def _measured(self, doc: Doc, response: ModelResponse) -> list[MetricValue]:
        if doc.specific is None:
            row = doc.row
            specific = row.copy() if isinstance(row, WatchedRow) else dict(row)
            doc = replace(doc, specific=specific)
        response = _split_unconditioned(doc, response)
        if self.reasoning_tags:
            tags = self.reasoning_tags
            texts = [remove_reasoning_tags(text, tags) for text in response.text]
            response = replace(response, text_post_processed=texts)
        answer, known = _shown(doc, response), self.names
        replies = response.judge_replies.get(known[0], ())
        explanation = "\n".join(replies)
        with ExitStack() as stack:
            queue = ReplyQueue(replies)
            for judge in self.judges:
                stack.enter_context(judge.answering_from(queue))
            with UserCode(f"metric {known[0]!r}"):
                values = self._values(doc, response)
        if isinstance(values, NoScoreError):
            why = str(values)
            return [MetricValue(n, None, answer, explanation, why) for n in known]
        return [
            MetricValue(n, v, answer, explanation)
            for n, v in values.items()
            if n in known
        ]

    def _values(
        self, doc: Doc, response: ModelResponse
    ) -> Mapping[str, Any] | NoScoreError:
        try:
            values = self.metric.compute_sample(doc, response)
        except NoScoreError as error:
            return error
        return {
            # A module's own record becomes its fields, which are JSON values.
            name: one.to_dict() if callable(getattr(one, "to_dict", None)) else one
            for name, one in values.items()
        }

    @property
    def judges(self) -> list[JudgeLM]:
        """Return the judges of the metric."""
        return judges_in(self.metric.sample_level_fn)

    def pending_questions(
        self, doc: Doc, response: ModelResponse
    ) -> tuple[JudgeQuestion, ...]:
        """Return the next judge requests, given the replies in ``response``; empty if
        the metric has all replies."""
        if not self.judges:
            return ()
        try:
            self._measured(doc, response)
        except PendingQuestions as missing:
            return missing.questions
        return ()

    def metrics(
        self,
        filter: str,  # noqa: A002
        iterations: int = ITERATIONS,
    ) -> Iterator[CoreMetric]:
        """Yield the aggregation of each number. ``iterations``: bootstrap resamples;
        capped at lighteval's number."""
        n, decides = min(iterations, ITERATIONS), self.accuracies()
        for name, added in aggregations_of(self.metric):
            made = metric_of(added, name, filter, self.metric.direction(name), n)
            if made.is_mean:
                made = replace(made, span=span_of(self.metric.sample_level_fn))
            if added.several is not None:
                how = partial(estimate_user, added, name, decides[name], n)
                made = replace(made, aggregate=how)
            yield made

    def accuracies(self) -> dict[str, Decides]:
        """Return for each name whether 1 means correct and 0 wrong."""
        found: dict[str, Decides] = {}
        for name, added in aggregations_of(self.metric):
            better = self.metric.direction(name) is True
            by_user = better and added.several is not None
            found[name] = PrefersOnes(added.value) if by_user else better
        return found


def _split_unconditioned(doc: Doc, response: ModelResponse) -> ModelResponse:
    """Move the log-probabilities without the question, the last, to their field."""
    n = len(doc.choices)
    if not n or len(response.logprobs) != 2 * n:
        return response
    return replace(
        response,
        logprobs=response.logprobs[:n],
        argmax_logits_eq_gold=response.argmax_logits_eq_gold[:n],
        output_tokens=response.output_tokens[:n],
        unconditioned_logprobs=response.logprobs[n:],
    )


def _shown(doc: Doc, response: ModelResponse) -> str:
    if response.text:
        return ", ".join(response.final_text)
    logprobs = response.logprobs[: len(doc.choices)]
    if not logprobs or len(doc.choices) < 2:
        return ""
    best = max(range(len(logprobs)), key=logprobs.__getitem__)
    return str(doc.choices[best])


def span_of(computation: Any) -> Span:
    """Return the range of a computation's values, if known."""
    computation = getattr(computation, "computation", computation)
    # Subclasses may have other ranges.
    if not vars(type(computation)).get("is_share", False):
        return ANYTHING
    how = getattr(computation, "aggregation_function", None)
    is_users = callable(how) and how not in (max, min)
    in_percent = getattr(computation, "bootstrap", False)
    return ANYTHING if is_users or in_percent else SHARE


_SESSION_JUDGE = "judge"  # the name of the session's judge in ``Ask.model``


class JudgedMetric(NamedTuple):
    """A metric with a document and its response."""

    metric: TaskMetric
    doc: Doc
    response: ModelResponse


def judge_models(metrics: Iterable[TaskMetric]) -> Mapping[str, ModelSource]:
    """Return the judges of metrics, by their names in ``Ask.model``."""
    sources = [judge.source for metric in metrics for judge in metric.judges]
    return {source or _SESSION_JUDGE: source or JUDGE for source in sources}


def judge_dialogues(parts: Sequence[JudgedMetric]) -> Dialogue[list[ModelResponse]]:
    """Run :func:`judge_dialogue` for several metrics, always in the same order."""
    return together([judge_dialogue(part) for part in parts])


def _ask(question: JudgeQuestion) -> Ask:
    model = question.model or _SESSION_JUDGE
    return ReadAsk(model, question.request, lambda one: question.read(_text(one)))


def _text(response: Response) -> str:
    return response.raise_for_error().text


def judge_dialogue(
    part: JudgedMetric,
    ask: Callable[[JudgeQuestion], Ask] = _ask,
    read: Callable[[Response], str] = _text,
) -> Dialogue[ModelResponse]:
    """Query the judges of a metric; return the response with their replies. Raises
    DocumentError if a judge request failed, or the document cannot be scored."""
    metric, doc, response = part
    replies: tuple[str, ...] = ()
    while True:
        judged = replace(response, judge_replies={metric.names[0]: replies})
        questions = metric.pending_questions(doc, judged)
        if not questions:
            return judged
        responses = yield [ask(question) for question in questions]
        replies += tuple(map(read, responses))
