"""Cases in which lm-eval 0.4.13 returns an unexpected number or crashes: the result
here, and the message. Other decisions are tested with the code that they concern."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from pytest_evals.core.record import Record
from pytest_evals.core.request import Response
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.dialects.lm_eval.task import load_tasks
from pytest_evals.reports.files.samples import sample_of
from pytest_evals.run.batches import ask
from pytest_evals.run.flow import score
from pytest_evals.scorers.summary import summarise


def task_of(folder: Path, rows: list[dict[str, object]], **keys: object) -> Task:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "rows.jsonl").write_text(lines)
    config = {
        "task": "t",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
        "test_split": "test",
        "doc_to_text": "q",
        "doc_to_target": "a",
        **keys,
    }
    (folder / "t.yaml").write_text(yaml.safe_dump(config))
    (task,) = load_tasks(folder / "t.yaml", TaskOptions())
    return task


def again(folder: Path, **options: object) -> Task:
    """The task of a folder, loaded with other options."""
    (task,) = load_tasks(folder / "t.yaml", TaskOptions(**options))
    return task


def scored(task: Task, texts: list[str]) -> list[Record]:
    """All documents, each with a text response or with log-probabilities that make the
    first choice the most likely."""
    task.rows.ids()
    records = []
    for index, text in enumerate(texts):
        asked = ask(task, index)
        responses = tuple(
            Response(text=text, logprob=-float(i), greedy=i == 0)
            for i, _ in enumerate(asked.requests)
        )
        whole = Record(
            task="t",
            index=index,
            doc=asked.doc,
            requests=asked.requests,
            responses=responses,
            error=asked.error,
        )
        records.append(score(whole, task))
    return records


@pytest.mark.parametrize(
    "keys",
    [
        "process_results: !function f.judge\nmetric_list: [{metric: mine}]\n",
        "metric_list: [{metric: !function f.mine}]\n",
    ],
)
def test_an_unknown_metric_without_aggregation_is_averaged_with_a_warning(
    keys, tmp_path
):
    """lm-eval crashes when it creates the task."""
    (tmp_path / "f.py").write_text(
        "def judge(doc, results):\n    return {'mine': len(results[0])}\n"
        "def mine(references, predictions):\n    return len(predictions[0])\n"
    )
    task_of(tmp_path, [{"q": "x", "a": "y"}, {"q": "z", "a": "y"}])
    with (tmp_path / "t.yaml").open("a") as file:
        file.write(keys)
    (task,) = load_tasks(tmp_path / "t.yaml", TaskOptions())
    (metric,) = summarise(task, scored(task, ["a", "aaa"]), 2).metrics
    assert metric.estimate.value == 2
    assert task.warnings() == ("metric 'mine' has no aggregation; the mean is used",)


@pytest.mark.parametrize("label", ["007", "²"])
def test_digits_that_are_not_a_number_stay_text_with_a_warning(label, tmp_path):
    """lm-eval ends with a SyntaxError."""
    rows = [{"q": "x", "a": label, "c": [label, "8"]}]
    task = task_of(
        tmp_path,
        rows,
        output_type="multiple_choice",
        doc_to_target="{{a}}",
        doc_to_choice="c",
    )
    (record,) = scored(task, [""])
    assert record.doc.gold_index == 0
    assert record.correct is True
    (warning,) = task.warnings()
    assert (
        f"{label!r} consists of digits but is not a number; it is used as a string"
        in warning
    )


def test_graded_metrics_of_several_targets_are_0_or_1_with_a_warning(tmp_path):
    (tmp_path / "f.py").write_text(
        "def share(references, predictions):\n    return 0.25\n"
    )
    rows = [{"q": "x", "a": ["y", "z"]}]
    task_of(tmp_path, rows)
    with (tmp_path / "t.yaml").open("a") as file:
        file.write("metric_list: [{metric: !function f.share, aggregation: mean}]\n")
    (task,) = load_tasks(tmp_path / "t.yaml", TaskOptions())
    (record,) = scored(task, ["y"])
    assert [one.value for one in record.scores] == [1.0]
    (warning,) = task.warnings()
    assert "share is 1 if the value for any of them is above 0" in warning


def test_a_right_answer_outside_the_choices_is_wrong_with_a_warning(tmp_path):
    rows = [{"q": "x", "a": 7, "c": ["y", "z"]}, {"q": "w", "a": 0, "c": ["y", "z"]}]
    task = task_of(tmp_path, rows, output_type="multiple_choice", doc_to_choice="c")
    assert [record.correct for record in scored(task, ["", ""])] == [False, True]
    (warning,) = task.warnings()
    assert "is neither a choice nor" in warning


def test_num_fewshot_of_metadata_is_shown_without_effect_on_prompts(tmp_path):
    """lm-eval's docs state that they are shown; in 0.4.13 they have no effect."""
    rows = [{"q": f"Q{i}", "a": "y"} for i in range(4)]
    task = task_of(tmp_path, rows, metadata={"num_fewshot": 3})
    assert task.n_shots == 0
    assert task.ask(1).requests[0].prompt == "Q1"
    assert task.config["metadata"] == {"num_fewshot": 3}


@pytest.mark.parametrize(
    ("text", "reference", "arguments"),
    [
        (
            "The Answer, 12.",
            "the answer 12",
            {"ignore_case": True, "ignore_punctuation": True},
        ),
        ("a 1", "a ", {"ignore_numbers": True}),
        ("x$1", "x1", {"regexes_to_ignore": [r"\$"]}),
    ],
)
def test_exact_match_ignores_the_same_as_lm_eval(text, reference, arguments, tmp_path):
    """Measured on lm-eval 0.4.13: each counts as 1."""
    metric = {"metric": "exact_match", "aggregation": "mean", **arguments}
    task = task_of(tmp_path, [{"q": "x", "a": reference}], metric_list=[metric])
    (record,) = scored(task, [text])
    assert [one.value for one in record.scores] == [1.0]


