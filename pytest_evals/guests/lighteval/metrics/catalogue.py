"""lighteval's metrics by name (0.13.0), and the family ``lighteval:`` of metrics in
task files. Metrics are made when they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_evals.core.registry import Registry
from pytest_evals.guests.lighteval.metrics.choices import (
    MRR,
    AccGoldLikelihood,
    LoglikelihoodAcc,
    LogProbCharNorm,
    Recall,
    TruthfulqaMCMetrics,
)
from pytest_evals.guests.lighteval.metrics.codegen import CodegenMetric
from pytest_evals.guests.lighteval.metrics.corpus import (
    CorpusLevelF1Score,
    CorpusLevelPerplexityMetric,
    CorpusLevelTranslationMetric,
    FlatMean,
    MatthewsCorrCoef,
)
from pytest_evals.guests.lighteval.metrics.extraction import (
    ExprExtractionConfig,
    IndicesExtractionConfig,
    LatexExtractionConfig,
)
from pytest_evals.guests.lighteval.metrics.extractive_match import (
    MultilingualExtractiveMatchMetric,
)
from pytest_evals.guests.lighteval.metrics.instructions.ifeval import (
    IFEVAL_NAMES,
    IFBenchMetrics,
    IFEvalMetrics,
)
from pytest_evals.guests.lighteval.metrics.judges import (
    CorpusLevelHLE,
    JudgeLLMHLE,
    JudgeLLMSimpleQA,
)
from pytest_evals.guests.lighteval.metrics.matches import (
    DropMetrics,
    ExactMatches,
    F1_score,
    StringDistance,
)
from pytest_evals.guests.lighteval.metrics.neural import (
    BLEURT,
    BertScore,
    Faithfulness,
)
from pytest_evals.guests.lighteval.metrics.normalizers import (
    remove_braces,
    remove_braces_and_strip,
)
from pytest_evals.guests.lighteval.metrics.preparators import (
    GenerativePreparator,
    LoglikelihoodPreparator,
    PerplexityPreparator,
    TargetPerplexityPreparator,
)
from pytest_evals.guests.lighteval.metrics.repeats import (
    AvgAtN,
    GPassAtK,
    MajAtN,
    PassAtK,
)
from pytest_evals.guests.lighteval.metrics.rouge import BLEU, ROUGE, Extractiveness
from pytest_evals.scorers.custom_metrics.aggregation import mean
from pytest_evals.scorers.custom_metrics.entry import pop_flag, with_arguments
from pytest_evals.scorers.custom_metrics.metric import (
    CorpusLevelMetric,
    CorpusLevelMetricGrouping,
    Metric,
    MetricGrouping,
    SampleLevelMetric,
    SampleLevelMetricGrouping,
    SamplingMethod,
)
from pytest_evals.scorers.custom_metrics.task_metric import TaskMetric

Maker = Callable[[], Metric]


TEXT, CHOICES = SamplingMethod.GENERATIVE, SamplingMethod.LOGPROBS


ROLLING = SamplingMethod.PERPLEXITY


def sample(
    name: str, computation: Any, category: SamplingMethod = TEXT
) -> SampleLevelMetric:
    """Build a metric with one number, aggregated by the mean."""
    return SampleLevelMetric(name, True, category, computation, mean)


def group(
    names: list[str],
    computation: Any,
    down: tuple[str, ...] = (),
    how: Mapping[str, Any] | None = None,
    category: SamplingMethod = TEXT,
    made: type[MetricGrouping] = SampleLevelMetricGrouping,
) -> MetricGrouping:
    """Build a metric with several numbers.

    Args:
        down: Names for which lower is better.
        how: Aggregation by name; the mean by default.
    """
    return made(
        names,
        {name: name not in down for name in names},
        category,
        computation,
        dict(how or dict.fromkeys(names, mean)),
    )


def corpus(
    name: str, preparator: Any, how: Any, category: SamplingMethod = CHOICES
) -> CorpusLevelMetric:
    """Build a corpus metric."""
    return CorpusLevelMetric(name, True, category, preparator, how)


def _formulas(gold: str, precision: int, boxed_first: bool) -> Any:
    """Compare formulas and numbers with references.

    Args:
        gold: Type of references: ``expr``, ``latex`` or both, joined by ``+``.
        boxed_first: Whether ``\\boxed{}`` has the highest priority.
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


