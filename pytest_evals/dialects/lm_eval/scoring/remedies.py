"""Changes of a task file that remove causes of wrong answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_evals.core.metric import Metric
from pytest_evals.scorers.near_misses import LETTER, MARKDOWN, NUMBER

_REMEDIES = {
    "whitespace": "add filter remove_whitespace",
    "target": "remove the whitespace from doc_to_target",
    "markdown": f"add filter regex with regex_pattern: '{MARKDOWN}'",
    "first number": f"add filter regex with regex_pattern: '{NUMBER}'",
    "last number": f"add filter regex with regex_pattern: '{NUMBER}', group_select: -1",
    "first letter": f"add filter regex with regex_pattern: '{LETTER}'",
    "last letter": f"add filter regex with regex_pattern: '{LETTER}', group_select: -1",
    "stop": r'add "\n" to until in generation_kwargs',
    "limit": "raise max_gen_toks in generation_kwargs",
}
_OF_EXACT_MATCH = {
    "case": "set ignore_case: true on exact_match",
    "punctuation": "set ignore_punctuation: true on exact_match",
}


def remedies(metrics: Iterable[Metric]) -> Mapping[str, str]:
    """Return the change of the task file for each cause of wrong answers."""
    has_exact_match = any(metric.name == "exact_match" for metric in metrics)
    return _REMEDIES | (_OF_EXACT_MATCH if has_exact_match else {})
