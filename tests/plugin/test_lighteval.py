"""Task modules of lighteval, collected and run by pytest."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.guests

TABLE = """
TASKS_TABLE = [
    LightevalTaskConfig(
        name=name,
        prompt_function=prompt,
        hf_repo="json",
        hf_subset="default",
        hf_data_files={"test": "numbers.jsonl"},
        hf_avail_splits=["test"],
        evaluation_splits=["test"],
        metrics=METRICS,
        generation_size=3,
    )
    for name in NAMES
]
"""
"""The end of each module: tasks of these names, over the same numbers."""

MODULE = """
from lighteval.metrics.metrics import Metrics
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc


def prompt(line, task_name):
    return Doc(f"{line['n']}?", [" odd", " even"], int(line["n"] % 2 == 0))


NAMES, METRICS = ("parity:a", "parity:b", "other"), [Metrics.exact_match]
"""


@pytest.fixture
def evals(pytester):
    """A folder with a module, its data, and a reasoning model with one wrong answer."""
    folder = pytester.mkdir("evals")
    (folder / "parity_eval.py").write_text(MODULE + TABLE)
    lines = "".join(json.dumps({"n": n}) + "\n" for n in range(4))
    (folder / "numbers.jsonl").write_text(lines)
    gates = "gates:\n  - parity:a/em >= 0.5\n  - {task: parity, metric: em, max: 0.5}\n"
    (folder / "gates.yaml").write_text(gates)
    answers = {
        f"{n}?": "<think>odd</think>" + ["even", "odd"][n % 2] for n in (0, 1, 2)
    }
    (pytester.path / "model.json").write_text(json.dumps({**answers, "3?": "even"}))
    pytester.makeini("[pytest]\n")
    return pytester


RUN = ("--model=scripted:model.json", "-p", "no:cacheprovider")


def results(pytester):
    runs = sorted((pytester.path / ".evals" / "runs").iterdir())
    return json.loads((runs[-1] / "results.json").read_text())["results"]


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_a_folder_is_collected_with_its_gates_and_families(evals, workers):
    run = evals.runpytest_inprocess("evals", *RUN, *workers)
    # 12 documents, of which 3 are wrong; one gate passes and the other fails
    assert run.parseoutcomes() == {"passed": 10, "wrong": 3, "failed": 1}
    found = results(evals)
    assert found["parity:a"]["em,none"] == 0.75
    assert found["parity"]["em,none"] == 0.75
    run.stdout.fnmatch_lines(["*FAILED evals/parity_eval.py::parity::*"])


def test_only_named_and_matching_modules_are_read(evals):
    (evals.path / "evals" / "my_tasks.py").write_text(f"assert 0\n{MODULE}{TABLE}")
    (evals.path / "evals" / "test_table.py").write_text(
        "TASKS_TABLE = []\ndef test_it(): pass\n"
    )
    run = evals.runpytest_inprocess("evals", "--collect-only", "-q")
    assert "parity_eval.py::other[0]" in run.stdout.str()
    assert "test_table.py::test_it" in run.stdout.str()
    assert "my_tasks" not in run.stdout.str() and run.ret == 0
    run = evals.runpytest_inprocess("evals/my_tasks.py", "--collect-only", "-q")
    run.stdout.fnmatch_lines(
        ["evals/my_tasks.py: importing it failed: Assertion*py:1)"]
    )
    run = evals.runpytest_inprocess(
        "evals", "--collect-only", "-q", "--evals-python-files=nothing.py"
    )
    assert "parity" not in run.stdout.str()


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["evals/parity_eval.py::other"], 4),
        (["evals/parity_eval.py::other[2]", "evals/parity_eval.py::parity:b[1]"], 2),
        (["evals", "--evals-tasks=suite|other|1,parity:b|0", "--evals-limit=2"], 4),
        (["evals", "--evals-tasks=selected.txt"], 4),
        (["evals", "-m", "parity", "--evals-sample=1"], 2),
    ],
)
def test_tasks_and_documents_are_selected(evals, arguments, passed):
    (evals.path / "selected.txt").write_text("other|0  # all of them\n# parity\n")
    (evals.path / "evals" / "gates.yaml").unlink()
    run = evals.runpytest_inprocess(*arguments, "--collect-only", "-q")
    lines = [line for line in run.stdout.lines if line.startswith("evals/")]
    assert len(lines) == passed, run.stdout.str()


def test_invalid_names_and_numbers_are_refused(evals):
    run = evals.runpytest_inprocess("evals", "--evals-tasks=othr|2", *RUN)
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(
        ["*unknown task, group or tag 'othr'; did you mean 'other'?"]
    )
    run = evals.runpytest_inprocess("evals", "--evals-tasks=other|two", *RUN)
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["*must be an integer, not 'two'*"])


def test_num_fewshot_applies_to_task_files_of_other_dialects(suite):
    suite.task("sums", training_split="test", metric_list=[{"metric": "exact_match"}])
    run = suite.run("evals", "--evals-tasks=sums|2", "--evals-write-out=1", model="")
    text = run.stdout.str()
    assert text.count("sums 0?") + text.count("sums 1?") >= 1 and "a" in text
    run = suite.run("evals", "--evals-tasks=sums|2,sums|3", "--collect-only", model="")
    run.stdout.fnmatch_lines(["*--evals-tasks selects this task as '|2', '|3'"])


JUDGED = """
from lighteval.metrics.metrics import Metrics
from lighteval.metrics.metrics_sample import JudgeLLM
from lighteval.metrics.utils.metric_utils import SampleLevelMetric, SamplingMethod
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc


