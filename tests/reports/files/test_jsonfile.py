"""results.json. ``tests/parity/test_files.py`` compares its keys and values with files
that lm-eval wrote."""

import json

import pytest

from pytest_evals.reports.files.environment import environment
from pytest_evals.reports.files.jsonfile import results_json


@pytest.fixture
def run(make):
    """A task with a failed gate, a number without error and one that is NaN."""
    task = make.task(n_shots=5, version=3, alias="GSM", config={"task": "gsm8k"})
    acc = make.metric(0.7, 0.032, n_scored=200, total=140, higher_is_better=True)
    ppl = make.metric(float("nan"), None, "ppl", n_scored=200, higher_is_better=False)
    verdict = make.verdict(
        make.gate(), "failed", metric=acc, short=0.05, n_short=10, reason="why"
    )
    result = make.result(task, acc, ppl, n_total=1319, n_correct=140, n_wrong=60)
    return make.run(result, verdicts=(verdict,), started=1788516902.5, elapsed_s=9.5)


def test_a_task_has_lm_evals_numbers(run):
    found = results_json(run)
    assert found["results"] == {
        "gsm8k": {
            "name": "gsm8k",
            "alias": "GSM",
            "sample_len": 200,
            "acc,none": 0.7,
            "acc_stderr,none": 0.032,
            "ppl,none": None,
            "ppl_stderr,none": "N/A",
        }
    }
    assert found["configs"] == {
        "gsm8k": {
            "task": "gsm8k",
            "metadata": {
                "pretrained": "acme/llm-8b",
                "config_source": "evals/gsm8k.yaml",
            },
        }
    }
    assert found["versions"] == {"gsm8k": 3}
    assert found["n-shot"] == {"gsm8k": 5}
    assert found["higher_is_better"] == {"gsm8k": {"acc": True, "ppl": False}}
    assert found["n-samples"] == {"gsm8k": {"original": 1319, "effective": 200}}
    assert (found["date"], found["total_evaluation_time_seconds"]) == (
        1788516902.5,
        "9.5",
    )


def test_it_is_strict_json_and_lists_values_replaced_by_null(run):
    found = results_json(run)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["notes"] == [
        "results.gsm8k.ppl,none: nan is not a JSON number; written as null"
    ]


def test_gates_counts_and_exit_code_are_ours(run):
    found = results_json(run, exit_code=1)
    assert (found["schema_version"], found["verdict"], found["exit_code"]) == (
        1,
        "failed",
        1,
    )
    assert found["gates"] == [
        {
            "id": "acc",
            "task": "gsm8k",
            "metric": "acc",
            "filter": "none",
            "claim": "acc >= 0.75",
            "bounds": [{"op": ">=", "value": 0.75}],
            "must_pass": [],
            "source": "evals/gsm8k.yaml:31",
            "outcome": "failed",
            "early": False,
            "conclusion": "",
            "reason": "why",
            "method": "",
            "value": 0.7,
            "stderr": 0.032,
            "n_scored": 200,
            "over": "run",
            "interval": None,
            "baseline": None,
            "change": None,
            "cluster": None,
            "family": None,
            "p_value": None,
            "p_adjusted": None,
            "notes": [],
            "short": 0.05,
            "n_short": 10,
            "documents": [],
        }
    ]
    counts = found["counts"]["gsm8k"]
    assert (counts["total"], counts["selected"]) == (1319, 200)
    assert (counts["correct"], counts["wrong"], counts["errored"]) == (140, 60, 0)


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        ([], None),
        (["passed"], "passed"),
        (["passed", "skipped"], "skipped"),
        (["skipped", "invalid", "inconclusive"], "invalid"),
        (["invalid", "failed"], "failed"),
    ],
)
def test_the_verdict_of_a_run_is_its_worst(make, outcomes, worst):
    run = make.run(verdicts=tuple(make.verdict(make.gate(), o) for o in outcomes))
    assert results_json(run)["verdict"] == worst


def test_a_task_without_version_is_called_as_in_lm_eval(make):
    run = make.run(make.result(make.task(), make.metric(None)))
    found = results_json(run)
    assert found["versions"] == {"gsm8k": "Yaml"}
    assert found["results"]["gsm8k"]["acc,none"] is None


def test_the_model_is_taken_apart_and_keeps_its_secrets(make):
    from dataclasses import replace

    spec = "openai:acme/llm-8b,api_key=s3cret,max_tokens=9"
    judge = "openai:j,base_url=http://me:s3cret@host/v1"
    run = replace(
        make.run(),
        model=spec,
        judges={judge: {}},
        options={"model": spec, "judge": judge, "limit": 10},
    )
    found = results_json(run)
    assert "s3cret" not in json.dumps(found)
    assert found["config"]["model"] == found["model_source"] == "openai"
    assert found["config"]["model_args"] == {
        "model": "acme/llm-8b",
        "api_key": "***",
        "max_tokens": 9,
    }
    assert (found["model_name"], found["model_name_sanitized"]) == (
        "acme/llm-8b",
        "acme__llm-8b",
    )
    assert found["config"]["limit"] == 10


@pytest.mark.parametrize(
    ("typed", "read"),
    [("true", True), ("7", 7), ("1e-3", 0.001), ("nan", "nan"), ("bf16", "bf16")],
)
def test_arguments_of_the_model_are_typed_as_lm_eval_types_them(make, typed, read):
    from dataclasses import replace

    found = results_json(replace(make.run(), model=f"openai:m,extra={typed}"))
    assert found["config"]["model_args"] == {"model": "m", "extra": read}


def test_a_model_without_a_spec_is_a_custom_one(make):
    """lm-eval's name for a model that was passed as an object."""
    from dataclasses import replace

    found = results_json(replace(make.run(), model="shouting"))
    assert (found["model_source"], found["model_name"]) == ("CUSTOM", "shouting")
    assert found["config"]["model_args"] == {}
    assert "tokenizer_eos_token" not in found


def test_the_chat_template_is_written_only_if_used(make):
    from dataclasses import replace

    info = {"chat_template": "{{ messages }}"}
    for chat, expected in ((True, "{{ messages }}"), (False, None)):
        options = {"apply_chat_template": chat, "fewshot_as_multiturn": True}
        run = replace(make.run(), model_info=info, options=options)
        found = results_json(run)
        assert found["chat_template"] == expected
        assert found["fewshot_as_multiturn"] is (True if chat else None)
        assert "chat_template" not in found["model_info"]


def test_the_environment_goes_to_the_top(run):
    found = results_json(run, environment=environment())
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["pytest_evals_version"]
    assert found["library_versions"]["pytest"] == pytest.__version__
    assert found["transformers_version"] == found["library_versions"]["transformers"]


def test_outside_of_a_repository_the_commit_is_unknown(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert environment()["git_hash"] is None
    monkeypatch.setenv("PATH", "")
    assert environment()["git_hash"] is None
