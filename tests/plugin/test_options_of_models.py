"""Options that write or select a run, with several models: each model has its own."""

from __future__ import annotations

import json

import pytest

from pytest_evals import evaluate
from pytest_evals.errors import OptionError
from tests.plugin.test_several_models import BAD, GOOD, MODELS, write


@pytest.fixture
def sums(pytester):
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(apps=MODELS)
    pytester.syspathinsert()
    write(pytester, "sums")
    return pytester


def results(place):
    """``results.json`` of a run and its samples, without times."""
    found = json.loads((place / "results.json").read_text())
    for key in ("date", "total_evaluation_time_seconds", "model_seconds"):
        del found[key]
    found["model_info"].pop("latency", None)
    (samples,) = place.glob("samples_*")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    return json.dumps(found), [{**row, "latency_s": 0} for row in rows]


def test_each_model_has_its_plan(sums):
    sums.runpytest(GOOD)
    result = sums.runpytest(GOOD, BAD, "--evals-plan")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*= evals: plan good =*",
            "sums *3 * 3 *characters * 3 *",
            "*= evals: plan bad =*",
            "sums *3 * 3 *characters * 0 *",
            "*to send*: 3 requests*",
        ]
    )


@pytest.mark.slow
def test_each_model_is_saved_and_compared_as_its_own_baseline(sums):
    """``bad`` is worse than ``good``, and not worse than itself."""
    write(sums, "sums", "[{metric: exact, baseline: main, max_drop: 0.5}]")
    sums.runpytest(GOOD, BAD, "--evals-save-baseline=main")
    saved = {one.name for one in sums.path.glob(".evals/baselines/*")}
    assert saved == {"main-good", "main-bad"}
    again = sums.runpytest(GOOD, BAD, "--evals-compare=main")
    again.stdout.fnmatch_lines(
        ["*compared with main-good*", "*compared with main-bad*"]
    )
    again.stdout.fnmatch_lines(["sums*1.000*vs main*", "sums*0.333*vs main*"])
    again.stdout.no_fnmatch_line("*unknown baseline*")
    shared = sums.runpytest(GOOD, BAD, "--evals-compare=main-good", "-v")
    shared.stdout.fnmatch_lines(["*::sums?bad-a? REGRESSED*"])


def test_two_models_that_would_be_saved_as_one_baseline_are_refused(sums):
    result = sums.runpytest(
        "--model=a+b=python:apps:adds",
        "--model=a_b=python:apps:repeats",
        "--evals-save-baseline=main",
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'a+b' and 'a_b' would both be saved as 'main-a_b'"])
    models = {"a+b": lambda prompt: prompt, "a_b": lambda prompt: prompt}
    with pytest.raises(OptionError, match="'main-a_b'"):
        evaluate([{"q": 1}], models, prompt="x", save="main", folder="f")


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)]
)
def test_only_wrong_documents_of_each_model_run_again(sums, workers):
    sums.runpytest(GOOD, BAD)
    result = sums.runpytest(GOOD, BAD, "--evals-only=wrong", "-v", *workers)
    if not workers:
        result.stdout.fnmatch_lines(
            [
                "evals: 0 of 3 documents of good: wrong in *",
                "evals: 2 of 3 documents of bad: wrong in *",
            ]
        )
    result.stdout.fnmatch_lines_random(["*sums?bad-a?*", "*sums?bad-b?*"])
    result.stdout.no_fnmatch_line("*sums?good-a?*")
    result.stdout.no_fnmatch_line("*sums?bad-c?*")


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)]
)
def test_merged_parts_of_all_models_equal_one_run(sums, workers):
    sums.makepyfile(test_more="def test_other():\n    pass\n")
    one = sums.runpytest(GOOD, BAD, "--evals-cache=off", "--evals-run-dir=one")
    for part in ("1", "2"):
        options = (f"--evals-run-dir=parts/{part}", "--evals-cache=off", *workers)
        done = sums.runpytest(GOOD, BAD, f"--evals-shard={part}/2", *options)
        assert done.ret == 0
    given = [f"--evals-merge=parts/{part}" for part in (1, 2)]
    given.append("--evals-cache=off")
    merged = sums.runpytest(GOOD, BAD, *given, "--evals-run-dir=merged")
    assert merged.ret == one.ret == 1
    merged.stdout.fnmatch_lines(["*evals: models*", "sums *"])
    for model in ("good", "bad"):
        places = [sums.path / run / model for run in ("merged", "one")]
        assert results(places[0]) == results(places[1])
        parts = json.loads((places[0] / "parts.json").read_text())["parts"]
        assert sum(part["documents"]["sums"] for part in parts) == 3
    refused = sums.runpytest(GOOD, "--evals-merge=parts/1/good")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*parts/1/good: is of model 'good'*one model"])
    sums.path.joinpath("parts/2/bad/part.json").unlink()
    refused = sums.runpytest(GOOD, BAD, *given)
    refused.stderr.fnmatch_lines(["*bad: part 2 of 2 is missing"])


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_tasks_of_each_model_stop_when_their_gates_are_decided(sums, workers):
    """All answers of ``good`` are correct, and none of ``bad``."""
    rows = [{"id": f"d{i}", "q": f"{i}+1", "a": str(i + 1)} for i in range(600)]
    (sums.path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (sums.path / "sums.yaml").write_text(
        "task: sums\ndataset_path: json\n"
        "dataset_kwargs: {data_files: {test: d.jsonl}}\n"
        "test_split: test\noutput_type: generate_until\ndoc_to_text: '{{q}}'\n"
        "doc_to_target: a\nmetric_list: [{metric: exact_match}]\n"
        "gates: [exact_match >= 0.7]\n"
    )
    slow = MODELS.replace("(prompt):\n", "(prompt):\n    time.sleep(0.01)\n")
    sums.makepyfile(apps="import time\n" + slow)
    result = sums.runpytest(GOOD, BAD, "--evals-stop=auto", *workers)
    result.stdout.fnmatch_lines(["sums*>= 0.7 *passed (early)"])
    result.stdout.fnmatch_lines(["sums*>= 0.7 *FAILED (early)"])
    for path in sums.path.glob(".evals/runs/*/results.json"):
        counts = json.loads(path.read_text())["counts"]["sums"]
        assert 64 <= counts["selected"] - counts["missing"] < 600


def test_the_summary_of_a_job_on_github_compares_the_models(sums, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(sums.path / "summary.md"))
    sums.runpytest(GOOD, BAD)
    text = (sums.path / "summary.md").read_text()
    assert text.startswith("## Models\n")
    assert text.count("| task | metric | model |") == 1
    assert "evals: 1 passed of 1 gate" in text
    assert "evals: 1 failed of 1 gate" in text
