"""Regular expressions with a time limit: otherwise equal to ``re``."""

from __future__ import annotations

import random
import re
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_evals.limits.patterns import BoundedPattern, PatternLimitError, compiled

CATASTROPHES = [
    (r"(a+)+$", "a" * 60 + "b"),
    (r"(a|a)*$", "a" * 60 + "b"),
    (r"(a|aa)+$", "a" * 200 + "b"),
    (r"(x+x+)+y", "x" * 60),
    (r"(.*a){20}", "a" * 60 + "b" * 60),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 100),
    (r"(\w+\s?)*:", "word " * 50),
    (r"\s*\s*\s*\s*x", " " * 5000),
    (r"(?:(?:a?){50}){50}b", "a" * 200),
    (r"(a?){300}a{300}b", "a" * 300),
    (r"(?i)(?:the|the )+answer", "THE " * 100),
    (r"(?=(a+)+$)b", "a" * 60 + "b"),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("pattern", "text"), CATASTROPHES)
def test_a_search_without_end_is_an_error_after_seconds(
    pattern: str, text: str
) -> None:
    """The next search works after a timeout."""
    before = time.monotonic()
    try:
        found = compiled(pattern).findall(text)
    except PatternLimitError as error:
        assert f"{len(text):,} characters" in str(error)
    else:
        assert found == re.compile(pattern).findall(text)
    assert time.monotonic() - before < 60  # seconds of a busy machine
    assert compiled(r"(b+)+c").findall("a" + "b" * 20 + "c") == ["b" * 20]


@pytest.mark.nightly
def test_catastrophes_are_found_out() -> None:
    """Otherwise the test above would be vacuous."""
    with pytest.raises(PatternLimitError, match=r"'\(a\+\)\+\$' takes more than 2 s"):
        compiled(r"(a+)+$").findall("a" * 60 + "b")
    with pytest.raises(PatternLimitError):
        compiled(r"(a+)+$").is_in("a" * 60 + "b")
    with pytest.raises(PatternLimitError):
        compiled(r"(a+)+$").sub("", "a" * 60 + "b")


@pytest.mark.slow
def test_a_result_without_end_is_an_error() -> None:
    with pytest.raises(PatternLimitError):
        compiled("").sub("x" * 10**6, "a" * 10**6)
    with pytest.raises(PatternLimitError):
        compiled("(.*)").sub(r"\1" * 10**4, "a" * 10**5)


def patterns_of_lm_eval() -> list[str]:
    """Patterns that its task files pass to filters and metrics, and other list entries
    that are valid patterns."""
    spec = find_spec("lm_eval")
    if spec is None or spec.origin is None:
        pytest.skip("lm-eval is not installed")
    found: set[str] = set()
    for path in (Path(spec.origin).parent / "tasks").rglob("*.y*ml"):
        text = path.read_text(encoding="utf-8")
        if "regex" in text:
            found |= set(
                re.findall(r"^ *(?:regex_pattern:|-) (.+)", text, re.MULTILINE)
            )
    values = [value for one in found if isinstance(value := scalar(one), str)]
    return sorted({value for value in values if is_pattern(value)})


def scalar(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


TEXT = (
    "The answer is (B). A B C D E #### 1,234.50 $12 **Answer:** \\boxed{3/4} yes No é "
    "日本 <think> </think> [[A]] 最终答案 [1] a) \n \t 100% -7 .5 final Final: } { true"
)


@pytest.mark.slow
def test_both_paths_equal_re_for_the_patterns_of_lm_eval() -> None:
    patterns = patterns_of_lm_eval()
    assert len(patterns) > 40
    draw = random.Random(18)
    for pattern in patterns:
        known = re.compile(pattern)
        here = compiled(pattern)
        counted = BoundedPattern(known, -1)
        for _ in range(4):
            text = " ".join(draw.choices(TEXT.split(" "), k=draw.randrange(20)))
            for one in (here, counted):
                assert one.findall(text) == known.findall(text)
                assert one.sub("<>", text) == known.sub("<>", text)
                assert one.is_in(text) == (known.search(text) is not None)
                assert one.split(text) == known.split(text)
                assert one.matches(text) == [
                    (*found.span(), found.groups()) for found in known.finditer(text)
                ]


def test_flags_templates_and_unusual_characters_have_the_same_meaning() -> None:
    odd = "\ud800 É\0\x1f\u2028ß"
    for pattern, flags, template in [
        ("é", re.IGNORECASE, r"<\g<0>>"),
        (r"(?P<x>.)\b", re.DOTALL, r"\g<x>\1"),
        ("^.", re.MULTILINE | re.ASCII, "\\\\"),
    ]:
        known, counted = re.compile(pattern, flags), re.compile(pattern, flags)
        assert BoundedPattern(counted, -1).sub(template, odd) == known.sub(
            template, odd
        )
        assert BoundedPattern(counted, -1).sub("", odd, 1) == known.sub(
            "", odd, count=1
        )
    for longest in (-1, 99):
        with pytest.raises(re.error, match="invalid group reference"):
            BoundedPattern(re.compile("a"), longest).sub(r"\2", "a")
        with pytest.raises(IndexError, match="unknown group name"):
            BoundedPattern(re.compile("a"), longest).sub(r"\g<x>", "a")


@pytest.mark.parametrize(
    "pattern", ["(" * 5000 + ")" * 5000, "a{99999999999}", "(", "*"]
)
def test_an_invalid_pattern_is_an_error_of_re(pattern: str) -> None:
    with pytest.raises(re.error):
        compiled(pattern)
