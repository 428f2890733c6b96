"""Baselines: saved on request, compared document by document, or rejected."""

from __future__ import annotations

import json

import pytest


def folder(suite, name="main"):
    return suite.pytester.path / ".evals" / "baselines" / name


def newest(suite):
    """The folder of the newest run."""
    runs = suite.pytester.path.glob(".evals/runs/*")
    return max(runs, key=lambda path: path.stat().st_mtime_ns)


@pytest.fixture
def saved(suite):
    """A suite with a baseline in which q1, q2 and q3 were wrong."""
    suite.knows(wrong=[1, 2, 3])
    assert suite.run("evals", "--evals-save-baseline=main").ret == 0
    return suite


def compare(suite, *arguments, **more):
    return suite.run("evals", "--evals-compare=main", *arguments, **more)


def test_a_baseline_is_small_and_can_be_committed(saved):
    names = sorted(path.name for path in folder(saved).iterdir())
    assert names == ["results.json", "samples_quiz.jsonl"]
    rows = (folder(saved) / "samples_quiz.jsonl").read_text().splitlines()
    first = json.loads(rows[0])
    assert first["answer"] == "a0"
    assert first["correct"] is True
    assert not {"doc", "arguments", "resps"} & set(first)
    ignored = (saved.pytester.path / ".evals" / ".gitignore").read_text()
    assert "!/baselines/**" in ignored


def test_regressed_and_improved_documents_are_shown(saved):
    saved.knows(wrong=[1, 7])
    result = compare(saved)
    assert result.ret == 0
    assert result.parseoutcomes() == {"passed": 8, "wrong": 1, "regressed": 1}
    result.stdout.fnmatch_lines(
        [
            "*= compared with main =*",
            "task * metric * main * now * change *90% CI",
            "quiz * exact_match * 0.700 * 0.800 * +0.100 *[[]-*, +*]",
            "10 documents: 1 worse, 2 better",
            " * document * prompt * target * was * now",
            "worse * quiz[[]q7[]] * quiz 7[?] * a7 * a7 * nonsense",
            "better * quiz[[]q2[]] *",
            "better * quiz[[]q3[]] *",
        ]
    )
    found = json.loads((newest(saved) / "comparison.json").read_text())
    assert [one["id"] for one in found["worse"]] == ["q7"]
    assert [one["id"] for one in found["better"]] == ["q2", "q3"]


def test_prompts_are_shown_without_the_end_that_all_share(suite):
    suite.task("quiz", doc_to_text="{{question}} It is one of a, b and c. Answer:")
    rules = [{"regex": f"quiz {n}[?]", "text": f"a{n}"} for n in range(10)]
    answers = suite.pytester.path / "answers.jsonl"
    answers.write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    suite.run("evals", "--evals-save-baseline=main")
    rules[3]["text"] = rules[7]["text"] = "nonsense"
    answers.write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    compare(suite).stdout.fnmatch_lines(
        ["worse * quiz[[]q3[]] * quiz 3 … *", "worse * quiz[[]q7[]] * quiz 7 … *"]
    )


def test_a_regressed_document_is_shown_as_such_and_fails_only_under_strict(saved):
    saved.knows(wrong=[7])
    result = compare(saved, "-v")
    result.stdout.fnmatch_lines(["*quiz[[]q7[]] REGRESSED*"])
    strict = compare(saved, "--evals-strict")
    assert strict.parseoutcomes() == {"passed": 9, "failed": 1}


def test_regressed_documents_can_be_selected(saved):
    saved.knows(wrong=[1, 7])
    saved.run("evals")
    result = compare(saved, "--evals-only=regressed")
    assert result.parseoutcomes() == {"regressed": 1, "deselected": 9}
    alone = saved.run("evals", "--evals-only=regressed")
    assert alone.ret == pytest.ExitCode.USAGE_ERROR


def test_documents_are_paired_by_content_not_by_position(saved):
    path = saved.evals / "quiz.jsonl"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    saved.knows(wrong=[1, 2, 3])
    compare(saved).stdout.fnmatch_lines(["10 documents: 0 worse, 0 better"])


