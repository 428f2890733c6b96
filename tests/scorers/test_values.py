"""Scorers of structured output, retrieval and spending."""

from __future__ import annotations

import math

import pytest

from pytest_evals import (
    Response,
    case,
    contains_json,
    context_precision,
    context_recall,
    equals,
    json_path,
    max_cost,
    max_latency,
    max_output_tokens,
    mrr,
    ndcg,
)
from pytest_evals.core.returned import contexts_of
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.extract import extraction_of

ORDER = {
    "total": 4.9,
    "items": [{"id": "a", "n": 2, "x": 1}, {"id": "b", "n": 0}],
    "ok": True,
}


@pytest.mark.parametrize(
    ("paths", "verdict"),
    [
        ({"$.total": 4.9}, True),
        ({"$.total": {"equals": 5.0}}, False),
        ({"$.total": {"at_least": 4, "at_most": 4.9}}, True),
        ({"$.items[0].id": "a", "$.items[-1].id": "b"}, True),
        ({"$['items'][0]['id']": "{{first}}"}, True),
        ({"$.items[*].n": {"at_least": 0}}, True),
        ({"$.items[*].n": {"at_least": 1}}, False),
        ({"$.items[*].x": 1}, False),  # one has none
        ({"$.items[*].x": {"exists": True}}, False),
        ({"$.items[*].y": {"exists": False}}, True),
        ({"$.items": {"length": 2}}, True),
        ({"$.items[2]": {"exists": False}}, True),
        ({"$.none": {"exists": True}}, False),
        ({"$.none": 1}, False),
        ({"$.ok": 1}, False),
        ({"$.ok": True}, True),
        ({"$.items[0].id": {"one_of": ["x", "a"]}}, True),
        ({"$.items[0].id": {"matches": "^[ab]$"}}, True),
        ({"$.items[0].id": {"contains": "b"}}, False),
        ({"$": {"contains": "total"}}, True),
        ({"$": {"contains": ["total"]}}, False),
        ({"$.total": "{{total}}", "$.items[1].n": "{{zero}}"}, True),
        ({"$.total": "{{first}}"}, False),
    ],
)
def test_values_at_paths(paths, verdict):
    for response in (
        Response(data=ORDER),
        Response(text=f"```json\n{_json(ORDER)}\n```"),
    ):
        score = json_path(paths)(response, case("q", first="a", total="4.90", zero=0))
        assert score.correct is verdict
        assert bool(score.explanation) != verdict


def _json(value):
    import json

    return json.dumps(value)


def test_invalid_paths_and_conditions_are_named():
    for paths, message in [
        ({"total": 1}, "invalid path"),
        ({"$.a[": 1}, "invalid path"),
        ({"$..a": 1}, "invalid path"),
        ({"$.a": {"equal": 1}}, "did you mean 'equals'"),
        ({"$.a": {"matches": "("}}, "matches"),
        ({"$.a": {"at_least": "x"}}, "not a number"),
        ({"$.a": {"exists": "{{flag}}"}}, "not true or false"),
    ]:
        with pytest.raises(EvalsError, match=message):
            json_path(paths)


@pytest.mark.parametrize(
    ("data", "target", "tolerance", "verdict"),
    [
        ({"a": 1}, {"a": 1.0}, 0, True),
        ({"a": 1}, '{"a": 1}', 0, True),
        ({"a": True}, {"a": 1}, 0, False),
        ({"a": 1.001}, {"a": 1}, 0.01, True),
        ({"a": 1.1}, {"a": 1}, 0.01, False),
        ({"a": 1}, {"a": 1, "b": None}, 0, False),
        ([1, 2], [2, 1], 0, False),
        ("yes", "yes", 0, True),
    ],
)
def test_data_equals_the_target_as_json(data, target, tolerance, verdict):
    score = equals(tolerance=tolerance)(Response(data=data), case("q", target=target))
    assert score.correct is verdict


def test_answers_that_are_no_json_are_wrong():
    score = equals()(Response(text="four"), case("q", target=4))
    assert (score.correct, score.explanation) == (False, "the answer is not JSON")
    assert json_path({"$.a": 1})(Response(text="a: 1"), case("q")).correct is False


def test_json_is_found_anywhere_in_an_answer():
    schema = {"type": "object", "required": ["a"]}
    for text, verdict in [
        ('So {x} is {"a": [1, {"b": 2}]}.', True),
        ("[1, 2] and {}", False),
        ("{a: 1}", False),
    ]:
        assert contains_json(schema)(text, case("q")).correct is verdict
    assert contains_json()("see [1]", case("q")).correct


