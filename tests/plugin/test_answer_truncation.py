"""Warnings about prompts and generations truncated by a model's window."""

from __future__ import annotations

import pytest

FULL = """
import pytest
from pytest_evals import Response

class Full:
    '''Answers of 5 tokens: the first three ended by a limit, and so did the fourth, as
    long as was asked for; the fifth is not counted; two prompts were cut.'''

    name = "full"
    fingerprint = {"window": 8}

    def answer(self, requests):
        for position, request in enumerate(requests):
            number = int(request.prompt.split()[-1].removesuffix("?"))
            n_tokens = {3: request.max_tokens, 4: 0}.get(number, 5)
            finish = "length" if number < 5 else "stop"
            yield position, Response(
                text=f"a{number}", finish=finish, n_tokens=n_tokens,
                n_truncated=int(number < 2),
            )

@pytest.fixture(scope="session")
def eval_model():
    return Full()
"""
CUT_SHORT = (
    "quiz: 3 of 10 documents have an answer cut off before its own token limit: the "
    "context window was full or the server has a lower limit"
)
CUT = "quiz: 2 of 10 documents did not fit into the model; their prompts were cut"


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["-n2"], ["-v"]])
def test_answers_truncated_by_the_context_window_are_counted(suite, arguments):
    """This holds for stored responses too."""
    suite.pytester.makeconftest(FULL)
    suite.task("quiz", generation_kwargs={"max_gen_toks": 20})
    for _ in range(2):
        result = suite.run("evals", *arguments, model=None)
        words = " ".join(result.stdout.str().split())
        assert words.count(CUT_SHORT) == 1
        assert words.count(CUT) == 1
    for path in suite.pytester.path.glob(".evals/runs/*/results.json"):
        assert '"cut_short":3' in path.read_text().replace(" ", "")


def test_a_limit_of_prompt_and_answer_is_not_a_truncation_by_the_window(suite):
    suite.pytester.makeconftest(FULL)
    suite.task("quiz", generation_kwargs={"max_length": 20})
    result = suite.run("evals", model=None)
    assert "cut off before" not in result.stdout.str()
    assert "cut_short" not in str(suite.results())
