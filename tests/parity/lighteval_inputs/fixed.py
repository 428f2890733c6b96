"""Fixed inputs: the catalogue of metrics, empty inputs, formulas that end too early,
and whole runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

CATALOGUE = (
    *("acc_golds_likelihood", "avg_at_n", "avg_at_n_math", "bert_score"),
    *("bits_per_byte", "bleu", "bleu_1", "bleu_4", "bleurt", "byte_perplexity"),
    *("chrf", "chrf_plus", "copyright", "drop", "exact_match", "expr_gold_metric"),
    *("extractiveness", "extractiveness_de", "extractiveness_fr", "extractiveness_it"),
    *("f1_score", "f1_score_macro", "f1_score_micro", "faithfulness", "g_pass_at_k"),
    *("g_pass_at_k_latex", "g_pass_at_k_math", "gpqa_instruct_metric"),
    *("gpqa_instruct_pass_at_k", "loglikelihood_acc", "loglikelihood_f1", "maj_at_n"),
    *("mcc", "mrr", "multi_f1_numeric", "pass_at_k", "pass_at_k_letters"),
    *("pass_at_k_math", "prediction_perplexity", "recall_at_k", "rouge1", "rouge2"),
    *("rougeL", "rougeLsum", "rouge_t5", "simpleqa_judge", "target_perplexity", "ter"),
    *("truthfulqa_mc_metrics", "word_perplexity"),
)
"""All of lighteval's enumeration (0.13.0)."""
OF_ANSWERS = (
    *("avg_at_n", "avg_at_n_math", "g_pass_at_k", "g_pass_at_k_latex"),
    *("g_pass_at_k_math", "gpqa_instruct_pass_at_k", "maj_at_n", "pass_at_k"),
    *("pass_at_k_letters", "pass_at_k_math"),
)
FORMULAS = (
    *("\\boxed{\\frac}", "\\boxed{\\sqrt}", "\\boxed{1\\frac1}", "\\frac", "\\boxed"),
    *("\\boxed {7}", "\\boxed 7", "\\boxed{1} \\boxed {2}", "}\\boxed{3}", "\\boxed{"),
    *("\\fbox{4}", "\\boxed\n{5}", "\\boxed{\\frac{1}{2}", "\\boxed{0.5}", "\\boxed{}"),
)
DEPTHS = ({}, {"recall_depth": 2}, {"recall_depth": 3}, {"k": 2})
RANKED = ([-1.0, -2.0, -3.0], [-2.0, -1.0, -3.0], [-1.0, -3.0, -2.0])
NOTHING = (
    ({"choices": [], "gold_index": 0}, ["a"]),
    ({"choices": [], "gold_index": []}, ["a"]),
    ({"choices": ["a"], "gold_index": []}, ["a"]),
    ({"choices": ["a"], "gold_index": 0}, []),
    ({"choices": [""], "gold_index": 0}, [""]),
)
"""Documents without references, and answers without text."""
TESTED = (
    *("exact_match", "f1_score", "rouge1", "rouge_t5", "bleu_1", "copyright"),
    *("expr_gold_metric", "gpqa_instruct_metric"),
)
ROWS = [{"i": i, "y": i % 2} for i in range(8)]
RUNS: tuple[dict[str, Any], ...] = (
    {"tasks": "zzgen|0"},
    {"tasks": "zzgen|0", "remove_reasoning_tags": False},
    {"tasks": "zzgen|0", "reasoning_tags": [["<a>", "</a>"]]},
    {"tasks": "zzgen|0", "reasoning_tags": [["<a>", "</a>"], ["<think>", "</think>"]]},
    {"tasks": "zzgen|0", "reasoning_tags": []},
    {"tasks": "zzll|0", "remove_reasoning_tags": False},
    {"tasks": "zzgen|0", "max_samples": 3},
    {"tasks": "zz:a|0,zz:b|0", "bootstrap_iters": 0},
    {"tasks": "zz:a|0,zz:b|0,zzll|0,zzgen|0", "bootstrap_iters": 0},
    {"tasks": "zz:a|0,zzll|0", "bootstrap_iters": 0, "remove_reasoning_tags": False},
    {"tasks": "zz:a|0,zz:b|0,zzgen|0"},
)


def _kinds() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for name in CATALOGUE:
        yield f"Metrics.{name} (catalogue)", {}, {}
        yield f"Metrics.{name}#corpus", {}, {"docs": [], "model_responses": []}
    for name in OF_ANSWERS:
        n = {"n": "4"} if name.startswith(("avg", "maj")) else {"k": "2", "n": "4"}
        yield f"Metrics.{name}.metric_name", n, {}
        yield f"Metrics.{name}.num_samples", {}, {}
    for params, logprobs in itertools.product(DEPTHS, RANKED):
        answers = {"logprobs": logprobs}
        doc = {"choices": ["a", "b", "c"], "gold_index": 1}
        yield "Metrics.recall_at_k", params, {"doc": doc, "model_response": answers}
    for text in FORMULAS:
        yield "normalizations.math_normalizer", {}, {"text": text}
    for name, (doc, text) in itertools.product(TESTED, NOTHING):
        yield f"Metrics.{name}", {}, {"doc": doc, "model_response": {"text": text}}
    for metric_type in ("perplexity", "weighted_perplexity", "bits_per_byte"):
        given = {"logprobs": [], "weights": []}
        yield "CorpusLevelPerplexityMetric", {"metric_type": metric_type}, given
    for name in ("helm_normalizer", "math_normalizer", "nothing"):
        given = {"gold": "The Answer", "preds": ["answer!", "answer"]}
        yield "PassAtK", {"normalize": name, "k": 1, "n": 2}, given
    yield "MatthewsCorrCoef", {}, {"golds": [], "preds": []}
    yield "mix_eval.mean_dv_5", {}, {"x": []}
    yield "ifeval.agg_inst_level_acc", {}, {"items": []}
    for values in ([], [1.0], [1.0, 0.0]):
        yield "stderr.mean_stderr", {}, {"values": values}
    for run in RUNS:
        yield "Pipeline end to end", run, {"test": ROWS}


def fixed() -> list[dict[str, Any]]:
    """The records, without lighteval's outputs."""
    return [
        {"id": f"fixed {i}", "metric": metric, "params": params, "input": given}
        for i, (metric, params, given) in enumerate(_kinds())
    ]
