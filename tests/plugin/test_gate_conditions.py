"""``when``: gates that apply to some models and machines only."""

from __future__ import annotations

import pytest

from pytest_evals import OptionError, Response, evaluate, judge_gate

CONFTEST = """
import pytest
from pytest_evals import Response

class Model:
    name = "hf:org/small"
    info = {info!r}

    def answer(self, requests):
        for position, request in enumerate(requests):
            yield position, Response(text="a" + request.prompt[-2], finish="stop")

@pytest.fixture(scope="session")
def eval_model():
    return Model()
"""
CPU = {"dtype": "float32", "device": "cpu", "device_name": "x86_64"}
H100 = {
    "dtype": "bfloat16",
    "device": "cuda:1",
    "device_name": "NVIDIA H100 80GB HBM3",
}


def gate(value: float, **when: object) -> dict[str, object]:
    only = {"when": when} if when else {}
    return {"metric": "exact_match", "min": value, **only}


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_gates_are_judged_on_machines_that_match_their_conditions(suite, workers):
    suite.task(
        "quiz",
        gates=[
            gate(0.99, dtype="bfloat16", device="cuda"),
            gate(0.5, dtype="float32", device=["cpu", "mps"]),
        ],
    )
    suite.pytester.makeconftest(CONFTEST.format(info=CPU))
    result = suite.run("evals", "-rs", *workers, model=None)
    result.assert_outcomes(passed=11, skipped=1)
    result.stdout.fnmatch_lines(
        ["SKIPPED*when: dtype is float32, not bfloat16; device is cpu, not cuda"]
    )
    first, second = suite.results()["gates"]
    assert (first["outcome"], second["outcome"]) == ("skipped", "passed")
    assert first["when"] == {"dtype": ["bfloat16"], "device": ["cuda"]}
    assert suite.results()["verdict"] == "passed"


@pytest.mark.parametrize(
    ("when", "is_judged"),
    [
        ({"model": "hf:org/*"}, True),
        ({"model": "hf:other/*"}, False),
        ({"model": ["hf:other/*", "hf:org/small"]}, True),
        ({"device": "cuda"}, True),
        ({"device": "cuda:1"}, True),
        ({"device": "cuda:0"}, False),
        ({"gpu": "*H100*"}, True),
        ({"gpu": ["*A100*", "*H200*"]}, False),
        ({"dtype": "BFLOAT16"}, True),
        ({"dtype": "bfloat16", "gpu": "*A100*"}, False),
    ],
)
def test_condition_values_are_wildcards_and_all_must_match(suite, when, is_judged):
    path = suite.task("quiz", gates=[gate(0.5, **when)])

    class Model:
        name = "hf:org/small"
        info = H100

        def answer(self, requests):
            for position, _ in enumerate(requests):
                yield position, Response(text="a1", finish="stop")

    (verdict,) = evaluate(path, Model()).verdicts
    assert verdict.outcome == ("failed" if is_judged else "skipped")


def test_a_cpu_has_no_kind_of_gpu(suite):
    path = suite.task("quiz", gates=[gate(0.5, gpu="*")])
    result = evaluate(path, "scripted:echo")
    (verdict,) = result.verdicts
    assert verdict.reason == "when: gpu is unknown, not *"


def test_a_task_without_applicable_gates_is_a_warning(suite):
    suite.task("quiz", gates=[gate(0.99, device="cuda"), gate(1, gpu="*")])
    suite.pytester.makeconftest(CONFTEST.format(info=CPU))
    result = suite.run("evals", model=None)
    assert result.ret == 0
    assert "quiz: no gate on this machine" in " ".join(suite.results()["warnings"])
    assert suite.results()["verdict"] == "skipped"
    result.stdout.fnmatch_lines(["*quiz: no gate on this machine*"])


def test_a_gate_for_another_machine_needs_no_baseline(suite):
    there = {"baseline": "on-gpu", "max_drop": 0.02, "when": {"device": "cuda"}}
    suite.task("quiz", gates=[{"metric": "exact_match", **there}, gate(0.5)])
    suite.pytester.makeconftest(CONFTEST.format(info=CPU))
    result = suite.run("evals", model=None)
    result.assert_outcomes(passed=11, skipped=1)
    result.stdout.no_fnmatch_line("*it will be invalid*")


def test_lf_does_not_keep_a_gate_that_does_not_apply(suite):
    suite.task("quiz", gates=[gate(0.99, device="cuda"), "exact_match >= 0.5"])
    suite.pytester.makeconftest(CONFTEST.format(info=CPU))
    suite.run("evals", model=None)
    assert not (suite.pytester.path / ".pytest_cache/v/cache/lastfailed").exists()


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ({"dtyp": "float16"}, "*no condition 'dtyp'; did you mean 'dtype'?*"),
        ({"gpu": 4090}, "*when.gpu must be a string or a list of strings, not 4090*"),
        ({"model": []}, "*when.model must be a string or a list of strings*"),
        ("cuda", "*when must be a mapping of conditions, not 'cuda'*"),
        ({}, "*when must be a mapping of conditions*"),
    ],
)
def test_invalid_conditions_are_errors_before_the_run(suite, when, message):
    suite.task("quiz", gates=[{"metric": "exact_match", "min": 0.5, "when": when}])
    result = suite.run("evals")
    assert result.ret != 0
    (result.stdout if result.outlines else result.stderr).fnmatch_lines([message])
    result.stdout.no_fnmatch_line("*passed*")


def test_assert_gate_skips_its_test_if_conditions_do_not_match(suite):
    suite.pytester.makeconftest(CONFTEST.format(info=CPU))
    suite.pytester.makepyfile("""
        from pytest_evals import assert_gate

        def test_on_gpu(eval_results):
            on = {"device": "cuda"}
            assert_gate("quiz/exact_match", eval_results, min=1, when=on)

        def test_on_cpu(eval_results):
            assert_gate("quiz/exact_match", eval_results, min=1, when={"device": "cpu"})
    """)
    result = suite.run(".", "-rs", model=None)
    result.assert_outcomes(passed=11, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*device is cpu, not cuda"])


def test_judge_without_a_run_refuses_conditions():
    with pytest.raises(OptionError, match="remove when from"):
        judge_gate({"metric": "acc", "min": 0.5, "when": {"device": "cpu"}}, [1, 0, 1])
