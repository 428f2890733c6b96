"""Changes of an eval that remove causes of wrong answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_evals.dialects.native.parts import Scorer
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


YAML = {
    "ignore": "set {key}: true on {scorer}",
    "match": "set score: {{regex: {{pattern: '{pattern}', group: 1}}}}",
    "target": "remove the whitespace from target",
    "stop": r'add "\n" to stop in generation',
    "limit": "raise max_tokens in generation",
}
PYTHON = {
    "ignore": "pass {key}=True to {scorer}()",
    "match": "use regex(r'{pattern}', group=1)",
    "target": "remove the whitespace from target=",
    "stop": r'set generation={"stop": ["\n"]}',
    "limit": 'raise "max_tokens" in generation=',
}
"""Changes of an eval in YAML, and of one in Python."""


def remedies(scorers: Sequence[Scorer], texts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the change of an eval for each cause of wrong answers of the first scorer,
    which decides what is correct. ``texts``: :data:`YAML` or :data:`PYTHON`."""
    name = scorers[0].name if scorers else ""
    found = {cause: texts[cause] for cause in ("target", "stop", "limit")}
    if name == "exact":
        for cause, pattern in _PATTERNS.items():
            found[cause] = texts["match"].format(pattern=pattern)
        found["whitespace"] = ""  # ignored already
    for cause, key in _IGNORED.items():
        if key in _ARGUMENTS.get(name, ()):
            found[cause] = texts["ignore"].format(key=key, scorer=name)
    return found
