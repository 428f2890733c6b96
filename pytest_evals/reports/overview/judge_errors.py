"""The measured errors of judges as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_evals.core.rated_documents import rated_documents
from pytest_evals.core.result import TaskResult
from pytest_evals.gates.terms import figure
from pytest_evals.scorers.judge_error import (
    JudgeError,
    JuryAgreement,
    PositionBias,
    judge_error,
    jury_agreements,
    position_biases,
)

SIGNIFICANT = 0.05
"""Largest p-value of a bias that is reported."""
_CI = "90% CI"


def position_line(bias: PositionBias) -> str:
    """The position bias as text."""
    name = bias.metric.partition(",")[0]
    text = (
        f"{name}: {bias.n_consistent} of {bias.n_pairs} pairs have the same winner in "
        f"both orders; the first answer is preferred in "
        f"{figure(bias.first_preferred)} of verdicts"
    )
    significant = bias.p_value <= SIGNIFICANT
    return f"{text}: position bias (p = {figure(bias.p_value)})" * significant or text


def jury_line(found: JuryAgreement) -> str:
    """The agreement of a jury as text."""
    name = found.metric.partition(",")[0]
    if found.n_members < 2:
        return (
            f"{name}: the repeats of a deterministic judge are one reply; set "
            "temperature: 0.7"
        )
    alpha = "undefined, since all ratings are equal"
    if found.alpha is not None:
        alpha = f"{found.alpha:.2f}"
    if found.alpha is not None and found.limits is not None:
        alpha += f", {_CI} [{found.limits.low:.2f}, {found.limits.high:.2f}]"
    means = ", ".join(map(figure, found.means))
    return (
        f"{name}: all {found.n_members} ratings are equal for {found.n_unanimous} of "
        f"{found.n_answers} answers, Krippendorff's alpha {alpha}; means {means}"
    )


def judge_remarks(result: TaskResult) -> Iterator[str]:
    """Yield the measured errors of a task's judges as text, or why they are unknown."""
    yield from map(position_line, position_biases(result))
    yield from map(jury_line, jury_agreements(result))
    for metric in result.metrics:
        rated = rated_documents(result, metric)
        if rated is None or not result.records:
            continue
        if rated.human:
            yield from judge_error_lines(judge_error(metric, rated))
        else:
            yield f"{metric.name}: the judge's error is unknown: {rated.fault}"


def judge_error_lines(error: JudgeError) -> Iterator[str]:
    """Yield the error as text: the estimate, the agreement, remarks."""
    name = error.metric.partition(",")[0]
    mean_text = f"{name}: judge's mean {figure(error.judge_mean)}"
    if error.corrected is not None:
        one = error.corrected
        yield (
            f"{mean_text}, corrected by {error.n_labels} human labels "
            f"{figure(one.value)}, {_CI} [{figure(one.low)}, {figure(one.high)}]"
        )
    else:
        yield f"{mean_text}, not corrected: {error.fault}"
    shown = "undefined" if error.kappa is None else f"{error.kappa:.2f}"
    yield (
        f"{name}: agreement {figure(error.agreement)} ({error.n_agree} of "
        f"{error.n_labels}), kappa {shown}; {_confusion_text(error.confusion)}"
    )
    bias = error.length
    if bias is not None and bias.p_value <= SIGNIFICANT:
        way = "better" if bias.slope > 0 else "worse"
        yield (
            f"{name}: length bias: of answers with the same human label, one of twice "
            f"the length is rated {figure(abs(bias.slope))} {way} "
            f"(p = {figure(bias.p_value)})"
        )
    if not error.checked:
        yield (
            f"{name}: some labels have no response, so it is unknown whether they are "
            "of this run's answers"
        )


def _confusion_text(confusion: Mapping[str, Mapping[str, int]]) -> str:
    """``human pass: judge pass 40, fail 2; human fail: judge pass 5, fail 13``."""
    rows = []
    for human, row in confusion.items():
        cells = ", ".join(f"{judge} {n}" for judge, n in row.items() if n)
        if cells:
            rows.append(f"human {human}: judge {cells}")
    return "; ".join(rows)
