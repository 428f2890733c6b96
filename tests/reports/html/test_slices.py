"""Columns of the data that split documents into slices."""

from pytest_evals.reports.html.index import Slices


def columns(*docs):
    slices = Slices()
    for doc in docs:
        slices.add(doc)
    return slices.columns()


def labels(column):
    """The labels of each document."""
    values = column["values"]
    at = [[] if one is None else one for one in column["at"]]
    return [
        [values[n] for n in (one if isinstance(one, list) else [one])] for one in at
    ]


def test_columns_with_few_values_are_slices():
    docs = [
        {
            "id": f"d{n}",
            "subject": ["law", "art"][n % 2],
            "hard": n < 3,
            "level": n % 3,
            "score": n / 7,
        }
        for n in range(12)
    ]
    found = columns(*docs)
    assert sorted(found) == ["hard", "level", "subject"]
    assert labels(found["subject"])[:3] == [["law"], ["art"], ["law"]]
    assert labels(found["hard"])[2:4] == [["true"], ["false"]]


def test_lists_and_mappings_have_slices():
    docs = [
        {"tags": ["a", "b"] if n % 2 else ["a"], "meta": {"kind": "xy"[n % 2]}}
        for n in range(8)
    ]
    found = columns(*docs)
    assert labels(found["tags"])[:2] == [["a"], ["a", "b"]]
    assert found["meta.kind"]["values"] == ["x", "y"]


def test_a_list_that_all_documents_share_is_not_a_slice():
    assert columns(*[{"choices": ["yes", "no"]}] * 8) == {}


def test_documents_without_a_value_are_in_no_slice():
    docs = [{}, {"kind": "a"}, {"kind": None}, {"kind": "b"}, {"kind": "a"}, {}]
    expected = [[], ["a"], [], ["b"], ["a"], []]
    assert labels(columns(*docs)["kind"]) == expected


def test_texts_numbers_and_other_rows_are_not_slices():
    docs = [
        {"kind": "x" * 61 if n else "a", "n": n / 3, "x": [n, {}]} for n in range(8)
    ]
    assert columns(*docs) == {}
    assert columns(None, "text", ["a"], 3) == {}
    assert columns(*({"kind": str(n // 2)} for n in range(200))) == {}
