"""All random inputs, by kind of record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from .corpora import (
    classified,
    corpus_of,
    correlated,
    one_to_one,
    rolled,
    spans,
    summarised,
    translated,
    truthful,
)
from .documents import answered, logprob, sampled, scored, single, untied
from .extraction import letters, maths, two_maths
from .instructions import IFBENCH, IFEVAL, benched, following, reply
from .prompts import CHAT, prompted, splits
from .templates import (
    LANGUAGES,
    boolq,
    continuation,
    copa,
    hellaswag,
    mcq,
    nli,
    nli_shape,
    qa,
    shape,
    translation,
    two_languages,
)
from .texts import EVERYTHING, LATEX, NUMBERS, WORDS, like, text


class Kind(NamedTuple):
    """Records of a kind: name, parameters and input."""

    metric: str
    params: Callable[[Random], dict[str, Any]]
    given: Callable[[Random], dict[str, Any]]


def _none(rng: Random) -> dict[str, Any]:
    return {}


def _one_of(*options: dict[str, Any]) -> Callable[[Random], dict[str, Any]]:
    return lambda rng: dict(rng.choice(options))


def _text(rng: Random) -> dict[str, Any]:
    return {"text": text(rng, (*EVERYTHING, *LATEX))}


def _boxed(rng: Random) -> dict[str, Any]:
    return {"text": text(rng, (*LATEX, *WORDS))}


_NORMALIZERS = (
    "bigbench_normalizer",
    "gsm8k_normalizer",
    "harness_triviaqa_normalizer",
    "helm_normalizer",
    "remove_braces",
    "remove_braces_and_strip",
    "remove_punc",
)


_LOGPROB_NORMS = ("none", "char", "char_ignore_first_space", "token", "pmi")


_ARTICLES = (
    *("eng", "spa", "por", "ita", "fra", "deu", "fin", "ell", "nor", "swe", "tur"),
    *("nld", "hun", "cat", "heb", "glg", "jpn"),
)


_ROUGES = ("rouge1", "rouge2", "rougeL", "rougeLsum")


_FIXED = ("helm_normalizer", "gsm8k_normalizer", "harness_triviaqa_normalizer")


def _normalizing(rng: Random) -> dict[str, Any]:
    name = rng.choice((*_FIXED, "math_normalizer", "remove_punc"))
    return {"normalize_gold": name, "normalize_pred": name}


def _texts(rng: Random) -> dict[str, Any]:
    return answered(rng, text)


def _plain_texts(rng: Random) -> dict[str, Any]:
    return answered(rng, lambda r: text(r, (*WORDS, *NUMBERS), 12) or "x")


def _four(rng: Random) -> dict[str, Any]:
    return sampled(rng, lambda r: text(r, (*WORDS, *NUMBERS), 3), 4)


def _reasoned(rng: Random) -> dict[str, Any]:
    tags = ("<think>", "</think>", "<think>a</think>", "[THINK]", "[/THINK]")
    return {"text": text(rng, (*tags, *tags, *WORDS))}


def _lists(rng: Random) -> dict[str, Any]:
    n = rng.randint(1, 4)
    return {
        "choices_logprob": [logprob(rng) for _ in range(n)],
        "unconditioned_logprob": [logprob(rng) for _ in range(n)],
        "choices_text": [text(rng) or "x" for _ in range(n)],
        "choices_tokens": [[1] * rng.randint(1, 4) for _ in range(n)],
    }


def _gold_and_pred(rng: Random) -> dict[str, Any]:
    gold = text(rng)
    return {"gold": gold, "pred": like(rng, gold)}


def _extraction(rng: Random) -> dict[str, Any]:
    kinds = ("expr", "latex", "latex+expr", "expr+latex")
    return {
        "gold": rng.choice(kinds),
        "pred": rng.choice(kinds),
        "fallback_mode": rng.choice(["first_match", "no_fallback"]),
        "extraction_mode": rng.choice(["any_match", "first_match"]),
    }


def _gold_and_answer(rng: Random) -> dict[str, Any]:
    given = maths(rng)
    return {"golds": given["doc"]["choices"], "preds": given["model_response"]["text"]}


def _judged(rng: Random) -> dict[str, Any]:
    marks = ("A", "B", "C", "a", "[[0]]", "[[1]]", "[[0.5]]", "[[1.0]]", "CORRECT")
    flow = (
        "<score>\n3\n</score>",
        "<score> 5 </score>",
        "<score>4</score>",
        "Score: 1",
    )
    return {"response": text(rng, (*marks, *flow, *WORDS[:4]), 4)}


def _coded(rng: Random) -> dict[str, Any]:
    parts = ("```python", "```", "x = 1", "print(x)", " ``` y", "text", "```\n", "")
    return {"text": "\n".join(rng.choice(parts) for _ in range(rng.randint(0, 8)))}


def _shots(rng: Random) -> dict[str, Any]:
    ways = ("balanced", "random", "sequential", "random_sampling_from_train", None)
    return {
        "few_shots_select": rng.choice(ways),
        "num_fewshots": rng.choice([0, 1, 2, 3]),
        "max_samples": rng.choice([None, 1, 3]),
    }


def _seeded_shots(rng: Random) -> dict[str, Any]:
    return {
        "few_shots_select": rng.choice(["balanced", "random", "sequential"]),
        "num_fewshot": rng.choice([1, 2, 3, 5]),
        "variance_seed": rng.choice([0, 1, 2, 7]),
    }


def _prompts(rng: Random) -> dict[str, Any]:
    return {"system_prompt": rng.choice([None, "You are helpful.", ""])}


def _chats(rng: Random) -> dict[str, Any]:
    return {**_prompts(rng), "chat_template": CHAT}


def _kinds() -> Iterator[Kind]:
    yield from _text_kinds()
    yield from _choice_kinds()
    yield from _sampling_kinds()
    yield from _maths_kinds()
    yield from _corpus_kinds()
    yield from _prompt_kinds()


def _text_kinds() -> Iterator[Kind]:
    for name in _NORMALIZERS:
        yield Kind(f"normalizations.{name}", _none, _text)
    yield Kind("normalizations.math_normalizer", _none, _boxed)
    articles = _one_of(*({"lang": code} for code in _ARTICLES))
    yield Kind("normalizations.remove_articles", articles, _text)
    lowered = _one_of(*({"lang": c, "lower": c != "deu"} for c in _ARTICLES[:-1]))
    yield Kind("normalizations.get_multilingual_normalizer", lowered, _text)
    yield Kind("Metrics.exact_match", _none, _texts)
    yield Kind("Metrics.f1_score", _none, _texts)
    ways = [{"aggregation_function": name} for name in ("max", "min", "mean")]
    yield Kind("ExactMatches", _one_of(*ways, {}), _texts)
    yield Kind("ExactMatches", _normalizing, _texts)
    types = [
        {"strip_strings": strip, "type_exact_match": kind}
        for kind in ("full", "prefix", "suffix")
        for strip in (True, False)
    ]
    yield Kind("ExactMatches", _one_of(*types), _texts)
    yield Kind("F1_score", _one_of(*ways), _texts)
    yield Kind("F1_score", _normalizing, _texts)
    for name in (*_ROUGES, "rouge_t5"):
        yield Kind(f"Metrics.{name}", _none, _texts)
    several = {"methods": ["rouge1", "rougeL"], "multiple_golds": True}
    most = {"methods": "rouge2", "aggregation_function": "max"}
    yield Kind("ROUGE", _one_of(several, most), _texts)
    for name in ("bleu_1", "bleu_4", "copyright"):
        yield Kind(f"Metrics.{name}", _none, _plain_texts)
    distance = {"metric_types": "edit_similarity", "strip_prediction": False}
    yield Kind("StringDistance", _one_of(distance), _texts)
    for name in ("", "_de", "_fr", "_it"):
        yield Kind(f"Metrics.extractiveness{name}", _none, summarised)
    yield Kind("Metrics.drop", _none, spans)
    quasi = _one_of(*({"language": code} for code in _ARTICLES[:-1]))
    yield Kind("MultilingualQuasiF1ScoreMetric", quasi, _gold_and_pred)
    matched = _one_of(
        *({"language": c, "match_type": "full"} for c in ("eng", "fra", "deu", "rus"))
    )
    yield Kind("MultilingualQuasiExactMatchMetric", matched, _gold_and_pred)
    pairs = [[["<think>", "</think>"]], [["[THINK]", "[/THINK]"]], []]
    tags = _one_of(*({"tag_pairs": pair} for pair in pairs))
    yield Kind("utils.remove_reasoning_tags", tags, _reasoned)


def _choice_kinds() -> Iterator[Kind]:
    plain = ("acc_golds_likelihood", "loglikelihood_acc", "mrr", "recall_at_k")
    for name in plain:
        yield Kind(f"Metrics.{name}", _none, single)
    for name in ("loglikelihood_f1", "mcc", "multi_f1_numeric", "target_perplexity"):
        yield Kind(f"Metrics.{name}", _none, single)
    yield Kind("Metrics.truthfulqa_mc_metrics", _none, truthful)
    norms = _one_of(*({"logprob_normalization": n} for n in _LOGPROB_NORMS))
    yield Kind("LoglikelihoodAcc", norms, scored)
    chance = _one_of(*({"log_prob_normalization": n} for n in _LOGPROB_NORMS))
    yield Kind("NormalizedMultiChoiceProbability", chance, scored)
    given = _one_of({"normalization": "none"}, {"normalization": "token"})
    yield Kind("Probability", given, single)
    yield Kind("MRR", _one_of({"length_normalization": True}), single)
    yield Kind("Recall", _one_of({"k": 1}, {"k": 2}, {"k": 3}), untied)
    settings = _one_of(*({"normalization": n} for n in _LOGPROB_NORMS))
    yield Kind("normalizations.normalize_log_probs", settings, _lists)


def _sampling_kinds() -> Iterator[Kind]:
    some = _one_of({"n": 1}, {"n": 2}, {"n": 4})
    yield Kind("Metrics.avg_at_n", some, _four)
    yield Kind("Metrics.maj_at_n", some, _four)
    drawn_k = _one_of({"k": 1, "n": 4}, {"k": 2, "n": 4}, {"k": 1}, {"k": 4, "n": 4})
    yield Kind("Metrics.pass_at_k", drawn_k, _four)
    groups = _one_of({"k": 2, "n": 4}, {"k": [1, 2, 4], "n": 4}, {"k": 3, "n": 3})
    yield Kind("Metrics.g_pass_at_k", groups, _four)
    shapes = [
        {"n": 3, "sample_scoring_function": kind, "strip_strings": True}
        for kind in ("full", "prefix", "suffix")
    ]
    yield Kind("MajAtN", _one_of(*shapes), _four)


def _maths_kinds() -> Iterator[Kind]:
    yield Kind("Metrics.expr_gold_metric", _none, maths)
    yield Kind("Metrics.pass_at_k_math", _one_of({"k": 1, "n": 1}), maths)
    yield Kind("Metrics.avg_at_n_math", _one_of({"n": 1}), maths)
    for name in ("math", "latex"):
        two = _one_of({"k": 1, "n": 2})
        yield Kind(f"Metrics.g_pass_at_k_{name}", two, two_maths)
    yield Kind("MultilingualExtractiveMatchMetric", _extraction, _gold_and_answer)
    yield Kind("Metrics.gpqa_instruct_metric", _none, letters)
    yield Kind("Metrics.pass_at_k_letters", _one_of({"k": 1}), letters)
    yield Kind("Metrics.gpqa_instruct_pass_at_k", _one_of({"k": 1}), letters)


def _corpus_kinds() -> Iterator[Kind]:
    words = ("word_perplexity", "prediction_perplexity", "byte_perplexity")
    for name in (*words, "bits_per_byte"):
        yield Kind(f"Metrics.{name}#corpus", _none, rolled)
    for name in ("mcc", "loglikelihood_f1", "multi_f1_numeric", "target_perplexity"):
        yield Kind(f"Metrics.{name}#corpus", _none, corpus_of(single))
    for name in ("f1_score_macro", "f1_score_micro"):
        yield Kind(f"Metrics.{name}#corpus", _none, corpus_of(one_to_one))
    yield Kind("Metrics.bleu#corpus", _none, corpus_of(translated))
    averages = ("macro", "micro", "weighted", None)
    counted = [{"average": a, "num_classes": n} for a in averages for n in (2, 3, 4)]
    yield Kind("CorpusLevelF1Score", _one_of(*counted), classified)
    yield Kind("MatthewsCorrCoef", _none, correlated)


def _prompt_kinds() -> Iterator[Kind]:
    yield Kind("PromptManager.prepare_prompt(plain)", _prompts, prompted)
    yield Kind("PromptManager.prepare_prompt(chat)", _chats, prompted)
    yield Kind("PromptManager.prepare_prompt_api", _prompts, prompted)
    yield Kind("LightevalTask fewshot selection", _shots, splits)
    yield Kind("FewShotSampler.sample_fewshot_examples", _seeded_shots, splits)
    yield Kind("templates.mcq", shape, mcq)
    yield Kind("templates.boolq", shape, boolq)
    yield Kind("templates.continuation", shape, continuation)
    yield Kind("templates.copa", shape, copa)
    yield Kind("templates.hellaswag", shape, hellaswag)
    yield Kind("templates.nli", nli_shape, nli)
    languages = _one_of(*({"language": code} for code in LANGUAGES))
    yield Kind("templates.qa", languages, qa)
    yield Kind("templates.translation", two_languages, translation)
    yield Kind("ifeval", lambda rng: following(rng, IFEVAL), reply)
    yield Kind("ifbench", lambda rng: following(rng, IFBENCH), benched)
    yield Kind("judge_utils.process_judge_response_simpleqa", _none, _judged)
    for name in ("", "_freeform_gpt", "_multichoice_gpt"):
        yield Kind(f"mix_eval.process_judge_response{name}", _none, _judged)
    yield Kind("lcb.extract_code", _none, _coded)


def drawn(n: int) -> list[dict[str, Any]]:
    """``n`` records of each kind, without lighteval's outputs."""
    return [
        {
            "id": f"{kind.metric} {number}.{i}",
            "metric": kind.metric,
            "params": kind.params(rng),
            "input": kind.given(rng),
        }
        for number, kind in enumerate(_kinds())
        for rng in [Random(f"{kind.metric} {number}")]
        for i in range(n)
    ]