def template(question, options, answer, gold):
    return [{"role": "user", "content": f"{answer} for {gold}?"}]


def read(reply):
    return {"yes": 1.0, "no": 0.0}.get(reply)


def prompt(line, task_name):
    return Doc(f"{line['n']}?", [["even", "odd"][line["n"] % 2]], 0)


fits = SampleLevelMetric(
    metric_name="fits",
    higher_is_better=True,
    category=SamplingMethod.GENERATIVE,
    sample_level_fn=JudgeLLM("gpt-4o", template, read, "openai"),
    corpus_level_fn=max,
    batched_compute=True,
)
NAMES, METRICS = ["judged"], [fits, Metrics.exact_match]
"""


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_judges_of_a_module_use_the_sessions_judge(evals, workers):
    (evals.path / "evals" / "judged.py").write_text(JUDGED + TABLE)
    (evals.path / "evals" / "gates.yaml").unlink()
    replies = {"even for even?": "yes", "odd for odd?": "yes", "even for odd?": "hm"}
    (evals.path / "judge.json").write_text(json.dumps(replies))
    judge = "--evals-judge=scripted:judge.json"
    run = evals.runpytest_inprocess("evals/judged.py", judge, *RUN, *workers)
    # The judge's reply about the third odd number cannot be read.
    assert run.parseoutcomes() == {"passed": 3, "errors": 1}
    found = results(evals)["judged"]
    assert found["fits,none"] == 1.0 and found["em,none"] == 0.75


TALK = """
from lighteval.metrics.metrics_sample import JudgeLLMMTBench
from lighteval.metrics.utils.metric_utils import (
    SampleLevelMetricGrouping, SamplingMethod
)
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc


def prompt(line, task_name):
    turns = [f"{line['n']}?", "And twice that?"]
    return Doc(turns[0], [], 0, specific={"multi_turn_queries": turns})


names = ["judge_score_turn_1", "judge_score_turn_2"]
talked = SampleLevelMetricGrouping(
    names, dict.fromkeys(names, True), SamplingMethod.GENERATIVE,
    JudgeLLMMTBench(), dict.fromkeys(names, max),
)
NAMES, METRICS = ["talk"], [talked]
"""
MODELS = """
import pytest
from pytest_evals import Response

class Model:
    name = "model"

    def answer(self, requests):
        for position, request in enumerate(requests):
            given = request.prompt
            n = 1 if isinstance(given, str) else len(given)
            yield position, Response(text=f"after {n}")