def test_the_folder_of_a_run_can_be_a_baseline(suite):
    suite.run("evals")
    place = newest(suite)
    suite.knows(wrong=[4])
    result = suite.run("evals", f"--evals-compare={place}")
    result.stdout.fnmatch_lines(["10 documents: 1 worse, 0 better"])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--evals-limit=4"], "quiz: 4 documents instead of 10 (limit or sample)"),
        (["--evals-num-fewshot=2"], "quiz: 2 shots instead of 0"),
    ],
)
def test_another_limit_or_num_fewshot_is_refused_before_the_run(saved, arguments, why):
    saved.task("quiz", fewshot_split="test")
    result = compare(saved, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--evals-compare=main: this run is not comparable", f"*{why}"]
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"doc_to_text": "Q: {{question}}"}, "the prompt has changed: 10 documents *"),
        ({"doc_to_target": "x"}, "the target has changed: 10 documents (q0, q1, *"),
    ],
)
def test_other_prompts_or_targets_are_refused_and_fail_the_run(saved, change, why):
    saved.task("quiz", **change)
    result = compare(saved)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"not compared: quiz: {why}"])


def test_an_unknown_baseline_is_refused_with_the_closest_name(saved):
    result = saved.run("evals", "--evals-compare=mian")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*unknown baseline 'mian' (not a run folder either); did you mean 'main'?"]
    )


def test_a_partial_run_cannot_be_saved_as_baseline(suite):
    result = suite.run("evals", "-k", "q1", "--evals-save-baseline=main")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["baseline 'main' is not saved: 1 of 10 documents were run"]
    )
    assert not folder(suite).exists()


def test_a_run_with_errors_does_not_replace_the_baseline(saved):
    before = (folder(saved) / "samples_quiz.jsonl").read_text()
    saved.knows(errors=[5])
    result = saved.run("evals", "--evals-save-baseline=main")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "baseline 'main' is not saved: 1 document could not be scored; "
            "--evals-save-failed saves it anyway"
        ]
    )
    assert (folder(saved) / "samples_quiz.jsonl").read_text() == before


def test_a_failed_run_is_saved_as_baseline_only_on_request(suite):
    suite.task("quiz", gates=["exact_match >= 0.9", "exact_match >= 0.8"])
    suite.knows(wrong=[1, 2, 3])
    result = suite.run("evals", "--evals-save-baseline=main")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "baseline 'main' is not saved: gate quiz::exact_match failed, and 1 more; "
            "--evals-save-failed saves it anyway"
        ]
    )
    assert not folder(suite).exists()
    forced = suite.run("evals", "--evals-save-baseline=main", "--evals-save-failed")
    forced.stdout.fnmatch_lines(
        [
            "baseline: .evals/baselines/main (of a failed run: gate quiz::exact_match "
            "failed, and 1 more)"
        ]
    )
    assert forced.ret == pytest.ExitCode.TESTS_FAILED
    assert folder(suite).exists()