DISTANCES = ["longest_common_prefix_length", "edit_distance", "edit_similarity"]


_FRAGMENTS = [
    "summarization_coverage",
    "summarization_density",
    "summarization_compression",
]


def _fragments(language: str) -> Metric:
    return group(_FRAGMENTS, Extractiveness(language=language))


def _following(computation: IFEvalMetrics) -> Metric:
    """Build IFEval's metric; instruction-level numbers weight instructions equally."""
    how = {n: FlatMean() if n.startswith("inst") else mean for n in IFEVAL_NAMES}
    return group(list(IFEVAL_NAMES), computation, how=how)


def _rouge_t5() -> Metric:
    big = "bigbench_normalizer"
    how = ROUGE(_ROUGES, bootstrap=True, normalize_gold=big, normalize_pred=big)
    return group(_ROUGES, how, made=CorpusLevelMetricGrouping)


def _g_pass(name: str, scoring: Any, prefix: str | None = None) -> Metric:
    how = GPassAtK(
        strip_strings=True, sample_scoring_function=scoring, name_prefix=prefix
    )
    return SampleLevelMetricGrouping(name, True, TEXT, how, mean)


def em(name: str = "em", **arguments: Any) -> Metric:
    """Build an exact match."""
    return sample(name, ExactMatches(**arguments))


TEXT_METRICS: Mapping[str, Maker] = {
    "avg_at_n": lambda: sample("avg@n", AvgAtN(strip_strings=True)),
    "avg_at_n_math": lambda: sample(
        "avg@n", AvgAtN(sample_scoring_function=_formulas("expr+latex", 6, False))
    ),
    "bert_score": lambda: group(
        ["BERTScore-P", "BERTScore-R", "BERTScore-F"],
        BertScore(remove_braces, remove_braces_and_strip),
    ),
    "bleurt": lambda: sample("bleurt", BLEURT()),
    "bleu_1": lambda: sample("bleu_1", BLEU(1)),
    "bleu_4": lambda: sample("bleu_4", BLEU(4)),
    "copyright": lambda: group(
        DISTANCES, StringDistance(DISTANCES), down=("edit_distance",)
    ),
    "drop": lambda: group(["em", "f1"], DropMetrics()),
    "exact_match": partial(em, strip_strings=True),
    "expr_gold_metric": lambda: sample("extractive_match", _formulas("expr", 5, True)),
    "extractiveness": partial(_fragments, "en"),
    "extractiveness_de": partial(_fragments, "de"),
    "extractiveness_fr": partial(_fragments, "fr"),
    "extractiveness_it": partial(_fragments, "it"),
    "f1_score": lambda: sample("f1", F1_score()),
    "faithfulness": lambda: sample("summac", Faithfulness()),
    "g_pass_at_k": lambda: _g_pass("g-pass@k", None),
    "g_pass_at_k_latex": lambda: _g_pass(
        "latex-g-pass@k", _formulas("latex", 5, True), "latex"
    ),
    "g_pass_at_k_math": lambda: _g_pass(
        "math-g-pass@k", _formulas("expr", 5, True), "math"
    ),
    "gpqa_instruct_metric": lambda: sample("extractive_match", _letters(True)),
    "gpqa_instruct_pass_at_k": lambda: sample(
        "gpqa_pass@k", PassAtK(sample_scoring_function=_letters(True))
    ),
    "hle_metrics": lambda: CorpusLevelMetricGrouping(
        list(_HLE),
        {name: name == "accuracy" for name in _HLE},
        TEXT,
        JudgeLLMHLE(),
        {name: CorpusLevelHLE(name) for name in _HLE},
    ),
    "ifbench_metrics": lambda: _following(IFBenchMetrics()),
    "ifeval_metrics": lambda: _following(IFEvalMetrics()),
    "lcb_codegen_metric": lambda: sample("codegen_pass@1:16", CodegenMetric()),
    "maj_at_n": lambda: sample("maj@n", MajAtN()),
    "pass_at_k": lambda: sample("pass@k", PassAtK(strip_strings=True)),
    "pass_at_k_letters": lambda: sample(
        "pass@k", PassAtK(sample_scoring_function=_letters(False))
    ),
    "pass_at_k_math": lambda: sample(
        "pass@k",
        PassAtK(
            strip_strings=True,
            sample_scoring_function=_formulas("expr+latex", 6, False),
        ),
    ),
    "rouge1": lambda: sample("rouge1", ROUGE("rouge1")),
    "rouge2": lambda: sample("rouge2", ROUGE("rouge2")),
    "rougeL": lambda: sample("rougeL", ROUGE("rougeL")),
    "rougeLsum": lambda: sample("rougeLsum", ROUGE("rougeLsum")),
    "rouge_t5": _rouge_t5,
    "simpleqa_judge": lambda: group(["simpleqa_judge"], JudgeLLMSimpleQA()),
}


