"""Per-document metrics of generated texts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pytest_evals.guests.lighteval.metrics.catalogue.builders import (
    TEXT,
    Maker,
    group,
    sample,
)
from pytest_evals.guests.lighteval.metrics.code_execution.codegen import CodegenMetric
from pytest_evals.guests.lighteval.metrics.corpus.labels import FlatMean
from pytest_evals.guests.lighteval.metrics.extraction.extractive_match import (
    MultilingualExtractiveMatchMetric,
)
from pytest_evals.guests.lighteval.metrics.extraction.formulas import (
    ExprExtractionConfig,
    LatexExtractionConfig,
)
from pytest_evals.guests.lighteval.metrics.extraction.letters import (
    IndicesExtractionConfig,
)
from pytest_evals.guests.lighteval.metrics.instructions.ifeval import (
    IFEVAL_NAMES,
    IFBenchMetrics,
    IFEvalMetrics,
)
from pytest_evals.guests.lighteval.metrics.judges.calibration import CorpusLevelHLE
from pytest_evals.guests.lighteval.metrics.judges.metrics import (
    JudgeLLMHLE,
    JudgeLLMSimpleQA,
)
from pytest_evals.guests.lighteval.metrics.repeats.at_k import GPassAtK, PassAtK
from pytest_evals.guests.lighteval.metrics.repeats.at_n import AvgAtN, MajAtN
from pytest_evals.guests.lighteval.metrics.similarity.distance import StringDistance
from pytest_evals.guests.lighteval.metrics.similarity.drop import DropMetrics
from pytest_evals.guests.lighteval.metrics.similarity.fragments import Extractiveness
from pytest_evals.guests.lighteval.metrics.similarity.matches import (
    ExactMatches,
    F1_score,
)
from pytest_evals.guests.lighteval.metrics.similarity.neural import (
    BLEURT,
    BertScore,
    Faithfulness,
)
from pytest_evals.guests.lighteval.metrics.similarity.rouge import BLEU, ROUGE
from pytest_evals.guests.lighteval.metrics.text.normalizers import (
    remove_braces,
    remove_braces_and_strip,
)
from pytest_evals.scorers.custom_metrics.aggregation import mean
from pytest_evals.scorers.custom_metrics.metric import (
    CorpusLevelMetricGrouping,
    Metric,
    SampleLevelMetricGrouping,
)


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
