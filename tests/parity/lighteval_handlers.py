"""How each kind of recorded value of lighteval is computed here: the name in the record
→ a function of its parameters and input. What is not ours to compute is listed with the
reason."""

from __future__ import annotations

import json
import re
import statistics
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from string import ascii_uppercase
from typing import Any

import jinja2
import numpy as np

from pytest_evals.core.doc import Doc
from pytest_evals.core.request import Generate, Response
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.frontends.lighteval import modules
from pytest_evals.frontends.lighteval.config import LightevalTaskConfig
from pytest_evals.frontends.lighteval.data import pool_split
from pytest_evals.frontends.lighteval.names import NAMES
from pytest_evals.frontends.lighteval.prompt import chat, plain
from pytest_evals.frontends.lighteval.shots import Pool, sampler_of
from pytest_evals.frontends.lighteval.tasks import load_tasks
from pytest_evals.frontends.lighteval.templates import (
    choosing,
    continuing,
    entailing,
    formulation,
)
from pytest_evals.pipeline import Job, Plan, score
from pytest_evals.plugin.settings.selection import Selection
from pytest_evals.scorers.lighteval import dynamic
from pytest_evals.scorers.lighteval.catalogue.names import PUBLISHED
from pytest_evals.scorers.lighteval.corpus import (
    labels,
    perplexities,
    prepared,
    translation,
)
from pytest_evals.scorers.lighteval.executing.programs import extract_code
from pytest_evals.scorers.lighteval.extraction import extractive, letters
from pytest_evals.scorers.lighteval.extraction.maths import (
    ExprExtractionConfig,
    LatexExtractionConfig,
)
from pytest_evals.scorers.lighteval.judging import calibration, judge_texts
from pytest_evals.scorers.lighteval.likelihoods import choices, logprobs
from pytest_evals.scorers.lighteval.matching import distance, matches, rouge
from pytest_evals.scorers.lighteval.metric import CorpusLevelComputation, Metric
from pytest_evals.scorers.lighteval.repeats import of_k, of_n
from pytest_evals.scorers.lighteval.response import ModelResponse
from pytest_evals.scorers.lighteval.texts import languages, normalizers, reasoning
from pytest_evals.scorers.lighteval.texts.math_text import math_normalizer
from pytest_evals.scorers.summary import summarise
from pytest_evals.stats.averages import mean_stderr
from pytest_evals.stats.bootstrap import bootstrap_stderr

Handler = Callable[[Mapping[str, Any], Mapping[str, Any]], Any]

NORMALIZERS = {
    **{name: normalizers.NORMALIZERS[name] for name in normalizers.NORMALIZERS},
    "helm_normalizer": normalizers.helm_normalizer_published,
    "math_normalizer": math_normalizer,
}
"""lighteval's names; where ours is corrected, the published one."""


def doc_of(given: Mapping[str, Any]) -> Doc:
    return Doc(**{"query": "", "gold_index": 0, "choices": [], **given})


def pair_of(given: Mapping[str, Any]) -> tuple[Doc, ModelResponse]:
    """Document and answers, in whichever of its two forms the record has them."""
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
        if isinstance(value, str) and value.startswith("<callable "):
            value = value.removeprefix("<callable ").removesuffix(">")
        named = key.startswith("normalize") and isinstance(value, str)
        made[key] = NORMALIZERS[value] if named else value
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


