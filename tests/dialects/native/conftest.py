"""A judge for evals in Python."""

import pytest

from pytest_evals import Response


class ApprovingJudge:
    """Passes every answer, and records the prompts."""

    name = "judge"

    def __init__(self):
        self.seen = []

    def answer(self, requests):
        self.seen.extend(one.prompt[-1].content for one in requests)
        reply = '{"reason": "ok", "pass": true}'
        return [(n, Response(text=reply)) for n in range(len(requests))]


@pytest.fixture
def judge():
    return ApprovingJudge()
