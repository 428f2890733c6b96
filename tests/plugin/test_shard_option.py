"""``--evals-shard``: one part of a suite, without verdicts."""

from __future__ import annotations

import json

import pytest

from pytest_evals.plugin.modes.shard import cut_hash


def documents(pytester, folder):
    """Ids of the documents in a run's folder, by task."""
    return {
        path.stem.removeprefix("samples_"): [
            json.loads(line)["id"] for line in path.read_text().splitlines()
        ]
        for path in sorted(pytester.path.glob(f"{folder}/samples_*.jsonl"))
    }


def results(pytester, folder):
    return json.loads((pytester.path / folder / "results.json").read_text())


@pytest.mark.slow
def test_parts_contain_each_document_once_and_no_verdict(suite):
    suite.task("quiz", gates=["exact_match >= 0.99"])
    suite.task("zoo", gates=["exact_match >= 0.99"])
    suite.knows(wrong=[1], tasks=["quiz", "zoo"])
    found = {"quiz": [], "zoo": []}
    for part in ("1/3", "2/3", "3/3"):
        folder = f"parts/{part[0]}"
        run = suite.run(
            "evals",
            f"--evals-shard={part}",
            f"--evals-run-dir={folder}",
            "--evals-profile=release",
        )
        assert run.ret == 0, part
        assert run.parseoutcomes()["pending"] == 2
        run.stdout.fnmatch_lines(
            [
                f"evals: part {part[0]} of 3: * of 20 documents; gates are pending "
                "until the parts are merged",
                " *exact_match *>= 0.99  pending",
            ]
        )
        stored = results(suite.pytester, folder)
        assert {one["outcome"] for one in stored["gates"]} == {"pending"}
        assert stored["verdict"] == "pending"
        assert stored["partial"] == f"part {part[0]} of 3"
        for task, ids in documents(suite.pytester, folder).items():
            found[task] += ids
    assert found == {name: [f"q{i}" for i in range(10)] for name in found}


@pytest.mark.slow
def test_a_part_fails_only_if_a_document_errored(suite):
    suite.task("quiz", gates=["exact_match >= 0.99"])
    suite.knows(errors=[9])
    assert suite.run("evals", "--evals-shard=1/2").ret == 0
    assert suite.run("evals", "--evals-shard=2/2").ret == 1


@pytest.mark.slow
def test_workers_run_the_documents_of_their_part(suite):
    suite.task("quiz", gates=["exact_match >= 0.5"])
    for n, folder in ((), "plain"), (("-n", "2"), "workers"):
        arguments = ("--evals-shard=2/3", f"--evals-run-dir={folder}", *n)
        run = suite.run("evals", *arguments)
        assert run.ret == 0
        assert run.parseoutcomes()["pending"] == 1
    plain = documents(suite.pytester, "plain")
    assert 0 < len(plain["quiz"]) < 10
    assert documents(suite.pytester, "workers") == plain


@pytest.mark.slow
def test_parts_are_cut_by_the_tokens_of_an_earlier_run(suite):
    """Rows are equally long, and the answers of the first five have 100 words."""
    answers = "".join(
        json.dumps({"prompt": f"quiz {i}?", "text": "word " * (100 if i < 5 else 1)})
        + "\n"
        for i in range(10)
    )
    (suite.pytester.path / "answers.jsonl").write_text(answers)
    suite.run("evals", "--evals-shard=1/2", "--evals-run-dir=before")
    assert documents(suite.pytester, "before")["quiz"] == [f"q{i}" for i in range(5)]
    suite.run("evals")
    suite.run("evals", "--evals-shard=1/2", "--evals-run-dir=after")
    assert documents(suite.pytester, "after")["quiz"] == ["q0", "q1", "q2"]


@pytest.mark.slow
def test_a_part_is_not_the_last_run(suite):
    suite.knows(wrong=[9])
    suite.run("evals")
    suite.run("evals", "--evals-shard=1/2")
    run = suite.run("evals", "--evals-only=wrong")
    run.stdout.fnmatch_lines(["evals: 1 of 10 documents: wrong in *"])


def test_tests_are_in_one_part_and_those_of_results_in_none(suite):
    suite.pytester.makepyfile(
        """
        def test_plain():
            pass

        def test_late(eval_results):
            raise AssertionError
        """
    )
    lines = [suite.run("-v", f"--evals-shard={part}/2").stdout.str() for part in (1, 2)]
    assert sum(text.count("::test_plain PASSED") for text in lines) == 1
    assert not any("test_late" in text for text in lines)


def test_a_release_of_one_document_fails_as_its_gates_are_not_judged(suite):
    suite.task("quiz", gates=["exact_match >= 0.1"])
    one = suite.run("evals/quiz.yaml::quiz[q1]", "--evals-profile=release")
    assert one.ret == 1
    one.stdout.fnmatch_lines(
        ["evals: 1 of 1 gate was not judged; --evals-profile=release needs all of them"]
    )


def test_the_folder_of_a_run_must_be_empty(suite):
    folder = suite.pytester.mkdir("full")
    (folder / "notes.txt").write_text("mine")
    run = suite.run("evals", "--evals-run-dir=full")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(
        [
            "*cannot write to *full': it contains files",
            "  fix: remove them, or name another folder with --evals-run-dir",
        ]
    )
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_hashes_of_cuts_tell_who_runs_what():
    assert cut_hash([["a", "b"], ["c"]]) == cut_hash([["a", "b"], ["c"]])
    assert cut_hash([["a", "b"], ["c"]]) != cut_hash([["a"], ["b", "c"]])


def test_a_part_is_neither_compared_nor_saved(suite):
    suite.run("evals", "--evals-save-baseline=main")
    arguments = ("--evals-compare=main", "--evals-json=part.json")
    run = suite.run(
        "evals", "--evals-shard=1/2", "--evals-save-baseline=new", *arguments
    )
    assert run.ret == 0
    part = json.loads((suite.pytester.path / "part.json").read_text())
    assert part["options"]["shard"] == "1/2"
    assert "comparison" not in part
    assert not (suite.pytester.path / ".evals" / "baselines" / "new").exists()
