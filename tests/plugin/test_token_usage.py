"""Token usage is summed over models and over workers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.run.inference import with_usage

COUNTING = """
import pytest
from pytest_evals import Response

class Counting:
    name = "counting"

    def __init__(self):
        self.usage = {"requests": 0, "retries": 0, "retried": {"429": 0}, "cost": 0.0,
                      "prompt_tokens": 0, "completion_tokens": 0}
        self.info = {"model": "counting", "usage": self.usage}

    def answer(self, requests):
        for position, request in enumerate(requests):
            for name in ("requests", "retries"):
                self.usage[name] += 1
            self.usage["retried"]["429"] += 1
            self.usage["cost"] += 0.25
            yield position, Response(text="a0")

@pytest.fixture(scope="session")
def eval_model():
    return Counting()
"""


@pytest.mark.slow
def test_the_usage_of_all_workers_equals_that_of_one_process(suite):
    suite.pytester.makeconftest(COUNTING)
    line = (
        "server: 10 of 10 requests were retries: 429 (10); cost 2.5 for 0 tokens "
        "of prompts and 0 of answers"
    )
    for arguments in ([], ["-n2"]):
        result = suite.run("evals", *arguments, model=None)
        words = " ".join(result.stdout.str().split())
        assert words.count(line) == 1, arguments


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers()), max_size=4))
def test_merged_usage_adds_counts_and_keeps_the_first_other_values(parts):
    infos = [{"device": n, "usage": {"n": part}} for n, part in enumerate(parts)]
    found = with_usage([{}, *infos])
    assert found.get("device") == (0 if parts else None)
    for name in "abc":
        counts = [part[name] for part in parts if name in part]
        assert found.get("usage", {"n": {}})["n"].get(name, 0) == sum(counts)


def test_a_worker_without_requests_does_not_hide_usage_of_others():
    assert with_usage([{"a": 1}, {"usage": {"n": 2}}]) == {"a": 1, "usage": {"n": 2}}
    assert with_usage([{"a": 1}]) == {"a": 1}
    assert with_usage([]) == {}