class Judge:
    name = "judge"

    def answer(self, requests):
        for position, request in enumerate(requests):
            text = request.prompt[-1].content
            second = "Assistant: after 1" in text and "after 3" in text
            yield position, Response(text=f"<score> {9 if second else 4} </score>")

@pytest.fixture(scope="session")
def eval_model():
    return Model()

@pytest.fixture(scope="session")
def eval_judge():
    return Judge()
"""


def test_a_dialogue_continues_before_it_is_judged(evals):
    (evals.path / "evals" / "talk.py").write_text(TALK + TABLE)
    (evals.path / "evals" / "gates.yaml").unlink()
    evals.makeconftest(MODELS)
    run = evals.runpytest_inprocess("evals/talk.py", *RUN[1:])
    assert run.parseoutcomes() == {"passed": 4}, run.stdout.str()
    found = results(evals)["talk"]
    assert found["judge_score_turn_1,none"] == 4
    assert found["judge_score_turn_2,none"] == 9


def test_a_missing_judge_is_refused_before_the_first_request(evals):
    (evals.path / "evals" / "judged.py").write_text(JUDGED + TABLE)
    (evals.path / "evals" / "gates.yaml").unlink()
    run = evals.runpytest_inprocess("evals/judged.py", *RUN)
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["*judged.py:31) needs a judge: no judge is set*"])
    run = evals.runpytest_inprocess("evals/judged.py", "--evals-validate")
    run.stdout.fnmatch_lines(["1 checked: 1 ok*"])


def test_task_files_of_other_dialects_use_judges(suite):
    suite.task("quiz", metric_list=[{"metric": "lighteval:simpleqa_judge"}])
    (suite.pytester.path / "judge.py").write_text("")
    suite.pytester.makeconftest(
        """
        import pytest
        from pytest_evals import Response

        class Judge:
            name = "judge"

            def answer(self, requests):
                for position, request in enumerate(requests):
                    text = request.prompt[-1].content
                    right = "Gold target: a1\\nAnswer: a1" in text
                    yield position, Response(text="A" if right else "B")

        @pytest.fixture(scope="session")
        def eval_judge():
            return Judge()
        """
    )
    run = suite.run("evals", "--evals-limit=3")
    assert run.parseoutcomes() == {"passed": 1, "wrong": 2}, run.stdout.str()
    assert suite.results()["results"]["quiz"]["simpleqa_judge,none"] == 1 / 3


AVERAGED = """
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import SampleLevelMetric, SamplingMethod
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc


class Right(SampleLevelComputation):
    def compute(self, doc, model_response, **more):
        return model_response.final_text[0] in doc.get_golds()


class Long(SampleLevelComputation):
    def compute(self, doc, model_response, **more):
        return 10 + len(model_response.final_text[0])


def metric(name, measure, average):
    return SampleLevelMetric(name, True, SamplingMethod.GENERATIVE, measure, average)


def prompt(line, task_name):
    return Doc(f"{line['n']}?", [["even", "odd"][line["n"] % 2]], 0)


NAMES, METRICS = ["quiz"], [metric("share", Right(), lambda xs: sum(xs) / len(xs))]
if MANY:
    NAMES, METRICS = ["quiz"], [metric("percent", Right(), lambda xs: 25 * sum(xs))]
if LONG:
    NAMES, METRICS = ["quiz"], [metric("length", Long(), lambda xs: max(xs) - min(xs))]
"""
"""A metric whose average is a custom function; with MANY and LONG another one."""


@pytest.mark.slow
def test_results_have_the_average_over_all_tasks_next_to_the_tasks(evals):
    """lighteval's ``all``: each task that has a metric has the same weight."""
    text = MODULE.replace('"other")', '"other", "word")') + TABLE
    text += "TASKS_TABLE[-1].metrics = [Metrics.f1_score]\n"
    (evals.path / "evals" / "parity_eval.py").write_text(text)
    # one document of three tasks is wrong; of one task with another metric, too
    evals.runpytest_inprocess("evals", *RUN)
    found = results(evals)
    assert found["all"]["em,none"] == 0.75 and found["all"]["sample_len"] == 16
    # each standard error is a quarter; of a mean of three, 1/4 over the root of 3
    assert found["all"]["em_stderr,none"] == pytest.approx(0.25 / 3**0.5)
    assert found["all"]["f1,none"] == 0.75
    run = evals.runpytest_inprocess("evals", *RUN)
    assert not [line for line in run.stdout.lines if line.startswith("all ")]


