"""Values computed by lighteval 0.13.0, compared with this package.

``vectors/lighteval.json`` comes from outside this project;
``vectors/lighteval_drawn.json`` and ``vectors/lighteval_fixed.json`` are written by
``record_lighteval.py``. ``--vectors PATH`` reads another recording of the same form: a
list of records ``{id, metric, params, input, output}``, where an output of ``{"error":
…}`` means that lighteval raised. Each record of the first three matches (1e-6), differs
for one of the reasons below, or is not supported; of another recording, a proportion of
the supported records matches.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.errors import EvalsError, MissingExtraError
from pytest_evals.guests.lighteval.metrics.extraction import (
    ExprExtractionConfig,
    IndicesExtractionConfig,
    LatexExtractionConfig,
)
from pytest_evals.guests.lighteval.metrics.extractive_match import (
    MultilingualExtractiveMatchMetric,
    extract_target_from_pred,
    get_extraction_regexes,
)
from pytest_evals.scorers.custom_metrics.response import ModelResponse

HERE = Path(__file__).parent
SHARE = 0.95
"""Minimum proportion of supported records that must match."""


class Reason(NamedTuple):
    """Why records of a kind differ: a pattern of their name, a further condition, and
    the reason."""

    kind: str
    applies: Callable[[Mapping[str, Any]], bool]
    why: str


def _errs(record: Mapping[str, Any]) -> bool:
    return isinstance(record["output"], dict) and "error" in record["output"]


def _several(record: Mapping[str, Any]) -> bool:
    docs = record["input"].get("docs", [])
    golds = [doc.get("gold_index", 0) for doc in docs]
    return len(docs) > 1 or any(isinstance(one, list) and len(one) > 1 for one in golds)


def _nothing(record: Mapping[str, Any]) -> bool:
    """Whether a document has no references or no predictions."""
    doc = record["input"].get("doc", {})
    text = record["input"].get("model_response", {}).get("text", ["?"])
    return not text or not doc.get("choices", ["?"]) or doc.get("gold_index") == []


def _always(record: Mapping[str, Any]) -> bool:
    return True


REASONS = (
    Reason(
        r"Metrics\.recall_at_k",
        lambda r: "k" in r["params"],
        "lighteval sets an attribute that nothing reads: k has no effect there",
    ),
    Reason(
        r"Metrics\.(pass_at_k|g_pass_at_k|maj_at_n)\w*",
        lambda r: not r["input"].get("model_response", {}).get("text"),
        "no answers are an error, and count as wrong or right there",
    ),
    Reason(
        r"(Metrics\..*|BLEU|ROUGE|MultilingualExtractiveMatchMetric)",
        _nothing,
        "no references or no answers are an error, and count as NaN or wrong there",
    ),
    Reason(
        r"normalizations\.math_normalizer",
        _errs,
        "a formula that ends too early stays as it is",
    ),
    Reason(
        r"PassAtK",
        lambda r: _errs(r) and not r["params"]["normalize"].startswith("<callable "),
        "a normaliser is found by its name",
    ),
    Reason(
        r"stderr\.mean_stderr",
        lambda r: len(r["input"]["values"]) < 2,
        "fewer than two documents have no standard error",
    ),
    Reason(
        r"Pipeline end to end",
        lambda r: "_average" in str(r["output"]) and "_stderr" in str(r["output"]),
        "an average of tasks has the standard error of independent numbers; there it "
        "is the mean of theirs",
    ),
    Reason(
        r"Metrics\.g_pass_at_k\w*#corpus",
        lambda r: not r["input"]["docs"],
        "numbers have names, not the letters of one",
    ),
    Reason(
        r"Metrics\.g_pass_at_k\w*\.num_samples",
        lambda r: not r["params"],
        "the number of generations is one number, or none",
    ),
    Reason(
        r"judge_utils\.process_judge_response_simpleqa",
        lambda r: (r["input"]["response"] or "").strip(" .\n").upper() == "A",
        "white space around a judge's letter and its case do not count",
    ),
    Reason(
        r"Metrics\.maj_at_n|MajAtN",
        lambda r: _errs(r) and r["input"]["doc"]["gold_index"] != 0,
        "a gold index other than 0 works",
    ),
    Reason(
        r"Metrics\.(chrf|chrf_plus|ter)#corpus",
        _several,
        "references are put to sacrebleu document by document",
    ),
    Reason(
        r"Metrics\.(bleu|chrf|chrf_plus|ter)#corpus",
        _errs,
        "several answers to a document: the first one is taken",
    ),
    Reason(
        r"Metrics\..*(perplexity|bits_per_byte)#corpus",
        lambda r: any(not x["logprobs"] for x in r["input"]["model_responses"]),
        "no log-probability is an error, not one of 0",
    ),
    Reason(
        r"Metrics\.(bits_per_byte|byte_perplexity)#corpus",
        lambda r: all(not x["query"] for x in r["input"]["docs"]),
        "texts of no length have no perplexity per unit",
    ),
    Reason(
        r"Metrics\..*perplexity#corpus",
        lambda r: _errs(r) and r["output"]["error"] == "OverflowError",
        "what is too large for a float is infinite",
    ),
    Reason(
        r"Probability",
        lambda r: (
            len(r["input"]["model_response"]["logprobs"])
            > len(r["input"]["doc"]["choices"])
        ),
        "the unconditioned request is not a choice",
    ),
    Reason(
        r"normalizations\.normalize_log_probs",
        lambda r: len({*map(len, filter(None, r["input"].values()))}) > 1,
        "the numbers of texts, tokens and choices must be equal",
    ),
    Reason(
        r"CorpusLevelF1Score",
        lambda r: _errs(r) and r["params"]["average"] is None,
        "labels that never occur are not an error",
    ),
    Reason(
        r"Metrics\.hle_metrics \(catalogue\)",
        _always,
        "less error and a narrower interval are better",
    ),
    Reason(
        r"Metrics\.prediction_perplexity \(catalogue\)",
        lambda r: r["output"]["higher_is_better"] is True,
        "less perplexity is better",
    ),
    Reason(
        r"normalizations\.get_multilingual_normalizer",
        lambda r: r["params"]["lang"] == "ces",
        "Czech works",
    ),
    Reason(
        r"stderr\.bootstrap_stderr",
        _always,
        "the standard error is the deviation of the replicates, not of their mean",
    ),
    Reason(
        r"Metrics\.(pass|avg|g_pass)_at_.*(math|latex)",
        lambda r: (
            re.search(r"sqrt|\\pi", str(r["input"]["doc"]["choices"])) is not None
        ),
        "math-verify rounds an irrational number to compare it with a decimal one",
    ),
    Reason(
        r"Metrics\.(expr_gold_metric|(pass|avg|g_pass)_at_.*(math|latex))",
        lambda r: re.search(r"\d(\\\\%|!)", str(r["input"])) is not None,
        "math-verify reads per cents and factorials in formulas otherwise",
    ),
    Reason(
        r"Metrics\.g_pass_at_k\.get_corpus_aggregations.*",
        _always,
        "numbers have names, not the letters of one",
    ),
    Reason(
        r"LightevalTask\.num_samples.*",
        _always,
        "a task's own num_samples is honoured",
    ),
    Reason(
        r"inspect multichoice_scorer",
        _always,
        "all letters are looked for, and an answer without one is wrong",
    ),
    Reason(
        r"inspect math_scorer",
        _always,
        "formulas are compared by their value, and an answer without one is wrong",
    ),
    Reason(
        r"ifbench",
        _errs,
        "an answer without words follows an instruction about words or not",
    ),
    Reason(
        r"LightevalTask fewshot selection \(no few-shot split.*",
        _always,
        "a document is never its own shot",
    ),
    Reason(
        r"(Registry task string|Pipeline end to end)",
        lambda r: "gpass" in str(r["params"]) + str(r["input"]),
        "G-Pass with arguments of the command line has the names of these",
    ),
    Reason(
        r"Pipeline end to end",
        lambda r: "edit_distance_stderr" in str(r["output"]),
        "the standard error is the deviation of the replicates, not of their mean",
    ),
    Reason(
        r"templates\.(copa|hellaswag|nli|translation) with instruction",
        _always,
        "no template drops the instruction",
    ),
)
"""Intended differences."""

NOT_OURS = (
    Reason(
        r"(TransformersModel|LightevalModel|LiteLLMClient|SampleCache|ModelConfig"
        r"|GenerationParameters|PipelineParameters|lighteval ).*",
        _always,
        "lighteval's own backends, cache and command line",
    ),
    Reason(
        r"utils\.make_results_table|apply_metric.*|.*simpleqa_judge compute_sample.*",
        _always,
        "tables and calls inside of lighteval",
    ),
)
"""Features of lighteval that this plugin implements differently or does not support."""


def _module(name: str) -> ModuleType:
    path = HERE / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"parity_{name}", path)
    module = sys.modules[f"parity_{name}"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _number(value: Any) -> Any:
    """Recorded values with their infinities."""
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value.replace("Infinity", "inf"))
    if isinstance(value, list):
        return [_number(item) for item in value]
    if isinstance(value, dict):
        return {key: _number(item) for key, item in value.items()}
    return value


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _agrees(ours: Any, theirs: Any) -> bool:
    """Whether values are equal; a record may contain more details, such as the name of
    a metric in messages."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        theirs = {key: theirs[key] for key in ours if key in theirs}
    return _same(ours, theirs)


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(
            _same(ours[key], theirs[key]) for key in ours
        )
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        both_nan = math.isnan(ours) and math.isnan(theirs)
        close = math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-9)
        return both_nan or close
    return bool(ours == theirs)


