"""Each hook and fixture, used in a user's conftest.py."""

from __future__ import annotations

import pytest


def test_eval_model_may_be_overridden_for_the_session_and_for_one_folder(suite):
    suite.pytester.makeconftest(MODEL.format(name="outer", text="a1"))
    inner = suite.evals / "inner"
    inner.mkdir()
    (inner / "conftest.py").write_text(MODEL.format(name="inner", text="a2"))
    path = suite.task("zoo")
    path.rename(inner / "zoo.yaml")
    (suite.evals / "zoo.jsonl").rename(inner / "zoo.jsonl")
    result = suite.run("evals", "-v", model=None)
    result.stdout.fnmatch_lines(
        [
            "evals/quiz.yaml::quiz[[]q1[]] PASSED *",
            "evals/quiz.yaml::quiz[[]q2[]] WRONG *",
        ]
    )
    result.stdout.fnmatch_lines(
        [
            "evals/inner/zoo.yaml::zoo[[]q1[]] WRONG *",
            "evals/inner/zoo.yaml::zoo[[]q2[]] PASSED *",
        ]
    )
    assert result.parseoutcomes() == {"passed": 2, "wrong": 18}


MODEL = """
import pytest
from pytest_evals import Response

class Parrot:
    name = "{name}"

    def answer(self, requests):
        for position, _ in enumerate(requests):
            yield position, Response(text="{text}")

@pytest.fixture(scope="session")
def eval_model():
    return Parrot()
"""


def test_registered_metrics_have_names_in_task_files(suite):
    """By a hook, and by an entry point of an installed package."""
    suite.pytester.makeconftest(
        """
        def starts_with_a(doc, response):
            return float(response.text[0].startswith("a"))

        def pytest_evals_register_metrics(config):
            return {"starts_with_a": starts_with_a}
        """
    )
    info = suite.pytester.mkdir("own-1.0.dist-info")
    (info / "METADATA").write_text("Name: own\nVersion: 1.0\n")
    lines = "[pytest_evals.metrics]\nanswer_length = own_metric:answer_length\n"
    (info / "entry_points.txt").write_text(lines)
    suite.pytester.makepyfile(
        own_metric="""
        def answer_length(doc, response):
            return len(response.text[0])
        """
    )
    suite.pytester.syspathinsert()
    names = ("starts_with_a", "answer_length")
    metrics = [{"metric": name} for name in names]
    suite.task("quiz", metric_list=metrics)
    suite.run("evals").stdout.fnmatch_lines(
        ["quiz * starts_with_a *1.000*", "* answer_length *2.000*"]
    )


def test_load_tasks_reads_another_dialect(suite):
    suite.pytester.makeconftest(
        """
        from pytest_evals import Asked, Doc, Estimate, Generate, Metric
        from pytest_evals import Place, Score, Task

        class Rows:
            def __init__(self, lines): self.lines = lines
            def ids(self): return [str(i) for i, _ in enumerate(self.lines)]
            def indices(self): return range(len(self.lines))
            def total(self): return len(self.lines)

        def pytest_evals_load_tasks(path, config):
            if path.suffix != ".quiz":
                return None
            lines = [line.split("=") for line in path.read_text().split()]

            def ask(index):
                question, answer = lines[index]
                doc = Doc(question, [answer], 0, id=str(index), row={"q": question})
                return Asked(doc, (Generate(question),))

            def score(record):
                right = record.responses[0].text == record.doc.choices[0]
                return (Score(metric="right", value=float(right), correct=right),)

            mean = lambda values: Estimate(sum(values) / len(values))
            return [
                Task(
                    name=path.stem,
                    source=Place(path, 1),
                    rows=Rows(lines),
                    ask=ask,
                    score=score,
                    metrics=(Metric(name="right", aggregate=mean),),
                )
            ]
        """
    )
    (suite.evals / "sums.quiz").write_text("1+1=2 2+2=5")
    (suite.pytester.path / "sums.json").write_text('{"1+1": "2", "2+2": "4"}')
    result = suite.run("evals/sums.quiz", model="scripted:sums.json")
    assert result.parseoutcomes() == {"passed": 1, "wrong": 1}


@pytest.mark.parametrize("arguments", [[], ["-n2"]])
def test_notes_of_a_model_are_shown_once_below_the_table(suite, arguments):
    suite.pytester.makeconftest(
        """
        import pytest
        from pytest_evals import Response

        class Noting:
            name = "noting"
            notes = ()

            def answer(self, requests):
                self.notes = ("these numbers are odd",)
                for position, _ in enumerate(requests):
                    yield position, Response(text="a1")

        @pytest.fixture(scope="session")
        def eval_model():
            return Noting()
        """
    )
    result = suite.run("evals", *arguments, model=None)
    assert result.stdout.str().count("warning: these numbers are odd") == 1


def test_open_model_adds_a_kind(suite):
    suite.pytester.makeconftest(
        MODEL.format(name="x", text="a1").partition("@pytest")[0]
        + "def pytest_evals_open_model(spec, config):\n"
        "    if spec.startswith('parrot:'):\n"
        "        return Parrot()\n"
    )
    result = suite.run("evals", model="parrot:polly")
    assert result.parseoutcomes() == {"passed": 1, "wrong": 9}
    assert suite.run("evals").parseoutcomes() == {"passed": 10}