def test_a_task_called_all_keeps_its_name(evals):
    text = MODULE.replace('"other")', '"all")') + TABLE
    (evals.path / "evals" / "parity_eval.py").write_text(text)
    evals.runpytest_inprocess("evals", *RUN, "--evals-limit=1")
    assert results(evals)["all"]["sample_len"] == 1


@pytest.mark.parametrize(
    ("tags", "value"),
    [
        ("off", 0.0),
        ("[]", 0.0),
        ("[('<a>', '</a>')]", 0.0),
        ("[('<a>', '</a>'), ('<think>', '</think>')]", 0.75),
        ('[["<think>", "</think>"]]', 0.75),
    ],
)
def test_the_reasoning_tags_option_removes_reasoning(evals, tags, value):
    (evals.path / "evals" / "gates.yaml").unlink()
    words = enumerate(["even", "odd", "even", "even"])
    answers = {f"{n}?": f"<think>odd</think>{word}" for n, word in words}
    (evals.path / "model.json").write_text(json.dumps(answers))
    run = evals.runpytest_inprocess("evals", *RUN, f"--evals-reasoning-tags={tags}")
    assert results(evals)["other"]["em,none"] == value, run.stdout.str()


@pytest.mark.parametrize("tags", ["<think>", "[('<a>',)]", "[('', '')]", "3", "[3]"])
def test_reasoning_tags_that_are_not_pairs_are_refused(evals, tags):
    run = evals.runpytest_inprocess("evals", *RUN, f"--evals-reasoning-tags={tags}")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    what = "off, or pairs such as [('<think>', '</think>')], are expected"
    assert f"--evals-reasoning-tags={tags}: {what}" in run.stderr.str()


def averaged(pytester, many=False, long=False):
    text = AVERAGED.replace("MANY", str(many)).replace("LONG", str(long))
    (pytester.path / "evals" / "parity_eval.py").write_text(text + TABLE)
    (pytester.path / "evals" / "gates.yaml").unlink()


def test_correct_and_wrong_do_not_depend_on_the_aggregation(evals):
    averaged(evals)
    run = evals.runpytest_inprocess("evals", *RUN, "-v")
    # 3 of 4, Clopper-Pearson: the 5% quantile of Beta(3, 2), and 0.95 ** (1 / 4).
    run.stdout.fnmatch_lines(["*quiz*share*0.750*90% CI [[]0.249, 0.987[]]*"])
    run.stdout.fnmatch_lines(["*3 correct, 1 wrong*"])
    assert "quiz[3] WRONG" in run.stdout.str()
    # the standard deviation of 1, 1, 1, 0 is a half, and the root of 4 is 2
    assert results(evals)["quiz"]["share_stderr,none"] == 0.25


def test_a_metric_that_is_not_a_mean_has_correct_and_wrong_documents(evals):
    averaged(evals, many=True)
    run = evals.runpytest_inprocess("evals", *RUN)
    assert run.parseoutcomes() == {"passed": 3, "wrong": 1}
    found = results(evals)["quiz"]
    assert found["percent,none"] == 75 and found["percent_stderr,none"] > 0


def test_the_report_explains_why_no_document_is_correct_or_wrong(evals):
    averaged(evals, long=True)
    run = evals.runpytest_inprocess("evals", *RUN)
    assert run.parseoutcomes() == {"passed": 4}
    what = "quiz: length,none: no document is correct or wrong: no value is 0 or 1"
    run.stdout.fnmatch_lines([what])
