"""Gate files of other projects: named when they are found, converted with the bounds of
their own rules."""

import random

import numpy as np
import pytest

from pytest_evals.__main__ import main
from pytest_evals.dialects.foreign_gates.converted import close, one_sided, recovery
from pytest_evals.dialects.foreign_gates.formats import format_of

VLLM = """\
model_name: "org/name"
env_vars: {VLLM_LOGGING_LEVEL: "DEBUG"}
tasks:
  - name: "sums"
    metrics: [{name: "exact_match,strict-match", value: 0.82}]
limit: 250
num_fewshot: 5
max_model_len: 4096
gen_kwargs: "temperature=0,max_gen_toks=64"
moe_layers: 3
"""
ASCEND = """\
model_name: "org/name"
runner: "linux-aarch64-a2-1"
hardware: "Atlas A2 Series"
tasks:
  - name: "gsm8k"
    metrics: [{name: "exact_match,flexible-extract", value: 0.55}]
num_fewshot: 5
serve: {tensor_parallel_size: 2, enforce_eager: true}
"""
COMPRESSOR = """\
cadence: weekly
model: org/base
scheme: W4A16
lmeval:
  num_fewshot: 5
  limit: 250
  metrics: {"exact_match,strict-match": 0.70}
"""
SERVER = "model_name: org/name\naccuracy_threshold: 0.92\nnum_questions: 1319\n"
PERF = """\
name: name_h100
vllm: {model: org/name, serve_args: "--tensor-parallel-size 8"}
lm_eval:
  tasks: [{name: gsm8k, num_fewshot: 5}]
"""
TRT = "org/name:\n  - accuracy: 74.20\n  - quant_algo: FP8\n    accuracy: 72.85\n"
SPEED = "api_version: ci.tokenspeed.io/v1\nscore_threshold: 0.9\n"
NIGHTLY = "test_cases:\n  - name: a\n    benchmarks: {acc: {baseline: 96}}\n"
HUB = "tasks:\n  - id: a\n    field_spec: {input: question, target: answer}\n"
FILES = {
    "vllm": VLLM,
    "vllm-ascend": ASCEND,
    "llm-compressor": COMPRESSOR,
    "vllm-server": SERVER,
    "perf-eval": PERF,
    "tensorrt-llm": TRT,
    "tokenspeed": SPEED,
    "vllm-ascend-nightly": NIGHTLY,
    "hub": HUB,
}
SUMS = """\
task: sums
custom_dataset: !function data.rows
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
test_split: test
metric_list: [{metric: exact_match}]
filter_list:
  - name: strict-match
    filter: [{function: take_first}]
"""


@pytest.mark.parametrize("name", FILES)
def test_each_format_is_named_when_its_file_is_in_a_collected_folder(pytester, name):
    (pytester.path / "configs").mkdir()
    (pytester.path / "configs/one.yaml").write_text(FILES[name])
    done = pytester.runpytest("--model=scripted:first", "configs")
    owner = format_of(__import__("yaml").safe_load(FILES[name])).owner
    done.stdout.fnmatch_lines([f"*one.yaml:1: is a gate file of {owner}, and its*"])


def test_other_yaml_files_are_not_gate_files(pytester):
    (pytester.path / "app.yaml").write_text("model_name: x\ntasks: [build, test]\n")
    (pytester.path / "b.yaml").write_text("accuracy: 0.5\nlist:\n  - accuracy: high\n")
    done = pytester.runpytest("--model=scripted:first", ".")
    done.stdout.no_fnmatch_line("*gate file*")


def test_the_bounds_accept_the_scores_that_each_rule_accepts():
    rng = random.Random(7)
    for _ in range(10_000):
        value, measured = round(rng.uniform(0.02, 0.99), 3), rng.random()
        bound = one_sided(value, 0.08)["min"]
        assert (measured >= bound) == (measured >= value * (1 - 0.08))
        band = close(value, 0.05)
        accepts = band["min"] <= measured <= band["max"]
        assert accepts == bool(np.isclose(value, round(measured, 4), rtol=0.05))
        base = rng.uniform(0.3, 1.0)
        ratio = measured / base
        if abs(ratio * 100 % 1 - 0.5) > 1e-9:
            assert (ratio >= recovery(0.95)) == (round(ratio, 2) >= 0.95)


def test_the_band_of_isclose_has_the_measured_score_as_its_scale():
    # Computed by hand in the project's discussion: 0.765 accepts 0.7286 to 0.8053.
    band = close(0.765, 0.05)
    assert band["min"] == pytest.approx(0.7286, abs=1e-4)
    assert band["max"] == pytest.approx(0.8053, abs=1e-4)


def test_a_converted_suite_is_collected_with_its_gates(pytester, capsys):
    folder = pytester.path
    (folder / "qwen.yaml").write_text(VLLM)
    (folder / "tasks").mkdir()
    (folder / "tasks/sums.yaml").write_text(SUMS)
    rows = "[{'q': f'{i}+1=', 'a': str(i + 1)} for i in range(12)]"
    (folder / "tasks/data.py").write_text(
        f"def rows(**_):\n    return {{'test': {rows}}}\n"
    )
    assert main(["convert", "qwen.yaml", "-o", "evals"]) == 0
    printed = capsys.readouterr().out
    assert "not converted: moe_layers: no equal here" in printed
    command = (
        "pytest '--model=serve:VLLM_LOGGING_LEVEL=DEBUG vllm serve org/name "
        "--max-model-len 4096' --evals-limit=250 "
        "--evals-gen-kwargs=temperature=0,max_gen_toks=64 evals/qwen"
    )
    assert command in printed
    options = ("--collect-only", "-q", "--evals-include-path=tasks")
    done = pytester.runpytest("--model=scripted:first", *options, "evals")
    done.stdout.fnmatch_lines(["evals/qwen/suite.yaml::qwen::sums::exact_match*"])
    assert main(["convert", "qwen.yaml", "-o", "evals"]) == 1
    assert "exists" in capsys.readouterr().err


def test_the_two_runs_of_a_compressed_model_are_two_commands(pytester, capsys):
    (pytester.path / "w4a16.yaml").write_text(COMPRESSOR)
    assert main(["convert", "w4a16.yaml"]) == 0
    printed = capsys.readouterr().out
    assert "--evals-save-baseline=base evals/w4a16" in printed
    assert "--evals-compare=base evals/w4a16" in printed
    assert '"recovery": 0.945' in (pytester.path / "evals/w4a16/gates.yaml").read_text()


def test_what_is_not_converted_says_why(pytester, capsys):
    for name, text in (("a.yaml", SERVER), ("b.yaml", "x: 1\n"), ("c.yaml", ": [")):
        (pytester.path / name).write_text(text)
    (pytester.path / "d.yaml").write_text(f"{ASCEND}model_type: vllm-vlm\n")
    assert main(["convert", "a.yaml", "b.yaml", "c.yaml", "d.yaml"]) == 1
    lines = capsys.readouterr().err
    assert "a.yaml: a gate file of vLLM: its prompts" in lines
    assert "b.yaml: not a gate file of a known project" in lines
    assert "not converted: c.yaml" in lines
    assert "d.yaml: the tasks need images" in lines
    assert not (pytester.path / "evals").exists()
