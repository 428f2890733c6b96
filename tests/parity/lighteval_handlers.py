"""Compute recorded values of lighteval's metrics with this package: the name in the
record → a function of its parameters and input."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping
from functools import partial
from string import ascii_uppercase
from typing import Any

import numpy as np

from pytest_evals.core.doc import Doc
from pytest_evals.guests.lighteval import metrics_enum
from pytest_evals.guests.lighteval.metrics import (
    choices,
    corpus,
    extraction,
    extractive_match,
    judges,
    matches,
    normalizers,
    preparators,
    repeats,
    rouge,
)
from pytest_evals.guests.lighteval.metrics.catalogue import PUBLISHED
from pytest_evals.guests.lighteval.metrics.codegen import extract_code
from pytest_evals.guests.lighteval.metrics.extraction import (
    ExprExtractionConfig,
    LatexExtractionConfig,
)
from pytest_evals.guests.lighteval.metrics.normalizers import math_normalizer
from pytest_evals.guests.lighteval.shims import NAMES
from pytest_evals.scorers import code_eval
from pytest_evals.scorers.bootstrap import bootstrap_stderr
from pytest_evals.scorers.custom_metrics.metric import CorpusLevelComputation, Metric
from pytest_evals.scorers.custom_metrics.response import ModelResponse
from pytest_evals.scorers.extraction import remove_reasoning_tags
from pytest_evals.stats.averages import mean_stderr
from pytest_evals.stats.bootstrap_limits import resampled_one_by_one

Handler = Callable[[Mapping[str, Any], Mapping[str, Any]], Any]

NORMALIZERS = {
    **{name: normalizers.NORMALIZERS[name] for name in normalizers.NORMALIZERS},
    "helm_normalizer": normalizers.helm_normalizer_published,
    "math_normalizer": math_normalizer,
}
"""lighteval's names; if ours is corrected, the published one."""


def doc_of(given: Mapping[str, Any]) -> Doc:
    return Doc(**{"query": "", "gold_index": 0, "choices": [], **given})


def pair_of(given: Mapping[str, Any]) -> tuple[Doc, ModelResponse]:
    """Document and responses, in either of the two forms of the record."""
    if "doc" in given:
        return doc_of(given["doc"]), ModelResponse(**given["model_response"])
    golds = given.get("golds", [given.get("gold")])
    preds = given.get("preds", [given.get("pred")])
    gold_index = list(range(len(golds)))
    return doc_of({"choices": golds, "gold_index": gold_index}), ModelResponse(
        text=preds
    )


def arguments(params: Mapping[str, Any]) -> dict[str, Any]:
    """Constructor arguments; functions are recorded by their name."""
    made = {}
    for key, value in params.items():
        is_function = isinstance(value, str) and value.startswith("<callable ")
        if is_function:
            value = value.removeprefix("<callable ").removesuffix(">")
        # ``normalize`` may be given by name in lighteval too.
        named = key in ("normalize_gold", "normalize_pred") and isinstance(value, str)
        made[key] = NORMALIZERS[value] if is_function or named else value
    return made


def of_class(made: Callable[..., Any]) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        computation = made(**arguments(params))
        return computation.compute(*pair_of(given))

    return handle


