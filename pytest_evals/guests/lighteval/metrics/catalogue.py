"""lighteval's metrics by name (0.13.0), and the family ``lighteval:`` of metrics in
task files. Metrics are made when they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pytest_evals.core.registry import Registry
from pytest_evals.guests.lighteval.metrics import (
    choices,
    codegen,
    corpus,
    extraction,
    judges,
    matches,
    neural,
    normalizers,
    preparators,
    repeats,
    rouge,
)
from pytest_evals.guests.lighteval.metrics.extractive_match import (
    MultilingualExtractiveMatchMetric,
)
from pytest_evals.guests.lighteval.metrics.instructions import ifeval
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


def sample(
    name: str, computation: Any, category: SamplingMethod = TEXT
) -> SampleLevelMetric:
    """Build a metric with one number, aggregated by the mean."""
    return SampleLevelMetric(name, True, category, computation, mean)


def _group(
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
    better = {name: name not in down for name in names}
    how = dict(how or dict.fromkeys(names, mean))
    return made(names, better, category, computation, how)


def _formulas(gold: str, precision: int, boxed_first: bool) -> Any:
    """Compare formulas and numbers with references.

    Args:
        gold: Type of references: ``expr``, ``latex`` or both, joined by ``+``.
        boxed_first: Whether ``\\boxed{}`` has the highest priority.
    """
    expr, latex = extraction.ExprExtractionConfig, extraction.LatexExtractionConfig
    kinds = {"expr": expr(), "latex": latex()}
    boxed = latex(boxed_match_priority=0 if boxed_first else 55)
    return MultilingualExtractiveMatchMetric(
        gold_extraction_target=tuple(kinds[name] for name in gold.split("+")),
        pred_extraction_target=(expr(), boxed),
        precision=precision,
    )


def _letters(anywhere: bool) -> Any:
    target = (extraction.IndicesExtractionConfig("NativeLetters", anywhere),)
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
    return _group(_FRAGMENTS, rouge.Extractiveness(language=language))


def _following(computation: ifeval.IFEvalMetrics) -> Metric:
    """Build IFEval's metric; instruction-level numbers weight instructions equally."""
    names = ifeval.IFEVAL_NAMES
    how = {n: corpus.FlatMean() if n.startswith("inst") else mean for n in names}
    return _group(list(names), computation, how=how)


def _rouge_t5() -> Metric:
    big = "bigbench_normalizer"
    how = rouge.ROUGE(_ROUGES, bootstrap=True, normalize_gold=big, normalize_pred=big)
    return _group(_ROUGES, how, made=CorpusLevelMetricGrouping)


def _exact(name: str, normalizer: str | None = None, **arguments: Any) -> Metric:
    """Build an exact match of texts, normalized by the same normalizer."""
    return sample(name, matches.ExactMatches(max, normalizer, normalizer, **arguments))


