"""Tasks that load ``code_eval``, as lm-eval's HumanEval does."""

import json

import pytest

from pytest_evals.sandbox.levels import SandboxError
from pytest_evals.sandbox.runner import Sandbox

UTILS = """
import evaluate as hf_evaluate

metric = hf_evaluate.load("code_eval")
metric.compute(references=["assert f() == 1"], predictions=[["f = int"]], k=[1])


def pass_at_k(references, predictions, k=None):
    return metric.compute(references=references, predictions=predictions, k=k)[0]


def build_predictions(resps, docs):
    return [[doc["prompt"] + r for r in resp] for resp, doc in zip(resps, docs)]
"""
TASK = """
task: programs
unsafe_code: true
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
test_split: train
output_type: generate_until
doc_to_text: "{{prompt}}"
doc_to_target: "assert {{name}}(1, 2) == 3"
generation_kwargs: {until: ["\\ndef"], max_gen_toks: 64}
metric_list:
  - metric: !function utils.pass_at_k
    aggregation: mean
    higher_is_better: true
    k: [1]
filter_list:
  - name: create_test
    filter: [{function: custom, filter_fn: !function utils.build_predictions}]
"""
ANSWERS = ("return a + b", "return a - b", "import sys; sys.exit(0)")


@pytest.fixture
def run(pytester):
    pytest.importorskip("evaluate")
    names = [f"add{n}" for n in range(len(ANSWERS))]
    prompts = [f"def {name}(a, b):\n" for name in names]
    rows = [{"prompt": p, "name": n} for p, n in zip(prompts, names, strict=True)]
    answers = [
        {"prompt": p, "text": f"    {a}"} for p, a in zip(prompts, ANSWERS, strict=True)
    ]
    for name, lines in (("rows", rows), ("answers", answers)):
        text = "\n".join(map(json.dumps, lines))
        pytester.path.joinpath(f"{name}.jsonl").write_text(text)
    pytester.path.joinpath("utils.py").write_text(UTILS)
    pytester.path.joinpath("programs.yaml").write_text(TASK)

    def run(*options):
        return pytester.runpytest_subprocess(
            "--model=scripted:answers.jsonl", *options, "programs.yaml"
        )

    return run


@pytest.mark.slow
def test_programs_without_a_boundary_need_consent(run):
    refused = run("--evals-sandbox=process")
    refused.stdout.fnmatch_lines(
        ["programs.yaml:3: unsafe_code: this task executes model output"]
    )
    allowed = run("--evals-sandbox=process", "--evals-allow-unsafe-code")
    allowed.stdout.fnmatch_lines(
        ["*pass@1*0.333*", "sandbox: process, not a security boundary"]
    )
    assert "1 correct, 2 wrong" in allowed.stdout.str()


@pytest.mark.slow
def test_programs_in_bubblewrap_need_none(run):
    sandbox = Sandbox("bwrap")
    try:
        assert sandbox.is_boundary
    except SandboxError as error:
        pytest.skip(str(error))
    finally:
        sandbox.close()
    result = run()
    result.stdout.fnmatch_lines(["*pass@1*0.333*", "sandbox: bwrap"])