class Verdict(NamedTuple):
    """The status of a record: ``match``, ``differs``, ``not ours`` or ``fault``."""

    kind: str
    text: str


def _judged(record: Mapping[str, Any], handlers: Sequence[ModuleType]) -> Verdict:
    foreign = _reason(NOT_OURS, record)
    if foreign:
        return Verdict("not ours", foreign)
    found = (one.handler_of(record) for one in handlers)
    handler = next((one for one in found if one is not None), None)
    if handler is None:
        return Verdict("fault", "nothing computes it")
    verdict = _compared(record, handler)
    why = _reason(REASONS, record) if verdict.kind == "fault" else ""
    return Verdict("differs", why) if why else verdict


def _reason(reasons: Sequence[Reason], record: Mapping[str, Any]) -> str:
    for reason in reasons:
        if re.fullmatch(reason.kind, record["metric"]) and reason.applies(record):
            return reason.why
    return ""


def _compared(record: Mapping[str, Any], handler: Callable[..., Any]) -> Verdict:
    theirs = record["output"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tokenizers, about themselves
            ours = _plain(handler(record["params"], _number(record["input"])))
    except MissingExtraError as error:
        return Verdict("not ours", str(error))
    except (EvalsError, IndexError, ValueError, pytest.UsageError) as error:
        ours = f"{type(error).__name__}: {error}"
        return Verdict("match" if _errs(record) else "fault", ours)
    except Exception as error:  # noqa: BLE001 - for any content of another recording
        return Verdict("fault", f"{type(error).__name__}: {error}")
    if not _errs(record) and _agrees(ours, _number(theirs)):
        return Verdict("match", "")
    return Verdict("fault", f"{ours!r:.200} and not {theirs!r:.200}")


def _verdicts(path: Path) -> list[tuple[Mapping[str, Any], Verdict]]:
    """The status of each record; the number of each status is printed."""
    records = json.loads(path.read_text(encoding="utf-8"))
    handlers = [_module("lighteval_handlers"), _module("lighteval_task_handlers")]
    verdicts = [(record, _judged(record, handlers)) for record in records]
    why = Counter((v.kind, v.text) for _, v in verdicts if v.kind != "match")
    for (kind, text), n in sorted(why.items()):
        print(f"{n:5} {kind}: {text}")
    return verdicts


def _shown(record: Mapping[str, Any], verdict: Verdict) -> str:
    params = f"{record['params']!r:.120}"
    return f"{record['id']} {record['metric']} {params}: {verdict.text}"


def _share(verdicts: list[tuple[Mapping[str, Any], Verdict]]) -> float:
    """The proportion of supported records that match."""
    counts = Counter(verdict.kind for _, verdict in verdicts)
    print(dict(counts))
    return counts["match"] / (len(verdicts) - counts["not ours"])


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "share"),
    [("lighteval", SHARE), ("lighteval_drawn", SHARE), ("lighteval_fixed", 0.85)],
)
def test_values_recorded_from_lighteval(name: str, share: float) -> None:
    """All of them in one test: there are many, and their proportion counts. Many of the
    fixed ones exist because lighteval differs."""
    verdicts = _verdicts(HERE / "vectors" / f"{name}.json")
    faults = [_shown(r, v) for r, v in verdicts if v.kind == "fault"]
    assert not faults, "\n".join(faults)
    assert _share(verdicts) >= share


