"""lighteval's metrics by their names (0.13.0, the enumeration ``Metrics``), and by the
names of earlier releases that task files still use.

Making a metric imports no library; computing it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_evals.scorers.lighteval.calibration import CorpusLevelHLE
from pytest_evals.scorers.lighteval.choices import (
    MRR,
    AccGoldLikelihood,
    LoglikelihoodAcc,
    Recall,
    TruthfulqaMCMetrics,
)
from pytest_evals.scorers.lighteval.corpora import (
    CorpusLevelF1Score,
    CorpusLevelPerplexityMetric,
    CorpusLevelTranslationMetric,
    FlatMean,
    MatthewsCorrCoef,
)
from pytest_evals.scorers.lighteval.distance import StringDistance
from pytest_evals.scorers.lighteval.drop import DropMetrics
from pytest_evals.scorers.lighteval.extractive import MultilingualExtractiveMatchMetric
from pytest_evals.scorers.lighteval.fragments import Extractiveness
from pytest_evals.scorers.lighteval.ifeval import (
    IFEVAL_NAMES,
    IFBenchMetrics,
    IFEvalMetrics,
)
from pytest_evals.scorers.lighteval.judged import JudgeLLMHLE, JudgeLLMSimpleQA
from pytest_evals.scorers.lighteval.letters import IndicesExtractionConfig
from pytest_evals.scorers.lighteval.logprobs import LogProbCharNorm
from pytest_evals.scorers.lighteval.matches import ExactMatches, F1_score
from pytest_evals.scorers.lighteval.maths import (
    ExprExtractionConfig,
    LatexExtractionConfig,
)
from pytest_evals.scorers.lighteval.metric import (
    CorpusLevelMetric,
    CorpusLevelMetricGrouping,
    Metric,
    SampleLevelMetric,
    SampleLevelMetricGrouping,
    SamplingMethod,
)
from pytest_evals.scorers.lighteval.neural import BLEURT, BertScore, Faithfulness
from pytest_evals.scorers.lighteval.normalizers import (
    remove_braces,
    remove_braces_and_strip,
)
from pytest_evals.scorers.lighteval.prepared import (
    GenerativePreparator,
    LoglikelihoodPreparator,
    PerplexityPreparator,
    TargetPerplexityPreparator,
)
from pytest_evals.scorers.lighteval.repeated import AvgAtN, GPassAtK, MajAtN, PassAtK
from pytest_evals.scorers.lighteval.rouge import BLEU, ROUGE
from pytest_evals.stats.averages import mean

__all__ = ["CATALOGUE", "PUBLISHED", "Maker"]

Maker = Callable[[], Metric]
"""What makes a metric."""

_TEXT, _CHOICES = SamplingMethod.GENERATIVE, SamplingMethod.LOGPROBS
_ROLLING = SamplingMethod.PERPLEXITY


def _sample(
    name: str, computation: Any, category: SamplingMethod = _TEXT
) -> SampleLevelMetric:
    return SampleLevelMetric(name, True, category, computation, mean)


def _group(
    names: list[str],
    computation: Any,
    down: tuple[str, ...] = (),
    how: Mapping[str, Any] | None = None,
    category: SamplingMethod = _TEXT,
) -> SampleLevelMetricGrouping:
    return SampleLevelMetricGrouping(
        names,
        {name: name not in down for name in names},
        category,
        computation,
        dict(how or dict.fromkeys(names, mean)),
    )


def _perplexity(name: str, kind: str, unit: str) -> CorpusLevelMetric:
    return CorpusLevelMetric(
        name,
        False,
        _ROLLING,
        PerplexityPreparator(unit),
        CorpusLevelPerplexityMetric(kind),
    )


def _translation(name: str, better: bool = True) -> CorpusLevelMetric:
    how = CorpusLevelTranslationMetric(name)
    return CorpusLevelMetric(name, better, _TEXT, GenerativePreparator(), how)


def _corpus(
    name: str, preparator: Any, how: Any, category: SamplingMethod = _CHOICES
) -> CorpusLevelMetric:
    return CorpusLevelMetric(name, True, category, preparator, how)


def _maths(gold: str, precision: int, boxed_first: bool) -> Any:
    """Formulas and numbers against references.

    Args:
        gold: What references are: ``expr``, ``latex`` or both, joined by ``+``.
        precision: Decimals to which numbers are rounded.
        boxed_first: Whether what is boxed counts before everything else.
    """
    kinds = {"expr": ExprExtractionConfig(), "latex": LatexExtractionConfig()}
    boxed = LatexExtractionConfig(boxed_match_priority=0 if boxed_first else 55)
    return MultilingualExtractiveMatchMetric(
        gold_extraction_target=tuple(kinds[name] for name in gold.split("+")),
        pred_extraction_target=(ExprExtractionConfig(), boxed),
        precision=precision,
    )


def _letters(anywhere: bool) -> Any:
    target = (IndicesExtractionConfig("NativeLetters", anywhere),)
    return MultilingualExtractiveMatchMetric(
        gold_extraction_target=target, pred_extraction_target=target
    )


_HLE = ("accuracy", "confidence_half_width", "calibration_error")
_ROUGES = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
_DISTANCES = ["longest_common_prefix_length", "edit_distance", "edit_similarity"]
_FRAGMENTS = [
    "summarization_coverage",
    "summarization_density",
    "summarization_compression",
]


def _fragments(language: str) -> Metric:
    return _group(_FRAGMENTS, Extractiveness(language=language))


def _following(computation: IFEvalMetrics) -> Metric:
    """Of instructions, each of all documents counts alike."""
    how = {n: FlatMean() if n.startswith("inst") else mean for n in IFEVAL_NAMES}
    return _group(list(IFEVAL_NAMES), computation, how=how)


def _rouge_t5() -> Metric:
    big = "bigbench_normalizer"
    how = ROUGE(_ROUGES, bootstrap=True, normalize_gold=big, normalize_pred=big)
    return _group(_ROUGES, how)


def _g_pass(name: str, scoring: Any, prefix: str | None = None) -> Metric:
    how = GPassAtK(
        strip_strings=True, sample_scoring_function=scoring, name_prefix=prefix
    )
    return SampleLevelMetricGrouping(name, True, _TEXT, how, mean)


def _em(name: str = "em", **arguments: Any) -> Metric:
    return _sample(name, ExactMatches(**arguments))


def _quasi(
    name: str, normalizer: str, kind: str = "full", published: bool = False
) -> Metric:
    how = ExactMatches(
        normalize_gold=normalizer,
        normalize_pred=normalizer,
        strip_strings=True,
        type_exact_match=kind,
        published=published,
    )
    return _sample(name, how)


_TEXTS: Mapping[str, Maker] = {
    "avg_at_n": lambda: _sample("avg@n", AvgAtN(strip_strings=True)),
    "avg_at_n_math": lambda: _sample(
        "avg@n", AvgAtN(sample_scoring_function=_maths("expr+latex", 6, False))
    ),
    "bert_score": lambda: _group(
        ["BERTScore-P", "BERTScore-R", "BERTScore-F"],
        BertScore(remove_braces, remove_braces_and_strip),
    ),
    "bleurt": lambda: _sample("bleurt", BLEURT()),
    "bleu_1": lambda: _sample("bleu_1", BLEU(1)),
    "bleu_4": lambda: _sample("bleu_4", BLEU(4)),
    "copyright": lambda: _group(
        _DISTANCES, StringDistance(_DISTANCES), down=("edit_distance",)
    ),
    "drop": lambda: _group(["em", "f1"], DropMetrics()),
    "exact_match": partial(_em, strip_strings=True),
    "expr_gold_metric": lambda: _sample("extractive_match", _maths("expr", 5, True)),
    "extractiveness": partial(_fragments, "en"),
    "extractiveness_de": partial(_fragments, "de"),
    "extractiveness_fr": partial(_fragments, "fr"),
    "extractiveness_it": partial(_fragments, "it"),
    "f1_score": lambda: _sample("f1", F1_score()),
    "faithfulness": lambda: _group(["summac"], Faithfulness()),
    "g_pass_at_k": lambda: _g_pass("g-pass@k", None),
    "g_pass_at_k_latex": lambda: _g_pass(
        "latex_g-pass@k", _maths("latex", 5, True), "latex"
    ),
    "g_pass_at_k_math": lambda: _g_pass(
        "math_g-pass@k", _maths("expr", 5, True), "math"
    ),
    "gpqa_instruct_metric": lambda: _sample("extractive_match", _letters(True)),
    "gpqa_instruct_pass_at_k": lambda: _sample(
        "gpqa_pass@k", PassAtK(sample_scoring_function=_letters(True))
    ),
    "hle_metrics": lambda: CorpusLevelMetricGrouping(
        list(_HLE),
        {name: name == "accuracy" for name in _HLE},
        _TEXT,
        JudgeLLMHLE(),
        {name: CorpusLevelHLE(name) for name in _HLE},
    ),
    "ifbench_metrics": lambda: _following(IFBenchMetrics()),
    "ifeval_metrics": lambda: _following(IFEvalMetrics()),
    "maj_at_n": lambda: _sample("maj@n", MajAtN()),
    "pass_at_k": lambda: _sample("pass@k", PassAtK(strip_strings=True)),
    "pass_at_k_letters": lambda: _sample(
        "pass@k", PassAtK(sample_scoring_function=_letters(False))
    ),
    "pass_at_k_math": lambda: _sample(
        "pass@k",
        PassAtK(
            strip_strings=True, sample_scoring_function=_maths("expr+latex", 6, False)
        ),
    ),
    "rouge1": lambda: _sample("rouge1", ROUGE("rouge1")),
    "rouge2": lambda: _sample("rouge2", ROUGE("rouge2")),
    "rougeL": lambda: _sample("rougeL", ROUGE("rougeL")),
    "rougeLsum": lambda: _sample("rougeLsum", ROUGE("rougeLsum")),
    "rouge_t5": _rouge_t5,
    "simpleqa_judge": lambda: _group(["simpleqa_judge"], JudgeLLMSimpleQA()),
}
"""Metrics of generated texts, document by document."""

_CHOICE: Mapping[str, Maker] = {
    "acc_golds_likelihood": lambda: _sample("acc", AccGoldLikelihood(), _CHOICES),
    "loglikelihood_acc": lambda: _sample("acc", LoglikelihoodAcc(), _CHOICES),
    "loglikelihood_f1": lambda: _corpus(
        "loglikelihood_f1", LoglikelihoodPreparator(), CorpusLevelF1Score(None)
    ),
    "mcc": lambda: _corpus("mcc", LoglikelihoodPreparator(), MatthewsCorrCoef()),
    "mrr": lambda: _sample("mrr", MRR(), _CHOICES),
    "multi_f1_numeric": lambda: _corpus(
        "mf1", LoglikelihoodPreparator(True), CorpusLevelF1Score("micro", 3)
    ),
    "recall_at_k": lambda: _sample("recall", Recall(), _CHOICES),
    "target_perplexity": lambda: SampleLevelMetric(
        "ppl",
        False,
        _CHOICES,
        TargetPerplexityPreparator("words"),
        CorpusLevelPerplexityMetric("perplexity"),
    ),
    "truthfulqa_mc_metrics": lambda: _group(
        ["truthfulqa_mc1", "truthfulqa_mc2"], TruthfulqaMCMetrics(), category=_CHOICES
    ),
}
"""Metrics of the log-probabilities of choices."""

_CORPUS: Mapping[str, Maker] = {
    "bits_per_byte": lambda: _perplexity("bits_per_byte", "bits_per_byte", "bytes"),
    "bleu": lambda: _translation("bleu"),
    "byte_perplexity": lambda: _perplexity(
        "byte_perplexity", "weighted_perplexity", "bytes"
    ),
    "chrf": lambda: _translation("chrf"),
    "chrf_plus": lambda: _translation("chrf++"),
    "f1_score_macro": lambda: _corpus(
        "f1", GenerativePreparator(), CorpusLevelF1Score("macro"), _TEXT
    ),
    "f1_score_micro": lambda: _corpus(
        "f1", GenerativePreparator(), CorpusLevelF1Score("micro"), _TEXT
    ),
    "prediction_perplexity": lambda: SampleLevelMetric(
        "ppl",
        False,
        _ROLLING,
        PerplexityPreparator("words"),
        CorpusLevelPerplexityMetric("perplexity"),
    ),
    "ter": lambda: _translation("ter", better=False),
    "word_perplexity": lambda: _perplexity(
        "word_perplexity", "weighted_perplexity", "words"
    ),
}
"""Metrics of all texts together."""

_OLD: Mapping[str, Maker] = {
    "loglikelihood_acc_norm": lambda: _sample(
        "acc_norm", LoglikelihoodAcc(LogProbCharNorm()), _CHOICES
    ),
    "loglikelihood_acc_norm_nospace": lambda: _sample(
        "acc_norm", LoglikelihoodAcc(LogProbCharNorm(ignore_first_space=True)), _CHOICES
    ),
    "perfect_exact_match": partial(_em, "perfect_em"),
    "prefix_exact_match": partial(
        _em, "pem", strip_strings=True, type_exact_match="prefix"
    ),
    "prefix_quasi_exact_match": partial(_quasi, "pqem", "helm_normalizer", "prefix"),
    "quasi_exact_match": partial(_quasi, "qem", "helm_normalizer"),
    "quasi_exact_match_gsm8k": partial(_quasi, "qem", "gsm8k_normalizer"),
    "quasi_exact_match_math": partial(_quasi, "qem", "math_normalizer"),
    "quasi_exact_match_triviaqa": partial(_quasi, "qem", "harness_triviaqa_normalizer"),
}
"""Names of earlier releases."""

_REPEATED = tuple(name for name in _TEXTS if "_at_" in name)
"""Metrics of several answers."""


def _published(name: str) -> Metric:
    made = _TEXTS[name]()
    return replace(made, sample_level_fn=replace(made.sample_level_fn, published=True))


_PUBLISHED: Mapping[str, Maker] = {
    **{name: partial(_published, name) for name in _REPEATED},
    "copyright": lambda: _group(
        _DISTANCES,
        StringDistance(_DISTANCES),
        down=("edit_distance",),
        how={name: min if name == "edit_distance" else max for name in _DISTANCES},
    ),
    "drop": lambda: _group(
        ["em", "f1"], DropMetrics(published=True), how={"em": max, "f1": max}
    ),
    "loglikelihood_f1": lambda: _corpus(
        "loglikelihood_f1",
        LoglikelihoodPreparator(),
        CorpusLevelF1Score(None, published=True),
    ),
    "multi_f1_numeric": lambda: _corpus(
        "mf1",
        LoglikelihoodPreparator(True),
        CorpusLevelF1Score("micro", 3, published=True),
    ),
    "prefix_quasi_exact_match": partial(
        _quasi, "pqem", "helm_normalizer_published", "prefix"
    ),
    "quasi_exact_match": partial(_quasi, "qem", "helm_normalizer_published"),
    "quasi_exact_match_gsm8k": partial(
        _quasi, "qem", "gsm8k_normalizer", published=True
    ),
    "recall_at_k": lambda: _sample("recall", Recall(published=True), _CHOICES),
    "target_perplexity": lambda: SampleLevelMetric(
        "ppl",
        False,
        _CHOICES,
        TargetPerplexityPreparator("words", published=True),
        CorpusLevelPerplexityMetric("perplexity"),
    ),
}
"""Metrics that lighteval computes by mistake in another way, as it does."""

CATALOGUE: Mapping[str, Maker] = {**_TEXTS, **_CHOICE, **_CORPUS, **_OLD}
"""Name → what makes the metric."""

PUBLISHED: Mapping[str, Maker] = {**CATALOGUE, **_PUBLISHED}
"""The same, with numbers as lighteval publishes them."""
