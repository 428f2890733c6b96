"""Run lighteval 0.13.0 with its own transformers models and with this package's, and
compare tables, log-probabilities and generated texts; then run the tests that need
lighteval.

    python tests/parity/lighteval_engine.py FOLDER

Uses the environment of the interpreter if lighteval is installed in it with pytest,
orjson and numba. Otherwise it creates FOLDER/venv, with lighteval and without this
package's other dependencies; the only network access is to a package index. The
tasks are those of ``example_suites/lighteval`` with local data. lighteval's own backend
fails for rolling log-likelihoods, so those run with this package only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TINY = ROOT / "example_suites" / "tiny"
PACKAGES = (
    "lighteval==0.13.0",
    "huggingface_hub<2",  # judges call list_models(model_name=…) when they are imported
    "xxhash<4",  # hashes strings
    "torch==2.13.0",
    "transformers==5.23.0",
    "orjson",
    "numba",
    "pytest",
)
TASKS = '''
from pathlib import Path

from lighteval.metrics.dynamic_metrics import LogLikelihoodAccMetric
from lighteval.metrics.metrics import Metrics
from lighteval.metrics.normalizations import LogProbCharNorm
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc


def capital(line, task_name=None):
    choices = [f" {choice}" for choice in line["choices"]]
    query = f"Question: What is the capital of {line['country']}?\\nAnswer:"
    return Doc(
        query=query,
        choices=choices,
        gold_index=line["label"],
        instruction="Answer the following questions.\\n\\n",
    )


def spaced(line, task_name=None):
    """Choices of several words after a space, which moves to the choices."""
    choices = [f"{choice} and {choice}" for choice in line["choices"]]
    query = f"Question: What is the capital of {line['country']}?\\nAnswer: "
    return Doc(query=query, choices=choices, gold_index=line["label"])


def addition(line, task_name=None):
    query = f"Question: {line['question']}=?\\nAnswer:"
    return Doc(query=query, choices=[f" {line['answer']}"], gold_index=0)


def reversal(line, task_name=None):
    query = f"Reverse: {line['letters']}\\nReversed:"
    return Doc(query=query, choices=[f" {line['letters'][::-1]}"], gold_index=0)


def story(line, task_name=None):
    return Doc(query=line["text"], choices=[], gold_index=[])


def task(name, prompt_function, metrics, subset="", **more):
    return LightevalTaskConfig(
        name=f"toyworld:{name}",
        prompt_function=prompt_function,
        hf_repo=f"DATA/{subset or name}",
        hf_subset="default",
        evaluation_splits=["test"],
        metrics=metrics,
        **more,
    )


CHOICES = [
    Metrics.loglikelihood_acc,
    LogLikelihoodAccMetric(LogProbCharNorm()),
    Metrics.mrr,
]
GENERATION = {
    "num_fewshots": 2,
    "few_shots_select": "random_sampling_from_train",
    "generation_size": 8,
}
TASKS_TABLE = [
    task("capitals", capital, CHOICES),
    task("spaced", spaced, CHOICES, "capitals"),
    task("addition", addition, [Metrics.exact_match], **GENERATION,
         stop_sequence=["\\n\\n"]),
    task("reversal", reversal, [Metrics.exact_match], **GENERATION,
         stop_sequence=["e", "\\n"]),
    task("stories", story, [Metrics.word_perplexity, Metrics.bits_per_byte]),
]
'''
ENGINE = """
from pytest_evals.harness import lighteval_model

Engine = lighteval_model(override_chat_template=CHAT, batch_size=16)
"""
NAMES = "toyworld:capitals|0,toyworld:spaced|0,toyworld:addition|2,toyworld:reversal|2"


def environment(folder: Path) -> Path:
    """Return the scripts folder of an environment with lighteval: this one, or that of
    FOLDER, which is created if missing."""
    binaries = Path(sys.executable).parent
    if not (binaries / "lighteval").exists():
        binaries = folder / "venv" / "bin"
    if not (binaries / "lighteval").exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run([binaries / "pip", "install", "-q", *PACKAGES], check=True)
    code = "import lighteval.tasks as tasks; print(tasks.__path__[0])"
    shown = subprocess.run(
        [binaries / "python", "-c", code], check=True, capture_output=True, text=True
    )
    # a file that one of its task modules downloads at import
    Path(shown.stdout.strip().splitlines()[-1], "tasks", "tinyBenchmarks.pkl").touch()
    return binaries


def copied(target: Path) -> Path:
    """A copy of the tiny model, since lighteval writes into its folder."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(TINY, target))


def with_bos(target: Path) -> Path:
    """The tiny model with a tokenizer that adds BOS, and a template that adds it
    too."""
    copied(target)
    path = target / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    (end,) = [t["id"] for t in tokenizer["added_tokens"] if t["content"] == "<|end|>"]
    special = {"id": "<|end|>", "ids": [end], "tokens": ["<|end|>"]}
    begin = [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}]
    text = [{"Sequence": {"id": "A", "type_id": 0}}]
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": begin + text,
        "pair": begin + text,
        "special_tokens": {"<|end|>": special},
    }
    path.write_text(json.dumps(tokenizer))
    template = target / "chat_template.jinja"
    template.write_text("{{ bos_token }}" + template.read_text())
    return target


