"""Compute recorded values of lighteval's tasks with this package: prompts, few-shot
examples, templates, and task strings."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import jinja2
from parity_lighteval_handlers import Handler, doc_of

from pytest_evals.core.doc import Doc
from pytest_evals.core.model import Model
from pytest_evals.core.request import Generate, Response
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.task import REASONING_TAGS, Group, Task, TaskOptions
from pytest_evals.guests.lighteval import modules
from pytest_evals.guests.lighteval.config import LightevalTaskConfig
from pytest_evals.guests.lighteval.data import pool_split
from pytest_evals.guests.lighteval.metrics.catalogue import PUBLISHED
from pytest_evals.guests.lighteval.prompt import Pool, chat, plain, sampler_of
from pytest_evals.guests.lighteval.tasks import load_tasks
from pytest_evals.guests.lighteval.templates import formulation, questions
from pytest_evals.run.batches import Batches, Job
from pytest_evals.run.flow import score
from pytest_evals.run.selection import Selection
from pytest_evals.scorers.groups import overall_results, summarise_group
from pytest_evals.scorers.summary import summarise


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
"""The folder of modules and datasets during this process."""


def toy_tasks(table: list[LightevalTaskConfig], rows: Any, options: TaskOptions):
    """The tasks of a table, as if it were in a module and its data in files."""
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
    limit = params.get("max_samples") or None  # 0 means all in lighteval
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
    """Few-shot examples with another seed than 0, which lighteval never uses itself."""
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


def zz_tasks(
    requested: str, rows: Mapping[str, Any], **options: Any
) -> list[Task | Group]:
    selection = Selection(requested.split(","))
    given = TaskOptions(takes=selection.takes, variants=selection.variants, **options)
    table = toy_table({k: [PUBLISHED[m]() for m in v] for k, v in ZZ.items()}, rows)
    found = toy_tasks(table, rows, given)
    selection.check()
    return [*found]


def task_string(params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    found: dict[str, list[Any]] = {}
    for task in zz_tasks(given["tasks"], {"test": [{"i": 0, "y": 0}]}):
        if isinstance(task, Group):
            continue
        how = [
            [m["metric"], m["arguments"].get("k"), m["arguments"].get("n")]
            for m in task.config["metrics"]
        ]
        name = task.config["task"]
        full = f"{name}|{task.n_shots}"
        found.setdefault(name, []).append([full, task.n_shots, how])
    return found


class Knowing(Model):
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
    tags = params.get("reasoning_tags", REASONING_TAGS)
    options = {
        "limit": params.get("max_samples") or None,
        "bootstrap_iters": params.get("bootstrap_iters", 1000),
        "reasoning_tags": tags if params.get("remove_reasoning_tags", True) else (),
    }
    # a family has its average if it is requested by its name
    names = params["tasks"].replace("zz:a|0,zz:b|0", "zz|0")
    requested = zz_tasks(names, {"test": given["test"]}, **options)
    results = {one.name: result(one) for one in requested if isinstance(one, Task)}
    groups = [
        summarise_group(one, results) for one in requested if isinstance(one, Group)
    ]
    found = {
        f"{one.task.config['task']}:{one.task.n_shots}": numbers(one)
        for one in results.values()
    }
    found |= {f"{one.group.name}:_average:0": numbers(one) for one in groups}
    overall = overall_results([*results.values()])
    return {"results": found | {one.group.name: numbers(one) for one in overall}}


def result(task: Task) -> TaskResult:
    """The task, with the responses of the recorder's model."""
    jobs = [Job(task, i) for i in task.rows.indices()]
    batches, model = Batches(jobs), Knowing()
    records = [score(batches.take(job, model), task) for job in jobs]
    return summarise(task, records, len(jobs))


def numbers(found: TaskResult | GroupResult) -> dict[str, float]:
    """The numbers and standard errors by lighteval's names."""
    given = {metric.name: metric.estimate for metric in found.metrics}
    values = {name: one.value for name, one in given.items()}
    stderrs = {f"{name}_stderr": one.stderr for name, one in given.items()}
    return values | {k: v for k, v in stderrs.items() if v is not None}


FORMULATIONS = {
    "CF": formulation.CFFormulation(),
    "Hybrid": formulation.HybridFormulation(),
    "MCF": formulation.MCFFormulation(),
    "MCF/NativeLetters": formulation.MCFFormulation("NativeLetters"),
    "MCF/Numbers": formulation.MCFFormulation("Numbers"),
}
TEMPLATES = {
    "boolq": questions.get_boolq_prompt_function,
    "continuation": questions.get_continuation_prompt_function,
    "copa": questions.get_copa_prompt_function,
    "hellaswag": questions.get_hellaswag_prompt_function,
    "mcq": questions.get_mcq_prompt_function,
    "nli": questions.get_nli_prompt_function,
    "qa": questions.get_qa_prompt_function,
    "translation": questions.get_translation_prompt_function,
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
    """A template; the recorder's adapter returns the input unchanged unless another is
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
    "FewShotSampler.balanced with fewshot_sorting_class": sampled,
    "FewShotSampler.sample_fewshot_examples": sampled,
    "LightevalTask fewshot selection": shots,
    "LightevalTask fewshot selection (no few-shot split: eval split is the pool)": (
        shots
    ),
    "LightevalTask.get_docs order": order,
    "LightevalTask.get_first_possible_fewshot_splits": pool,
    "Pipeline end to end": end_to_end,
    "PromptManager.prepare_prompt(chat)": prompt(rendered),
    "PromptManager.prepare_prompt(plain)": prompt(
        lambda doc, params: plain(doc, params["system_prompt"])
    ),
    "PromptManager.prepare_prompt_api": prompt(messages),
    "Registry task string": task_string,
}


def handler_of(record: Mapping[str, Any]) -> Handler | None:
    """Return the function that computes a record, or ``None``."""
    kind = record["metric"]
    return template(kind) if kind.startswith("templates.") else EXACT.get(kind)
