"""The content of a results file, in the format of the page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.reports.html.baseline_documents import no_baseline
from pytest_evals.reports.html.chunks import packed
from pytest_evals.reports.html.documents import documents_of
from pytest_evals.reports.html.page import plain_html
from pytest_evals.reports.html.prompt import fewshot_examples
from pytest_evals.reports.html.run_data import run_data

SECTIONS = (
    "results",
    "configs",
    "counts",
    "gates",
    "group_subtasks",
    "higher_is_better",
    "model_info",
    "n-shot",
    "node_ids",
    "task_hashes",
    "tokenizer_bos_token",
    "versions",
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["quiz", "acc,none", "metadata", "all", "total"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


def test_groups_come_before_their_members():
    results = {
        "results": {"b": {}, "a": {}, "all": {}, "inner": {}, "c": {}},
        "group_subtasks": {"all": ["inner", "b"], "inner": ["a", "not run"]},
    }
    listed = [(one["name"], one["depth"]) for one in run_data(results)["listed"]]
    assert listed == [("all", 0), ("b", 1), ("inner", 1), ("a", 2), ("c", 0)]


def test_a_gate_has_the_node_id_of_its_task():
    results = {
        "results": {"quiz": {}},
        "node_ids": {"quiz": "evals/all.yaml::all::quiz"},
        "gates": [{"task": "quiz", "id": "acc"}],
    }
    (gate,) = run_data(results)["gates"]
    assert gate["node"] == "evals/all.yaml::all::quiz::acc"


def test_missing_node_ids_are_derived_from_the_task_file():
    config = {"metadata": {"config_source": "evals/quiz.yaml"}}
    results = {"results": {"quiz": {}}, "configs": {"quiz": config}}
    assert run_data(results)["parts"]["quiz"]["node"] == "evals/quiz.yaml::quiz"


def test_only_special_tokens_are_shown_of_the_beginning():
    results = {
        "model_info": {"first_tokens": ["<s>", "Question"], "bos_rule": "added"},
        "tokenizer_bos_token": ["<s>", "1"],
    }
    assert run_data(results)["begins"] == "begins with <s>; BOS token added"


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(SECTIONS), json_values))
def test_any_results_file_gives_a_page(results):
    facts = run_data(results)
    plain_html(facts)
    assert packed(facts)


def test_a_row_with_missing_fields_gives_a_document(write, tmp_path):
    """Rows of other programs, and of baselines, have fewer fields."""
    row = write.chosen(0, "Capital?", {" Rome": -1.0, " Oslo": -2.0}, 1)
    rows = [
        {k: v for k, v in row.items() if k != left_out} | {"doc_id": n, "id": f"d{n}"}
        for n, left_out in enumerate(row)
    ]
    run = write.run(tmp_path / "run", {"quiz": [*rows, {"doc_id": 99, "id": "bare"}]})
    shots = fewshot_examples(run.results, "quiz")
    found = list(documents_of(run, "quiz", shots, no_baseline))
    assert len(found) == len(rows) + 1
    assert (found[-1].state, found[-1].question) == ("s", "")
