"""Rows, ids and selection."""

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.data.rows import Table, document_ids, selection

ROWS = [
    {"id": f"a{i}", "n": i, "nested": {"x": [i, None]}, "text": "é" * i}
    for i in range(1300)
]


@pytest.fixture(scope="module")
def dataset():
    return datasets.Dataset.from_list(ROWS)


def test_a_dataset_and_a_list_give_the_same_rows(dataset):
    table, listed = Table(dataset), Table(ROWS)

    assert list(table) == list(listed) == ROWS
    assert table[-1] == ROWS[-1]
    assert table[510:514] == ROWS[510:514]
    assert table.columns == listed.columns == ("id", "n", "nested", "text")
    assert table.column("n") == listed.column("n") == list(range(1300))


def test_rows_are_those_that_the_dataset_gives_one_by_one(dataset):
    shuffled = dataset.shuffle(seed=1).select(range(700))

    assert list(Table(shuffled)) == [shuffled[i] for i in range(700)]
    assert Table(shuffled).column("id") == [row["id"] for row in shuffled]


def test_a_row_is_the_same_object_each_time(dataset):
    table = Table(dataset)

    assert table[7] is table[7]
    with pytest.raises(IndexError):
        table[1300]


def test_a_stream_counts_as_a_list():
    stream = datasets.IterableDataset.from_generator(lambda: iter(ROWS[:3]))

    assert list(Table(stream)) == ROWS[:3]


@pytest.mark.parametrize(
    ("rows", "ids"),
    [
        ([{"q": 1}, {"q": 2}], ["0", "1"]),
        ([{"id": "x"}, {"id": "y"}], ["x", "y"]),
        ([{"id": 7}, {"id": 9}], ["7", "9"]),
        ([{"id": "x"}, {"id": "x"}], ["0", "1"]),
        ([{"id": "x"}, {"id": ""}], ["0", "1"]),
        ([{"id": "x"}, {"id": None}], ["0", "1"]),
        ([{"id": True}, {"id": False}], ["0", "1"]),
        ([{"id": 1.5}, {"id": 2.5}], ["0", "1"]),
        ([{"id": "x"}, {"id": "x"}, {"id": "y"}], ["0", "1", "2"]),
        (
            [{"id": "x", "question_id": "p"}, {"id": "x", "question_id": "q"}],
            ["p", "q"],
        ),
        ([{"id": " a b\n c\x00"}, {"id": "a::b"}], ["a_b_c_", "a.b"]),
        ([{"id": "a b"}, {"id": "a\tb"}], ["0", "1"]),
        ([{"id": "x" * 70}, {"id": "ключ 1"}], ["x" * 64, "ключ_1"]),
        ([{"id": "x" * 70 + "1"}, {"id": "x" * 70 + "2"}], ["0", "1"]),
    ],
)
def test_ids_come_from_a_column_that_is_fit_for_it_else_from_positions(rows, ids):
    assert document_ids(Table(rows)).ids == ids


@pytest.mark.parametrize(
    ("limit", "n"), [(0.3, 3), (1.0, 1), (3, 3), (100, 8), (None, 8), (0.125, 1)]
)
def test_limits_are_those_of_lm_eval(limit, n):
    """0.3, 1.0 and 3 of 8 documents were measured on lm-eval 0.4.13."""
    assert list(selection(8, limit, None, 0)) == list(range(n))


@given(
    total=st.integers(1, 200),
    counts=st.tuples(st.integers(1, 200), st.integers(1, 200)),
    seed=st.integers(0, 5),
)
def test_a_smaller_sample_is_part_of_a_larger_one(total, counts, seed):
    small, large = (selection(total, None, n, seed) for n in sorted(counts))

    assert set(small) <= set(large)
    assert len(small) == min(total, min(counts))
    assert list(large) == sorted(set(large))


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        (["x", ""], "row 1 has '', which is empty"),
        (["x", " "], "row 1 has ' ', which is empty"),
        (["x", None], "row 1 has None, which is neither a string nor an integer"),
        ([1.5, 2.5], "row 0 has 1.5, which is neither a string nor an integer"),
        (["x", "y", "x"], "rows 0 and 2 both have 'x'"),
        (["a\nb", "a b"], "'a\\nb' and 'a b' of rows 0 and 1 both become 'a_b'"),
    ],
)
def test_an_unusable_id_column_is_reported_with_its_row(values, fault):
    found = document_ids(Table([{"id": value} for value in values]))

    assert found.ids == [str(i) for i in range(len(values))]
    assert found.warnings == (
        f"the column 'id' cannot be used as ids, so rows are numbered from 0: {fault}",
    )


def test_awkward_characters_alone_do_not_cost_a_column_its_ids():
    values = ["a\nb", "a::b", "x[y]", "\x1b[31mred", "\x00nul", "a/b.py", "🎉"]

    assert document_ids(Table([{"id": value} for value in values])) == (
        ["a_b", "a.b", "x[y]", "_[31mred", "_nul", "a/b.py", "🎉"],
        (),
    )


def test_no_warning_if_a_second_column_fits():
    rows = [{"id": "x", "qid": "p"}, {"id": "x", "qid": "q"}]

    assert document_ids(Table(rows)).warnings == ()
