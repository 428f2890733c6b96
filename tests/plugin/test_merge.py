"""Parts of a run, merged: what one run would have given; anything else is refused."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from pytest_evals.errors import StoreError
from pytest_evals.store.cache import file_hash
from pytest_evals.store.part_differences import part_faults
from pytest_evals.store.parts import (
    PART,
    RECORDS,
    checksum,
    pytest_arguments,
    read_parts,
)

GATES = ["exact_match >= 0.5", {"must_pass": ["q9"]}]
TIMES = ("date", "total_evaluation_time_seconds", "model_seconds")


def parts_of(suite, n, *arguments, folder="parts"):
    """Run all parts and return their folders."""
    for part in range(1, n + 1):
        place = f"{folder}/{part}"
        suite.run(
            "evals", f"--evals-shard={part}/{n}", f"--evals-run-dir={place}", *arguments
        )
    return [suite.pytester.path / folder / str(part) for part in range(1, n + 1)]


def merge(suite, parts, *arguments):
    given = [f"--evals-merge={part}" for part in parts]
    return suite.run("evals", "--evals-run-dir=merged", *given, *arguments)


def stored(suite, folder):
    """``results.json`` without times, as text, and all samples files."""
    path = suite.pytester.path / folder
    results = json.loads((path / "results.json").read_text())
    kept = {key: value for key, value in results.items() if key not in TIMES}
    samples = {one.name: one.read_bytes() for one in path.glob("samples_*")}
    return json.dumps(kept, indent=2), samples


@pytest.mark.parametrize(
    "n", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 8, 25))]
)
def test_merged_parts_equal_one_run(suite, n):
    """Even if there are more parts than documents."""
    suite.task("quiz", gates=GATES)
    suite.task("zoo", num_fewshot=2, fewshot_split="test", gates=["exact_match >= 0.9"])
    suite.group("all", task=["quiz", "zoo"], gates=["exact_match >= 0.3"])
    suite.knows(wrong=[1, 4], errors=[7], tasks=["quiz", "zoo"])
    one = suite.run("evals", "--evals-run-dir=one")
    merged = merge(suite, parts_of(suite, n))
    assert merged.ret == one.ret == 1
    assert merged.parseoutcomes() == one.parseoutcomes()
    assert stored(suite, "merged") == stored(suite, "one")
    parts = json.loads((suite.pytester.path / "merged" / "parts.json").read_text())
    assert [part["part"] for part in parts["parts"]] == [*range(1, n + 1)]
    assert all(part["machine"]["python"] for part in parts["parts"])
    assert sum(sum(part["documents"].values()) for part in parts["parts"]) == 20


@pytest.mark.slow
def test_merged_parts_are_saved_compared_and_reported_as_one_run(suite):
    suite.run("evals", "--evals-save-baseline=old")
    suite.task("quiz", gates=["exact_match >= 0.5"])
    suite.knows(wrong=[3])
    parts = parts_of(suite, 2, "--evals-save-baseline=new")
    reports = ("--evals-json=all.json", "--evals-html=all.html", "--junitxml=all.xml")
    merged = merge(
        suite, parts, "--evals-compare=old", "--evals-save-baseline=new", *reports
    )
    assert merged.ret == 0
    merged.stdout.fnmatch_lines(["*1 regressed*"])
    baseline = suite.pytester.path / ".evals" / "baselines" / "new" / "results.json"
    assert json.loads(baseline.read_text())["counts"]["quiz"]["correct"] == 9
    for name in ("all.json", "all.html", "all.xml"):
        assert (suite.pytester.path / name).stat().st_size


def test_the_release_profile_applies_when_parts_are_merged(suite):
    """7 of 10 does not show that more than half of all documents are correct."""
    suite.task("quiz", gates=["exact_match >= 0.5"])
    suite.knows(wrong=[1, 2, 3])
    parts = parts_of(suite, 2, "--evals-profile=release")
    assert merge(suite, parts, "--evals-profile=release").ret == 1


@pytest.mark.slow
def test_tests_that_failed_in_a_part_fail_the_merged_run(suite):
    suite.pytester.makepyfile(
        test_more="""
        from pytest_evals import assert_gate

        def test_plain():
            assert False

        def test_late(eval_results):
            assert_gate("quiz/exact_match >= 1", eval_results)
        """
    )
    for part in (1, 2):
        suite.run(f"--evals-shard={part}/2", f"--evals-run-dir=parts/{part}")
    given = [f"--evals-merge=parts/{part}" for part in (1, 2)]
    merged = suite.run(*given, "-v")
    assert merged.ret == 1
    merged.stdout.fnmatch_lines(
        [
            "test_more.py::test_late PASSED*",
            "evals: 1 test failed in part *: test_more.py::test_plain",
        ]
    )


@pytest.mark.slow
def test_workers_in_parts_and_the_command(suite):
    """The command repeats the options of parts; ``-n`` of an ini file is ignored."""
    suite.task("quiz", gates=["exact_match >= 0.99"])
    suite.knows(wrong=[1])
    limit = "--evals-limit=9"
    suite.run("evals", "--evals-run-dir=one", limit)
    parts_of(suite, 3, limit, "-n2")
    suite.pytester.makeini("[pytest]\naddopts = -n 2\n")
    command = (sys.executable, "-m", "pytest_evals", "merge", "parts", "-o", "merged")
    run = suite.pytester.run(*command, "-rA")
    assert run.ret == 1
    run.stdout.fnmatch_lines(["evals: documents of 3 parts; no model is opened"])
    assert stored(suite, "merged") == stored(suite, "one")
    again = suite.pytester.run(*command)
    assert again.ret == 4
    again.stderr.fnmatch_lines(["*cannot write to *merged': it contains files"])
    elsewhere = suite.pytester.mkdir("elsewhere")
    suite.pytester.path.joinpath("parts").rename(elsewhere / "parts")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(elsewhere)
        lost = suite.pytester.run(*command)
    assert lost.ret == 4
    lost.stderr.fnmatch_lines(
        [
            "error: evals: the parts ran this, and it is not here",
            "  fix: run merge in the folder where the jobs ran pytest",
        ]
    )


def change(name, *keys, to):
    """A function that changes a value in a file of part 2."""

    def damage(parts):
        path = parts[1] / name
        data = json.loads(path.read_text())
        inside = data
        for key in keys[:-1]:
            inside = inside[key]
        inside[keys[-1]] = to
        path.write_text(json.dumps(data))

    return damage


def remove(name):
    return lambda parts: (parts[1] / name).unlink()


def rewrite(name, edit):
    """A function that edits the bytes of a file of part 2."""

    def damage(parts):
        path = parts[1] / name
        path.write_bytes(edit(path.read_bytes()))

    return damage


def swap(name):
    def damage(parts):
        one, other = parts[1] / name, parts[2] / name
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)

    return damage


SAMPLES = "samples_quiz.jsonl"
DAMAGE = {
    "missing": (lambda parts: shutil.rmtree(parts[1]), "part 2 of 3 is missing"),
    "two missing": (
        lambda parts: [shutil.rmtree(one) for one in parts[1:]],
        "parts 2, 3 of 3 are missing",
    ),
    "twice": (
        lambda parts: shutil.copytree(parts[1], parts[1].with_name("again")),
        "part 2 is there 2 times: ",
    ),
    "other number of parts": (
        change(PART, "parts", to=4),
        "the parts are of several runs: 1/3 ",
    ),
    "not complete": (
        change(PART, "partial", to="interrupted"),
        "is not complete: interrupted; run it again",
    ),
    "killed": (remove(PART), "part 2/3 of a run has not ended"),
    "no results": (remove("results.json"), "cannot read "),
    "results cut off": (
        rewrite("results.json", lambda data: data[:100]),
        "is not a results file",
    ),
    "part.json cut off": (rewrite(PART, lambda data: data[:-9]), "is damaged"),
    "part.json is a list": (rewrite(PART, lambda data: b"[]"), "it is not an object"),
    "part.json without cut": (change(PART, "cut", to=None), "'cut' is missing"),
    "part.json with a number too high": (change(PART, "part", to=9), "part 9/3"),
    "tasks of another kind": (change(PART, "tasks", to={"quiz": 1}), "'tasks'"),
    "later schema": (change(PART, "schema_version", to=99), "schema version 99"),
    "later schema of results": (
        change("results.json", "schema_version", to=99),
        "schema version 99",
    ),
    "no samples": (remove(SAMPLES), "cannot be read"),
    "no records": (remove(RECORDS), "cannot be read"),
    "samples without a line": (
        rewrite(SAMPLES, lambda data: data.split(b"\n", 1)[1]),
        "samples_quiz.jsonl: was changed or cut off",
    ),
    "samples with a line twice": (
        rewrite(SAMPLES, lambda data: data.split(b"\n", 1)[0] + b"\n" + data),
        "samples_quiz.jsonl: was changed or cut off",
    ),
    "another answer": (
        rewrite(SAMPLES, lambda data: data.replace(b"nonsense", b"sensible")),
        "samples_quiz.jsonl: was changed or cut off",
    ),
    "another score": (
        rewrite(RECORDS, lambda data: data.replace(b"0.0", b"1.0")),
        "records.jsonl: was changed or cut off",
    ),
    "records cut off": (rewrite(RECORDS, lambda data: data[:-5]), "records.jsonl: was"),
    "records of another part": (swap(RECORDS), "records.jsonl: was changed"),
    "samples of another part": (swap(SAMPLES), "samples_quiz.jsonl: was changed"),
    "a metric": (
        change("results.json", "results", "quiz", "exact_match,none", to=1.0),
        "results.json: was changed or cut off",
    ),
    "another model": (
        change("results.json", "options", "model", to="hf:other"),
        "model: scripted:answers.jsonl in part 1 ",
    ),
    "another version": (
        change("results.json", "pytest_evals_version", to="9.9"),
        "version of pytest-model-evals: ",
    ),
    "another seed": (
        change("results.json", "options", "seed", to=7),
        "option seed: 1234 in part 1 ",
    ),
    "another number of examples": (
        change("results.json", "options", "num_fewshot", to=3),
        "option num-fewshot: null in part 1 ",
    ),
    "another weight of the model": (
        change("results.json", "model_info", "model", to="f00"),
        "model's model: ",
    ),
    "another prompt": (
        change("results.json", "configs", "quiz", "doc_to_text", to="Q: {{question}}"),
        "quiz: doc_to_text: {{question}} in part 1 ",
    ),
    "another version of a task": (
        change("results.json", "versions", "quiz", to=2),
        "quiz: version: ",
    ),
    "another task": (
        change(PART, "tasks", to={"zoo": {}}),
        'tasks: ["quiz"] in part 1 ',
    ),
    "other ids": (change(PART, "tasks", "quiz", "ids", to="f00"), "quiz: ids: "),
    "other rows": (change(PART, "tasks", "quiz", "rows", to="f00"), "quiz: rows: "),
    "another file": (change(PART, "tasks", "quiz", "file", to="f00"), "quiz: file: "),
    "more documents": (
        change(PART, "tasks", "quiz", "documents", to=11),
        "quiz: documents: 10 in part 1 ",
    ),
    "part.json with a huge number of parts": (
        lambda parts: [change(PART, "parts", to=10**9)([one, one]) for one in parts],
        "parts 4, 5, 6, 7, 8, 9, 10, 11, … of 1000000000 are missing",
    ),
    "part.json without failed tests": (
        change(PART, "failed_tests", to=["x"]),
        "part.json: was changed since its run",
    ),
    "part.json without checksums": (change(PART, "files", to={}), "was changed since"),
    "another selection": (
        change(PART, "command", "keyword", to=["q1"]),
        "selection by keyword: [] in part 1 ",
    ),
    "another cut": (
        change(PART, "cut", to="f00"),
        "cut into parts (by costs of different earlier runs?): ",
    ),
}


@pytest.fixture
def three_parts(suite):
    suite.task("quiz", gates=["exact_match >= 0.5"])
    suite.knows(wrong=[4])
    return parts_of(suite, 3)


@pytest.mark.slow
def test_damaged_parts_are_refused_with_what_is_wrong(three_parts, tmp_path):
    assert part_faults(read_parts(three_parts)) == []
    wrong = {}
    for name, (damage, expected) in DAMAGE.items():
        folder = tmp_path / name.replace(" ", "_")
        shutil.copytree(three_parts[0].parent, folder)
        damage([folder / one.name for one in three_parts])
        try:
            text = "\n".join(part_faults(read_parts(sorted(folder.iterdir()))))
        except StoreError as error:
            text = str(error)
        if expected not in text:
            wrong[name] = text
    assert wrong == {}
    assert len(DAMAGE) >= 30


def reseal(part):
    """Make the checksums of a part those of its files."""
    path = part / PART
    facts = json.loads(path.read_text())
    facts["files"] = {name: file_hash(part / name) for name in facts["files"]}
    path.write_text(json.dumps(facts | {"checksum": checksum(facts)}))


@pytest.mark.slow
def test_documents_that_are_missing_or_twice_are_named(suite, three_parts):
    first, second, _ = (part / RECORDS for part in three_parts)
    lines = first.read_bytes().splitlines(keepends=True)
    second.write_bytes(second.read_bytes() + lines[0])
    reseal(three_parts[1])
    twice = merge(suite, three_parts)
    assert twice.ret == pytest.ExitCode.USAGE_ERROR
    twice.stderr.fnmatch_lines(
        [
            "*the parts cannot be merged:",
            "  quiz: document 0 is in part 1 and in part 2",
        ]
    )
    first.write_bytes(b"".join(lines[1:]))
    second.write_bytes(second.read_bytes().replace(lines[0], b""))
    reseal(three_parts[0])
    reseal(three_parts[1])
    missing = merge(suite, three_parts)
    missing.stderr.fnmatch_lines(
        ["  1 document is in no part: evals/quiz.yaml::quiz[[]q0]"]
    )


@pytest.mark.slow
def test_a_suite_that_has_changed_is_refused(suite, three_parts):
    suite.task("quiz", gates=["exact_match >= 0.5"], doc_to_text="Q: {{question}}")
    run = merge(suite, three_parts)
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(
        ["  quiz: doc_to_text: {{question}} in the parts, Q: {{question}} here"]
    )
    suite.task("zoo")
    run = merge(suite, three_parts)
    run.stderr.fnmatch_lines(["  zoo: this task is not in the parts; merge the *"])


@pytest.mark.slow
def test_a_run_is_not_a_part(suite, three_parts):
    suite.run("evals", "--evals-run-dir=whole")
    run = merge(suite, [*three_parts, "whole"])
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["*whole: a run, and not a part"])
    run = merge(suite, [Path("nowhere")])
    run.stderr.fnmatch_lines(["*nowhere: no such folder"])


@pytest.mark.parametrize(
    "command",
    [
        {"options": {"html": ["/etc/passwd"]}},
        {"options": {"allow-unsafe-code": []}},
        {"options": {"x=1 -p evil": []}},
        {"options": {}, "paths": ["-pevil"]},
        {"options": {}, "plugins": ["evil"]},
        {"options": {"limit": "3"}},
        {},
    ],
)
def test_a_part_cannot_add_options_that_write_or_run_code(command):
    with pytest.raises(StoreError, match=r"part\.json: is damaged"):
        pytest_arguments(command, Path("part.json"))