@pytest.mark.parametrize(
    ("given", "text", "part"),
    [
        ({"after": "Answer:"}, "Answer: 3. No. Answer: 4 ", "4"),
        ({"regex": r"\d+"}, "1, 2 and 3", "3"),
        ({"regex": r"is (\w+)"}, "it is red, it is blue", "blue"),
        ({"json": "$.a[0]"}, 'first {"a": [1]} then {"a": ["x"]}', "x"),
        ({"json": "$"}, 'so {"a": 1}', '{"a": 1}'),
        ({"xml": "out"}, "<out>1</out> <out n='2'>\n2 </out>", "2"),
        ([{"xml": "out"}, {"regex": r"\d"}], "7 <out>a 4</out>", "4"),
        ({"after": "Answer:"}, "4", None),
        ({"xml": "out"}, "<out>4", None),
        ({"json": "$.b"}, '{"a": 1}', None),
    ],
)
def test_parts_of_answers(given, text, part):
    assert extraction_of(given)(text) == part


def test_invalid_extractions_are_named():
    for given, message in [
        ("Answer:", "is not one of regex, json, xml, after"),
        ({"regx": "a"}, "did you mean 'regex'"),
        ({"regex": "("}, "invalid pattern"),
        ({"json": "a"}, "invalid path"),
    ]:
        with pytest.raises(EvalsError, match=message):
            extraction_of(given)


RETRIEVED = Response(
    contexts=contexts_of([{"id": "b"}, "text", {"id": "b"}, {"id": "a"}])
)


@pytest.mark.parametrize(
    ("scorer", "relevant", "value"),
    [
        (context_recall(), ["a", "c"], 0.5),
        (context_recall(k=2), ["a", "c"], 0.0),
        (context_precision(), ["a", "text"], 2 / 3),
        (context_precision(k=1), ["b"], 1.0),
        (mrr(), ["a", "text"], 0.5),
        (mrr(), ["z"], 0.0),
        # Ranks 2 and 3 of two relevant ones: (1/log2 3 + 1/log2 4) / (1 + 1/log2 3).
        (ndcg(), ["a", "text"], (1 / math.log2(3) + 0.5) / (1 + 1 / math.log2(3))),
        (ndcg(), {"a": 3, "b": 1}, (1 + 3 / 2) / (3 + 1 / math.log2(3))),
        (ndcg(k=1), ["b", "a"], 1.0),
    ],
)
def test_retrieval_against_relevant_ids(scorer, relevant, value):
    score = scorer(RETRIEVED, case("q", relevant=relevant))
    assert score.value == pytest.approx(value)


def test_a_row_without_relevant_ids_is_unscored_and_an_empty_retrieval_is_wrong():
    for scorer in (context_recall(), context_precision(), mrr(), ndcg()):
        for row in ({}, {"relevant": []}, {"relevant": None}):
            assert "no relevant ids" in scorer(RETRIEVED, case("q", **row)).unscored
        score = scorer(Response(), case("q", relevant=["a"]))
        assert (score.value, score.correct) == (0.0, False)


def test_relevant_ids_are_read_from_any_file_and_refused_if_they_are_none():
    found = contexts_of([{"id": 3, "score": None}, {"id": None, "text": "b"}])
    for relevant in ('["3", "b"]', '{"3": 2, "b": 1}', [3.0, "b"], {"3": 2, "b": 1}):
        row = case("q", relevant=relevant)
        assert ndcg()(Response(contexts=found), row).value == 1
    for relevant in ([{"id": "b"}], [None], {"b": "2"}, {"b": math.nan}, True):
        with pytest.raises(EvalsError, match="not an id or its gain"):
            mrr().check(case("q", relevant=relevant))


def test_documents_of_langchain_keep_their_ids():
    class Document:
        def __init__(self, id_, **metadata):
            self.page_content, self.id, self.metadata = "text", id_, metadata

    contexts = contexts_of([Document("a"), Document(None, id="b"), Document(None)])
    assert [one.get("id") for one in contexts] == ["a", "b", None]


def test_values_that_break_comparisons_are_wrong_answers():
    deep = "[" * 600 + "]" * 600
    for text, target in ((f'{{"n": {10**400}}}', '{"n": 1.5}'), (deep, deep)):
        assert equals()(Response(text=text), case("q", target)).correct is False


def test_limits_of_time_cost_and_tokens():
    response = Response(latency_s=1.5, cost=0.02, n_tokens=12)
    for make, low, high in [
        (max_latency, 1.0, 2.0),
        (max_cost, 0.01, 0.02),
        (max_output_tokens, 11, 12),
    ]:
        assert make(high)(response, case("q")).correct
        assert make(low)(response, case("q")).correct is False
        assert "does not report" in make(low)(Response(), case("q")).unscored
