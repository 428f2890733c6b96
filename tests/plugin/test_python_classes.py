"""Task classes of lm-eval in whole runs."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

CLASS = """
import datasets
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask

class Quiz(ConfigurableTask):
    def __init__(self, config=None):
        keys = {"training_split": "train", "test_split": "test", "num_fewshot": 2}
        super().__init__(config=keys)
    def download(self, *args, **kwargs):
        rows = [{"id": f"q{i}", "said": [f"quiz {i}?"], "a": f"a{i}"} for i in range(8)]
        self.dataset = {"train": rows[5:], "test": datasets.Dataset.from_list(rows)}
    def doc_to_text(self, doc, doc_to_text=None):
        doc["said"].append("again")  # a row of the pool that remembers its readers
        return " ".join(doc["said"])
    def doc_to_target(self, doc, doc_to_target=None):
        return doc["a"]
    def construct_requests(self, doc, ctx, metadata, **kwargs):
        print(f"MADE {doc['id']}", file=open("made.txt", "a"))
        arguments = (ctx, {"until": ["\\n"]})
        return [Instance("generate_until", doc, arguments, 0, metadata)]
    def process_results(self, doc, results):
        return {"right": float(results[0] == doc["a"])}
    def aggregation(self):
        return {"right": mean}
    def higher_is_better(self):
        return {"right": True}
"""
VARYING = ("date", "total_evaluation_time_seconds", "model_seconds", "options")


@pytest.fixture
def quiz(suite, without_lm_eval, monkeypatch):
    """A task whose class is lm-eval's, without lm-eval installed."""
    suite.pytester.makeconftest(without_lm_eval)
    for name in [n for n in sys.modules if n.partition(".")[0] == "lm_eval"]:
        monkeypatch.delitem(sys.modules, name)
    (suite.evals / "task.py").write_text(CLASS)
    path = suite.evals / "quiz.yaml"
    path.write_text("task: quiz\nclass: !function task.Quiz\ngates: [right >= 0.5]\n")
    answers = [{"prompt": f"quiz {i}? again", "text": f"a{i % 6}"} for i in range(8)]
    text = "".join(json.dumps(answer) + "\n" for answer in answers)
    (suite.pytester.path / "answers.jsonl").write_text(text)
    return suite


def run(suite, *arguments, apart=False):
    """Outcomes, results and samples of a run, in a separate process if requested."""
    shutil.rmtree(suite.pytester.path / ".evals", ignore_errors=True)
    runs = suite.pytester.runpytest_subprocess if apart else suite.pytester.runpytest
    found = runs("--model=scripted:answers.jsonl", *arguments)
    results = {k: v for k, v in suite.results().items() if k not in VARYING}
    return found.parseoutcomes(), results, suite.samples("quiz")


@pytest.mark.nightly
def test_numbers_and_prompts_are_the_same_with_workers_and_with_lm_eval(quiz):
    """Each in a separate process, since lm-eval must not be imported twice."""
    alone = run(quiz, "evals", apart=True)
    assert alone[0] == {"passed": 7, "wrong": 2}
    assert run(quiz, "evals", "-n2", apart=True) == alone
    quiz.pytester.makeconftest("import lm_eval.api.task")
    assert run(quiz, "evals", apart=True) == alone


def test_collecting_makes_no_requests_and_a_selected_document_only_its_own(quiz):
    quiz.pytester.runpytest("--collect-only", "evals")
    made = quiz.pytester.path / "made.txt"
    assert not made.exists()
    _, _, (sample,) = run(quiz, "evals/quiz.yaml::quiz[q4]")
    assert made.read_text() == "MADE q4\n"
    _, _, samples = run(quiz, "evals")
    assert sample == next(each for each in samples if each["doc_id"] == 4)
