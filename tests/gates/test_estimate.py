"""Confidence intervals of a metric over other documents: compared with scipy,
scikit-learn and sacrebleu and, by simulation, with their nominal coverage."""

import math
from dataclasses import astuple

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import f1_score

from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.gates.estimate.value import estimate_metric, estimate_point
from pytest_evals.gates.terms import InvalidGateError
from pytest_evals.scorers.metrics import MetricSpec, metric

TYPES = {
    "word_perplexity": "loglikelihood_rolling",
    "bits_per_byte": "loglikelihood_rolling",
    "perplexity": "loglikelihood",
    "bleu": "generate_until",
    "chrf": "generate_until",
}


def placed(name, values, labels=None, **spec):
    kind = TYPES.get(name, "multiple_choice")
    how = metric(MetricSpec(name=name, **spec), "none", kind, False)
    total = None
    if how.is_mean and all(v in (0, 1) for v in values):
        total = sum(values)
    value = how.number(values)
    result = MetricResult(
        name=name,
        filter="none",
        estimate=Estimate(value),
        n_scored=len(values),
        total=total,
        how=how,
    )
    return estimate_metric(result, estimate_point(result), values, labels)


def labels_and_answers(n, generator, right=0.8):
    golds = generator.integers(0, 2, n)
    predicted = np.where(generator.random(n) < right, golds, 1 - golds)
    return [(int(g), int(s)) for g, s in zip(golds, predicted, strict=True)]


def test_limits_of_a_perplexity_are_those_of_its_logarithm():
    losses = np.random.default_rng(1).gamma(2, 2, 100)
    found = placed("perplexity", (-losses).tolist())
    reach = stats.t.ppf(0.95, 99) * losses.std(ddof=1) / 10
    assert found.scale == "log"
    assert found.value == pytest.approx(math.exp(losses.mean()))
    assert found.spread.value == pytest.approx(losses.mean())
    low, high = found.spread.interval(0.95)
    # Skewed to the right: the studentized bootstrap moves both limits up.
    assert losses.mean() - reach < low < losses.mean() - 0.8 * reach
    assert losses.mean() + reach < high < losses.mean() + 1.3 * reach


def test_bits_per_byte_are_not_a_logarithm_to_us():
    values = [(-float(x), 10) for x in np.random.default_rng(2).gamma(2, 5, 80)]
    found = placed("bits_per_byte", values)
    bits = -sum(v for v, _ in values) / 800 / math.log(2)
    assert found.scale == "plain"
    assert found.spread.value == pytest.approx(bits)


@pytest.mark.parametrize("n", [80, 400])
def test_f1_is_near_scipys_bootstrap_of_scikit_learns(n):
    pairs = labels_and_answers(n, np.random.default_rng(n))
    golds, predicted = np.array(pairs).T

    def statistic(golds, predicted, axis=-1):
        both = (golds * predicted).sum(axis)
        return 2 * both / (golds.sum(axis) + predicted.sum(axis))

    assert statistic(golds, predicted) == pytest.approx(f1_score(golds, predicted))
    known = stats.bootstrap(
        (golds, predicted), statistic, paired=True, vectorized=True, n_resamples=4000,
        confidence_level=0.9, method="BCa", rng=2,
    ).confidence_interval  # fmt: skip
    found = placed("f1", pairs)
    assert found.method == "Clopper-Pearson"
    assert found.spread.interval(0.95) == pytest.approx(known, abs=0.015)


