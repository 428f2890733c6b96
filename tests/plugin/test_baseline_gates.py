"""Gates that compare a run with a stored one, in whole runs."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def gated(suite):
    """A suite whose task has a baseline gate; q1 to q3 are wrong."""
    base = {"metric": "exact_match", "baseline": "main"}
    point = {**base, "max_drop": 0.1, "over": "run"}
    suite.task("quiz", gates=[point, {**base, "max_drop": "5%", "id": "sure"}])
    suite.knows(wrong=[1, 2, 3])
    return suite


@pytest.fixture
def saved(gated):
    """The same, with its baseline; saving it judges no gate that needs it."""
    result = gated.run("evals", "--evals-save-baseline=main")
    assert result.ret == 0
    assert result.parseoutcomes() == {"passed": 7, "wrong": 3, "skipped": 2}
    result.stdout.fnmatch_lines(["*not compared, since this*"])
    return gated


def newest(suite):
    runs = suite.pytester.path.glob(".evals/runs/*")
    path = max(runs, key=lambda path: path.stat().st_mtime_ns)
    return json.loads((path / "results.json").read_text())


def test_a_missing_baseline_is_reported_with_the_command_that_creates_it(gated):
    result = gated.run("evals")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "invalid: unknown baseline 'main', and no folder of a run; a run with "
            "--evals-save-baseline=main makes it"
        ]
    )


def test_a_misspelt_baseline_suggests_the_closest_name(saved):
    saved.task(
        "quiz", gates=[{"metric": "exact_match", "baseline": "mian", "max_drop": 0}]
    )
    result = saved.run("evals")
    result.stdout.fnmatch_lines(["invalid: unknown baseline 'mian'*'main'?*"])


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_change_is_judged_over_the_same_documents(saved, workers):
    path = saved.evals / "quiz.jsonl"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    saved.knows(wrong=[1, 2, 3, 4, 5])
    result = saved.pytester.runpytest(
        "evals", "--model=scripted:answers.jsonl", "--junitxml=j.xml", *workers
    )
    assert result.ret == 1
    found = {gate["id"]: gate for gate in newest(saved)["gates"]}
    point, sure = found["exact_match-vs-main"], found["sure"]
    assert (point["outcome"], sure["outcome"]) == ("failed", "inconclusive")
    change = point["change"]
    assert (change["n"], change["gained"], change["lost"]) == (10, 0, 2)
    assert (change["before"], change["now"]) == (0.7, 0.5)
    assert sorted(point["documents"]) == ["q4", "q5"]
    assert sure["change"]["bar"] == pytest.approx(-0.05 * 0.7)
    assert 0 < sure["p_value"] < 1
    result.stdout.fnmatch_lines(
        [
            "*exact_match 0.500 vs main 0.700: -20.00 is not >= -10.00 points (10 "
            "documents, 0 gained / 2 lost)*",
            "*worse than in main*",
        ]
    )
    xml = (saved.pytester.path / "j.xml").read_text()
    assert '<property name="lost" value="2" />' in xml
    assert '<property name="p_adjusted"' in xml


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"doc_to_text": "Q: {{question}}"}, "the prompt has changed: 10 documents"),
        (
            {"generation_kwargs": {"until": ["#"]}},
            "generation_kwargs is {'until': *} instead of",
        ),
    ],
)
def test_runs_with_other_prompts_are_refused_with_the_difference(
    saved, change, message
):
    gates = [{"metric": "exact_match", "baseline": "main", "max_drop": 0.1}]
    saved.task("quiz", gates=gates, **change)
    result = saved.run("evals")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [f"invalid: baseline 'main' is not comparable: {message}*"]
    )
    again = saved.run("evals", "--evals-save-baseline=main")
    assert again.ret == 0
    assert saved.run("evals").ret == 0


def test_another_limit_is_refused_and_a_partial_run_is_skipped(saved):
    limited = saved.run("evals", "--evals-limit=5")
    limited.stdout.fnmatch_lines(["*5 documents instead of 10 (limit or sample)*"])
    assert limited.ret == 1
    part = saved.run("evals", "-k", "q1 or sure")
    assert part.parseoutcomes()["skipped"] == 1


def test_every_filter_of_a_baseline_is_kept(suite):
    """Of two filters, the second one's values are compared too."""
    filters = [
        {"name": name, "filter": [{"function": "take_first"}]} for name in ("a", "b")
    ]
    gate = {"metric": "exact_match,b", "baseline": "main", "max_drop": 0, "over": "run"}
    suite.task("quiz", filter_list=filters, gates=[gate])
    suite.run("evals", "--evals-save-baseline=main")
    result = suite.run("evals")
    assert result.ret == 0
    assert newest(suite)["gates"][0]["outcome"] == "passed"


