"""Modules whose metrics execute model output: in the sandbox, or with consent."""

from __future__ import annotations

import base64
import json
import pickle
import zlib

import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.core.task import TaskOptions
from pytest_evals.errors import DocumentError, TaskFileError
from pytest_evals.guests.lighteval.metrics.codegen import translate_private_test_cases
from pytest_evals.guests.lighteval.tasks import load_tasks
from pytest_evals.sandbox.levels import SandboxError
from pytest_evals.sandbox.session import current_sandbox, end_sandbox, set_sandbox
from pytest_evals.scorers.custom_metrics.response import ModelResponse


@pytest.fixture(autouse=True)
def _ended_sandbox():
    yield
    end_sandbox()


CUSTOM = """
from lighteval.metrics.metrics import SampleLevelMetric
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod
{code}
metric = SampleLevelMetric(metric_name="runs", higher_is_better=True,
    category=SamplingMethod.GENERATIVE, sample_level_fn=runs, corpus_level_fn=max)
TASKS_TABLE = [LightevalTaskConfig(name="own", prompt_function=prompt, hf_repo="json",
    metrics=[metric])]
"""
PROMPT = "def prompt(line, task_name=''): return Doc(query=line['q'], choices=[''])\n"


def custom(tmp_path, code, **options):
    path = tmp_path / "own.py"
    path.write_text(CUSTOM.format(code=code))
    return load_tasks(path, TaskOptions(**options))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def runs(doc, model_response): exec(model_response.text[0])", "exec"),
        ("def runs(**given): return helper(**given)\ndef helper(a): eval(a)", "eval"),
        ("import subprocess as s\ndef runs(**a): s.run(['python', '-c', a])", "run"),
        ("from os import system\ndef runs(**a): system('echo')", "os.system"),
        ("import sympy\ndef runs(**a): sympy.sympify('1')", "sympy.sympify"),
        ("runs = lambda **a: exec(a)", "exec"),
        ("from helper import runs", "exec (line 1) in helper.py"),
        ("UNSAFE_CODE = True\ndef runs(**a): return 1", "UNSAFE_CODE"),
    ],
)
def test_metrics_that_execute_answers_themselves_need_consent(tmp_path, code, found):
    (tmp_path / "helper.py").write_text("def runs(**a): exec('1')\n")
    with pytest.raises(TaskFileError, match="execute model output") as caught:
        custom(tmp_path, PROMPT + code)
    assert found in str(caught.value)
    assert "--evals-allow-unsafe-code" in str(caught.value)
    assert custom(tmp_path, PROMPT + code, allow_unsafe_code=True)


@pytest.mark.parametrize(
    "code",
    [
        "def prompt(line, task_name=''): return Doc(query=text(line), choices=[''])\n"
        "def text(line): return eval(line['q'])\n"
        "def runs(**a): return 1",
        f"import re\n{PROMPT}def runs(**a): return bool(re.compile('a'))",
        f"CONSTANT = eval('1 + 1')\n{PROMPT}def runs(model): return model.eval()",
    ],
)
def test_code_that_never_sees_answers_needs_no_consent(tmp_path, code):
    assert custom(tmp_path, code)


LCB = """
from lighteval.tasks.{package}.lcb.codegen_metrics import (
    codegen_metrics, extract_code, translate_private_test_cases)
{prompt}
def runs(doc, model_response):
    codes = [[extract_code(one) for one in model_response.final_text]]
    tests = [{{"input_output": json.dumps(doc.specific)}}]
    return codegen_metrics(tests, codes, k_list=[1])[0]["pass@1"]
import json
"""


@pytest.mark.parametrize("package", ["tasks", "extended"])
def test_programs_of_livecodebench_run_in_the_sandbox(tmp_path, package):
    code = LCB.format(package=package, prompt=PROMPT)
    (task,) = custom(tmp_path, code, allow_unsafe_code=True)
    set_sandbox("process", consents=True)
    answers = ["```\nprint(int(input()) + 1)\n```", "```\nprint(2)\n```"]
    specific = {"inputs": ["1", "2"], "outputs": ["2", "3"], "fn_name": None}
    metric = task.score.metrics[0].metric
    doc = Doc(query="", choices=[""], gold_index=0, specific=specific)
    assert metric.compute_sample(doc, ModelResponse(text=answers)) == {"runs": 0.5}
    assert current_sandbox().n_programs
    set_sandbox("process", consents=False)
    with pytest.raises(TaskFileError, match="execute model output"):
        custom(tmp_path, code)


@pytest.mark.parametrize(
    "code",
    [
        'import evaluate\ndef runs(**a): return evaluate.load("code_eval")',
        "from pytest_evals import run_code\ndef runs(**a): return run_code('').ok",
    ],
)
def test_code_that_uses_the_sandbox_needs_consent_only_without_a_boundary(
    tmp_path, code
):
    if "evaluate" in code:
        pytest.importorskip("evaluate")
    set_sandbox("process", consents=False)
    with pytest.raises(TaskFileError, match="execute model output"):
        custom(tmp_path, PROMPT + code)
    set_sandbox("bwrap", consents=False)
    try:
        assert current_sandbox().is_boundary
    except SandboxError as error:
        pytest.skip(str(error))
    assert custom(tmp_path, PROMPT + code)


def test_hidden_tests_of_livecodebench_are_read_without_running_their_pickle():
    tests = [{"input": "1", "output": "2"}]

    def encoded(value: object, protocol: int) -> str:
        return base64.b64encode(zlib.compress(pickle.dumps(value, protocol))).decode()

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        found = translate_private_test_cases(encoded(json.dumps(tests), protocol))
        assert found == tests
        for harmful in (print, ["[]"], ("[]", print)):
            with pytest.raises(DocumentError, match="must be a pickled string"):
                translate_private_test_cases(encoded(harmful, protocol))
