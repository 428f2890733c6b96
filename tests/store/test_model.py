"""A cached model is notified of the next requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from pytest_evals.core.key import request_keys
from pytest_evals.core.model import Model
from pytest_evals.core.request import Generate, Request, Response
from pytest_evals.errors import ModelError
from pytest_evals.store.model import StoredModel
from pytest_evals.store.responses import Responses


def request(i: int) -> Request:
    return Generate(f"question {i}")


class Listening(Model):
    """Records its notifications."""

    name = "listening"

    def __init__(self) -> None:
        self.requests: list[Sequence[Request]] = []
        self.expected: list[Sequence[Request]] = []

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        self.requests.append(requests)
        for i, _ in enumerate(requests):
            yield i, Response(text=f"answer {i}")

    def expect(self, requests: Sequence[Request]) -> None:
        self.expected.append(requests)


@pytest.fixture
def model() -> Listening:
    return Listening()


@pytest.fixture
def stored(model: Listening, tmp_path: Path) -> StoredModel:
    responses = Responses(tmp_path, {"version": 1})
    return StoredModel(model.name, responses, lambda: model)


def test_only_responses_that_are_not_stored_are_expected(model, stored):
    list(stored.answer([request(1), request(2)]))
    stream = iter(stored.answer([request(3), request(4)]))
    next(stream)
    stored.expect([request(2), request(5), request(1), request(6)])
    assert (
        model.expected == []
    )  # it is notified after it has started the current requests
    next(stream)
    assert model.expected == [[request(5), request(6)]]
    list(stored.answer([request(2), request(5), request(1), request(6)]))
    assert model.requests[-1] == model.expected[-1]


def test_responses_stored_since_the_announcement_are_not_requested_again(model, stored):
    stream = iter(stored.answer([request(1), request(2)]))
    next(stream)
    stored.expect([request(2), request(3)])
    assert len(list(stream)) == 1
    assert [r.text for _, r in stored.answer([request(2), request(3)])]
    assert model.requests[-1] == [request(3)]


def test_a_fully_cached_model_gets_no_announcement(model, stored):
    list(stored.answer([request(1)]))
    stream = iter(stored.answer([request(1)]))
    next(stream)
    stored.expect([request(2)])
    assert list(stream) == []
    assert list(stored.answer([request(1)]))
    assert len(model.requests) == 1
    assert model.expected == []


def test_a_model_that_does_not_work_ahead_gets_no_announcement(tmp_path):
    class Plain(Model):
        name = "plain"

        def answer(self, requests):
            for i, _ in enumerate(requests):
                yield i, Response(text="x")

    stored = StoredModel("plain", Responses(tmp_path, {}), Plain)
    stream = iter(stored.answer([request(1), request(2)]))
    next(stream)
    stored.expect([request(3)])
    assert len(list(stream)) == 1


def test_a_model_that_is_not_opened_reports_no_earlier_requests(tmp_path):
    """Its prompts began differently then, and their cost is paid."""

    class Asked(Listening):
        info: ClassVar = {
            "model": "listening",
            "first_tokens": ["Question"],
            "usage": {"cost": 3.2},
        }

    fingerprint = {"version": 1}
    first = StoredModel("one", Responses(tmp_path, fingerprint), Asked)
    list(first.answer([request(1)]))
    assert first.info == Asked.info
    first.close()
    again = StoredModel("one", Responses(tmp_path, fingerprint), Asked)
    list(again.answer([request(1)]))
    assert again.info == {"model": "listening"}


class Replying(Listening):
    """Replies arrive in a thread, and all are there before the first is yielded."""

    def __init__(self, n: int, broken: bool = False) -> None:
        super().__init__()
        self.n, self.broken = n, broken

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        replies = [(i, Response(text=f"answer {i}")) for i in range(self.n)]

        def receive() -> None:
            for i, response in replies:
                self.on_response(requests[i], response)

        thread = Thread(target=receive)
        thread.start()
        thread.join()
        yield from replies
        if self.broken:
            raise ModelError("the server is gone")


def test_responses_that_have_arrived_are_stored_before_one_is_scored(tmp_path):
    """The process may be killed while the first document is scored."""
    replying, requests = Replying(3), [request(i) for i in range(6)]
    responses = Responses(tmp_path, {"version": 1})
    stored = StoredModel("m", responses, lambda: replying)
    stream = iter(stored.answer(requests))
    assert next(stream)[1].text == "answer 0"
    again = StoredModel("m", responses, None)
    found = [one.text for _, one in sorted(again.answer(requests))]
    assert found == ["answer 0", "answer 1", "answer 2", "", "", ""]
    assert [one.text for _, one in stream] == ["answer 1", "answer 2"]
    assert stored.reuse.n_asked == 3


def test_an_invalid_response_that_has_arrived_is_not_stored(tmp_path):
    replying, requests = Replying(1), [request(0)]
    responses = Responses(tmp_path, {"version": 1})
    stored = StoredModel("m", responses, lambda: replying)
    stored.opened()
    replying.on_response(requests[0], Response(text="answer", n_tokens=-1))
    replying.on_response(requests[0], Response(error="the server is down"))
    assert responses.read([key for key in request_keys(requests) if key]) == {}


def test_responses_in_front_of_an_error_are_yielded(tmp_path):
    replying, requests = Replying(2, broken=True), [request(i) for i in range(9)]
    stored = StoredModel("m", Responses(tmp_path, {"version": 1}), lambda: replying)
    texts = []
    with pytest.raises(ModelError, match="the server is gone"):
        for _, response in stored.answer(requests):
            texts.append(response.text)
    assert texts == ["answer 0", "answer 1"]
