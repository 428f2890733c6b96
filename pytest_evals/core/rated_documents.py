"""The documents of a run that a judge has rated, with the ratings of people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_evals.core.metric import LEAST_LABELS, HumanLabels, MetricResult
from pytest_evals.core.result import TaskResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedDocuments:
    """The documents of a run that a judge has rated."""

    labels: HumanLabels
    labelled: Sequence[int]  # positions of the documents with a label
    human: Sequence[float]  # their labels
    judge: Sequence[float]  # their ratings by the judge
    lengths: Sequence[int]  # lengths of their answers
    unlabelled: Sequence[int]  # positions of the other documents
    others: Sequence[float]  # their ratings by the judge
    n_changed: int  # labels of answers other than those of this run
    n_lost: int  # labels of documents without an answer or a rating
    n_not_run: int  # labels of documents that are not in this run

    @property
    def fault(self) -> str:
        """Why the labels cannot correct the judge; empty if they can."""
        n = len(self.labels.by_id)
        if not self.labels.is_random:
            stated = repr(self.labels.sampled) if self.labels.sampled else "not set"
            return (
                f"sampled is {stated}: human labels correct a judge only if the "
                "labelled cases are a random sample (sampled: random)"
            )
        if self.n_changed:
            return (
                f"{self.n_changed} of {n} human labels are of other answers than those "
                "of this run; label the new answers"
            )
        if self.n_lost:
            return f"{self.n_lost} of {n} labelled documents have no rating"
        if len(self.human) < LEAST_LABELS:
            why = f" ({self.n_not_run} of documents that are not in this run)"
            return (
                f"{len(self.human)} human labels{why * bool(self.n_not_run)}; a gate "
                f"needs at least {LEAST_LABELS}"
            )
        return ""


def rated_documents(result: TaskResult, metric: MetricResult) -> RatedDocuments | None:
    """The documents that the judge of a metric has rated; ``None`` without labels."""
    if (labels := metric.labels) is None:
        return None
    labelled: list[tuple[int, float, float, int]] = []
    others: list[tuple[int, float]] = []
    n_run = n_changed = n_lost = 0
    for record in result.records:
        score = next((one for one in record.scores if one.key == metric.key), None)
        is_named = record.doc.id in labels.by_id
        n_run += is_named
        if score is None or score.unscored or record.error:
            n_lost += is_named
        elif score.label is not None:
            rating, length = score.label
            labelled.append((record.index, rating, float(score.value), length))
        else:
            n_changed += is_named
            others.append((record.index, float(score.value)))
    return RatedDocuments(
        labels=labels,
        labelled=[one for one, *_ in labelled],
        human=[one for _, one, *_ in labelled],
        judge=[one for *_, one, _ in labelled],
        lengths=[one for *_, one in labelled],
        unlabelled=[one for one, _ in others],
        others=[one for _, one in others],
        n_changed=n_changed,
        n_lost=n_lost,
        n_not_run=len(labels.by_id) - n_run,
    )
