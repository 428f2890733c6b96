"""The output of lm-eval as the baseline of a run: documents are paired by lm-eval's
hashes."""

import json

import pytest

DATE = "2026-11-26T10-00-00.123456"
LM_EVAL = (
    "doc_id",
    "doc",
    "target",
    "arguments",
    "resps",
    "filtered_resps",
    "filter",
    "metrics",
    "doc_hash",
    "prompt_hash",
    "target_hash",
    "exact_match",
)
"""Keys of a sample of lm-eval 0.4.13."""
OURS = ("schema_version", "sample_files", "counts", "gates", "options", "model_info")


@pytest.fixture
def output(suite):
    """A run, as lm-eval would have written it."""
    assert suite.run("evals").ret == 0
    (run,) = (suite.pytester.path / ".evals/runs").iterdir()
    folder = suite.pytester.path / "out" / "org__model"
    folder.mkdir(parents=True)
    rows = map(json.loads, (run / "samples_quiz.jsonl").read_text().splitlines())
    lines = [json.dumps({key: row[key] for key in LM_EVAL}) + "\n" for row in rows]
    (folder / f"samples_quiz_{DATE}.jsonl").write_text("".join(lines))
    results = json.loads((run / "results.json").read_text())
    kept = {key: value for key, value in results.items() if key not in OURS}
    (folder / f"results_{DATE}.json").write_text(json.dumps(kept))
    return folder.parent


def test_a_run_is_compared_with_the_output_of_lm_eval(suite, output):
    suite.knows(wrong=[4])
    result = suite.run("evals", f"--evals-compare={output}")
    result.stdout.fnmatch_lines(
        ["10 documents: 1 worse, 0 better", "worse * quiz?q4?*"]
    )
    assert result.ret == 0


def test_a_gate_names_the_output_as_its_baseline(suite, output):
    gate = {"metric": "exact_match", "baseline": "out", "max_drop": 0.05, "over": "run"}
    suite.task("quiz", gates=[gate])
    assert suite.run("evals").ret == 0
    suite.knows(wrong=[4])
    result = suite.run("evals")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*0.900 vs out 1.000: -10.00 is not >= -5.00 points*"])


def test_a_folder_without_results_is_refused_with_what_can_be_read(suite):
    (suite.pytester.path / "empty").mkdir()
    result = suite.run("evals", "--evals-compare=empty")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*empty: no results in it", "*fix: pass a run of py*"])