def corpus(name: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        metric = PUBLISHED[name]()(params)
        pairs = zip(given["docs"], given["model_responses"], strict=True)
        values = [
            metric.compute_sample(doc_of(doc), ModelResponse(**response))
            for doc, response in pairs
        ]
        return {
            key: how.compute_corpus([value[key] for value in values])
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
            "corpus_level_fn": {k: said(v) for k, v in how.items()}
            if grouped
            else said(how),
        }

    return handle


def said(how: Any) -> str:
    """A corpus function as the record writes it."""
    if not isinstance(how, CorpusLevelComputation):
        return how.__name__
    shown = {
        labels.CorpusLevelF1Score: ("average", "num_classes"),
        perplexities.CorpusLevelPerplexityMetric: ("metric_type",),
        translation.CorpusLevelTranslationMetric: ("metric_type", "lang"),
    }.get(type(how))
    if shown is None:
        return type(how).__name__
    fields = ", ".join(f"{name}={getattr(how, name)}" for name in shown)
    return f"{type(how).__name__}({fields})"


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
        return eval(text, vars(logprobs))
    return eval(text, {})


def normalizer(function: Callable[[str], str]) -> Handler:
    return lambda params, given: function(given["text"])


def f1(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    how = labels.CorpusLevelF1Score(**params, published=True)
    return how.compute_corpus(list(zip(given["golds"], given["preds"], strict=True)))


def pairs(made: Callable[..., Any]) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        how = made(**params)
        one, other = given.values()
        return how.compute_corpus(list(zip(one, other, strict=True)))

    return handle


def norm(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    how = logprobs.normalization(params["normalization"])
    return logprobs.normalize_log_probs(how, **given)


def extract(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    if "target" in params:
        return extract_letters(params, given)
    kinds = {"expr": ExprExtractionConfig(), "latex": LatexExtractionConfig()}
    rest = {key: v for key, v in params.items() if key not in ("gold", "pred")}
    how = extractive.MultilingualExtractiveMatchMetric(
        gold_extraction_target=[kinds[name] for name in params["gold"].split("+")],
        pred_extraction_target=[kinds[name] for name in params["pred"].split("+")],
        **rest,
    )
    return how.compute(*pair_of(given))


def extract_letters(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    kind = params["target"].split("/")[1]
    labels = letters.labels_of(kind, params["language"])[:4]
    target = letters.IndicesExtractionConfig(kind)
    how = extractive.MultilingualExtractiveMatchMetric(
        language=params["language"],
        gold_extraction_target=target,
        pred_extraction_target=target,
    )
    doc = doc_of({"choices": [given["gold"], "", "", ""]})
    score = how.compute(doc, ModelResponse(text=[given["pred"]]))
    return {"indices": list(labels), "score": score}


def inspect_maths(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """inspect-ai's scorer of lighteval: numbers, and formulas, boxed ones first."""
    metric = PUBLISHED["expr_gold_metric"]()
    return _verdict(metric, [given["target"]], given["completion"])


def inspect_letters(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """inspect-ai's scorer of lighteval: the letter of a choice."""
    at = ascii_uppercase.index(given["target"])
    metric = PUBLISHED["gpqa_instruct_metric"]()
    return _verdict(metric, ascii_uppercase[:4], given["completion"], at)


def _verdict(metric: Metric, choices: Any, said: str, gold: int = 0) -> dict[str, str]:
    doc = doc_of({"choices": list(choices), "gold_index": gold})
    (value,) = metric.compute_sample(doc, ModelResponse(text=[said])).values()
    return {"value": "C" if value else "I"}


def golds(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    return doc_of(given).get_golds()


def pass_at_k(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    return of_k.pass_at_k(given["n_scores"], given["n_correct"], params["k"])


def g_pass_at_k(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    thresholds = params["thresholds"] or of_k.THRESHOLDS
    return of_k.g_pass_at_k(
        given["n_scores"], given["n_correct"], params["k"], thresholds
    )


def estimates(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    both = zip(given["num_samples"], given["num_correct"], strict=True)
    return [of_k.pass_at_k(n, right, params["k"]) for n, right in both]


def reply(read: Callable[[str], float | None]) -> Handler:
    """A judge's reply; one without score is 0 in lighteval, and no score here."""
    return lambda params, given: read(given["response"] or "") or 0


def bootstrap(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """Replicates of the statistic, drawn as lighteval and lm-eval draw. lighteval
    divides their deviation by the root of their number, which ours does not."""
    function = {"max": max, "median": statistics.median, "min": min}[params["metric"]]
    values = given["values"]
    n = params["number_experiments"]

    def statistic(at: Any) -> Any:
        return np.array([function([values[i] for i in row]) for row in at])

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


# Task modules: prompts, shots, templates, and the strings that ask for tasks.


def prompt(build: Callable[..., Any]) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        doc = doc_of(given["doc"])
        doc.fewshot_samples = [doc_of(shot) for shot in given["fewshots"]]
        return build(doc, params)

    return handle


def messages(doc: Doc, params: Mapping[str, Any]) -> list[dict[str, str]]:
    return [m._asdict() for m in chat(doc, params["system_prompt"])]


def rendered(doc: Doc, params: Mapping[str, Any]) -> str:
    template = jinja2.Template(params["chat_template"])
    given = messages(doc, params)
    return template.render(messages=given, add_generation_prompt=True)


def toy(row: Mapping[str, Any], task_name: str) -> Doc:
    """The recorder's prompt function, as its outputs show it."""
    return Doc(
        f"Q{row['i']}:",
        ["yes", "no"],
        row["y"],
        fewshot_sorting_class=row.get("cls"),
    )


def toy_table(metrics: Mapping[str, list[Any]], rows: Mapping[str, Any], **more: Any):
    """The recorder's table: tasks of one dataset."""
    return [
        LightevalTaskConfig(
            name=name,
            prompt_function=toy,
            hf_repo="json",
            hf_subset="default",
            hf_data_files={split: split for split in rows},
            metrics=listed,
            evaluation_splits=["test"],
            **{"hf_avail_splits": list(rows), "generation_size": 5, **more},
        )
        for name, listed in metrics.items()
    ]


FOLDER = tempfile.TemporaryDirectory()
"""Where modules and datasets stand as long as this process lives."""


def toy_tasks(table: list[LightevalTaskConfig], rows: Any, options: TaskOptions):
    """The tasks of a table, as if it stood in a module and its data in files."""
    folder = Path(tempfile.mkdtemp(dir=FOLDER.name))
    for split, listed in rows.items():
        text = "".join(json.dumps(row) + "\n" for row in listed)
        (folder / split).write_text(text)
    module = folder / "toy.py"
    module.write_text("TASKS_TABLE = []")
    modules.load_task_module(module).TASKS_TABLE.extend(table)
    return load_tasks(module, options)


def documents(params: Mapping[str, Any], given: Mapping[str, Any]) -> list[Doc]:
    rows = given["dataset"]
    chosen = {
        k: params[k] for k in ("few_shots_select", "hf_avail_splits") if k in params
    }
    metrics = {"toy": [PUBLISHED["loglikelihood_acc"]()]}
    shots = params.get("num_fewshots", 0)
    limit = params.get("max_samples") or None  # 0 means all, there
    options = TaskOptions(limit=limit, num_fewshot=shots)
    (task,) = toy_tasks(toy_table(metrics, rows, **chosen), rows, options)
    return [task.ask(i).doc for i in range(len(task.rows.ids()))]


def order(params: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    return [doc.query for doc in documents(params, given)]


def shots(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    return [
        {"doc": doc.query, "fewshots": [shot.query for shot in doc.fewshot_samples]}
        for doc in documents(params, given)
    ]


def sampled(params: Mapping[str, Any], given: Mapping[str, Any]) -> list[Any]:
    """Shots with another seed than 0, which lighteval itself never gives."""
    rows = given.get("dataset", given)["train"]
    pool = Pool([toy(row, "") for row in rows], {})
    n, seed = params["num_fewshot"], params["variance_seed"]
    sampler = sampler_of(params.get("few_shots_select"), pool, n, seed, Random(42))
    drawn = [pool.docs[at] for at in sampler.shots(0)]
    if "dataset" in given:
        return [doc.query for doc in drawn]
    return [[doc.query, doc.fewshot_sorting_class] for doc in drawn]


def pool(params: Mapping[str, Any], given: Mapping[str, Any]) -> str | None:
    config = LightevalTaskConfig("toy", toy, "json", metrics=[], **given)
    return pool_split(config)


ZZ = {
    "zz:a": ["exact_match"],
    "zz:b": ["exact_match"],
    "zzgen": ["exact_match", "f1_score"],
    "zzll": ["loglikelihood_acc"],
    "zzpass": ["pass_at_k"],
    "zzgpass": ["g_pass_at_k"],
    "zzdrop": ["copyright"],
}
"""The recorder's table: task → metrics."""


def zz_tasks(asked: str, rows: Mapping[str, Any], **options: Any) -> list[Task]:
    selection = Selection(asked.split(","))
    given = TaskOptions(takes=selection.takes, variants=selection.variants, **options)
    table = toy_table({k: [PUBLISHED[m]() for m in v] for k, v in ZZ.items()}, rows)
    found = toy_tasks(table, rows, given)
    selection.check()
    return [one for one in found if isinstance(one, Task)]


def task_string(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    found: dict[str, list[Any]] = {}
    for task in zz_tasks(given["tasks"], {"test": [{"i": 0, "y": 0}]}):
        how = [
            [m["metric"], m["arguments"].get("k"), m["arguments"].get("n")]
            for m in task.config["metrics"]
        ]
        name = task.config["task"]
        full = f"{name}|{task.n_shots}"
        found.setdefault(name, []).append([full, task.n_shots, how])
    return found


class Knowing:
    """The recorder's model."""

    name = "fake"

    def answer(self, requests, /):
        for position, request in enumerate(requests):
            given = request.prompt if isinstance(request, Generate) else request.context
            knows = int(re.search(r"Q(\d+):$", given)[1]) % 4 < 2
            if isinstance(request, Generate):
                text = "<think>hm no</think>" + ("yes" if knows else "no")
                yield position, Response(text=text)
            else:
                first = request.continuation.strip() == "yes"
                logprob = -1.0 if first == knows else -2.0
                yield position, Response(logprob=logprob, greedy=False)


def end_to_end(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    iterations = params.get("bootstrap_iters", 1000)
    limit = params.get("max_samples") or None
    options = {"limit": limit, "bootstrap_iters": iterations}
    rows = {"test": given["test"]}
    found: dict[str, Any] = {}
    for task in zz_tasks(params["tasks"], rows, **options):
        jobs = [Job(task, i) for i in task.rows.indices()]
        plan, model = Plan(jobs), Knowing()
        records = [score(plan.take(job, model), task) for job in jobs]
        numbers = {}
        for metric in summarise(task, records, len(jobs)).metrics:
            numbers[metric.name] = metric.estimate.value
            if metric.estimate.stderr is not None and len(jobs) > 1:
                numbers[f"{metric.name}_stderr"] = metric.estimate.stderr
        found[f"{task.config['task']}:{task.n_shots}"] = numbers
    return {"results": found}


FORMULATIONS = {
    "CF": formulation.CFFormulation(),
    "Hybrid": formulation.HybridFormulation(),
    "MCF": formulation.MCFFormulation(),
    "MCF/NativeLetters": formulation.MCFFormulation("NativeLetters"),
    "MCF/Numbers": formulation.MCFFormulation("Numbers"),
}
TEMPLATES = {
    "boolq": choosing.get_boolq_prompt_function,
    "continuation": continuing.get_continuation_prompt_function,
    "copa": continuing.get_copa_prompt_function,
    "hellaswag": continuing.get_hellaswag_prompt_function,
    "mcq": choosing.get_mcq_prompt_function,
    "nli": entailing.get_nli_prompt_function,
    "qa": choosing.get_qa_prompt_function,
    "translation": continuing.get_translation_prompt_function,
}
DOC_FIELDS = (
    "query",
    "choices",
    "gold_index",
    "instruction",
    "unconditioned_query",
    "task_name",
)


def template(name: str) -> Handler:
    """A template; the recorder's adapter gives the input as it is, if no other is
    named."""
    kind = re.match(r"templates\.(\w+)", name)[1]

    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        adapter = params.get("adapter") or (lambda row: row)
        if name.endswith("(adapter None)"):
            adapter = lambda row: None  # noqa: E731
        languages = [params.get("language", "eng")]
        if kind == "translation":
            languages = [params["source"], params["target"]]
        more = {"formulation": FORMULATIONS[params.get("formulation", "MCF")]}
        if kind == "qa":
            more = {}
        if kind == "nli":
            two = ["entailment", "contradiction"]
            more["relations"] = params.get("relations", two)
        doc = TEMPLATES[kind](*languages, adapter, **more)(dict(given), "t")
        return doc and {field: getattr(doc, field) for field in DOC_FIELDS}

    return handle


EXACT: dict[str, Handler] = {
    "BLEU": of_class(rouge.BLEU),
    "CorpusLevelF1Score": f1,
    "CorpusLevelPerplexityMetric": pairs(perplexities.CorpusLevelPerplexityMetric),
    "CorpusLevelTranslationMetric": pairs(translation.CorpusLevelTranslationMetric),
    "Doc.get_golds": golds,
    "ExactMatches": of_class(partial(matches.ExactMatches, published=True)),
    "F1_score": of_class(matches.F1_score),
    "FewShotSampler.balanced with fewshot_sorting_class": sampled,
    "FewShotSampler.sample_fewshot_examples": sampled,
    "GPassAtK.g_pass_at_k": g_pass_at_k,
    "LogLikelihoodAccMetric.metric_name": lambda params, given: (
        dynamic.LogLikelihoodAccMetric(**params).metric_name
    ),
    "LightevalTask fewshot selection": shots,
    "LightevalTask fewshot selection (no few-shot split: eval split is the pool)": (
        shots
    ),
    "LightevalTask.get_docs order": order,
    "LightevalTask.get_first_possible_fewshot_splits": pool,
    "LoglikelihoodAcc": of_class(choices.LoglikelihoodAcc),
    "MRR": of_class(choices.MRR),
    "MajAtN": of_class(partial(of_n.MajAtN, published=True)),
    "MatthewsCorrCoef": pairs(labels.MatthewsCorrCoef),
    "MultilingualExtractiveMatchMetric": extract,
    "MultilingualQuasiExactMatchMetric": of_metric(
        dynamic.MultilingualQuasiExactMatchMetric, "language", "match_type"
    ),
    "MultilingualQuasiF1ScoreMetric": of_metric(
        dynamic.MultilingualQuasiF1ScoreMetric, "language"
    ),
    "NormalizedMultiChoiceProbMetric.metric_name": lambda params, given: (
        dynamic.NormalizedMultiChoiceProbMetric(**params).metric_name
    ),
    "NormalizedMultiChoiceProbability": of_class(
        choices.NormalizedMultiChoiceProbability
    ),
    "PassAtK": of_class(partial(of_k.PassAtK, published=True)),
    "PassAtK.pass_at_k": pass_at_k,
    "PerplexityPreparator.count_units": lambda params, given: prepared.count_units(
        given["text"], params["units_type"]
    ),
    "Pipeline end to end": end_to_end,
    "PromptManager.prepare_prompt(chat)": prompt(rendered),
    "PromptManager.prepare_prompt(plain)": prompt(
        lambda doc, params: plain(doc, params["system_prompt"])
    ),
    "PromptManager.prepare_prompt_api": prompt(messages),
    "Registry task string": task_string,
    "Probability": of_class(partial(choices.Probability, published=True)),
    "ProbabilityMetric.metric_name": lambda params, given: (
        dynamic.ProbabilityMetric(**params).metric_name
    ),
    "ROUGE": of_class(rouge.ROUGE),
    "Recall": of_class(lambda k: choices.Recall(k, published=True)),
    "StringDistance": of_class(distance.StringDistance),
    "hle.calib_err": lambda params, given: calibration.calib_err(**given, **params),
    "ifbench": following("ifbench_metrics"),
    "ifeval": following("ifeval_metrics"),
    "ifeval.agg_inst_level_acc": lambda params, given: labels.FlatMean().compute_corpus(
        given["items"]
    ),
    "judge_utils.process_judge_response_simpleqa": reply(judge_texts.simpleqa_score),
    "mix_eval.mean_dv_5": lambda params, given: judge_texts.mean_dv_5(given["x"]),
    "mix_eval.process_judge_response": reply(judge_texts.flow_score),
    "mix_eval.process_judge_response_freeform_gpt": reply(judge_texts.bracketed_number),
    "mix_eval.process_judge_response_multichoice_gpt": reply(
        judge_texts.bracketed_verdict
    ),
    "inspect math_scorer": inspect_maths,
    "inspect multichoice_scorer": inspect_letters,
    "lcb.estimate_pass_at_k": estimates,
    "lcb.extract_code": lambda params, given: extract_code(given["text"]),
    "normalizations.get_multilingual_normalizer": lambda params, given: (
        languages.get_multilingual_normalizer(
            params["lang"], lower=params.get("lower", True)
        )(given["text"])
    ),
    "normalizations.normalize_log_probs": norm,
    "normalizations.remove_articles": lambda params, given: languages.remove_articles(
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
    "utils.remove_reasoning_tags": lambda params, given: (
        reasoning.remove_reasoning_tags(given["text"], params["tag_pairs"])
    ),
    **{
        f"normalizations.{name}": normalizer(NORMALIZERS[name])
        for name in NORMALIZERS
        if not name.endswith("_published")
    },
}


def handler_of(record: Mapping[str, Any]) -> Handler | None:
    """What computes a record; ``None`` if nothing here does."""
    kind = record["metric"]
    if kind.startswith("templates."):
        return template(kind)
    if kind in EXACT:
        return EXACT[kind]
    match = re.fullmatch(r"Metrics\.(\w+)(#corpus| \(catalogue\)|\.[\w().]+)?", kind)
    if match is None or match[1] not in PUBLISHED:
        return None
    makers: dict[str | None, Callable[[str], Handler]] = {
        None: sample,
        "#corpus": corpus,
        " (catalogue)": catalogue,
        ".metric_name": metric_name,
        ".num_samples": lambda name: lambda p, g: PUBLISHED[name]().num_samples(),
        ".get_corpus_aggregations().keys()": lambda name: (
            lambda p, g: list(PUBLISHED[name]().get_corpus_aggregations())
        ),
    }
    make = makers.get(match[2])
    return make(match[1]) if make else None