@pytest.mark.parametrize(
    ("targets", "text", "value"),
    [
        ([1, 2], "1", 0.0),
        ([1, "x"], "1", 1.0),  # NumPy converts all to strings if one is a string
        (["1", "x"], "1", 1.0),
        ([1.5, True], "True", 0.0),
    ],
)
def test_no_number_among_several_targets_equals_a_text(targets, text, value, tmp_path):
    """Values measured on lm-eval 0.4.13, which compares NumPy arrays without a
    warning."""
    (tmp_path / "f.py").write_text("def target(row):\n    return eval(row['a'])\n")
    task_of(tmp_path, [{"q": "x", "a": repr(targets)}])
    with (tmp_path / "t.yaml").open("a") as file:
        file.write("doc_to_target: !function f.target\n")
    (task,) = load_tasks(tmp_path / "t.yaml", TaskOptions())
    (record,) = scored(task, [text])
    assert [one.value for one in record.scores] == [value]
    flagged = any("none is a string" in one for one in task.warnings())
    assert flagged == (not any(isinstance(one, str) for one in targets))


@pytest.mark.parametrize("target", [-1, [], [0, -1]])
def test_a_target_below_the_choices_or_none_at_all_is_flagged(target, tmp_path):
    """lm-eval does not warn about -1, which test sets without answers contain."""
    rows = [{"q": "x", "a": target, "c": ["y", "z"]}]
    task = task_of(tmp_path, rows, output_type="multiple_choice", doc_to_choice="c")
    (record,) = scored(task, [""])
    assert record.error == ""
    (warning,) = task.warnings()
    assert "is neither a choice nor" in warning


@pytest.mark.parametrize(
    ("first", "later", "message"),
    [
        ("y", "['y', 'z']", "a single target for the first document and a list"),
        ("['y', 'z']", "y", "a list of targets for the first document and a single"),
    ],
)
def test_a_later_target_of_another_shape_counts_like_the_first_with_a_warning(
    first, later, message, tmp_path
):
    """In lm-eval the first document decides for all: a later list becomes a string, and
    a later string a list of its characters (0.4.13, measured)."""
    rows = [{"q": "x", "a": first}, {"q": "x", "a": later}]
    task = task_of(tmp_path, rows, doc_to_target="{{a}}")
    records = scored(task, ["y", later])
    values = [one.value for record in records for one in record.scores]
    assert values == [1.0, 1.0]  # "y" is the only character of "y"
    assert any(message in warning for warning in task.warnings())


def test_a_sampled_document_keeps_its_index_and_its_shots(tmp_path):
    """lm-eval's --samples permutes the ids and draws different few-shot examples."""
    rows = [{"q": f"Q{i}", "a": str(i)} for i in range(30)]
    everything = task_of(tmp_path, rows, num_fewshot=2)
    some = again(tmp_path, sample=4)
    assert len(some.rows.indices()) == 4
    for index in some.rows.indices():
        record = ask(some, index)
        (line,) = sample_of(record, some).lines
        assert json.loads(line)["doc_id"] == index
        assert record.doc.row["q"] == f"Q{index}"
        assert record.requests == ask(everything, index).requests


@pytest.mark.parametrize(
    ("prefix", "continuations"),
    [(None, ["y", "z"]), ("It is", [" y", " z"]), ("It is ", ["y", "z"])],
)
def test_a_chat_has_the_target_delimiter_only_behind_an_answer_that_has_begun(
    prefix, continuations, tmp_path
):
    rows = [{"q": "x", "a": 0, "c": ["y", "z"]}]
    choices = {"output_type": "multiple_choice", "doc_to_choice": "c"}
    task_of(tmp_path, rows, gen_prefix=prefix, **choices)
    requests = again(tmp_path, chat=True).ask(0).requests
    assert [request.continuation for request in requests] == continuations


def test_the_first_example_directly_follows_the_system_text(tmp_path):
    task_of(tmp_path, [{"q": "Q0", "a": "y"}], description="DESC.")
    assert again(tmp_path).ask(0).requests[0].prompt == "DESC.Q0"
    asked = again(tmp_path, system_instruction="SYS").ask(0)
    assert asked.requests[0].prompt == "SYS\n\nDESC.Q0"
    task_of(tmp_path, [{"q": "Q0", "a": "y"}])
    asked = again(tmp_path, system_instruction="SYS").ask(0)
    assert asked.requests[0].prompt == "SYSQ0"


def test_a_group_file_is_loaded_by_its_path(tmp_path):
    """lm-eval finds groups by their names only."""
    task_of(tmp_path, [{"q": "x", "a": "y"}])
    (tmp_path / "g.yaml").write_text("group: g\ntask: [t]\n")
    (group,) = load_tasks(tmp_path / "g.yaml", TaskOptions())
    assert [task.name for task in group.tasks()] == ["t"]


def test_a_later_text_of_digits_alone_is_an_error_of_its_document(tmp_path):
    """With choices, digits are a position: lm-eval ends with an AssertionError."""
    rows = [{"q": "abc", "a": 0, "c": ["y", "z"]}, {"q": "1", "a": 1, "c": ["y", "z"]}]
    choices = {"output_type": "multiple_choice", "doc_to_choice": "c"}
    task = task_of(tmp_path, rows, doc_to_text="{{q}}", **choices)
    first, later = scored(task, ["", ""])
    assert first.correct is True
    assert later.error.endswith("doc_to_text returned 1 (int), not a string")
