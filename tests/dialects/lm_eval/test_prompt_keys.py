"""Prompts of collections. The expected prompts follow lm-eval 0.4.13's
``prompts/__init__.py`` and ``ConfigurableTask.doc_to_text``, ``doc_to_target`` and
``doc_to_choice``."""

import pytest

from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.lm_eval.task import load_tasks
from pytest_evals.errors import TaskFileError

ROWS = """
import datasets

def make(**_kwargs):
    rows = [{"question": "two?", "answer": "2", "options": ["1", "2"]}] * 3
    return {"test": datasets.Dataset.from_list(rows)}
"""
TASK = """
task: toy
dataset_path: org/data
dataset_name: part
custom_dataset: !function made.make
test_split: test
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A function that loads a task with additional lines."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made.py").write_text(ROWS)

    def load(text):
        (tmp_path / "toy.yaml").write_text(TASK + text)
        (only,) = load_tasks(tmp_path / "toy.yaml", TaskOptions())
        return only

    return load


def fault(toy, text):
    with pytest.raises(TaskFileError) as error:
        toy(text)
    return str(error.value)


def test_a_built_in_prompt_is_question_and_target(toy):
    doc, (request,) = toy("use_prompt: qa-basic:q-newline-a\n").ask(0)

    assert request.prompt == "Q: two?\nA:"
    assert doc.target == "Q: two?\nA:"


def test_a_file_of_prompts_gives_templates_and_beats_the_task_and_its_shots(
    toy, tmp_path
):
    """``answer`` is a column, but is used literally: prompts are templates."""
    (tmp_path / "ours.yaml").write_text(
        "prompts:\n  short:\n    doc_to_text: '{{question}} A:'\n"
        "    doc_to_target: answer\n"
    )

    task = toy(
        "use_prompt: ours.yaml:short\ndoc_to_text: never\ndoc_to_target: never\n"
        "num_fewshot: 1\nfewshot_config: {doc_to_text: never, sampler: first_n}\n"
    )

    doc, (request,) = task.ask(0)
    assert request.prompt == "two? A: answer\n\ntwo? A:"
    assert doc.target == "answer"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("a", "expected 'category:name', not 'a'"),
        ("a:b:c", "expected 'category:name', not 'a:b:c'"),
        (
            "promptsource:x",
            "the library promptsource does not run on Python 3.10 or later; write "
            "doc_to_text and doc_to_target",
        ),
        ("qa-basis:x", "unknown collection 'qa-basis'; did you mean 'qa-basic'?"),
        (
            "qa-basic:q-newline-b",
            "unknown prompt 'q-newline-b'; did you mean 'q-newline-a'?",
        ),
        (
            "ours.yaml:odd",
            "the prompt 'odd' of 'ours.yaml' has no string doc_to_target",
        ),
        ("ours.yaml:x", "unknown prompt 'x'; known: odd, choosing"),
        (
            "ours.yaml:choosing",
            "the prompt 'choosing' of 'ours.yaml' has doc_to_choice, which prompt "
            "files do not support, as in lm-eval",
        ),
    ],
)
def test_a_prompt_that_is_not_there_is_reported_with_its_line(
    toy, tmp_path, given, what
):
    (tmp_path / "ours.yaml").write_text(
        "prompts:\n  odd: {doc_to_text: q}\n"
        "  choosing: {doc_to_text: q, doc_to_target: a, doc_to_choice: [x]}\n"
    )

    message = fault(toy, f"use_prompt: '{given}'\n")

    assert message == f"toy.yaml:7: use_prompt: {what}"
