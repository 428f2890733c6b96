"""Multiple choice by generation: ``--evals-choices=generate``."""

from __future__ import annotations

import json

import pytest

CITIES = ["London", "Paris", "Rome"]
ROWS = [
    {"id": "fr", "q": "Capital of France?", "c": CITIES, "a": "Paris"},
    {"id": "it", "q": "Capital of Italy?", "c": CITIES, "a": "Rome"},
    {"id": "uk", "q": "Capital of England?", "c": CITIES, "a": "London"},
]
SHOT = {
    "id": "es",
    "q": "Capital of Spain?",
    "c": ["Lisbon", "Madrid", "Rome"],
    "a": "Madrid",
}
DATA = """
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl, train: train.jsonl}}
test_split: test
output_type: multiple_choice
"""
QUIZ = f"""
task: quiz
{DATA}
fewshot_split: train
num_fewshot: 1
doc_to_text: "{{{{q}}}}\\nAnswer:"
doc_to_choice: "{{{{c}}}}"
doc_to_target: "{{{{a}}}}"
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""
LETTERS = f"""
task: letters
{DATA}
doc_to_text: "{{{{q}}}}\\nA. {{{{c[0]}}}}\\nB. {{{{c[1]}}}}\\nC. {{{{c[2]}}}}\\nAnswer:"
doc_to_choice: [A, B, C]
doc_to_target: "{{{{c.index(a)}}}}"
metric_list: [{{metric: acc}}]
"""
ANSWERS = [
    {"regex": "France[^#]*$", "text": "<think>London? No.</think>\n(B)"},
    {"regex": "Italy[^#]*$", "text": "A or C"},
    {"text": "The answer is London."},
]
GROUP = """
group: all
task: [quiz, letters]
aggregate_metric_list:
  - {metric: acc, filter_list: none}
  - {metric: acc_norm, filter_list: none}