def _text_metrics(published: bool) -> dict[str, Maker]:
    def repeated(
        name: str, kind: Any, scoring: Any = None, strip: bool = True
    ) -> Metric:
        how = {"strip_strings": strip, "sample_scoring_function": scoring}
        return sample(name, kind(published=published, **how))

    def g_pass(name: str, scoring: Any, prefix: str | None = None) -> Metric:
        how = repeats.GPassAtK(
            strip_strings=True,
            sample_scoring_function=scoring,
            name_prefix=prefix,
            published=published,
        )
        return SampleLevelMetricGrouping(name, True, TEXT, how, mean)

    return {
        "avg_at_n": lambda: repeated("avg@n", repeats.AvgAtN),
        "avg_at_n_math": lambda: repeated(
            "avg@n", repeats.AvgAtN, _formulas("expr+latex", 6, False), strip=False
        ),
        "bert_score": lambda: _group(
            ["BERTScore-P", "BERTScore-R", "BERTScore-F"],
            neural.BertScore(
                normalizers.remove_braces, normalizers.remove_braces_and_strip
            ),
        ),
        "bleurt": lambda: sample("bleurt", neural.BLEURT()),
        "bleu_1": lambda: sample("bleu_1", rouge.BLEU(1)),
        "bleu_4": lambda: sample("bleu_4", rouge.BLEU(4)),
        "copyright": lambda: _group(
            _DISTANCES,
            matches.StringDistance(_DISTANCES),
            down=("edit_distance",),
            how={n: min if n == "edit_distance" else max for n in _DISTANCES}
            if published
            else None,
        ),
        "drop": lambda: _group(
            ["em", "f1"],
            matches.DropMetrics(published=published),
            how={"em": max, "f1": max} if published else None,
        ),
        "exact_match": lambda: _exact("em", strip_strings=True),
        "expr_gold_metric": lambda: sample(
            "extractive_match", _formulas("expr", 5, True)
        ),
        "extractiveness": partial(_fragments, "en"),
        "extractiveness_de": partial(_fragments, "de"),
        "extractiveness_fr": partial(_fragments, "fr"),
        "extractiveness_it": partial(_fragments, "it"),
        "f1_score": lambda: sample("f1", matches.F1_score()),
        "faithfulness": lambda: sample("summac", neural.Faithfulness()),
        "g_pass_at_k": lambda: g_pass("g-pass@k", None),
        "g_pass_at_k_latex": lambda: g_pass(
            "latex-g-pass@k", _formulas("latex", 5, True), "latex"
        ),
        "g_pass_at_k_math": lambda: g_pass(
            "math-g-pass@k", _formulas("expr", 5, True), "math"
        ),
        "gpqa_instruct_metric": lambda: sample("extractive_match", _letters(True)),
        "gpqa_instruct_pass_at_k": lambda: repeated(
            "gpqa_pass@k", repeats.PassAtK, _letters(True), strip=False
        ),
        "hle_metrics": lambda: _group(
            list(_HLE),
            judges.JudgeLLMHLE(),
            down=_HLE[1:],
            how={name: judges.CorpusLevelHLE(name) for name in _HLE},
            made=CorpusLevelMetricGrouping,
        ),
        "ifbench_metrics": lambda: _following(ifeval.IFBenchMetrics()),
        "ifeval_metrics": lambda: _following(ifeval.IFEvalMetrics()),
        "lcb_codegen_metric": lambda: sample(
            "codegen_pass@1:16", codegen.CodegenMetric()
        ),
        "maj_at_n": lambda: repeated("maj@n", repeats.MajAtN, strip=False),
        "pass_at_k": lambda: repeated("pass@k", repeats.PassAtK),
        "pass_at_k_letters": lambda: repeated(
            "pass@k", repeats.PassAtK, _letters(False), strip=False
        ),
        "pass_at_k_math": lambda: repeated(
            "pass@k", repeats.PassAtK, _formulas("expr+latex", 6, False)
        ),
        "perfect_exact_match": lambda: _exact("perfect_em"),
        "prefix_exact_match": lambda: _exact(
            "pem", strip_strings=True, type_exact_match="prefix"
        ),
        **_quasi_exact_matches(published),
        "rouge1": lambda: sample("rouge1", rouge.ROUGE("rouge1")),
        "rouge2": lambda: sample("rouge2", rouge.ROUGE("rouge2")),
        "rougeL": lambda: sample("rougeL", rouge.ROUGE("rougeL")),
        "rougeLsum": lambda: sample("rougeLsum", rouge.ROUGE("rougeLsum")),
        "rouge_t5": _rouge_t5,
        "simpleqa_judge": lambda: _group(["simpleqa_judge"], judges.JudgeLLMSimpleQA()),
    }


def _quasi_exact_matches(published: bool) -> dict[str, Maker]:
    helm = "helm_normalizer_published" if published else "helm_normalizer"
    exact = partial(_exact, "qem", strip_strings=True)
    return {
        "prefix_quasi_exact_match": lambda: _exact(
            "pqem", helm, strip_strings=True, type_exact_match="prefix"
        ),
        "quasi_exact_match": partial(exact, helm),
        "quasi_exact_match_gsm8k": partial(
            exact, "gsm8k_normalizer", published=published
        ),
        "quasi_exact_match_math": partial(exact, "math_normalizer"),
        "quasi_exact_match_triviaqa": partial(exact, "harness_triviaqa_normalizer"),
    }


