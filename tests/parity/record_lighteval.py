"""Record the outputs of lighteval 0.13.0 for the inputs of ``lighteval_inputs``.

Run by hand, with a Python that has lighteval and its extras, NLTK 3.9.1, spaCy 3.8 and
syllapy 0.8 among them, and none of this project's libraries::

    python tests/parity/record_lighteval.py N tests/parity/vectors/lighteval_drawn.json
    python tests/parity/record_lighteval.py fixed \
        tests/parity/vectors/lighteval_fixed.json

``N`` is the number of random inputs of each kind; ``fixed`` are the fixed ones. The
records have the form of ``vectors/lighteval.json``. NLTK's Punkt is untrained, and
spaCy's pipelines are blank: nothing is downloaded.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
import math
import os
import random
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


def _without_downloads() -> None:
    """Untrained Punkt, blank spaCy pipelines, no check for extras, some of whose names
    differ from the installed packages, and judges that the Hub knows."""
    import huggingface_hub
    import nltk
    import spacy
    from lighteval.utils import imports

    folder = tempfile.mkdtemp()
    punkt = Path(folder, "tokenizers", "punkt_tab", "english")
    punkt.mkdir(parents=True)
    files = ("abbrev_types.txt", "collocations.tab", "sent_starters.txt")
    for name in (*files, "ortho_context.tab"):
        (punkt / name).touch()
    nltk.data.path.insert(0, folder)
    nltk.download = lambda *args, **more: True
    spacy.load = lambda name, *args, **more: spacy.blank(name[:2])
    imports.is_package_available = lambda package: True
    huggingface_hub.HfApi.list_models = lambda *args, **more: iter(["a model"])


_without_downloads()

from lighteval.metrics import (  # noqa: E402
    dynamic_metrics,
    metrics_corpus,
    metrics_sample,
    normalizations,
    sample_preparator,
)
from lighteval.metrics.metrics import Metrics  # noqa: E402
from lighteval.metrics.utils import judge_utils, stderr  # noqa: E402
from lighteval.metrics.utils.extractive_match_utils import (  # noqa: E402
    ExprExtractionConfig,
    IndicesExtractionConfig,
    LatexExtractionConfig,
)
from lighteval.models.model_output import ModelResponse  # noqa: E402
from lighteval.tasks.lighteval_task import (  # noqa: E402
    LightevalTask,
    LightevalTaskConfig,
)
from lighteval.tasks.prompt_manager import FewShotSampler, PromptManager  # noqa: E402
from lighteval.tasks.requests import Doc  # noqa: E402
from lighteval.tasks.templates import (  # noqa: E402
    boolq,
    continuation,
    copa,
    hellaswag,
    multichoice,
    nli,
    qa,
    translation,
)
from lighteval.tasks.templates.utils import formulation  # noqa: E402
from lighteval.utils.language import Language  # noqa: E402
from lighteval.utils.utils import remove_reasoning_tags  # noqa: E402

Handler = Callable[[Mapping[str, Any], Mapping[str, Any]], Any]

NORMS = {
    "none": None,
    "char": normalizations.LogProbCharNorm(),
    "char_ignore_first_space": normalizations.LogProbCharNorm(ignore_first_space=True),
    "token": normalizations.LogProbTokenNorm(),
    "pmi": normalizations.LogProbPMINorm(),
}


def mean(values: Any) -> float:
    return sum(values) / len(values)


AGGREGATIONS = {"max": max, "min": min, "mean": mean}


def doc_of(given: Mapping[str, Any]) -> Doc:
    made = {"query": "", "gold_index": 0, "choices": [], **copy.deepcopy(given)}
    return Doc(**made)


def pair_of(given: Mapping[str, Any]) -> tuple[Doc, ModelResponse]:
    if "doc" in given:
        response = ModelResponse(**copy.deepcopy(given["model_response"]))
        return doc_of(given["doc"]), response
    golds = given.get("golds", [given.get("gold")])
    preds = given.get("preds", [given.get("pred")])
    doc = doc_of({"choices": golds, "gold_index": list(range(len(golds)))})
    return doc, ModelResponse(text=list(preds))


def arguments(params: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(params)
    for key, value in params.items():
        is_name = key == "normalize" and not value.startswith("<callable ")
        if key in ("normalize_gold", "normalize_pred", "normalize") and not is_name:
            name = value.removeprefix("<callable ").removesuffix(">")
            made[key] = getattr(normalizations, name)
        if key == "aggregation_function":
            made[key] = AGGREGATIONS[value]
        if key in ("logprob_normalization", "log_prob_normalization", "normalization"):
            made[key] = NORMS[value]
    return made


def of_class(made: Callable[..., Any]) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        doc, response = pair_of(given)
        computation = made(**arguments(params))
        return computation.compute(doc=doc, model_response=response)

    return handle


def metric_of(name: str, params: Mapping[str, Any]) -> Any:
    if name == "ifeval_metrics":
        from lighteval.tasks.tasks.ifeval.main import ifeval_metrics

        return ifeval_metrics
    metric = copy.deepcopy(Metrics[name].value)
    return metric(dict(params)) if params else metric


def sample(name: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        doc, response = pair_of(given)
        return metric_of(name, params).compute_sample(doc=doc, model_response=response)

    return handle


def corpus(name: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        metric = metric_of(name, params)
        rows = [
            metric.compute_sample(doc=doc_of(d), model_response=ModelResponse(**r))
            for d, r in zip(given["docs"], given["model_responses"], strict=True)
        ]
        return {
            key: how([row[key] for row in rows])
            for key, how in metric.get_corpus_aggregations().items()
        }

    return handle


def pairs(made: Callable[..., Any]) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        from lighteval.metrics.sample_preparator import (
            GenerativeCorpusMetricInput,
            LogprobCorpusMetricInput,
            PerplexityCorpusMetricInput,
        )

        kinds = {
            metrics_corpus.CorpusLevelPerplexityMetric: PerplexityCorpusMetricInput,
            metrics_corpus.CorpusLevelTranslationMetric: GenerativeCorpusMetricInput,
        }
        one, other = given.values()
        kind = kinds.get(made, LogprobCorpusMetricInput)
        items = [kind(a, b) for a, b in zip(one, other, strict=True)]
        return made(**params).compute_corpus(items)

    return handle


def norm(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    how = NORMS[params["normalization"]]
    return normalizations.normalize_log_probs(how, **given)


def extract(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    rest = dict(params)
    doc, response = pair_of(given)
    if "target" in params:
        kind = rest.pop("target").split("/")[1]
        target = (IndicesExtractionConfig(kind),)
        language = Language(rest.pop("language"))
        how = dynamic_metrics.MultilingualExtractiveMatchMetric(
            language, target, target
        )
        doc = doc_of({"choices": [given["gold"], "", "", ""]})
        return how.compute(doc=doc, model_response=response)
    kinds = {"expr": ExprExtractionConfig(), "latex": LatexExtractionConfig()}
    gold, pred = rest.pop("gold").split("+"), rest.pop("pred").split("+")
    how = dynamic_metrics.MultilingualExtractiveMatchMetric(
        gold_extraction_target=tuple(kinds[name] for name in gold),
        pred_extraction_target=tuple(kinds[name] for name in pred),
        **arguments(rest),
    )
    return how.compute(doc=doc, model_response=response)


def catalogue(name: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        metric = metric_of(name, {})
        how = metric.corpus_level_fn
        grouped = isinstance(how, Mapping)
        return {
            "metric_name": metric.metric_name,
            "category": metric.category.value,
            "higher_is_better": metric.higher_is_better,
            "class": type(metric).__name__,
            "sample_level_fn": type(metric.sample_level_fn).__name__,
            "corpus_level_fn": {k: named(v) for k, v in how.items()}
            if grouped
            else named(how),
        }

    return handle


def named(how: Any) -> str:
    return getattr(how, "__name__", None) or str(how)


def made_with(name: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        metric = metric_of(name, {key: int(value) for key, value in params.items()})
        count = getattr(metric.sample_level_fn, "num_samples", None)
        return {
            "metric_name": metric.metric_name,
            "num_samples": count and count(),
        }

    return handle


TABLE = {
    "zz:a": ["exact_match"],
    "zz:b": ["exact_match"],
    "zzgen": ["exact_match", "f1_score"],
    "zzll": ["loglikelihood_acc"],
}
"""Task → metrics, of whole runs."""


class Knowing:
    """A reasoning model that answers every other pair of questions correctly."""

    is_async = False

    def greedy_until(self, docs: Any) -> Any:
        text = {True: "yes", False: "no"}
        return [
            ModelResponse(text=[f"<think>hm no</think>{text[self.knows(doc)]}"])
            for doc in docs
        ]

    def loglikelihood(self, docs: Any) -> Any:
        return [
            ModelResponse(logprobs=[-1.0, -2.0] if self.knows(doc) else [-2.0, -1.0])
            for doc in docs
        ]

    def knows(self, doc: Doc) -> bool:
        return int(doc.query[1:-1]) % 4 < 2

    def cleanup(self) -> None:
        pass


def run(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """lighteval's own pipeline, from the documents to the results."""
    import types

    from lighteval.logging.info_loggers import MetricsLogger
    from lighteval.utils import imports

    imports.is_package_available = lambda package: False  # it would import nanotron
    from lighteval.pipeline import Pipeline

    pipeline = Pipeline.__new__(Pipeline)
    pipeline.model, pipeline.tasks_dict = Knowing(), {}
    tags = params.get("reasoning_tags", [["<think>", "</think>"]])
    pipeline.pipeline_parameters = types.SimpleNamespace(
        remove_reasoning_tags=params.get("remove_reasoning_tags", True),
        reasoning_tags=[tuple(pair) for pair in tags],
    )
    pipeline.sampling_docs = {}
    for source in params["tasks"].split(","):
        task = _task(source.partition("|")[0], given)
        pipeline.tasks_dict[task.full_name] = task
        for doc in task.get_docs(params.get("max_samples")):
            for method in doc.sampling_methods:
                pipeline.sampling_docs.setdefault(method, []).append(doc)
    logger = MetricsLogger()
    silent = types.SimpleNamespace(log=lambda *arguments: None)
    pipeline.evaluation_tracker = types.SimpleNamespace(
        metrics_logger=logger, details_logger=silent
    )
    outputs = pipeline._run_model()
    pipeline._post_process_outputs(outputs)
    pipeline._compute_metrics(outputs)
    logger.aggregate(pipeline.tasks_dict, params.get("bootstrap_iters", 1000))
    found = logger.metric_aggregated
    return {"results": {key.replace("|", ":"): dict(found[key]) for key in found}}