"""
GENERATE = "--evals-choices=generate"


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def quiz(pytester):
    pytester.makeini("[pytest]\n")
    files = {"rows.jsonl": lines(ROWS), "train.jsonl": lines([SHOT])}
    files |= {"quiz.yaml": QUIZ, "letters.yaml": LETTERS, "m.jsonl": lines(ANSWERS)}
    for name, text in files.items():
        (pytester.path / name).write_text(text)

    def run(*arguments, model="--model=scripted:m.jsonl"):
        return pytester.runpytest_inprocess(*arguments, *([model] if model else []))

    pytester.evals = run
    return pytester


def results(pytester):
    *_, last = sorted((pytester.path / ".evals" / "runs").iterdir())
    return json.loads((last / "results.json").read_text())


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_choices_are_answered_by_letter_or_text(quiz, workers):
    run = quiz.evals("quiz.yaml", "letters.yaml", GENERATE, *workers)
    assert run.parseoutcomes() == {"passed": 4, "wrong": 2}
    run.stdout.fnmatch_lines(["*quiz: * answered by generation, without acc_norm*"])
    for task in ("quiz", "letters"):
        found = results(quiz)["results"][task]
        assert found["acc,generate"] == pytest.approx(2 / 3)
        assert found["unparsable,generate"] == pytest.approx(1 / 3)
        assert "acc,none" not in found and "acc_norm,generate" not in found


def test_prompts_list_choices_once_and_examples_alike(quiz):
    run = quiz.evals("quiz.yaml", "letters.yaml", GENERATE, "--evals-write-out=1")
    text = run.stdout.str()
    assert text.count("A. London") == 2 and text.count("B. Madrid") == 1
    run.stdout.fnmatch_lines(["*Answer: B⏎", "*Capital of France?⏎", "*Answer:│"])


def test_unparsable_answers_can_be_gated(quiz):
    gate = "--evals-gate=quiz/unparsable <= 10%"
    run = quiz.evals("quiz.yaml", GENERATE, gate)
    assert run.parseoutcomes() == {"passed": 2, "wrong": 1, "failed": 1}
    run.stdout.fnmatch_lines(
        [
            "E * 1 document fewer would have passed.",
            "*unparsable: the answer names several choices: A, C",
        ]
    )
    assert "whitespace" not in run.stdout.str()


def test_a_baseline_of_the_other_kind_is_refused(quiz):
    assert quiz.evals("quiz.yaml", "--evals-save-baseline=main").ret == 0
    run = quiz.evals("quiz.yaml", GENERATE, "--evals-compare=main")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["*choices is 'generate' instead of None*"])
    path = quiz.path / "quiz.yaml"
    gate = "{metric: acc, baseline: main, max_drop: 0.5}"
    path.write_text(f"{QUIZ}gates: [{gate}]\n")
    run = quiz.evals("quiz.yaml", GENERATE)
    run.stdout.fnmatch_lines(["invalid: baseline 'main' is not comparable: choices *"])


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["0.7", "{value: 0.7, choices: generate}"])
def test_a_published_number_needs_the_same_way_of_answering(quiz, reference):
    gate = f"{{metric: acc, reference: {reference}, max_drop: 0.9}}"
    (quiz.path / "quiz.yaml").write_text(f"{QUIZ}gates: [{gate}]\n")
    run = quiz.evals("quiz.yaml", GENERATE)
    is_stated = reference != "0.7"
    assert ("choices is generate, and loglikelihood" in run.stdout.str()) != is_stated


def test_a_gate_on_a_metric_that_is_left_out_is_an_error(quiz):
    run = quiz.evals("quiz.yaml", GENERATE, "--evals-gate=quiz/acc_norm >= 0.1")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["*unknown metric 'acc_norm'*acc, unparsable*"])


@pytest.mark.slow
def test_a_task_file_can_set_it_and_the_option_overrides_it(quiz):
    (quiz.path / "quiz.yaml").write_text(f"{QUIZ}metadata: {{choices: generate}}\n")
    quiz.evals("quiz.yaml")
    assert "acc,generate" in results(quiz)["results"]["quiz"]
    quiz.evals("quiz.yaml", "--evals-choices=loglikelihood")
    assert "acc_norm,none" in results(quiz)["results"]["quiz"]
    (quiz.path / "quiz.yaml").write_text(f"{QUIZ}metadata: {{choices: letters}}\n")
    run = quiz.evals("quiz.yaml")
    run.stdout.fnmatch_lines(["*choices must be generate or loglikelihood, not*"])


def test_an_invalid_value_is_a_usage_error(quiz):
    run = quiz.evals("quiz.yaml", "--evals-choices=letters")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["*expected generate or loglikelihood*"])


def test_groups_average_the_remaining_tasks(quiz):
    (quiz.path / "all.yaml").write_text(GROUP)
    quiz.evals("all.yaml", GENERATE)
    found = results(quiz)["results"]["all"]
    assert found["acc,generate"] == pytest.approx(2 / 3)
    assert found["unparsable,generate"] == pytest.approx(1 / 3)


def test_choices_that_begin_the_sentence_are_listed_whole(quiz):
    """As in WinoGrande: the choices are contexts of one continuation."""
    rows = [{"s": ["The cat", "The dog"], "end": "barks", "n": 1}]
    (quiz.path / "rows.jsonl").write_text(lines(rows * 2))
    shot = {"s": ["The car", "The tree"], "end": "grows", "n": 1}
    (quiz.path / "train.jsonl").write_text(lines([shot]))
    task = f"""
task: quiz
{DATA}
fewshot_split: train
num_fewshot: 1
doc_to_text: n
doc_to_choice: "{{{{s}}}}"
doc_to_target: end
"""
    (quiz.path / "quiz.yaml").write_text(task)
    (quiz.path / "m.jsonl").write_text(lines([{"text": "The dog barks"}]))
    run = quiz.evals("quiz.yaml", GENERATE, "--evals-write-out=1")
    run.stdout.fnmatch_lines(["*B. The tree grows⏎", "*B. The dog barks⏎"])
    assert run.parseoutcomes() == {"passed": 2}


LIGHTEVAL = """
from lighteval.metrics.metrics import Metrics
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc

def prompt(line, task_name):
    gold = line["c"].index(line["a"])
    return Doc(f"{line['q']}\\nAnswer:", [" " + c for c in line["c"]], gold)

TASKS_TABLE = [
    LightevalTaskConfig(
        name="quiz", prompt_function=prompt, metrics=[Metrics.loglikelihood_acc],
        hf_repo="data", hf_subset="default", hf_avail_splits=["train", "test"],
        evaluation_splits=["test"], few_shots_split="train",
        few_shots_select="sequential", num_fewshots=1,
    )
]
"""


@pytest.mark.slow
@pytest.mark.guests
def test_tasks_of_lighteval_have_the_same_prompt(quiz):
    (quiz.path / "data").mkdir()
    for name in ("rows", "train"):
        text = (quiz.path / f"{name}.jsonl").read_text()
        name = name.replace("rows", "test")
        (quiz.path / "data" / f"{name}.jsonl").write_text(text)
    (quiz.path / "eval_quiz.py").write_text(LIGHTEVAL)
    run = quiz.evals("eval_quiz.py", GENERATE, "--evals-write-out=3")
    lighteval = run.stdout.str().split("quiz[fr]")[1].split("answer:")[0]
    run = quiz.evals("quiz.yaml", GENERATE, "--evals-write-out=3")
    lm_eval = run.stdout.str().split("quiz[fr]")[1].split("answer:")[0]
    assert lighteval == lm_eval
    assert run.parseoutcomes() == {"passed": 2, "wrong": 1}


CLASS = """
import json
from pathlib import Path
from lm_eval.api.instance import Instance
from lm_eval.api.task import Task

class Quiz(Task):
    VERSION, OUTPUT_TYPE = 0, "multiple_choice"
    DATASET_PATH, DATASET_KWARGS = "json", None
    def has_training_docs(self): return False
    def has_validation_docs(self): return False
    def has_test_docs(self): return True
    def download(self, *args, **kwargs):
        lines = Path("rows.jsonl").read_text().splitlines()
        self.dataset = {"test": list(map(json.loads, lines))}
    def test_docs(self): return self.dataset["test"]
    def doc_to_text(self, doc): return doc["q"]
    def doc_to_target(self, doc): return " " + doc["a"]
    def construct_requests(self, doc, ctx, **kwargs):
        kwargs.pop("apply_chat_template", None), kwargs.pop("chat_template", None)
        return [
            Instance("loglikelihood", doc, (ctx, f" {c}"), idx=n, **kwargs)
            for n, c in enumerate(doc["c"])
        ]
    def process_results(self, doc, results): return {"acc": 0}
    def aggregation(self): return {"acc": lambda values: 0}
    def higher_is_better(self): return {"acc": True}
"""


def test_classes_list_the_continuations_that_they_score(quiz):
    (quiz.path / "quiz_class.py").write_text(CLASS)
    (quiz.path / "quiz.yaml").write_text(
        "task: quiz\nclass: !function quiz_class.Quiz\n"
    )
    run = quiz.evals("quiz.yaml", GENERATE)
    assert run.parseoutcomes() == {"passed": 2, "wrong": 1}, run.stdout.str()


def test_a_model_without_log_probabilities_names_the_option(quiz):
    (quiz.path / "app.py").write_text("def respond(prompt):\n    return 'B'\n")
    run = quiz.evals("quiz.yaml", model="--model=python:app:respond")
    run.stderr.fnmatch_lines(["*or answer choices by generation: --evals-choices=*"])
    run = quiz.evals("quiz.yaml", GENERATE, model="--model=python:app:respond")
    assert run.parseoutcomes() == {"passed": 1, "wrong": 2}


def test_one_letter_that_is_always_correct_is_a_warning(quiz):
    rows = [{**ROWS[0], "id": str(n), "q": f"{n}?"} for n in range(10)]
    (quiz.path / "rows.jsonl").write_text(lines(rows))
    run = quiz.evals("letters.yaml", GENERATE)
    run.stdout.fnmatch_lines(["*the correct choice is B in all 10 documents*"])
