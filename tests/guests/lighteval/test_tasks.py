"""The tasks of a module, and the messages about their metrics and errors."""

from __future__ import annotations

import json

import pytest

from pytest_evals.core.request import (
    Generate,
    Loglikelihood,
    Rolling,
)
from pytest_evals.errors import TaskFileError


def test_a_module_gives_its_tasks_without_the_rows_that_it_skips(module):
    (task,) = module("TASKS_TABLE = [task()]")
    assert (task.name, task.output_type) == ("parity", "generate_until")
    # Random(42) shuffles three documents so; lighteval 0.13.0, LightevalTask.get_docs.
    assert task.rows.ids() == ["1", "0", "2"]
    doc, requests = task.ask(0)
    assert (doc.query, doc.get_golds(), doc.row["kind"]) == ("11?", [" odd"], "test")
    (request,) = requests
    assert request == Generate("Odd or even?\n\n11?", stop=("\n",), max_tokens=3)


def test_metrics_of_all_kinds_ask_in_one_task(module):
    metrics = (
        "Metrics.exact_match, Metrics.loglikelihood_acc, Metrics.word_perplexity, "
        "Metrics.pass_at_k(sample_params={'k': 1, 'n': 2})"
    )
    (task,) = module(f"TASKS_TABLE = [task(metrics=[{metrics}])]")
    kinds = [type(request) for request in task.ask(0).requests]
    assert kinds == [Generate, Generate, Loglikelihood, Loglikelihood, Rolling]
    names = [metric.name for metric in task.metrics]
    assert names == ["em", "acc", "word_perplexity", "pass@k:k=1&n=2"]


@pytest.mark.parametrize(
    ("requested", "names"),
    [
        ("", ["one", "fam:a", "fam:b", "fam"]),
        ("fam", ["fam:a", "fam:b", "fam"]),
        ("fam:a", ["fam:a"]),
        ("leaderboard|one|3", ["one"]),
        ("one|0 one|2", ["one|0", "one|2"]),
        ("one|1|0", ["one"]),
        ("lighteval|one|2|0", ["one"]),
    ],
)
def test_tasks_are_selected_as_in_lighteval(module, requested, names):
    if requested == "one|1|0":  # suite, name, few-shot examples: no task is called 1
        names = []
    found = module(
        "TASKS_TABLE = [task(n) for n in ('one', 'fam:a', 'fam:b')]", requested
    )
    assert [one.name for one in found] == names


def test_arguments_of_the_command_line_reach_metrics_of_several_answers(module):
    table = "TASKS_TABLE = [task(metrics=[Metrics.pass_at_k, Metrics.exact_match])]"
    (task,) = module(table, "parity@k=2@n=3")
    assert [metric.name for metric in task.metrics] == ["pass@k", "em"]
    assert len(task.ask(0).requests) == 3
    with pytest.raises(TaskFileError, match="metric 'pass@k' needs 'k'"):
        module(table)


def test_all_problems_of_a_module_are_reported_with_their_lines(
    module, problems, n_lines
):
    message = problems(
        module,
        "TASKS_TABLE = [\n"
        "    task('a', few_shots_select='balancd'),\n"
        "    task('b', evaluation_splits='test'),\n"
        "    task('c', metrics=['quasi_exact_mtach']),\n"
        "    task('d', generation_grammar={'type': 'json'}),\n"
        "]",
    )
    lines = [line for line in message.splitlines() if not line.startswith("  fix")]
    numbers = [int(line.split(":")[1]) - n_lines for line in lines]
    assert numbers == [2, 3, 4, 5], message
    assert "not 'balancd'; did you mean 'balanced'?" in lines[0]
    assert "evaluation_splits must be a list of strings, not 'test'" in lines[1]
    assert "did you mean 'quasi_exact_match'?" in lines[2]
    assert "a type (json or regex) and a value" in lines[3]


def test_of_two_tasks_with_one_name_the_later_counts_as_in_lighteval(module):
    """lighteval's table is a mapping; here a note reports the duplicate."""
    table = "TASKS_TABLE = [\n    task('a', 1), task('b'),\n    task('a', version=2)]"
    found = module(table.replace("'a', 1", "'a', version=1"))
    assert [(task.name, task.version) for task in found] == [("a", 2), ("b", 0)]
    (note,) = found[0].warnings()
    assert note.startswith("duplicate task name: this definition overrides ")
    assert not found[1].warnings()


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("TASKS_TABLE = [task(hf_filter=lambda r: r['m'] > 1)]", "KeyError: 'm'"),
        ("TASKS_TABLE = [task(evaluation_splits=['tets'])]", "did you mean 'test'?"),
        (
            "TASKS_TABLE = [task(prompt_function=lambda r, n: 3)]",
            "returned 3, not a Doc",
        ),
        ("TASKS_TABLE = [task(hf_filter=lambda r: False)]", "no documents: "),
        ("TASKS_TABLE = [task(few_shot_split='train')]", "few_shot_split"),
        (
            "from lighteval.tasks.requests import Dok",
            "lighteval.tasks.requests.Dok is part of how lighteval runs models and "
            "tasks, which pytest does instead; did you mean 'Doc'?",
        ),
        (
            "import lighteval.utils.nothing",
            "lighteval.utils.nothing is not among the names of lighteval that work "
            "without it; otherwise install the release that the module was written "
            "for: pip install lighteval",
        ),
        (
            "import lighteval.tasks.default_prompts as prompt\n"
            "assert prompt.LETTER_INDICES[1] == 'B'\n"
            "TASKS_TABLE = [task(prompt_function=prompt.arc)]",
            "lighteval.tasks.default_prompts.arc is part of lighteval before 0.13, "
            "which is not installed; run: pip install 'lighteval<0.13'",
        ),
        ("TASKS_TABLE = 3", "TASKS_TABLE must be a list of tasks, not 3"),
        ("TASKS_TABLE = [3]", "which is not a LightevalTaskConfig"),
    ],
)
def test_errors_are_reported_with_a_place(module, table, what, problems):
    message = problems(module, table)
    assert what in message and "parity" in message


def test_the_configuration_is_the_same_in_every_process(module, tmp_path):
    (task,) = module("TASKS_TABLE = [task(metrics=[Metrics.rouge_t5])]")
    text = json.dumps(task.config, sort_keys=True)
    assert " at 0x" not in text and task.config["generation_size"] == 3