def of_metric(make: Callable[..., Metric], *names: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        metric = make(**{name: params[name] for name in names})
        return metric.compute_sample(*pair_of(given))

    return handle


def sample(name: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        return PUBLISHED[name]()(params).compute_sample(*pair_of(given))

    return handle


def corpus_number(name: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        metric = PUBLISHED[name]()(params)
        pairs = zip(given["docs"], given["model_responses"], strict=True)
        values = [
            metric.compute_sample(doc_of(doc), ModelResponse(**response))
            for doc, response in pairs
        ]
        return {
            key: getattr(how, "compute_corpus", how)([value[key] for value in values])
            for key, how in metric.get_corpus_aggregations().items()
        }

    return handle


def catalogue(name: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        metric = PUBLISHED[name]()
        how = metric.corpus_level_fn
        grouped = isinstance(how, Mapping)
        return {
            "metric_name": metric.metric_name,
            "category": metric.category.value,
            "higher_is_better": metric.higher_is_better,
            "class": type(metric).__name__,
            "sample_level_fn": type(metric.sample_level_fn).__name__,
            "corpus_level_fn": {k: name_of(v) for k, v in how.items()}
            if grouped
            else name_of(how),
        }

    return handle


def name_of(how: Any) -> str:
    """A corpus function as the record writes it."""
    return str(how) if isinstance(how, CorpusLevelComputation) else how.__name__


def metric_name(name: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        metric = PUBLISHED[name]()({k: literal(v) for k, v in params.items()})
        return {
            "metric_name": metric.metric_name,
            "num_samples": metric.num_samples(),
        }

    return handle


def literal(text: str) -> Any:
    """An argument that was recorded as its text."""
    if text.startswith("LogProb"):
        return eval(text, vars(choices))
    return eval(text, {})


def normalizer(function: Callable[[str], str]) -> Handler:
    return lambda params, given: function(given["text"])


def f1(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    how = corpus.CorpusLevelF1Score(**params, published=True)
    return how.compute_corpus(list(zip(given["golds"], given["preds"], strict=True)))


def pairs(made: Callable[..., Any]) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        how = made(**params)
        one, other = given.values()
        return how.compute_corpus(list(zip(one, other, strict=True)))

    return handle


def norm(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    how = choices.normalization(params["normalization"])
    return choices.normalize_log_probs(how, **given)


def extract(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    if "target" in params:
        return extract_letters(params, given)
    kinds = {"expr": ExprExtractionConfig(), "latex": LatexExtractionConfig()}
    rest = {key: v for key, v in params.items() if key not in ("gold", "pred")}
    how = extractive_match.MultilingualExtractiveMatchMetric(
        gold_extraction_target=[kinds[name] for name in params["gold"].split("+")],
        pred_extraction_target=[kinds[name] for name in params["pred"].split("+")],
        **rest,
    )
    return how.compute(*pair_of(given))


def extract_letters(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    kind = params["target"].split("/")[1]
    labels = extraction.labels_of(kind, params["language"])[:4]
    target = extraction.IndicesExtractionConfig(kind)
    how = extractive_match.MultilingualExtractiveMatchMetric(
        language=params["language"],
        gold_extraction_target=target,
        pred_extraction_target=target,
    )
    doc = doc_of({"choices": [given["gold"], "", "", ""]})
    score = how.compute(doc, ModelResponse(text=[given["pred"]]))
    return {"indices": list(labels), "score": score}


def inspect_maths(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """lighteval's scorer for inspect-ai: numbers, and formulas, boxed ones first."""
    metric = PUBLISHED["expr_gold_metric"]()
    return _verdict(metric, [given["target"]], given["completion"])


def inspect_letters(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """lighteval's scorer for inspect-ai: the letter of a choice."""
    at = ascii_uppercase.index(given["target"])
    metric = PUBLISHED["gpqa_instruct_metric"]()
    return _verdict(metric, ascii_uppercase[:4], given["completion"], at)


def _verdict(metric: Metric, choices: Any, reply: str, gold: int = 0) -> dict[str, str]:
    doc = doc_of({"choices": list(choices), "gold_index": gold})
    (value,) = metric.compute_sample(doc, ModelResponse(text=[reply])).values()
    return {"value": "C" if value else "I"}


def golds(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    return doc_of(given).get_golds()


def pass_at_k(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    return code_eval.pass_at_k(given["n_scores"], given["n_correct"], params["k"])


def g_pass_at_k(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    thresholds = params["thresholds"] or repeats.THRESHOLDS
    return repeats.g_pass_at_k(
        given["n_scores"], given["n_correct"], params["k"], thresholds
    )


def estimates(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    both = zip(given["num_samples"], given["num_correct"], strict=True)
    return [code_eval.pass_at_k(n, right, params["k"]) for n, right in both]


def reply(read: Callable[[str], float | None]) -> Handler:
    """A judge's reply; one without score is 0 in lighteval, and a missing score
    here."""
    return lambda params, given: read(given["response"] or "") or 0


def bootstrap(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """Replicates of the statistic, drawn as in lighteval and lm-eval. lighteval divides
    their deviation by the root of their number; this package does not."""
    function = {"max": max, "median": statistics.median, "min": min}[params["metric"]]
    values = given["values"]
    n = params["number_experiments"]
    statistic = resampled_one_by_one(values, function)
    return bootstrap_stderr(len(values), statistic, n) / n**0.5


def following(metric: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        specific = {
            "instructions_id_list": params["instruction_id_list"],
            "kwargs": params["kwargs"],
        }
        doc = doc_of({"query": given["prompt"], "specific": specific})
        response = ModelResponse(text=[given["response"]])
        return PUBLISHED[metric]().compute_sample(doc, response)

    return handle


EXACT: dict[str, Handler] = {
    "BLEU": of_class(rouge.BLEU),
    "CorpusLevelF1Score": f1,
    "CorpusLevelPerplexityMetric": pairs(corpus.CorpusLevelPerplexityMetric),
    "CorpusLevelTranslationMetric": pairs(corpus.CorpusLevelTranslationMetric),
    "Doc.get_golds": golds,
    "ExactMatches": of_class(partial(matches.ExactMatches, published=True)),
    "F1_score": of_class(matches.F1_score),
    "GPassAtK.g_pass_at_k": g_pass_at_k,
    "LogLikelihoodAccMetric.metric_name": lambda params, given: (
        metrics_enum.LogLikelihoodAccMetric(**params).metric_name
    ),
    "LoglikelihoodAcc": of_class(choices.LoglikelihoodAcc),
    "MRR": of_class(choices.MRR),
    "MajAtN": of_class(partial(repeats.MajAtN, published=True)),
    "MatthewsCorrCoef": pairs(corpus.MatthewsCorrCoef),
    "MultilingualExtractiveMatchMetric": extract,
    "MultilingualQuasiExactMatchMetric": of_metric(
        metrics_enum.MultilingualQuasiExactMatchMetric, "language", "match_type"
    ),
    "MultilingualQuasiF1ScoreMetric": of_metric(
        metrics_enum.MultilingualQuasiF1ScoreMetric, "language"
    ),
    "NormalizedMultiChoiceProbMetric.metric_name": lambda params, given: (
        metrics_enum.NormalizedMultiChoiceProbMetric(**params).metric_name
    ),
    "NormalizedMultiChoiceProbability": of_class(
        choices.NormalizedMultiChoiceProbability
    ),
    "PassAtK": of_class(partial(repeats.PassAtK, published=True)),
    "PassAtK.pass_at_k": pass_at_k,
    "PerplexityPreparator.count_units": lambda params, given: preparators.count_units(
        given["text"], params["units_type"]
    ),
    "Probability": of_class(partial(choices.Probability, published=True)),
    "ProbabilityMetric.metric_name": lambda params, given: (
        metrics_enum.ProbabilityMetric(**params).metric_name
    ),
    "ROUGE": of_class(rouge.ROUGE),
    "Recall": of_class(lambda k: choices.Recall(k, published=True)),
    "StringDistance": of_class(matches.StringDistance),
    "ifbench": following("ifbench_metrics"),
    "ifeval": following("ifeval_metrics"),
    "ifeval.agg_inst_level_acc": lambda params, given: corpus.FlatMean().compute_corpus(
        given["items"]
    ),
    "hle.calib_err": lambda params, given: judges.calib_err(**given, **params),
    "mix_eval.mean_dv_5": lambda params, given: judges.mean_dv_5(given["x"]),
    "mix_eval.process_judge_response": reply(judges.flow_score),
    "mix_eval.process_judge_response_freeform_gpt": reply(judges.bracketed_number),
    "mix_eval.process_judge_response_multichoice_gpt": reply(judges.bracketed_verdict),
    "judge_utils.process_judge_response_simpleqa": reply(judges.simpleqa_score),
    "inspect math_scorer": inspect_maths,
    "inspect multichoice_scorer": inspect_letters,
    "lcb.estimate_pass_at_k": estimates,
    "lcb.extract_code": lambda params, given: extract_code(given["text"]),
    "normalizations.get_multilingual_normalizer": lambda params, given: (
        normalizers.get_multilingual_normalizer(
            params["lang"], lower=params.get("lower", True)
        )(given["text"])
    ),
    "normalizations.normalize_log_probs": norm,
    "normalizations.remove_articles": lambda params, given: normalizers.remove_articles(
        given["text"], params["lang"]
    ),
    "stderr.bootstrap_stderr": bootstrap,
    "stderr.get_stderr_function(np.mean)": lambda params, given: mean_stderr(
        given["values"]
    ),
    "stderr.mean_stderr": lambda params, given: mean_stderr(given["values"]),
    "utils.as_list": lambda params, given: NAMES["lighteval.utils.utils"]["as_list"](
        given["item"]
    ),
    "utils.safe_divide": lambda params, given: NAMES["lighteval.utils.utils"][
        "safe_divide"
    ](np.array(given["numerator"]), given["denominator"]).tolist(),
    "utils.remove_reasoning_tags": lambda params, given: remove_reasoning_tags(
        given["text"], params["tag_pairs"]
    ),
    **{
        f"normalizations.{name}": normalizer(NORMALIZERS[name])
        for name in NORMALIZERS
        if not name.endswith("_published")
    },
}


def handler_of(record: Mapping[str, Any]) -> Handler | None:
    """Return the function that computes a record, or ``None``."""
    kind = record["metric"]
    if kind in EXACT:
        return EXACT[kind]
    match = re.fullmatch(r"Metrics\.(\w+)(#corpus| \(catalogue\)|\.[\w().]+)?", kind)
    if match is None or match[1] not in PUBLISHED:
        return None
    makers: dict[str | None, Callable[[str], Handler]] = {
        None: sample,
        "#corpus": corpus_number,
        " (catalogue)": catalogue,
        ".metric_name": metric_name,
        ".num_samples": lambda name: lambda p, g: PUBLISHED[name]().num_samples(),
        ".get_corpus_aggregations().keys()": lambda name: (
            lambda p, g: list(PUBLISHED[name]().get_corpus_aggregations())
        ),
    }
    make = makers.get(match[2])
    return make(match[1]) if make else None