CHOICE_METRICS: Mapping[str, Maker] = {
    "acc_golds_likelihood": lambda: sample("acc", AccGoldLikelihood(), CHOICES),
    "loglikelihood_acc": lambda: sample("acc", LoglikelihoodAcc(), CHOICES),
    "loglikelihood_f1": lambda: corpus(
        "loglikelihood_f1", LoglikelihoodPreparator(), CorpusLevelF1Score(None)
    ),
    "mcc": lambda: corpus("mcc", LoglikelihoodPreparator(), MatthewsCorrCoef()),
    "mrr": lambda: sample("mrr", MRR(), CHOICES),
    "multi_f1_numeric": lambda: corpus(
        "mf1", LoglikelihoodPreparator(True), CorpusLevelF1Score("micro", 3)
    ),
    "recall_at_k": lambda: sample("recall", Recall(), CHOICES),
    "target_perplexity": lambda: SampleLevelMetric(
        "ppl",
        False,
        CHOICES,
        TargetPerplexityPreparator("words"),
        CorpusLevelPerplexityMetric("perplexity"),
    ),
    "truthfulqa_mc_metrics": lambda: group(
        ["truthfulqa_mc1", "truthfulqa_mc2"], TruthfulqaMCMetrics(), category=CHOICES
    ),
}
_REPEATED = tuple(name for name in TEXT_METRICS if "_at_" in name)
"""Metrics of several answers per prompt."""


def quasi_exact_match(
    name: str, normalizer: str, kind: str = "full", published: bool = False
) -> Metric:
    """Build an exact match of normalized texts."""
    how = ExactMatches(
        normalize_gold=normalizer,
        normalize_pred=normalizer,
        strip_strings=True,
        type_exact_match=kind,
        published=published,
    )
    return sample(name, how)


LEGACY_METRICS: Mapping[str, Maker] = {
    "loglikelihood_acc_norm": lambda: sample(
        "acc_norm", LoglikelihoodAcc(LogProbCharNorm()), CHOICES
    ),
    "loglikelihood_acc_norm_nospace": lambda: sample(
        "acc_norm", LoglikelihoodAcc(LogProbCharNorm(ignore_first_space=True)), CHOICES
    ),
    "perfect_exact_match": partial(em, "perfect_em"),
    "prefix_exact_match": partial(
        em, "pem", strip_strings=True, type_exact_match="prefix"
    ),
    "prefix_quasi_exact_match": partial(
        quasi_exact_match, "pqem", "helm_normalizer", "prefix"
    ),
    "quasi_exact_match": partial(quasi_exact_match, "qem", "helm_normalizer"),
    "quasi_exact_match_gsm8k": partial(quasi_exact_match, "qem", "gsm8k_normalizer"),
    "quasi_exact_match_math": partial(quasi_exact_match, "qem", "math_normalizer"),
    "quasi_exact_match_triviaqa": partial(
        quasi_exact_match, "qem", "harness_triviaqa_normalizer"
    ),
}


