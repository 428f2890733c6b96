"""A record that a worker sends arrives as it was."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.core.doc import Doc
from pytest_evals.core.record import Record, Score, slim
from pytest_evals.core.request import Generate, Loglikelihood, Message, Response
from pytest_evals.plugin.workers.serialization import pack, unpack
from pytest_evals.reports.files.samples import Sample

SAMPLE = Sample(*["" for _ in Sample._fields])
NUMBERS = st.one_of(st.booleans(), st.integers(-2, 2), st.floats(allow_nan=False))
VALUES = st.one_of(st.none(), NUMBERS, st.text(max_size=3), st.lists(NUMBERS))
SCORES = st.builds(
    Score,
    metric=st.sampled_from(["acc", "f1"]),
    value=VALUES,
    correct=st.sampled_from([True, False, None]),
    filtered=st.tuples() | st.tuples(VALUES),
)
RESPONSES = st.builds(
    Response,
    text=st.text(max_size=3),
    logprob=st.none() | st.floats(allow_nan=False),
    greedy=st.sampled_from([True, False, None]),
    n_tokens=st.integers(0, 3),
)
REQUESTS = st.sampled_from(
    [
        Generate("Q:", stop=("\n",), options=(("top_p", 0.9),)),
        Loglikelihood((Message("user", "hello"),), " yes"),
    ]
)
RECORDS = st.builds(
    Record,
    task=st.just("quiz"),
    index=st.integers(0, 9),
    doc=st.builds(
        Doc, st.text(max_size=2), st.lists(st.text(max_size=2)), st.integers(0, 3)
    ),
    requests=st.lists(REQUESTS, max_size=2).map(tuple),
    responses=st.lists(RESPONSES, max_size=2).map(tuple),
    scores=st.lists(SCORES, max_size=3).map(tuple),
    error=st.sampled_from(["", "no answer"]),
    labels=st.dictionaries(st.sampled_from("ab"), st.text(max_size=2)),
)


def parts(record):
    """All contents of a record, with the type of each number."""
    doc = record.doc
    values = [
        (type(value), value)
        for one in (*record.scores, *record.responses)
        for value in (getattr(one, field.name) for field in fields(one))
    ]
    document = (doc.id, doc.query, list(doc.choices), doc.gold_index, doc.task_name)
    return record.task, record.index, record.error, document, values


@settings(max_examples=40)
@given(st.lists(RECORDS, max_size=4))
def test_a_record_is_unchanged_after_serialization(records):
    """Independent of earlier records: equal scores and responses are created once."""
    for record in records:
        for sent in (record, slim(record)):
            arrived = unpack(pack(sent, SAMPLE))
            assert parts(arrived.record) == parts(sent)
            assert arrived.record.requests == sent.requests
            assert arrived.record.labels == sent.labels
            assert arrived.sample == SAMPLE
