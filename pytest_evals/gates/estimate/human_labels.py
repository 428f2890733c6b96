"""The mean of a judge's ratings, corrected by human labels of some documents.

Without human labels a gate on a judge is about the judge's opinion. With labels of a
random sample it is about the opinion of people: prediction-powered inference
(:mod:`pytest_evals.stats.prediction_powered`). Such a gate always compares confidence
limits: over the run they cover the judge's error, over the population the documents'
sampling error too.
"""

from __future__ import annotations

from pytest_evals.core.gate import Gate
from pytest_evals.core.rated_documents import RatedDocuments, rated_documents
from pytest_evals.gates.check import labels_fault
from pytest_evals.gates.observations import Observations
from pytest_evals.gates.terms import GateEstimate, InvalidGateError
from pytest_evals.stats.prediction_powered import (
    METHOD,
    RectifiedMean,
    mean_of_population,
    mean_of_run,
)


def estimate_labelled(gate: Gate, seen: Observations) -> GateEstimate:
    """The estimate of a judge's mean, corrected by its human labels.

    Raises:
        InvalidGateError: The labels or the gate do not allow it.
    """
    assert seen.result is not None
    metric, rated = seen.metric, rated_documents(seen.result, seen.metric)
    assert rated is not None
    if fault := labels_fault(gate) or rated.fault:
        raise InvalidGateError(fault)
    spread = _spread(gate, rated, seen)
    run = spread
    if gate.over == "population":
        run = mean_of_run(rated.human, rated.judge, rated.others)
    return GateEstimate(
        value=spread.value,
        n=metric.n_scored,
        n_errored=metric.n_errored,
        n_unscored=metric.n_unscored,
        spread=spread,
        method=METHOD,
        range=(0.0, 1.0),
        n_labels=len(rated.human),
        judge_limits=run.interval(gate.confidence),
    )


def _spread(gate: Gate, rated: RatedDocuments, seen: Observations) -> RectifiedMean:
    human, judge, others = rated.human, rated.judge, rated.others
    if gate.over == "run":
        return mean_of_run(human, judge, others)
    clusters = seen.clusters(gate.cluster, [*rated.labelled, *rated.unlabelled])
    if clusters is None:
        return mean_of_population(human, judge, others)
    labelled, rest = clusters[: len(human)], clusters[len(human) :]
    both = {*labelled} & {*rest}
    if both:
        raise InvalidGateError(
            f"{gate.cluster} {min(both)!r} has documents with and without a human "
            f"label: draw whole clusters ({gate.cluster}) at random and label all "
            "their documents"
        )
    return mean_of_population(human, judge, others, clusters=(labelled, rest))