def write_data(folder: Path) -> None:
    """Copy the data of the example suite to one folder per task."""
    data = ROOT / "example_suites" / "lm_eval" / "data"
    for name in ("addition", "capitals", "reversal", "stories"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(data / f"{name}.jsonl", folder / name / "test.jsonl")
        if (data / f"{name}_train.jsonl").exists():
            shutil.copy(data / f"{name}_train.jsonl", folder / name / "train.jsonl")


def run(binaries: Path, folder: Path, name: str, command: list[str]) -> str:
    """Run lighteval; returns its table.

    Raises:
        SystemExit: It failed.
    """
    shutil.rmtree(folder / name, ignore_errors=True)
    given = ["--custom-tasks", str(folder / "tasks.py"), "--save-details"]
    full = [str(binaries / "lighteval"), *command, *given]
    full += ["--output-dir", str(folder / name)]
    print("$", " ".join(full))
    done = subprocess.run(
        full,
        cwd=folder,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HF_HUB_OFFLINE": "1",
            # lighteval's cache of samples is there too
            "HOME": str(folder / name),
        },
    )
    if done.returncode:
        print(done.stdout[-3000:], done.stderr[-3000:], file=sys.stderr)
        raise SystemExit(f"{command[0]} ended with {done.returncode}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
    print("\n".join(lines))
    return "\n".join(sorted(_named(lines)))


def _named(lines: list[str]) -> list[str]:
    """Rows with their task, which lighteval writes in the first row of each task
    only."""
    rows, task = [], ""
    for line in lines:
        first, rest = line[1:].split("|", 1)
        task = first.strip() or task
        rows.append(re.sub(r"[ -]+", " ", f"{task}|{rest}"))
    return rows


def details(folder: Path) -> dict[str, list[Any]]:
    """The responses by task, in the order of documents."""
    from pyarrow.parquet import read_table

    found = {}
    for path in sorted(folder.rglob("details_*.parquet")):
        task = path.name.rsplit("_", 1)[0]
        rows = read_table(path).column("model_response").to_pylist()
        found[task] = rows
    return found


def compare(folder: Path, ours: str, theirs: str) -> None:
    """Compare the responses to each document.

    Raises:
        SystemExit: They differ.
    """
    both = details(folder / ours), details(folder / theirs)
    if both[0].keys() != both[1].keys() or not both[0]:
        raise SystemExit(f"tasks differ: {[*both[0]]} and {[*both[1]]}")
    for task, rows in both[0].items():
        largest, n = 0.0, 0
        for row, other in zip(rows, both[1][task], strict=True):
            flags = row["argmax_logits_eq_gold"], other["argmax_logits_eq_gold"]
            if row["text"] != other["text"] or flags[0] != flags[1]:
                raise SystemExit(f"{task}: {row} and {other}")
            pairs = zip(row["logprobs"], other["logprobs"], strict=True)
            largest = max([largest, *(abs(a - b) for a, b in pairs)])
            n += len(row["text"]) + len(row["logprobs"])
        print(f"{task}: {n} responses, largest difference {largest:.1e}")
        if largest > 1e-4:
            raise SystemExit(f"{task}: log-probabilities differ")


def main() -> None:
    """Compare plain prompts, chats, and chats that begin with BOS."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    binaries = environment(folder)
    write_data(folder / "data")
    (folder / "tasks.py").write_text(TASKS.replace("DATA", str(folder / "data")))
    engine = folder / "engine.py"
    plain, bos = copied(folder / "plain"), with_bos(folder / "bos")
    for title, model, chat in (
        ("plain", plain, False),
        ("chat", plain, None),
        ("BOS, plain", bos, False),
        ("BOS, chat", bos, None),
    ):
        print(f"\n# {title}")
        engine.write_text(ENGINE.replace("CHAT", str(chat)))
        arguments = f"model_name={model},batch_size=16"
        if chat is not None:
            arguments += f",override_chat_template={chat}"
        theirs = run(binaries, folder, "theirs", ["accelerate", arguments, NAMES])
        custom = ["custom", str(model), str(engine), NAMES]
        ours = run(binaries, folder, "ours", custom)
        if ours != theirs:
            raise SystemExit("the tables differ")
        compare(folder, "ours", "theirs")
    print("\n# whole texts")
    run(
        binaries,
        folder,
        "texts",
        ["custom", str(plain), str(engine), "toyworld:stories|0"],
    )
    test = [binaries / "python", "-m", "pytest", "-q"]
    # The project's options load plugins that this environment lacks.
    test += [
        "-o",
        "addopts=--import-mode=importlib",
        "tests/guests/harness/test_lighteval.py",
    ]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(test, cwd=ROOT, env=environ, check=True)


if __name__ == "__main__":
    main()