def test_the_requests_hook_can_change_the_batch(suite):
    suite.pytester.makeconftest(
        """
        from dataclasses import replace

        def pytest_evals_requests(task, records):
            assert task.name == "quiz" and len(records) == 10
            first = records[0].requests
            return [replace(record, requests=first) for record in records]
        """
    )
    result = suite.run("evals")
    assert result.parseoutcomes() == {"passed": 1, "wrong": 9}
    assert {s["arguments"]["gen_args_0"]["arg_0"] for s in suite.samples()} == {
        "quiz 0?"
    }


def test_a_document_omitted_by_the_requests_hook_is_an_error(suite):
    suite.pytester.makeconftest(
        "def pytest_evals_requests(task, records): return records[1:]"
    )
    result = suite.run("evals")
    assert result.parseoutcomes() == {"passed": 9, "errors": 1}
    result.stdout.fnmatch_lines(["*pytest_evals_requests did not return this document"])


def test_score_replaces_the_scorer_of_a_task(suite):
    suite.task("zoo")
    suite.knows(tasks=["quiz", "zoo"])
    suite.pytester.makeconftest(
        """
        from pytest_evals import DocumentError, Score

        def pytest_evals_score(record, task):
            if task.name != "quiz":
                return None
            if record.doc.id == "q9":
                raise DocumentError("q9 is for nobody")
            even = int(record.doc.id[1:]) % 2 == 0
            return [Score(metric="even", value=float(even), correct=even)]
        """
    )
    result = suite.run("evals")
    assert result.parseoutcomes() == {"passed": 15, "wrong": 4, "errors": 1}
    result.stdout.fnmatch_lines(
        ["ERROR *quiz[[]q9[]] - pytest_evals_score: q9 is for nobody"]
    )
    quiz = suite.results()["results"]["quiz"]
    assert quiz["even,none"] == 5 / 9
    assert "exact_match,none" not in quiz


def test_score_that_raises_is_an_error_of_its_document_and_counts_for_gates(suite):
    suite.task("quiz", gates=["exact_match >= 0.95"])
    suite.pytester.makeconftest(
        """
        def pytest_evals_score(record, task):
            if record.doc.id == "q5":
                return {}["nothing"]
        """
    )
    result = suite.run("evals")
    assert result.parseoutcomes() == {"passed": 9, "errors": 1, "failed": 1}
    result.stdout.fnmatch_lines(
        [
            "pytest_evals_score: KeyError: 'nothing' (conftest.py:3)",
        ]
    )
    assert suite.results()["gates"][0]["outcome"] == "invalid"


def test_the_metrics_hook_adds_numbers_to_table_results_and_gates(suite):
    suite.pytester.makeconftest(
        """
        def pytest_evals_metrics(task, records):
            lengths = [len(record.responses[0].text) for record in records]
            return {"mean_length": sum(lengths) / len(lengths)}
        """
    )
    suite.task("quiz", gates=["mean_length <= 3"])
    result = suite.run("evals")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*mean_length * 2.000 *<= 3 *passed*"])
    assert suite.results()["results"]["quiz"]["mean_length,none"] == 2.0


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_metrics_hooks_of_a_conftest_below_the_rootdir_apply(suite, workers):
    """This holds with workers too, though their controller collects nothing."""
    deep = suite.evals / "deep" / "er"
    deep.mkdir(parents=True)
    suite.task("quiz", gates=["n_asked >= 10"])
    for path in (*suite.evals.glob("quiz.*"),):
        path.rename(deep / path.name)
    (deep / "conftest.py").write_text(
        "def pytest_evals_metrics(task, records):\n"
        "    return {'n_asked': float(sum(bool(r.responses) for r in records))}\n"
    )
    result = suite.pytester.runpytest("evals", *workers, "--model=scripted:first")
    result.stdout.fnmatch_lines(["*n_asked * 10.000 *>= 10 *passed*"])


def test_result_hooks_are_called_last_and_with_changes(suite):
    """As in ``evaluate()``; a failing hook does not lose other data."""
    suite.task("quiz")
    assert suite.run("evals", "--evals-save-baseline=main").ret == 0
    suite.pytester.makeconftest(
        """
        from pathlib import Path

        def pytest_evals_result(result):
            found = result.comparison
            print("REPORTED", found.name, found.metrics[0].now, Path("r.html").exists())
            raise RuntimeError("the tracker is down")
        """
    )
    result = suite.run("evals", "-s", "--evals-compare=main", "--evals-html=r.html")
    result.stdout.fnmatch_lines(
        [
            "*REPORTED main 1.0 True",
            "*= compared with main =*",
            "pytest_evals_result: RuntimeError: the tracker is down",
            "*10 passed*",
        ]
    )
    assert result.ret == 1


def test_the_result_hook_is_called_with_the_result(suite):
    suite.pytester.makeconftest(
        """
        def pytest_evals_result(result):
            (task,) = result.tasks
            (metric,) = task.metrics
            print(f"REPORTED {task.task.name} {metric.key} {metric.estimate.value}")
        """
    )
    result = suite.run("evals", "-s")
    result.stdout.fnmatch_lines(["*REPORTED quiz exact_match,none 1.0"])