@pytest.mark.parametrize(("hits", "errors"), [(40, 0), (40, 3), (0, 12)])
def test_f1_has_the_exact_limits_of_hits_among_all_but_true_negatives(hits, errors):
    """F1 = 2 J / (1 + J), where J is the share of hits among documents that are
    positive in gold or prediction; given their number, hits are binomial."""
    pairs = [(1, 1)] * hits + [(1, 0), (0, 1)] * (errors // 2) + [(0, 0)] * 30
    pairs += [(1, 0)] * (errors % 2)
    exact = stats.binomtest(hits, hits + errors).proportion_ci(0.9, "exact")
    low, high = (2 * share / (1 + share) for share in exact)
    found = placed("f1", pairs)
    assert found.spread.interval(0.95) == pytest.approx((low, high), abs=1e-8)


@pytest.mark.parametrize(("n_0", "n_1"), [(25, 25), (97, 103), (92, 108)])
def test_a_perfect_correlation_leaves_errors_possible(n_0, n_1):
    pairs = [(0, 0)] * n_0 + [(1, 1)] * n_1
    found = placed("mcc", pairs)
    assert found.method == "delta method"
    low, high, _ = astuple(found.limits(0.95))
    # Of 50 documents, 5.8% may be wrong: the exact limit of a proportion.
    n = n_0 + n_1
    assert low > 1 - 7.5 / n
    assert low < 1 - 2 * (1 - 0.05 ** (1 / n)) + 1.5 / n
    assert high == pytest.approx(1)


def test_bleu_is_bootstrapped_for_its_kink():
    sacrebleu = pytest.importorskip("sacrebleu")
    generator = np.random.default_rng(0)
    words = [f"w{i}" for i in range(30)]
    references = [" ".join(generator.choice(words, 12)) for _ in range(60)]
    texts = [
        " ".join(w if generator.random() < 0.8 else "x" for w in reference.split())
        for reference in references
    ]
    found = placed("bleu", [*zip(references, texts, strict=True)])
    known = sacrebleu.corpus_bleu(texts, [references], force=True)
    assert found.method == "bootstrap"
    assert found.spread.value == pytest.approx(known.score)
    low, high = found.spread.interval(0.95)
    assert low < known.score < high


def test_median_and_a_function_of_the_task_are_bootstrapped():
    values = np.random.default_rng(3).normal(size=200).tolist()
    found = placed("exact_match", values, aggregation="median")
    assert found.method == "bootstrap"
    own = placed("exact_match", values, aggregation=lambda given: max(given))
    assert own.method == "bootstrap"


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("mcc", [(1, 1), (0, 1)] * 10, "it needs 30 documents, not 20"),
        ("f1", [(0, 0)] * 40, "no document counts in its denominator"),
        ("perplexity", [-1.5] * 40, "is the same in all 40 documents"),
        ("perplexity", [-1.0], "it needs 2 documents, not 1"),
    ],
)
def test_a_metric_with_unknown_variance_is_invalid(name, values, message):
    with pytest.raises(InvalidGateError, match=message):
        placed(name, values)


def test_clusters_of_any_metric_count():
    """Each document four times: the standard error is that of a quarter of them."""
    generator = np.random.default_rng(4)
    once = labels_and_answers(300, generator)
    labels = [*range(300)] * 4
    four = placed("f1", once * 4, labels)
    alone = placed("f1", once)
    assert four.method == "clustered Gaffke"
    assert four.spread.stderr == pytest.approx(alone.spread.stderr, rel=1e-3)
    many = placed("mcc", once * 4, labels)
    assert many.method.startswith("clustered delta method, design effect 4.0")
    assert many.spread.stderr == pytest.approx(placed("mcc", once).spread.stderr, 1e-2)


def coverage(name, true_value, draw, n_samples):
    """The percentage of intervals that contain the true value; 90% is nominal."""
    held = 0
    for seed in range(n_samples):
        values, labels = draw(np.random.default_rng(seed))
        low, high, _ = astuple(placed(name, values, labels).limits(0.95))
        held += low <= true_value <= high
    return held / n_samples


def _f1(n):
    # 0.4 true positives, 0.1 false negatives and positives: 2 * 0.4 / (0.8 + 0.2)
    return lambda generator: (labels_and_answers(n, generator), None)


def _perplexity(generator):
    lengths = generator.integers(10, 100, 120)
    losses = lengths * generator.gamma(4, 0.5, 120)
    pairs = zip((-losses).tolist(), lengths.tolist(), strict=True)
    return [(a, b) for a, b in pairs], None


def _clusters(generator):
    """Fifty passages of ten questions, with an intra-cluster correlation of 0.3."""
    skill = generator.beta(0.7 * 7 / 3, 0.3 * 7 / 3, 50)
    answers = generator.random((50, 10)) < skill[:, None]
    return answers.ravel().astype(int).tolist(), np.repeat(np.arange(50), 10).tolist()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "true_value", "draw", "n_samples"),
    [
        ("f1", 0.8, _f1(60), 100),
        ("f1", 0.8, _f1(200), 400),
        ("word_perplexity", math.exp(2), _perplexity, 400),
        ("acc", 0.7, _clusters, 400),
    ],
    ids=["f1 of 60", "f1 of 200", "perplexity", "clusters"],
)
def test_intervals_have_their_nominal_coverage(name, true_value, draw, n_samples):
    assert 0.85 <= coverage(name, true_value, draw, n_samples) <= 0.95


def test_ignoring_clusters_would_reduce_the_coverage():
    """The same clusters without their labels: the coverage is about 60% instead of
    90%."""

    def draw(generator):
        return _clusters(generator)[0], None

    assert coverage("acc", 0.7, draw, 200) < 0.75
