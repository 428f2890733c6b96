"""Record lm-eval 0.4.13's results for the task files here and the example suites.

    python tests/parity/record.py            # all, takes minutes
    python tests/parity/record.py gen_votes mc_dict@bos-chat  # some

Each is run with both models of ``models.py``. Run it by hand, in an environment with
``lm_eval[hf]==0.4.13`` and on a CPU, when a task file or a model has changed. It writes
``recorded/<task>.json``, or ``recorded/<task>@<variant>.json`` for a task that is also
run with other options; ``@bos`` and ``@bos-<variant>`` are with the second model. The
tests read these files and never import lm-eval.

One file: the versions, the options of the run, lm-eval's results of the task, the
number of documents and, for the first of them, the requests as lm-eval sent them, the
responses, and for each filter the filtered responses and metrics.
"""

from __future__ import annotations

import os
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from models import model_folder
from recording import evaluated, versions, write

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODELS = ("tiny", "bos")
SUITES = (HERE / "tasks", ROOT / "example_suites" / "lm_eval")
MOST_DOCUMENTS = 20
"""Number of documents per task whose requests and responses are stored."""


class Variant(NamedTuple):
    """A variant of a task's run: its name, and the changed options."""

    task: str
    name: str
    options: dict[str, Any]


CHAT = {"chat": True, "system_instruction": "Be brief."}
VARIANTS = (
    Variant("mc_columns", "chat", CHAT),
    Variant("mc_columns", "oneturn", {**CHAT, "fewshot_as_multiturn": False}),
    Variant("mc_columns", "system", {"system_instruction": "Be brief.\n"}),
    Variant("mc_columns", "zeroshot", {"num_fewshot": 0}),
    Variant("mc_columns", "seed", {"seed": 7, "limit": 0.3}),
    Variant("mc_dict", "chat", CHAT),
    Variant("mc_dict", "oneturn", {**CHAT, "fewshot_as_multiturn": False}),
    Variant("mc_inputs", "chat", CHAT),
    Variant("mc_several", "chat", CHAT),
    Variant("mc_several", "fewer", {"num_fewshot": 1, "limit": 3}),
    Variant("gen_targets", "chat", CHAT),
    Variant("gen_prefix", "chat", CHAT),
    Variant("gen_targets", "more", {"num_fewshot": 5}),
    Variant("gen_callable", "kwargs", {"gen_kwargs": {"max_gen_toks": 2, "until": []}}),
    Variant("ll_endings", "chat", {"chat": True}),
    Variant("py_mixed", "chat", {**CHAT, "num_fewshot": 2}),
    Variant("py_mixed", "shots", {"num_fewshot": 3, "limit": 9, "seed": 5}),
    Variant("py_letters", "chat", CHAT),
    Variant("py_letters", "system", {"system_instruction": "Be brief."}),
    Variant("py_keys", "kwargs", {"gen_kwargs": {"max_gen_toks": 2}, "num_fewshot": 1}),
)


def main() -> None:
    """Record the tasks named on the command line, or all."""
    selected = set(sys.argv[1:])
    for folder in SUITES:
        os.chdir(folder)  # lm-eval looks for data files from the working directory
        for path in sorted(folder.glob("*.yaml")):
            if path.name.startswith("_") or path.stem == "gates":
                continue
            ways = [Variant(path.stem, "", {})]
            ways += [variant for variant in VARIANTS if variant.task == path.stem]
            for way, model in product(ways, MODELS):
                name = _name(way, model)
                if not selected or selected & {path.stem, name}:
                    _record(path, model, way)


def _name(way: Variant, model: str) -> str:
    """The name of a recording."""
    marks = [mark for mark in (model.replace("tiny", ""), way.name) if mark]
    return "@".join([way.task, *(["-".join(marks)] if marks else [])])


def _record(path: Path, model: str, way: Variant) -> None:
    task, options = way.task, way.options
    with tempfile.TemporaryDirectory() as place:
        found = _run(task, path.parent, model_folder(model, Path(place)), options)
    samples = sorted(found["samples"][task], key=lambda sample: sample["doc_id"])
    recording = {
        "versions": versions(),
        "task": task,
        "model": model,
        "file": path.relative_to(ROOT).as_posix(),
        "options": options,
        "results": found["results"][task],
        "higher_is_better": found["higher_is_better"][task],
        "n_shots": found["n-shot"][task],
        "n_documents": len({sample["doc_id"] for sample in samples}),
        "documents": _documents(samples),
    }
    name = _name(way, model)
    write(HERE / "recorded" / f"{name}.json", recording)
    print(name, found["results"][task])


def _run(
    task: str, folder: Path, model: Path, options: dict[str, Any]
) -> dict[str, Any]:
    chat = options.get("chat", False)
    return evaluated(
        task,
        folder,
        model,
        log_samples=True,
        num_fewshot=options.get("num_fewshot"),
        limit=options.get("limit"),
        fewshot_random_seed=options.get("seed", 1234),
        system_instruction=options.get("system_instruction"),
        apply_chat_template=chat,
        fewshot_as_multiturn=chat and options.get("fewshot_as_multiturn", True),
        gen_kwargs=options.get("gen_kwargs"),
    )


def _documents(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry per document; the samples have one per filter."""
    documents: dict[int, dict[str, Any]] = {}
    for sample in samples:
        if sample["doc_id"] not in documents and len(documents) == MOST_DOCUMENTS:
            break
        document = documents.setdefault(
            sample["doc_id"],
            {
                "doc_id": sample["doc_id"],
                "target": sample["target"],
                "doc_hash": sample["doc_hash"],
                "prompt_hash": sample["prompt_hash"],
                "target_hash": sample["target_hash"],
                "arguments": sample["arguments"],
                "resps": sample["resps"],
                "filters": {},
            },
        )
        document["filters"][sample["filter"]] = {
            "filtered_resps": sample["filtered_resps"],
            "metrics": {name: sample[name] for name in sample["metrics"]},
        }
    return list(documents.values())


if __name__ == "__main__":
    main()