@pytest.mark.parametrize(("policy", "is_saved"), [("fail", False), ("warn", True)])
def test_an_inconclusive_gate_blocks_a_baseline_only_if_it_fails_the_run(
    suite, policy, is_saved
):
    gate = {"metric": "exact_match", "min": 0.7, "over": "population", "id": "open"}
    suite.task("quiz", gates=[{**gate, "inconclusive": policy}])
    suite.knows(wrong=[1, 2, 3])
    result = suite.run("evals", "--evals-save-baseline=main")
    assert folder(suite).exists() is is_saved
    if not is_saved:
        result.stdout.fnmatch_lines(["*not saved: gate quiz::open is inconclusive;*"])


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_gate_that_was_expected_to_fail_does_not_block_a_baseline(suite, workers):
    suite.task("quiz", gates=["exact_match >= 0.9"])
    suite.knows(wrong=[1, 2, 3])
    suite.pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                if item.name == "exact_match":
                    item.add_marker(pytest.mark.xfail(reason="known"))
        """
    )
    result = suite.run("evals", "--evals-save-baseline=main", *workers)
    assert result.ret == 0
    assert folder(suite).exists()


def test_save_failed_does_not_save_a_partial_run(suite):
    result = suite.run(
        "evals", "-k", "q1", "--evals-save-baseline=main", "--evals-save-failed"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert not folder(suite).exists()


def test_save_failed_needs_the_name_of_a_baseline(suite):
    result = suite.run("evals", "--evals-save-failed")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*give --evals-save-baseline too*"])


def test_saving_again_replaces_the_baseline(saved):
    saved.knows()
    saved.run("evals", "--evals-save-baseline=main")
    rows = (folder(saved) / "samples_quiz.jsonl").read_text().splitlines()
    assert all(json.loads(row)["correct"] for row in rows)
    assert [path.name for path in folder(saved).parent.iterdir()] == ["main"]


def test_an_invalid_baseline_name_is_refused(suite):
    result = suite.run("evals", "--evals-save-baseline=../x")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--evals-save-baseline=../x: a name has letters, digits *"]
    )


@pytest.mark.slow
def test_workers_compare_with_the_baseline(saved):
    saved.knows(wrong=[1, 7])
    result = saved.run("evals", "--evals-compare=main", "-n2")
    assert result.parseoutcomes() == {"passed": 8, "wrong": 1, "regressed": 1}
    result.stdout.fnmatch_lines(["10 documents: 1 worse, 2 better"])


def test_another_task_version_is_refused_before_the_first_request(saved):
    saved.task("quiz", metadata={"version": 2})
    result = compare(saved, model="scripted:break")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "quiz: version 2 of the task instead of Yaml" in result.stderr.str()


@pytest.mark.slow
def test_each_change_of_a_task_or_group_has_an_interval_or_the_reason(suite):
    """With 10 documents, BLEU has no interval."""
    metrics = [{"metric": "exact_match"}, {"metric": "bleu"}]
    for name in ("quiz", "zoo"):
        suite.task(name, metric_list=metrics)
    suite.group("both", task=["quiz", "zoo"], aggregate_metric_list=metrics)
    suite.knows(wrong=[1, 2, 3], tasks=("quiz", "zoo"))
    suite.run("evals", "--evals-save-baseline=main")
    suite.knows(wrong=[1, 7], tasks=("quiz", "zoo"))
    result = compare(suite, "--evals-json=all.json", "--evals-markdown=all.md")
    result.stdout.fnmatch_lines(
        [
            "task * metric * main * now * change * 90% CI",
            "both * exact_match * 0.700 * 0.800 * +0.100  [[]-*, +*]",
            "both * bleu * quiz: needs 30 documents, not 10",
            "quiz * bleu * needs 30 documents, not 10",
            "20 documents: 2 worse, 4 better",
        ]
    )
    text = (suite.pytester.path / "all.md").read_text()
    assert "needs 30 documents, not 10 |" in text
    copied = json.loads((suite.pytester.path / "all.json").read_text())
    assert copied == json.loads((newest(suite) / "results.json").read_text())
    found = copied["comparison"]
    counts = [found[key] for key in ("name", "n_paired", "n_worse", "n_better")]
    assert counts == ["main", 20, 2, 4]
    of_both = {m["key"]: m for m in found["metrics"] if m["task"] == "both"}
    assert of_both["bleu,none"]["no_interval"].startswith("quiz: needs 30 documents")
    assert of_both["exact_match,none"]["method"] == "paired, 2 tasks combined"


@pytest.mark.slow
def test_documents_that_depend_on_each_other_are_clusters_in_all_changes(suite):
    """A gate names the field. One of two passages has changed, which is one observation
    instead of five."""
    path = suite.evals / "quiz.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for i, row in enumerate(rows):
        row["passage"] = f"p{i // 5}"
    text = "".join(json.dumps(row) + "\n" for row in rows)

    def limits(**gate):
        suite.task("quiz", gates=[{"metric": "exact_match", "min": 0.1, **gate}])
        path.write_text(text)
        suite.knows(wrong=range(5))
        suite.run("evals", "--evals-save-baseline=main")
        suite.knows()
        compare(suite)
        (one,) = json.loads((newest(suite) / "comparison.json").read_text())["metrics"]
        return one

    alone = limits()
    clustered = limits(over="population", cluster="passage")
    assert alone["method"] == "paired score test"
    assert "clustered" in clustered["method"]
    assert clustered["low"] < 0 < alone["low"]


@pytest.mark.slow
def test_a_group_with_a_task_that_is_not_compared_is_named(suite):
    suite.task("zoo")
    suite.group("both", task=["quiz", "zoo"])
    suite.knows(tasks=("quiz", "zoo"))
    suite.run("evals", "--evals-save-baseline=main")
    suite.task("zoo", doc_to_text="Q: {{question}}")
    compare(suite).stdout.fnmatch_lines(
        [
            "quiz * exact_match * 1.000 * 1.000 *",
            "not compared: zoo: the prompt has changed: 10 documents *",
            "not compared: both: contains zoo",
        ]
    )


@pytest.mark.slow
def test_at_80_columns_names_are_shortened_before_reasons(suite, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    task = "questions_of_support_in_german"
    suite.task(task, metric_list=[{"metric": "bleu"}])
    suite.knows(wrong=[1], tasks=("quiz", task))
    suite.run("evals", "--evals-save-baseline=release-2026-11-23")
    suite.knows(wrong=[2], tasks=("quiz", task))
    result = suite.run("evals", "--evals-compare=release-2026-11-23")
    (row,) = [line for line in result.outlines if "needs" in line]
    assert row.endswith("  needs 30 documents, not 10")
    assert row.startswith("quest")
    assert len(row) <= 80
