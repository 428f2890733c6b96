"""``python -m pytest_evals judge``: a gate on a file of scores."""

import json
import subprocess
import sys

import pytest

from pytest_evals.__main__ import main


@pytest.fixture
def scores(tmp_path):
    path = tmp_path / "scores.jsonl"

    def write(rows):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    return write


def test_the_exit_code_is_that_of_the_gate(scores, capsys):
    path = scores([{"id": i, "acc": i < 95} for i in range(100)])
    assert main(["judge", path, "acc >= 0.9"]) == 0
    assert "0.950  >= 0.9  passed" in capsys.readouterr().out
    assert main(["judge", path, "acc >= 0.97"]) == 1
    assert "acc 0.950 is not >= 0.97" in capsys.readouterr().out
    gate = json.dumps({"metric": "acc", "min": 0.9, "over": "population"})
    assert main(["judge", path, gate]) == 0
    assert main(["judge", path, gate, "--inconclusive=fail"]) == 1
    assert (
        "not enough documents to tell: acc 0.950, 90% CI [0.898, 0.980] "
        in capsys.readouterr().out
    )


def test_baseline_and_clusters_are_read_too(scores, tmp_path, capsys):
    path = scores([{"acc": 1, "passage": i // 10} for i in range(400)])
    baseline = tmp_path / "old.jsonl"
    baseline.write_text('{"acc": 1}\n' * 400)
    gate = '{"metric": "acc", "max_drop": 0.1}'
    given = ["judge", path, gate, "--baseline", str(baseline), "--cluster", "passage"]
    assert main(given) == 0


@pytest.mark.parametrize(
    ("rows", "gate", "message"),
    [
        ([{"acc": 1}], "f1 >= 0.9", "scores.jsonl:1: no key 'f1'; the keys are 'acc'"),
        ([[1]], "acc >= 0.9", "scores.jsonl:1: a row must be an object"),
        (
            [{"acc": 7}],
            "acc >= 0.9",
            "scores: acc is 7 in a document, outside of the range 0 to 1",
        ),
        ([{"acc": 1}], "acc => 0.9", "did you mean '>='"),
        ([{"acc": 1}], '{"metric": "acc", "mn": 1}', "no key 'mn'"),
        ([{"acc": 1}], '{"min": 1}', "the gate names no metric"),
    ],
)
def test_a_fault_is_named_with_its_place(scores, capsys, rows, gate, message):
    assert main(["judge", scores(rows), gate]) == 2
    assert message in capsys.readouterr().err


LONG = "a" * 300


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["judge", LONG, "acc >= 0.9"], 2),
        (["report", LONG], 2),
        (["export", LONG, "--to=lm-eval"], 2),
        (["merge", LONG], 4),
        (["store", "info", "--dir", LONG], 2),
        (["convert", LONG], 2),
        (["init", LONG], 2),
    ],
)
def test_a_name_that_no_file_can_have_is_an_error(capsys, command, code):
    assert main(command) == code
    assert "File name too long" in capsys.readouterr().err


def test_a_reader_that_stops_reading_sees_no_traceback(scores):
    path = scores([{"id": i, "acc": 0, "answer": "x" * 2000} for i in range(99)])
    command = [*(sys.executable, "-m", "pytest_evals"), "judge", path, "acc >= 0.9"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as ended:
        ended.stdout.close()
        assert ended.stderr.read() == b""
    assert ended.returncode == 141


def test_a_command_has_the_version_of_the_distribution(capsys):
    for arguments in (["--version"], ["judge", "--version"]):
        with pytest.raises(SystemExit) as done:
            main(arguments)
        assert done.value.code == 0
        assert capsys.readouterr().out.startswith("pytest-model-evals ")


def test_an_unknown_command_shows_the_known_ones(capsys):
    assert main(["juge"]) == 2
    shown = capsys.readouterr().err
    assert "{init,judge,report,export,merge,store,convert}" in shown
    assert "unknown command 'juge'; did you mean 'judge'?" in shown


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["judge", "NEW", "--gate", "acc >= 0.9"], "judge NEW 'acc >= 0.75'"),
        (["judge", "NEW", "NEW"], "older results follow --baseline"),
        (["judge", "eval.yaml", "acc >= 0.9"], "name results, not the eval"),
        (["judge", "scores.json", "acc >= 0.9"], "did you mean 'scores.jsonl'?"),
        (["report", "old_runs"], "name results, such as a folder in .evals/runs"),
        (["export", "old_runs", "--to=hub"], "such as a folder in .evals/runs"),
        (["judge", "NEW", "acc >= 0", "--html=eval.yaml"], "a part of the suite"),
        (["report", "NEW", "-o", "eval.yaml"], "a part of the suite"),
        (["store", "merge", "old_runs"], "with --dir, or after merge"),
        (["convert", "eval.yaml"], "name a gate file of a project"),
        (["convert", "none.yaml"], "not converted: none.yaml: cannot be read"),
    ],
    ids=" ".join,
)
def test_a_wrong_argument_has_a_remedy(
    scores, tmp_path, monkeypatch, capsys, command, shown
):
    path = scores([{"id": i, "acc": 1} for i in range(9)])
    monkeypatch.chdir(tmp_path)
    eval_ = tmp_path / "eval.yaml"
    eval_.write_text("prompt: hi")
    assert main([path if part == "NEW" else part for part in command]) in (1, 2, 4)
    assert shown in capsys.readouterr().err
    assert eval_.read_text() == "prompt: hi"
