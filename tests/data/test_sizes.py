"""The text size of a row does not depend on how the rows are stored."""

import datasets
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.data.rows import Table, arrow_sizes

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "question": st.none() | TEXTS,
            "choices": st.none() | st.lists(TEXTS, max_size=3),
            "answer": st.fixed_dictionaries(
                {"text": st.none() | TEXTS, "at": st.integers(0, 9)}
            ),
            "turns": st.lists(
                st.fixed_dictionaries({"who": TEXTS, "says": TEXTS}), max_size=2
            ),
        }
    ),
    min_size=1,
    max_size=6,
)
SCHEMA = pa.schema(
    {
        "question": pa.string(),
        "choices": pa.list_(pa.string()),
        "answer": pa.struct({"text": pa.string(), "at": pa.int64()}),
        "turns": pa.list_(pa.struct({"who": pa.string(), "says": pa.string()})),
    }
)


@given(ROWS)
@settings(max_examples=100, deadline=None)
def test_arrow_and_python_rows_have_the_same_sizes(rows):
    assert arrow_sizes(pa.Table.from_pylist(rows, SCHEMA)) == Table(rows).sizes()


def test_size_of_a_row_is_its_text_in_bytes():
    rows = [{"a": "four", "b": ["x", "yz"], "c": {"d": "ä"}, "e": 5}, {"a": None}]
    assert Table(rows).sizes() == [4 + 3 + 2, 0]


@pytest.mark.parametrize("length", [pa.large_string(), pa.string()])
def test_rows_of_several_chunks_stay_in_order(length):
    parts = [pa.table({"a": pa.array(texts, length)}) for texts in (["x"], ["yy", ""])]
    assert arrow_sizes(pa.concat_tables(parts)) == [1, 2, 0]


def test_rows_that_were_selected_count_in_their_own_order():
    dataset = datasets.Dataset.from_dict({"a": ["x" * i for i in range(6)]})
    assert Table(dataset.select([5, 0, 3])).sizes() == [5, 0, 3]
