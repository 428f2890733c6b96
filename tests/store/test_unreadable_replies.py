"""Replies of judges that cannot be read are neither stored nor reused."""

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from pytest_evals import Response, RunResult, evaluate
from pytest_evals.core.key import request_keys
from pytest_evals.core.record import Status
from pytest_evals.store.responses import Responses

GOOD = json.dumps({"reason": "so", "grade": 4})
BAD = {
    "cut off": '{"reason": "the answer is',
    "out of range": '{"reason": "so", "grade": 9}',
    "not a grade": '{"reason": "so", "grade": null}',
    "contradiction": '{"grade": 1}\n{"grade": 5}',
    "refusal": "I cannot help with that.",
    "empty": "",
}


class Judge:
    """A judge with a store: it gives these replies in turn, the last one for ever."""

    name = "judge"
    fingerprint = MappingProxyType({"version": 1})

    def __init__(self, *replies: str) -> None:
        self.replies = [*replies]
        self.requests: list[Any] = []

    def answer(self, requests):
        for position, request in enumerate(requests):
            self.requests.append(request)
            n = min(len(self.requests), len(self.replies)) - 1
            yield position, Response(text=self.replies[n])


def run(folder: Path, judge: Judge, score: str = "judge", **more: Any) -> RunResult:
    scorer = {
        "judge": "judge: {rubric: Is it polite?, scale: [1, 5]}",
        "pairwise": "pairwise: {rubric: Which is polite?, versus: hello}",
    }[score]
    path = folder / "eval.yaml"
    path.write_text(f"prompt: '{{{{q}}}}'\nrows: [{{q: a}}]\nscore: {{{scorer}}}\n")
    store = folder / ".evals"
    return evaluate(path, lambda prompt: "hi", judge=judge, folder=store, **more)


def status(result: RunResult) -> Status:
    return result.tasks[0].records[0].status


@pytest.mark.parametrize("reply", BAD.values(), ids=BAD)
def test_an_unreadable_reply_is_not_stored_and_a_readable_one_is(
    tmp_path: Path, reply: str
) -> None:
    judge = Judge(*[reply] * 4, GOOD)  # each is asked for once more, with the error
    found = [status(run(tmp_path, judge)) for _ in range(4)]
    assert found == [Status.UNSCORED, Status.UNSCORED, Status.SCORED, Status.SCORED]
    assert len(judge.requests) == 5


def test_only_the_unreadable_order_of_a_pair_is_asked_again(tmp_path: Path) -> None:
    first, second = '{"better": "1"}', '{"better": "2"}'
    judge = Judge(first, "neither", "neither", second)
    found = [status(run(tmp_path, judge, "pairwise")) for _ in range(3)]
    assert found == [Status.UNSCORED, Status.SCORED, Status.SCORED]
    assert len(judge.requests) == 4


@pytest.mark.parametrize("reply", BAD.values(), ids=BAD)
def test_an_unreadable_reply_of_an_older_store_is_asked_again(
    tmp_path: Path, reply: str
) -> None:
    judge = Judge(GOOD)
    fingerprint = {"given": judge.name, **judge.fingerprint}
    run(tmp_path, judge)
    responses = Responses(tmp_path / ".evals", fingerprint)
    (key,) = request_keys(judge.requests)
    assert key is not None
    assert responses.read([key])[key].text == GOOD
    responses.add(key, Response(text=reply))
    responses.close()
    found = [status(run(tmp_path, judge)) for _ in range(2)]
    assert found == [Status.SCORED, Status.SCORED]
    assert len(judge.requests) == 2
