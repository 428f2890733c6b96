"""Result files that the real programs write, and programs that read our export.

lm-eval is in this environment. The others are in that of the interpreter which
``OTHER_PROGRAMS`` names (``.ci/nightly`` makes it); without it their tests are skipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_evals.__main__ import main
from pytest_evals.result_files.find import read_results

pytestmark = pytest.mark.slow
SCORES = {f"q{i}": float(i % 3 > 0) for i in range(40)}
TASK = """\
task: quiz
dataset_path: json
dataset_kwargs: {data_files: {test: quiz.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
filter_list:
  - {name: strict, filter: [{function: regex, regex_pattern: "^(lo)$"}]}
  - {name: flexible, filter: [{function: take_first}]}
metric_list: [{metric: exact_match}]
"""
INSPECT = """\
import json, sys
from inspect_ai.log import EvalLog, write_eval_log
value = {1.0: "C", 0.0: "I"}
samples = [
    {"id": id, "epoch": 1, "input": id, "target": "x",
     "scores": {"match": {"value": value[score], "answer": "x"}}}
    for id, score in json.load(open("scores.json")).items()
]
run = {"created": "2026-11-26T10:00:00+00:00", "task": "quiz", "model": "mock/m"}
log = {"version": 2, "status": "success", "eval": {**run, "dataset": {}, "config": {}}}
for name in ("eval/a.eval", "json/a.json"):
    write_eval_log(EvalLog(**log, samples=samples), name)
"""
LIGHTEVAL = """\
import json
from lighteval.logging.evaluation_tracker import EvaluationTracker
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc
class Model:
    model_name = "org/model"
    def model_dump(self, *given, **more):
        return {"model_name": self.model_name}
tracker = EvaluationTracker(output_dir="out", save_details=True)
tracker.general_config_logger.model_name = "org/model"
tracker.general_config_logger.log_model_info(model_config=Model())
for id, score in json.load(open("scores.json")).items():
    doc = Doc(query=id, choices=["x"], gold_index=0, id=id, task_name="quiz|0")
    doc.original_query = id
    reply = ModelResponse(input=id, text=["x"], input_tokens=[1], output_tokens=[[2]])
    tracker.details_logger.log("quiz|0", doc, reply, {"em": score})
    tracker.metrics_logger.log("quiz|0", {"em": score})
tracker.details_logger.aggregate()
tracker.metrics_logger.metric_aggregated = {"quiz|0": {"em": 0.5}}
tracker.save()
"""


@pytest.fixture
def other(tmp_path, monkeypatch):
    """Runs a script with the programs, in a folder with the scores."""
    python = os.environ.get("OTHER_PROGRAMS")
    if not python:
        pytest.skip("OTHER_PROGRAMS names no interpreter")
    monkeypatch.chdir(tmp_path)
    Path("scores.json").write_text(json.dumps(SCORES))

    def run(module, script):
        if subprocess.run([python, "-c", f"import {module}"], check=False).returncode:
            pytest.skip(f"{module} is not installed")
        subprocess.run([python, "-c", script], check=True)

    return run


def scores_in(path, metric):
    run = read_results(Path(path))
    (task,) = run.tasks
    return {row["id"]: row[metric] for row in run.all_rows(task)}


def test_output_of_lm_eval_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [{"q": f"{i}\u2028?", "a": "lol" if i % 3 else "x"} for i in range(40)]
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    Path("quiz.jsonl").write_text("".join(lines), encoding="utf-8")
    Path("quiz.yaml").write_text(TASK)
    command = [sys.executable, "-m", "lm_eval", "--model", "dummy", "--tasks", "quiz"]
    command += ["--include_path", ".", "--log_samples", "--output_path", "out"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    subprocess.run(command, check=True, env={**os.environ, **offline})
    numbers = read_results(Path("out")).results["results"]["quiz"]
    for filter_ in ("strict", "flexible"):
        value = numbers[f"exact_match,{filter_}"]
        for gate, code in ((f">= {value}", 0), (f"> {value}", 1)):
            assert main(["judge", "out", f"exact_match,{filter_} {gate}"]) == code


def test_logs_of_inspect_are_read(other):
    other("inspect_ai", INSPECT)
    assert scores_in("eval", "accuracy") == scores_in("json", "accuracy") == SCORES


def test_details_of_lighteval_are_read(other):
    other("lighteval", LIGHTEVAL)
    assert scores_in("out", "em") == SCORES


def test_every_eval_ever_reads_the_export(suite_run, other):
    assert main(["export", str(suite_run), "--to=lm-eval", "-o", "export"]) == 0
    (results,) = Path("export").rglob("results_*.json")
    text = results.read_text()
    results.write_text(text.replace(json.loads(text)["model_name"], "org/model"))
    script = f"""
import sys
from every_eval_ever.cli import main
given = ["convert", "lm_eval", "--log_path", {str(results.parent)!r}]
sys.argv = ["x", *given, "--output_dir", "data", "--include_samples"]
main()
"""
    other("every_eval_ever", script)
    (samples,) = Path("data").rglob("*.jsonl")
    found = [
        json.loads(line)["evaluation"] for line in samples.read_text().splitlines()
    ]
    assert [one["score"] for one in found] == [1.0, 0.0]


@pytest.fixture
def suite_run(pytester):
    """The folder of a run with a correct and a wrong answer."""
    pytester.makefile(".jsonl", answers='{"regex": ".", "text": "a"}\n')
    rows = "rows: [{q: one, target: a}, {q: two, target: b}]\n"
    pytester.makefile(".yaml", quiz=f"prompt: '{{{{q}}}}'\n{rows}score: exact\n")
    pytester.runpytest_inprocess("--model=scripted:answers.jsonl", "quiz.yaml")
    (run,) = (pytester.path / ".evals/runs").iterdir()
    return run


@pytest.mark.nightly
def test_the_workflow_of_the_page_runs_as_printed(tmp_path):
    root = Path(__file__).parents[2]
    page = (root / "docs/judge.md").read_text(encoding="utf-8")
    lines = re.findall(r"^- run: (.+)$", page, re.MULTILINE)
    assert len(lines) == 2
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", "wheels"]
    subprocess.run([*pip, str(root)], check=True, cwd=tmp_path)
    subprocess.run([sys.executable, "-m", "venv", "v"], check=True, cwd=tmp_path)
    for name in ("new", "old"):
        rows = ({"id": i, "acc": int(i % 9 > 0)} for i in range(90))
        (tmp_path / name).mkdir()
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / name / "quiz.jsonl").write_text(text)
    gate = "{task: quiz, metric: acc, baseline: released, max_drop: 0.1, over: run}"
    (tmp_path / "gates.yaml").write_text(f"gates:\n  - {gate}\n")
    shell = shutil.which("bash")
    assert shell
    script = "\n".join([". v/bin/activate", *lines])
    done = subprocess.run(
        [shell, "-ec", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("verdict: go: 1 of 1 gate passed\n")
