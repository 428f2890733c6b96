"""Interpretation of a server's ``Retry-After``."""

import pytest

from pytest_evals.models.http.errors import seconds

NOW = 1_784_115_307.0  # 2026-07-15 11:35:07 UTC
LATER = "Wed, 15 Jul 2026 11:35:37 GMT"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 0.0),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "soon"}, 0.0),
        ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": LATER}, 30.0),
        ({"retry-after": LATER, "date": "no date"}, 30.0),
    ],
)
def test_seconds_of_the_header(headers, expected):
    assert seconds(headers, NOW) == expected


@pytest.mark.parametrize("off_s", [-400 * 86400, 400 * 86400])
def test_a_date_is_read_by_the_clock_of_the_server(off_s):
    headers = {"retry-after": LATER, "date": "Wed, 15 Jul 2026 11:35:17 GMT"}
    assert seconds(headers, NOW + off_s) == 20.0
