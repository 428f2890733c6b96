"""Conversations in whole runs with workers: the next run sends the turns that are
missing, and no other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

APP = """
import os


def log(text):
    descriptor = os.open("asked", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (text + "\\n").encode())
    os.close(descriptor)


def respond(messages):
    text = messages[-1]["content"]
    log(text)
    if text == "d2, turn 3" and not os.path.exists("repaired"):
        raise ValueError("out of order")
    return text


class Shop:
    version = "1"

    def __init__(self):
        self.n = 0

    def respond(self, messages):
        self.n += 1
        assert self.n == sum(one["role"] == "user" for one in messages)
        return respond(messages)

    def restore(self, messages):
        self.n = sum(one["role"] == "user" for one in messages)

    def close(self):
        log("closed")


respond.version = "1"
"""
TURNS = [f"turn {n}" for n in range(2, 5)]
EVAL = "turns: [hello, {}]\nrows: [{}]\nscore: {{contains: turn}}\n".format(
    ", ".join(f'"{{{{id}}}}, {one}"' for one in TURNS),
    ", ".join(f"{{id: d{n}}}" for n in range(4)),
)
"""All conversations begin alike."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["respond", "Shop"])
def test_a_conversation_that_failed_is_continued_by_lf(pytester, name):
    pytester.makepyfile(app=APP)
    Path("t.yaml").write_text(EVAL)
    command = ["t.yaml", f"--model=python:app:{name}", "-n", "2"]
    pytester.runpytest(*command).assert_outcomes(passed=3, errors=1)
    Path("repaired").touch()
    pytester.runpytest(*command, "--lf").assert_outcomes(passed=1)
    asked = Counter(Path("asked").read_text().splitlines())
    n_closed = asked.pop("closed", 0)
    assert n_closed == (5 if name == "Shop" else 0)
    once = {f"d{n}, {one}" for n in range(4) for one in TURNS}
    assert asked == Counter(once) + Counter(["d2, turn 3"]) + Counter(hello=4)


def test_cache_info_explains_the_first_turn(pytester):
    pytester.makepyfile(app=APP)
    Path("repaired").touch()
    Path("t.yaml").write_text(EVAL)
    command = ["t.yaml", "--model=python:app:respond"]
    pytester.runpytest(*command).assert_outcomes(passed=4)
    info = [*command, "--evals-cache-info=t.yaml::t[d1]"]
    found = pytester.runpytest(*info)
    found.stdout.fnmatch_lines(["request 0: in the store since *"])
    Path("t.yaml").write_text(EVAL.replace("hello", "hallo"))
    found = pytester.runpytest(*info)
    found.stdout.fnmatch_lines(
        ["  prompt differs from character 7: *was 'user: hello'"]
    )