def _choice_metrics(published: bool) -> dict[str, Maker]:
    def f1(name: str, *how: Any, is_single_token: bool = False) -> Metric:
        preparator = preparators.LoglikelihoodPreparator(is_single_token)
        score = partial(corpus.CorpusLevelF1Score, published=published)(*how)
        return CorpusLevelMetric(name, True, CHOICES, preparator, score)

    def acc_norm(ignore_first_space: bool) -> Metric:
        norm = choices.LogProbCharNorm(ignore_first_space=ignore_first_space)
        return sample("acc_norm", choices.LoglikelihoodAcc(norm), CHOICES)

    return {
        "acc_golds_likelihood": lambda: sample(
            "acc", choices.AccGoldLikelihood(), CHOICES
        ),
        "loglikelihood_acc": lambda: sample("acc", choices.LoglikelihoodAcc(), CHOICES),
        "loglikelihood_acc_norm": partial(acc_norm, False),
        "loglikelihood_acc_norm_nospace": partial(acc_norm, True),
        "loglikelihood_f1": lambda: f1("loglikelihood_f1", None),
        "mcc": lambda: CorpusLevelMetric(
            "mcc",
            True,
            CHOICES,
            preparators.LoglikelihoodPreparator(),
            corpus.MatthewsCorrCoef(),
        ),
        "mrr": lambda: sample("mrr", choices.MRR(), CHOICES),
        "multi_f1_numeric": lambda: f1("mf1", "micro", 3, is_single_token=True),
        "recall_at_k": lambda: sample(
            "recall", choices.Recall(published=published), CHOICES
        ),
        "target_perplexity": lambda: SampleLevelMetric(
            "ppl",
            False,
            CHOICES,
            preparators.TargetPerplexityPreparator("words", published=published),
            corpus.CorpusLevelPerplexityMetric("perplexity"),
        ),
        "truthfulqa_mc_metrics": lambda: _group(
            ["truthfulqa_mc1", "truthfulqa_mc2"],
            choices.TruthfulqaMCMetrics(),
            category=CHOICES,
        ),
    }


def _perplexity(
    name: str, kind: str, unit: str, made: type[Metric] = CorpusLevelMetric
) -> Metric:
    preparator = preparators.PerplexityPreparator(unit)
    how = corpus.CorpusLevelPerplexityMetric(kind)
    return made(name, False, SamplingMethod.PERPLEXITY, preparator, how)


def _corpus_of_texts(name: str, how: Any, better: bool = True) -> Metric:
    preparator = preparators.GenerativePreparator()
    return CorpusLevelMetric(name, better, TEXT, preparator, how)


def _translation(name: str, better: bool = True) -> Metric:
    return _corpus_of_texts(name, corpus.CorpusLevelTranslationMetric(name), better)


_CORPUS: Mapping[str, Maker] = {
    "bits_per_byte": partial(_perplexity, "bits_per_byte", "bits_per_byte", "bytes"),
    "bleu": partial(_translation, "bleu"),
    "byte_perplexity": partial(
        _perplexity, "byte_perplexity", "weighted_perplexity", "bytes"
    ),
    "chrf": partial(_translation, "chrf"),
    "chrf_plus": partial(_translation, "chrf++"),
    "f1_score_macro": lambda: _corpus_of_texts(
        "f1", corpus.CorpusLevelF1Score("macro")
    ),
    "f1_score_micro": lambda: _corpus_of_texts(
        "f1", corpus.CorpusLevelF1Score("micro")
    ),
    "prediction_perplexity": partial(
        _perplexity, "ppl", "perplexity", "words", SampleLevelMetric
    ),
    "ter": partial(_translation, "ter", better=False),
    "word_perplexity": partial(
        _perplexity, "word_perplexity", "weighted_perplexity", "words"
    ),
}

CATALOGUE, PUBLISHED = (
    {**_text_metrics(published), **_choice_metrics(published), **_CORPUS}
    for published in (False, True)
)
"""Metrics by name; and the same with lighteval's bugs, for ``published: true``."""


def lighteval_metric(name: str, arguments: Mapping[str, Any]) -> TaskMetric:
    """Return a metric by its name in lighteval. ``published: true`` among its arguments
    reproduces lighteval's bugs."""
    params = dict(arguments)
    makers = PUBLISHED if pop_flag(params, "published") else CATALOGUE
    known: Registry[Maker] = Registry("lighteval metric", makers)
    return with_arguments(known[name.removeprefix("lighteval:")](), params)