def _languages() -> dict[str, list[dict[str, Any]]]:
    path = HERE / "vectors" / "lighteval_languages.jsonl"
    found: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        found.setdefault(record["language"], []).append(record)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("language", "records"), _languages().items())
def test_values_are_extracted_from_answers_in_each_language_as_by_lighteval(
    language: str, records: list[dict[str, Any]]
) -> None:
    """Recorded by ``record_languages.py``."""
    kinds = {
        "expr": ExprExtractionConfig(),
        "latex": LatexExtractionConfig(),
        "NativeLetters": IndicesExtractionConfig("NativeLetters", True),
    }
    assert len(records) >= 30
    for record in records:
        targets = [kinds[name] for name in record["targets"]]
        how = MultilingualExtractiveMatchMetric(language, targets, targets)
        doc = Doc(query="", choices=record["choices"], gold_index=record["gold"])
        answer = record["answer"]
        patterns = get_extraction_regexes(doc, targets, language)
        found = extract_target_from_pred(answer, patterns, "first_match")
        score = how.compute(doc, ModelResponse(text=[answer]))
        assert ([*map(str, found)], score) == (record["extracted"], record["score"])


def test_another_recording(request: pytest.FixtureRequest) -> None:
    """It may contain kinds of records that were not seen before."""
    path = request.config.getoption("--vectors")
    if not path:
        pytest.skip("--vectors names no recording")
    verdicts = _verdicts(Path(path))
    faults = [_shown(r, v) for r, v in verdicts if v.kind == "fault"]
    assert _share(verdicts) >= SHARE, "\n".join(faults)
