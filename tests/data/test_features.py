"""Column types as task files write them."""

import datasets
import pytest

from pytest_evals.data.sources import make_features

TEXTS = {
    "id": datasets.Value("int64"),
    "answers": datasets.Sequence(datasets.Value("string")),
}


@pytest.mark.parametrize(
    "given",
    [
        # as in lm-eval 0.4.13, tasks/infinitebench/_infinitebench_common_yaml
        {"id": {"dtype": "int64"}, "answers": {"dtype": "string", "sequence": True}},
        datasets.Features(TEXTS).to_dict(),
        {"id": "int64", "answers": {"dtype": "string", "sequence": True}},
    ],
    ids=["as in lm-eval", "as stored", "a word"],
)
def test_each_way_to_write_them_means_the_same(given):
    assert make_features(given) == datasets.Features(TEXTS)


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ({}, "features: 'q' has no dtype"),
        (5, "features: 'q' has no dtype"),
        (
            {"dtype": "string", "sequnce": True},
            "features: 'q' has an unknown key 'sequnce'",
        ),
    ],
)
def test_an_invalid_column_type_is_reported(kind, fault):
    with pytest.raises(ValueError) as error:
        make_features({"q": kind})
    assert str(error.value) == fault


def test_a_list_column_is_read_as_lists():
    kinds = make_features({"q": {"dtype": "string", "sequence": True}})

    rows = datasets.Dataset.from_list([{"q": ["a", "b"]}], features=kinds)

    assert rows[0] == {"q": ["a", "b"]}