def _perplexity(name: str, kind: str, unit: str) -> CorpusLevelMetric:
    return CorpusLevelMetric(
        name,
        False,
        ROLLING,
        PerplexityPreparator(unit),
        CorpusLevelPerplexityMetric(kind),
    )


def _translation(name: str, better: bool = True) -> CorpusLevelMetric:
    how = CorpusLevelTranslationMetric(name)
    return CorpusLevelMetric(name, better, TEXT, GenerativePreparator(), how)


CORPUS_METRICS: Mapping[str, Maker] = {
    "bits_per_byte": lambda: _perplexity("bits_per_byte", "bits_per_byte", "bytes"),
    "bleu": lambda: _translation("bleu"),
    "byte_perplexity": lambda: _perplexity(
        "byte_perplexity", "weighted_perplexity", "bytes"
    ),
    "chrf": lambda: _translation("chrf"),
    "chrf_plus": lambda: _translation("chrf++"),
    "f1_score_macro": lambda: corpus(
        "f1", GenerativePreparator(), CorpusLevelF1Score("macro"), TEXT
    ),
    "f1_score_micro": lambda: corpus(
        "f1", GenerativePreparator(), CorpusLevelF1Score("micro"), TEXT
    ),
    "prediction_perplexity": lambda: SampleLevelMetric(
        "ppl",
        False,
        ROLLING,
        PerplexityPreparator("words"),
        CorpusLevelPerplexityMetric("perplexity"),
    ),
    "ter": lambda: _translation("ter", better=False),
    "word_perplexity": lambda: _perplexity(
        "word_perplexity", "weighted_perplexity", "words"
    ),
}


def _published(name: str) -> Metric:
    made = TEXT_METRICS[name]()
    return replace(made, sample_level_fn=replace(made.sample_level_fn, published=True))


PUBLISHED_METRICS: Mapping[str, Maker] = {
    **{name: partial(_published, name) for name in _REPEATED},
    "copyright": lambda: group(
        DISTANCES,
        StringDistance(DISTANCES),
        down=("edit_distance",),
        how={name: min if name == "edit_distance" else max for name in DISTANCES},
    ),
    "drop": lambda: group(
        ["em", "f1"], DropMetrics(published=True), how={"em": max, "f1": max}
    ),
    "loglikelihood_f1": lambda: corpus(
        "loglikelihood_f1",
        LoglikelihoodPreparator(),
        CorpusLevelF1Score(None, published=True),
    ),
    "multi_f1_numeric": lambda: corpus(
        "mf1",
        LoglikelihoodPreparator(True),
        CorpusLevelF1Score("micro", 3, published=True),
    ),
    "prefix_quasi_exact_match": partial(
        quasi_exact_match, "pqem", "helm_normalizer_published", "prefix"
    ),
    "quasi_exact_match": partial(quasi_exact_match, "qem", "helm_normalizer_published"),
    "quasi_exact_match_gsm8k": partial(
        quasi_exact_match, "qem", "gsm8k_normalizer", published=True
    ),
    "recall_at_k": lambda: sample("recall", Recall(published=True), CHOICES),
    "target_perplexity": lambda: SampleLevelMetric(
        "ppl",
        False,
        CHOICES,
        TargetPerplexityPreparator("words", published=True),
        CorpusLevelPerplexityMetric("perplexity"),
    ),
}
"""Metrics with lighteval's bugs, for ``published: true``."""

CATALOGUE: Mapping[str, Maker] = {
    **TEXT_METRICS,
    **CHOICE_METRICS,
    **CORPUS_METRICS,
    **LEGACY_METRICS,
}

PUBLISHED: Mapping[str, Maker] = {**CATALOGUE, **PUBLISHED_METRICS}
"""The same, with lighteval's bugs."""


def lighteval_metric(name: str, arguments: Mapping[str, Any]) -> TaskMetric:
    """Return a metric by its name in lighteval. ``published: true`` among its arguments
    reproduces lighteval's bugs."""
    params = dict(arguments)
    makers = PUBLISHED if pop_flag(params, "published") else CATALOGUE
    known: Registry[Callable[[], Metric]] = Registry("lighteval metric", makers)
    return with_arguments(known[name.removeprefix("lighteval:")](), params)