@pytest.mark.slow
def test_documents_of_a_passage_form_a_cluster(suite):
    """The cluster comes from the rows, even if workers have them."""
    gate = {"metric": "exact_match", "min": 0.2, "cluster": "passage"}
    suite.task("quiz", gates=[gate])
    rows = [
        {"id": f"q{i}", "question": f"quiz {i}?", "answer": f"a{i}", "passage": i // 2}
        for i in range(10)
    ]
    (suite.evals / "quiz.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    suite.knows(wrong=[0, 1])
    result = suite.pytester.runpytest("evals", "--model=scripted:answers.jsonl", "-n2")
    assert result.ret == 0
    (found,) = newest(suite)["gates"]
    method = "clustered Gaffke, design effect 2.25 over 5 clusters"
    assert found["interval"]["method"] == method


def test_a_missing_cluster_field_is_reported(suite):
    gate = {"metric": "exact_match", "min": 0.2, "cluster": "quesion"}
    suite.task("quiz", gates=[gate])
    result = suite.run("evals")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*no field 'quesion' to cluster by; did you mean 'question'?*"]
    )


@pytest.mark.parametrize(("now", "is_reported"), [("cpu", False), ("cuda:0", True)])
def test_a_baseline_of_another_machine_is_noted(gated, now, is_reported):
    model = """
        import pytest
        from pytest_evals import Response

        class Model:
            name = "model"
            info = {{"device": {device!r}}}

            def answer(self, requests):
                for position in range(len(requests)):
                    yield position, Response(text="a0")

        @pytest.fixture(scope="session")
        def eval_model():
            return Model()
    """
    gated.pytester.makeconftest(model.format(device="cpu"))
    assert gated.run("evals", "--evals-save-baseline=main", model=None).ret == 0
    gated.pytester.makeconftest(model.format(device=now))
    result = gated.run("evals", model=None)
    is_shown = "device: 'cuda:0' (baseline: 'cpu')" in result.stdout.str()
    assert is_shown == is_reported
    assert "device is" not in result.stdout.str() or is_reported


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"max_rise": 0.1}, "higher is better for exact_match: use max_drop"),
    ],
)
def test_invalid_baseline_gates_are_errors_before_the_run(suite, keys, message):
    gate = {"metric": "exact_match", "baseline": "main", **keys}
    suite.task("quiz", gates=[gate])
    result = suite.run("evals", "--evals-validate", model=None)
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"*{message}*"])


def test_a_missing_baseline_is_a_warning_before_the_first_request(suite):
    gates = [{"metric": "exact_match", "baseline": "main", "max_drop": 0.3}]
    suite.task("quiz", gates=gates)
    result = suite.run("evals", "--collect-only", model=None)
    result.stdout.fnmatch_lines(
        [
            "evals: warning: quiz::exact_match-vs-main: it will be invalid: unknown "
            "baseline 'main', and no folder of a run; a run with "
            "--evals-save-baseline=main makes it"
        ]
    )
    result = suite.run(
        "evals", "--collect-only", "--evals-save-baseline=main", model=None
    )
    result.stdout.no_fnmatch_line("*it will be invalid*")


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_sample_with_a_complete_baseline_is_judged_for_the_whole_benchmark(
    suite, workers
):
    """Nothing changes, so the number of all documents is the baseline's, 7 of 10,
    whichever 5 are drawn. Of 5 documents known to be unchanged, the other 5 may change
    as the hypergeometric distribution allows."""
    floor = {"metric": "exact_match", "min": 0.65, "id": "floor"}
    drop = {"metric": "exact_match", "baseline": "main", "max_drop": 0.9, "over": "run"}
    suite.task("quiz", gates=[floor, drop])
    suite.knows(wrong=[1, 2, 3])
    assert suite.run("evals", "--evals-save-baseline=main").ret == 0
    sampled = suite.run("evals", "--evals-sample=5", *workers)
    sampled.stdout.fnmatch_lines(
        ["*5 documents asked, 5 from the knowledge of main*"], consecutive=False
    )
    found = {gate["id"]: gate for gate in newest(suite)["gates"]}
    assert found["floor"]["value"] == pytest.approx(0.7)
    assert found["floor"]["outcome"] == "inconclusive"
    assert found["exact_match-vs-main"]["outcome"] == "passed"


def test_another_limit_than_the_baselines_is_refused(saved):
    result = saved.run("evals", "--evals-limit=5")
    result.stdout.fnmatch_lines(["*5 documents instead of 10 (limit or sample)*"])
