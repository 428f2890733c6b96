"""Expected requests are encoded in advance, with the same ids; the oracle is the
encoder with one request at a time."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evals.core.request import Generate, Loglikelihood, Message, Rolling
from pytest_evals.models.engine import in_process_model as expected
from pytest_evals.models.engine.in_process_model import BackgroundEncoder
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    TokenPair,
)

TEXTS = ["", " ", "the cat", "hello world", "the cat sat on the mat " * 9]
prompts = st.sampled_from([*TEXTS, (Message("user", "hello"),)])
requests = st.one_of(
    st.builds(
        Loglikelihood, prompts, st.sampled_from(["", "s", " sat on", " the cat"])
    ),
    st.builds(Rolling, st.sampled_from(TEXTS)),
    st.builds(Generate, prompts, repeat=st.integers(0, 1)),
)


def shown(ids):
    if isinstance(ids, InvalidRequestError):
        return str(ids)
    if isinstance(ids, TokenPair):
        return ids.context.tolist(), ids.continuation.tolist()
    return ids.tolist()


def alone(encoder, request):
    if isinstance(request, Loglikelihood):
        return shown(encoder.pairs([request])[0])
    if isinstance(request, Rolling):
        return shown(encoder.texts([request.text])[0])
    return shown(encoder.prompts([request.prompt])[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    batches=st.lists(
        st.tuples(st.lists(requests, max_size=8), st.lists(requests, max_size=8)),
        max_size=4,
    ),
    piece=st.sampled_from([1, 30, 10_000]),
)
def test_requests_have_the_ids_of_one_at_a_time_for_any_expectation(
    kind, batches, piece, opened
):
    encoder = opened(kind)._encoder
    ahead = BackgroundEncoder(encoder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expected, "PIECE", piece)
        for announced, batch in batches:
            ahead.expect(announced)
            found = ahead.take(batch).encoded()
            by_position = {i: ids for some in found for i, ids in some.items()}
            assert sorted(by_position) == list(range(len(batch)))
            for i, request in enumerate(batch):
                assert shown(by_position[i]) == alone(encoder, request)
            assert all(isinstance(batch[i], Loglikelihood) for i in found.pairs)
            assert all(isinstance(batch[i], Rolling) for i in found.texts)
            assert all(isinstance(batch[i], Generate) for i in found.prompts)
    ahead.close()
    assert not threads()


def threads():
    return [t for t in threading.enumerate() if t.name == "evals-model"]


class Encoder:
    """Records the thread that encodes each text."""

    def __init__(self):
        self.log = []

    def pairs(self, requests):
        return [TokenPair(np.array([1]), np.array([2])) for _ in requests]

    def texts(self, texts):
        found = []
        for text in texts:
            if text == "broken":
                raise ValueError("no such text")
            self.log.append((text, threading.current_thread().name))
            found.append(np.array([len(text)]))
        return found

    def prompts(self, prompts):
        return [np.array([1]) for _ in prompts]


def test_expected_requests_are_encoded_once_in_another_thread():
    encoder = Encoder()
    ahead = BackgroundEncoder(encoder)
    ahead.expect([Rolling("one"), Rolling("two")])
    ahead.take([Rolling("two"), Rolling("three"), Rolling("one")]).encoded()
    elsewhere = {text for text, name in encoder.log if name == "evals-model"}
    assert elsewhere == {"one", "two"}
    assert sorted(text for text, _ in encoder.log) == ["one", "three", "two"]


def test_other_requests_do_not_drop_expected_ones():
    encoder = Encoder()
    ahead = BackgroundEncoder(encoder)
    ahead.expect([Rolling("one")])
    ahead.take([Rolling("a follow-up")]).encoded()
    ahead.take([Rolling("one")]).encoded()
    assert sorted(text for text, _ in encoder.log) == ["a follow-up", "one"]


def test_an_error_is_raised_in_the_caller():
    ahead = BackgroundEncoder(Encoder())
    ahead.expect([Rolling("broken")])
    known = ahead.take([Rolling("broken")])
    with pytest.raises(ValueError, match="no such text"):
        known.encoded()


def test_who_expects_something_else_or_stops_leaves_no_thread_behind(monkeypatch):
    monkeypatch.setattr(expected, "PIECE", 1)
    ahead = BackgroundEncoder(Encoder())
    for _ in range(3):
        ahead.expect([Rolling(str(i)) for i in range(1000)])
    assert len(threads()) <= 1
    ahead.close()
    assert not threads()
