"""The usage of a model, in a line below the table."""

from __future__ import annotations

import pytest

from pytest_evals.reports.overview.counts import usage_line

COUNTS = {"requests": 1020, "prompt_tokens": 7000, "completion_tokens": 3000}


@pytest.mark.parametrize(
    ("usage", "line"),
    [
        (None, ""),
        ({**COUNTS, "retries": 0}, ""),
        (
            {**COUNTS, "retries": 20, "retried": {"timeout": 2, "429": 18}},
            "server: 20 of 1,020 requests were retries: 429 (18), timeout (2)",
        ),
        (
            {**COUNTS, "cost": 0.044},
            "server: cost 0.044 for 7,000 tokens of prompts and 3,000 of answers",
        ),
        (
            {**COUNTS, "cost": 0.00001234},
            "server: cost 0.00001234 for 7,000 tokens of prompts and 3,000 of answers",
        ),
        (
            {**COUNTS, "cost": 1234567.891},
            "server: cost 1,234,567.89 for 7,000 tokens of prompts and 3,000 of "
            "answers",
        ),
        (
            {**COUNTS, "cost": 3.0, "requests_of_unknown_cost": 2},
            "server: cost at least 3 for 7,000 tokens of prompts and 3,000 of answers; "
            "2 requests of unknown cost are not included",
        ),
        *(
            ({**COUNTS, "cost": bad, "retries": bad, "retried": {"429": bad}}, "")
            for bad in ("free", None, -1, True, float("nan"), 10**400)
        ),
    ],
)
def test_usage_is_one_line_or_omitted(usage, line):
    assert usage_line({} if usage is None else {"usage": usage}) == line