def _task(name: str, given: Mapping[str, Any]) -> LightevalTask:
    config = LightevalTaskConfig(
        name=name,
        prompt_function=toy,
        hf_repo="json",
        hf_subset="default",
        metrics=[metric_of(metric, {}) for metric in TABLE[name]],
        evaluation_splits=["test"],
        hf_avail_splits=["test"],
        generation_size=5,
    )
    task = LightevalTask(config)
    task.dataset = copy.deepcopy(dict(given))
    return task


def of_language(made: Callable[..., Any]) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        doc, response = pair_of(given)
        rest = {k: v for k, v in params.items() if k != "language"}
        metric = made(Language(params["language"]), **rest)
        return metric.compute_sample(doc=doc, model_response=response)

    return handle


def following(kind: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        if kind == "ifeval":
            from lighteval.tasks.tasks.ifeval.main import ifeval_metrics as metric
        else:
            from lighteval.tasks.tasks.ifbench.main import ifbench_metrics as metric
        random.seed(0)
        named = "instructions_id_list" if kind == "ifeval" else "instruction_id_list"
        specific = copy.deepcopy(
            {named: params["instruction_id_list"], "kwargs": params["kwargs"]}
        )
        doc = doc_of({"query": given["prompt"], "specific": specific})
        response = ModelResponse(text=[given["response"]])
        return metric.compute_sample(doc=doc, model_response=response)

    return handle


def prompt(manager: Callable[[Mapping[str, Any]], Any], name: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        doc = doc_of(given["doc"])
        doc.fewshot_samples = [doc_of(shot) for shot in given["fewshots"]]
        return getattr(manager(params), name)(doc)

    return handle


class Templated:
    """The part of a tokenizer that a prompt needs."""

    def __init__(self, template: str) -> None:
        import jinja2

        self.template = jinja2.Template(template)

    def apply_chat_template(self, messages: Any, **more: Any) -> str:
        return self.template.render(messages=messages, add_generation_prompt=True)


def toy(row: Mapping[str, Any], task_name: str) -> Doc:
    return Doc(
        f"Q{row['i']}:", ["yes", "no"], row["y"], fewshot_sorting_class=row.get("cls")
    )


def task_of(params: Mapping[str, Any], given: Mapping[str, Any]) -> LightevalTask:
    rows = given.get("dataset", given)
    config = LightevalTaskConfig(
        name="toy",
        prompt_function=toy,
        hf_repo="json",
        hf_subset="default",
        metrics=[Metrics.loglikelihood_acc],
        evaluation_splits=["test"],
        hf_avail_splits=params.get("hf_avail_splits", list(rows)),
        few_shots_select=params.get("few_shots_select"),
        num_fewshots=params.get("num_fewshots", 0),
    )
    task = LightevalTask(config)
    task.dataset = copy.deepcopy(rows)
    return task


def documents(params: Mapping[str, Any], given: Mapping[str, Any]) -> list[Doc]:
    return task_of(params, given).get_docs(params.get("max_samples"))


def shots(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    return [
        {"doc": doc.query, "fewshots": [shot.query for shot in doc.fewshot_samples]}
        for doc in documents(params, given)
    ]


def order(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    return [doc.query for doc in documents(params, given)]


def sampled(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    sampler = FewShotSampler(task_of(params, given))
    n, seed = params["num_fewshot"], params["variance_seed"]
    drawn = sampler.sample_fewshot_examples(
        n, seed, sampler=random.Random(42), formatted_doc=doc_of({"id": "none"})
    )
    return [doc.query for doc in drawn]


TEMPLATES = {
    "boolq": boolq.get_boolq_prompt_function,
    "continuation": continuation.get_continuation_prompt_function,
    "copa": copa.get_copa_prompt_function,
    "hellaswag": hellaswag.get_hellaswag_prompt_function,
    "mcq": multichoice.get_mcq_prompt_function,
    "nli": nli.get_nli_prompt_function,
    "qa": qa.get_qa_prompt_function,
    "translation": translation.get_translation_prompt_function,
}
FORMULATIONS = {
    "CF": formulation.CFFormulation(),
    "Hybrid": formulation.HybridFormulation(),
    "MCF": formulation.MCFFormulation(),
    "MCF/NativeLetters": formulation.MCFFormulation("NativeLetters"),
    "MCF/Numbers": formulation.MCFFormulation("Numbers"),
}
DOC_FIELDS = (
    "query",
    "choices",
    "gold_index",
    "instruction",
    "unconditioned_query",
    "task_name",
)


def template(kind: str) -> Handler:
    def handle(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        languages = [Language(params.get("language", "eng"))]
        if kind == "translation":
            languages = [Language(params["source"]), Language(params["target"])]
        more = {"formulation": FORMULATIONS[params.get("formulation", "MCF")]}
        if kind == "qa":
            more = {}
        if kind == "nli":
            more["relations"] = params.get("relations", ["entailment", "contradiction"])
        made = TEMPLATES[kind](*languages, lambda row: row, **more)
        doc = made(copy.deepcopy(dict(given)), "t")
        return doc and {name: getattr(doc, name) for name in DOC_FIELDS}

    return handle


def calibration(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    import numpy as np
    from lighteval.tasks.tasks.hle import calib_err

    made = (np.array(given[name]) for name in ("confidence", "correct"))
    return calib_err(*made, **params)


def code(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    from lighteval.tasks.tasks.lcb.codegen_metrics import extract_code

    return extract_code(given["text"])


def task_function(task: str, name: str) -> Callable[..., Any]:
    module = importlib.import_module(f"lighteval.tasks.tasks.{task}.main")
    return getattr(module, name)


def mix_eval(name: str) -> Handler:
    return lambda params, given: task_function("mix_eval", name)(given["response"])


EXACT: dict[str, Handler] = {
    "BLEU": of_class(metrics_sample.BLEU),
    "CorpusLevelF1Score": pairs(metrics_corpus.CorpusLevelF1Score),
    "CorpusLevelPerplexityMetric": pairs(metrics_corpus.CorpusLevelPerplexityMetric),
    "CorpusLevelTranslationMetric": pairs(metrics_corpus.CorpusLevelTranslationMetric),
    "Doc.get_golds": lambda params, given: doc_of(given).get_golds(),
    "ExactMatches": of_class(metrics_sample.ExactMatches),
    "F1_score": of_class(metrics_sample.F1_score),
    "FewShotSampler.sample_fewshot_examples": sampled,
    "LightevalTask fewshot selection": shots,
    "LightevalTask.get_docs order": order,
    "LoglikelihoodAcc": of_class(metrics_sample.LoglikelihoodAcc),
    "MRR": of_class(metrics_sample.MRR),
    "MajAtN": of_class(metrics_sample.MajAtN),
    "MatthewsCorrCoef": pairs(metrics_corpus.MatthewsCorrCoef),
    "MultilingualExtractiveMatchMetric": extract,
    "MultilingualQuasiExactMatchMetric": of_language(
        dynamic_metrics.MultilingualQuasiExactMatchMetric
    ),
    "MultilingualQuasiF1ScoreMetric": of_language(
        dynamic_metrics.MultilingualQuasiF1ScoreMetric
    ),
    "NormalizedMultiChoiceProbability": of_class(
        metrics_sample.NormalizedMultiChoiceProbability
    ),
    "PassAtK": of_class(metrics_sample.PassAtK),
    "Pipeline end to end": run,
    "PerplexityPreparator.count_units": lambda params, given: (
        sample_preparator.PerplexityPreparator(**params).count_units(given["text"])
    ),
    "Probability": of_class(metrics_sample.Probability),
    "PromptManager.prepare_prompt(chat)": prompt(
        lambda p: PromptManager(
            True, Templated(p["chat_template"]), p["system_prompt"]
        ),
        "prepare_prompt",
    ),
    "PromptManager.prepare_prompt(plain)": prompt(
        lambda p: PromptManager(system_prompt=p["system_prompt"]), "prepare_prompt"
    ),
    "PromptManager.prepare_prompt_api": prompt(
        lambda p: PromptManager(True, system_prompt=p["system_prompt"]),
        "prepare_prompt_api",
    ),
    "ROUGE": of_class(metrics_sample.ROUGE),
    "Recall": of_class(metrics_sample.Recall),
    "StringDistance": of_class(metrics_sample.StringDistance),
    "hle.calib_err": calibration,
    "ifeval.agg_inst_level_acc": lambda params, given: task_function(
        "ifeval", "agg_inst_level_acc"
    )(given["items"]),
    "mix_eval.mean_dv_5": lambda params, given: task_function("mix_eval", "mean_dv_5")(
        given["x"]
    ),
    "ifbench": following("ifbench"),
    "ifeval": following("ifeval"),
    "judge_utils.process_judge_response_simpleqa": lambda params, given: (
        judge_utils.process_judge_response_simpleqa(given["response"])
    ),
    "lcb.extract_code": code,
    **{
        f"mix_eval.{name}": mix_eval(name)
        for name in (
            "process_judge_response",
            "process_judge_response_freeform_gpt",
            "process_judge_response_multichoice_gpt",
        )
    },
    "normalizations.get_multilingual_normalizer": lambda params, given: (
        normalizations.get_multilingual_normalizer(
            Language(params["lang"]), params.get("lower", True)
        )(given["text"])
    ),
    "normalizations.normalize_log_probs": norm,
    "normalizations.remove_articles": lambda params, given: (
        normalizations.remove_articles(given["text"], Language(params["lang"]))
    ),
    "stderr.mean_stderr": lambda params, given: stderr.mean_stderr(given["values"]),
    "utils.remove_reasoning_tags": lambda params, given: remove_reasoning_tags(
        given["text"], [tuple(pair) for pair in params["tag_pairs"]]
    ),
}


OF_METRIC: dict[str, Callable[[str], Handler]] = {
    "#corpus": corpus,
    " (catalogue)": catalogue,
    ".metric_name": made_with,
    ".num_samples": lambda name: (
        lambda params, given: made_with(name)({}, {})["num_samples"]
    ),
}
"""Suffix of a record's name → the recorded function of the metric before it."""


def handler_of(kind: str) -> Handler:
    if kind in EXACT:
        return EXACT[kind]
    head, _, name = kind.partition(".")
    if head == "normalizations":
        function = getattr(normalizations, name)
        return lambda params, given: function(given["text"])
    if head == "templates":
        return template(name.removesuffix(" with instruction"))
    for tail, made in OF_METRIC.items():
        if name.endswith(tail):
            return made(name.removesuffix(tail))
    return sample(name)


def _plain(value: Any) -> Any:
    """Return the value as JSON represents it."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if hasattr(value, "__dict__"):
        return _plain(vars(value))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value).replace("nan", "NaN").replace("inf", "Infinity")
    return value


def record(given: dict[str, Any]) -> dict[str, Any]:
    """The record with lighteval's output."""
    try:
        output = handler_of(given["metric"])(given["params"], _number(given["input"]))
    except Exception as error:  # noqa: BLE001 - any exception is recorded
        output = {"error": type(error).__name__, "message": str(error)[:200]}
    return {**given, "output": _plain(output)}


def _number(value: Any) -> Any:
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value.replace("Infinity", "inf"))
    if isinstance(value, list):
        return [_number(item) for item in value]
    if isinstance(value, dict):
        return {key: _number(item) for key, item in value.items()}
    return value


def _inputs() -> Any:
    """Import the package next to this file, even if another has the same name."""
    name, folder = "lighteval_inputs", HERE / "lighteval_inputs"
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    return name


if __name__ == "__main__":
    source, target = sys.argv[1:3]
    if source.isdecimal():
        records = importlib.import_module(f"{_inputs()}.kinds").drawn(int(source))
    elif source == "fixed":
        records = importlib.import_module(f"{_inputs()}.fixed").fixed()
    else:
        records = json.loads(Path(source).read_text(encoding="utf-8"))
    found = [record(one) for one in records]
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in found)
    Path(target).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
