"""Task classes of lm-eval in whole runs."""

from __future__ import annotations

import json
import shutil

import pytest

pytestmark = pytest.mark.slow  # each run imports datasets

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


WITHOUT_LM_EVAL = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "lm_eval":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
"""


@pytest.fixture(params=["without", "with"])
def quiz(suite, request):
    """Where lm-eval is not installed, and where it is."""
    if request.param == "without":
        suite.pytester.makeconftest(WITHOUT_LM_EVAL)
    (suite.evals / "task.py").write_text(CLASS)
    path = suite.evals / "quiz.yaml"
    path.write_text("task: quiz\nclass: !function task.Quiz\ngates: [right >= 0.5]\n")
    answers = [{"prompt": f"quiz {i}? again", "text": f"a{i % 6}"} for i in range(8)]
    text = "".join(json.dumps(answer) + "\n" for answer in answers)
    (suite.pytester.path / "answers.jsonl").write_text(text)
    return suite


def run(suite, *arguments):
    """Outcomes, results and samples of a run in a process of its own: lm-eval is not to
    be imported twice."""
    shutil.rmtree(suite.pytester.path / ".evals", ignore_errors=True)
    model = "--model=scripted:answers.jsonl"
    found = suite.pytester.runpytest_subprocess(model, *arguments)
    results = {k: v for k, v in suite.results().items() if k not in VARYING}
    return found.parseoutcomes(), results, suite.samples("quiz")


def test_numbers_and_prompts_are_the_same_for_any_number_of_workers(quiz):
    alone = run(quiz, "evals")
    assert alone[0] == {"passed": 7, "wrong": 2}
    assert run(quiz, "evals", "-n2") == alone


@pytest.mark.parametrize("quiz", ["without"], indirect=True)
def test_collecting_makes_no_requests_and_a_selected_document_only_its_own(quiz):
    quiz.pytester.runpytest_subprocess("--collect-only", "evals")
    made = quiz.pytester.path / "made.txt"
    assert not made.exists()
    _, _, (sample,) = run(quiz, "evals/quiz.yaml::quiz[q4]")
    assert made.read_text() == "MADE q4\n"
    _, _, samples = run(quiz, "evals")
    assert sample == next(each for each in samples if each["doc_id"] == 4)
