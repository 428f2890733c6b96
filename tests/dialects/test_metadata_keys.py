"""Keys of this package misplaced under ``metadata``."""

import pytest

from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.lm_eval.task import load_tasks
from pytest_evals.dialects.metadata_keys import (
    OWN_METADATA,
    misspelled_keys,
    without_own,
)
from pytest_evals.dialects.native.eval_file import load_tasks as load_eval_tasks
from pytest_evals.errors import TaskFileError

CLAIM = ["acc >= 0.5"]


@pytest.mark.parametrize(
    "key",
    [
        "gate",
        "gate s",
        "Gates",
        "GATES",
        "gates ",
        "gates_",
        "gatse",
        "gtes",
        "gatess",
        "gates2",
        "quality_gates",
        "release-gate",
        "evalGates",
        "thresholds",  # its value shows it
    ],
)
def test_a_key_near_one_of_ours_is_found(key):
    assert [*misspelled_keys({"version": 1, key: CLAIM})] == [((key,), "gates")]


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        "1.0",
        {},
        {"gates": CLAIM},
        {"gated": True},
        {"logic_gates": True},
        {"dates": ["2024-01-01"]},
        {"games": ["chess"]},
        {"num_fewshot": 5, "version": 2.0, "description": "a > b"},
        {"max_seq_lengths": [4096], "tokenizer": "x"},
    ],
)
def test_metadata_of_other_people_is_left_alone(metadata):
    assert [*misspelled_keys(metadata)] == []


@pytest.mark.parametrize(
    "key",
    ["identical_prompt", "identicalPrompts", "Identical-Prompts", "identical_promtps"],
)
def test_a_key_near_that_of_identical_prompts_is_found(key):
    assert [*misspelled_keys({key: True})] == [((key,), "identical_prompts")]
    assert [*misspelled_keys({"identical_prompts": True, "identical": True})] == []


def test_a_key_of_ours_that_is_a_level_too_deep_is_found():
    assert [*misspelled_keys({"evals": {"gates": CLAIM}})] == [
        (("evals", "gates"), "gates")
    ]
    assert [*misspelled_keys([{"gates": CLAIM}])] == [((0, "gates"), "gates")]


def test_metadata_for_other_programs_contain_none_of_our_keys():
    assert without_own({**dict.fromkeys(OWN_METADATA), "version": 1}) == {"version": 1}


TASK = """
task: t
dataset_path: json
test_split: test
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_choice: [a, b]
doc_to_target: 0
"""
GROUP = """
group: g
task: [t]
"""


@pytest.fixture
def warnings(tmp_path, monkeypatch):
    """A function from the text of a file to the warnings of its task or group."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.yaml").write_text(TASK)

    def load(text):
        (tmp_path / "x.yaml").write_text(text)
        (found,) = load_tasks(tmp_path / "x.yaml", TaskOptions())
        given = found.warnings
        return [*(given() if callable(given) else given)]

    return load


@pytest.mark.parametrize("text", [TASK, GROUP])
def test_the_warning_of_a_task_and_a_group_has_the_place_and_a_suggestion(
    warnings, text
):
    n = text.count("\n") + 3
    found = warnings(text + "metadata:\n  version: 1\n  gate: [acc >= 0.5]\n")
    assert f"x.yaml:{n}: metadata.gate is not read; did you mean metadata.gates?" in (
        found
    )
    assert warnings(text + "metadata:\n  gates: [acc >= 0.5]\n") == []


def test_gates_that_are_not_a_list_stay_an_error(warnings):
    with pytest.raises(TaskFileError, match="gates must be a list"):
        warnings(TASK + "metadata: {gates: acc >= 0.5}\n")


@pytest.mark.parametrize(
    "line",
    [
        "generation_kwargs: {until: [x], gates: [acc >= 0.5]}",
        "task_list: [{gates: [acc >= 0.5]}]",
        "generation_kwargs: {until: [x], my_Gate: [acc >= 0.5]}",
        "dataset_kwargs: {data_files: {gates: [acc >= 0.5]}}",
    ],
)
def test_gates_in_another_key_are_an_error(warnings, line):
    key = line.partition(":")[0]
    with pytest.raises(TaskFileError, match=f"the gates in '{key}' are not read"):
        warnings(f"{TASK}{line}\n")


@pytest.mark.parametrize(
    "line",
    [
        "rows: [{q: a, gates: [exact >= 0.5]}]",
        "generation: {max_tokens: 1, gates: [exact >= 0.5]}\nrows: [{q: a}]",
    ],
)
def test_gates_in_another_key_of_an_eval_are_an_error(tmp_path, line):
    path = tmp_path / "e.yaml"
    path.write_text(f'prompt: "{{{{q}}}}"\n{line}\n')
    with pytest.raises(TaskFileError, match=r"are not read"):
        load_eval_tasks(path, TaskOptions())


def test_a_column_named_gates_may_have_text(tmp_path):
    path = tmp_path / "e.yaml"
    row = '{gates: "> 5", dates: ["> 2020"], target: x}'
    path.write_text(f'prompt: "{{{{gates}}}}"\nrows: [{row}]\n')
    assert len(load_eval_tasks(path, TaskOptions())) == 1
