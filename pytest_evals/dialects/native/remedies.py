"""Changes of an eval that remove causes of wrong answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pytest_evals.dialects.native.task import Scorer
from pytest_evals.scorers.near_misses import LETTER, MARKDOWN, NUMBER

_PATTERNS = {
    "markdown": MARKDOWN,
    "first number": f"({NUMBER})",
    "last number": rf"(?s)({NUMBER})(?!.*\d)",
    "first letter": f"({LETTER})",
    "last letter": rf"(?s)({LETTER})(?!.*{LETTER})",
}
_IGNORED = {"case": "ignore_case", "punctuation": "ignore_punctuation"}
_ARGUMENTS = {
    "exact": ("ignore_case", "ignore_punctuation"),
    "contains": ("ignore_case",),
    "starts_with": ("ignore_case",),
}
"""Scorers that compare the whole answer with the target, and what they can ignore."""


def yaml_remedies(scorers: Sequence[Scorer]) -> Mapping[str, str]:
    """Return the change of an eval in YAML for each cause of wrong answers."""
    return _remedies(
        scorers,
        lambda scorer, key: f"set {key}: true on {scorer}",
        lambda pattern: f"set score: {{regex: {{pattern: '{pattern}', group: 1}}}}",
        {
            "target": "remove the whitespace from target",
            "stop": r'add "\n" to stop in generation',
            "limit": "raise max_tokens in generation",
        },
    )


def python_remedies(scorers: Sequence[Scorer]) -> Mapping[str, str]:
    """Return the change of an eval in Python for each cause of wrong answers."""
    return _remedies(
        scorers,
        lambda scorer, key: f"pass {key}=True to {scorer}()",
        lambda pattern: f"use regex(r'{pattern}', group=1)",
        {
            "target": "remove the whitespace from target=",
            "stop": r'set generation={"stop": ["\n"]}',
            "limit": 'raise "max_tokens" in generation=',
        },
    )


def _remedies(
    scorers: Sequence[Scorer],
    ignoring: Callable[[str, str], str],
    matching: Callable[[str], str],
    others: Mapping[str, str],
) -> Mapping[str, str]:
    """Return the remedies for the first scorer, which decides what is correct."""
    name = scorers[0].name if scorers else ""
    found = dict(others)
    if name == "exact":
        found |= {cause: matching(text) for cause, text in _PATTERNS.items()}
        found["whitespace"] = ""  # ignored already
    for cause, key in _IGNORED.items():
        if key in _ARGUMENTS.get(name, ()):
            found[cause] = ignoring(name, key)
    return found
