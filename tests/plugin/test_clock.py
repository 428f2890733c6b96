"""Durations if the system clock is set back while a session runs."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

BACKWARDS = """
import itertools
import time

hours = itertools.count()
real = time.time
# An hour back with each look at the clock.
time.time = lambda: real() - 3600 * next(hours)
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_no_duration_is_negative_when_the_clock_is_set_back(suite, workers):
    suite.task("quiz", gates=["exact_match >= 0.5"])
    suite.knows(wrong=[1], errors=[2])
    suite.pytester.makeconftest(BACKWARDS)
    result = suite.pytester.runpytest_subprocess(
        "evals",
        "--model=scripted:answers.jsonl",
        workers,
        "--junitxml=junit.xml",
        "--evals-json=results.json",
        "--durations=0",
        "-vv",
    )
    assert result.ret == 1
    times = re.findall(r"(-?[\d.,]+) ?s (?:in all|call)", result.stdout.str())
    assert times
    assert all(0 <= float(found) < 120 for found in times)
    results = json.loads((suite.pytester.path / "results.json").read_text())
    assert 0 < float(results["total_evaluation_time_seconds"]) < 120
    cases = ElementTree.parse(suite.pytester.path / "junit.xml").iter("testcase")
    assert all(0 <= float(case.get("time", "-1")) < 120 for case in cases)
