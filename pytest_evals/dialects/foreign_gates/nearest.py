"""Tasks of lm-eval with the documents of other programs' evaluations.

Prompts differ, and with them the numbers: gates on these tasks are advisory.
"""

from __future__ import annotations

from typing import NamedTuple

from pytest_evals.dialects.foreign_gates.suite import UnconvertibleError


class Nearest(NamedTuple):
    """The task of lm-eval with the same documents."""

    task: str
    metric: str


GSM8K = Nearest("gsm8k", "exact_match,flexible-extract")
GPQA = Nearest("gpqa_diamond_cot_zeroshot", "exact_match,flexible-extract")
_NEAREST = {
    "gsm8k": GSM8K,
    "mmlu": Nearest("mmlu", "acc"),
    "gpqa": GPQA,
    "gpqa_diamond": GPQA,
    "aime24": Nearest("aime24", "exact_match"),
    "aime25": Nearest("aime25", "exact_match"),
    "humaneval": Nearest("humaneval", "pass@1,create_test"),
    "mgsm_en": Nearest("mgsm_en_cot_en", "exact_match,flexible-extract"),
}
"""Name of an evaluation of SGLang or a data set of evalscope → the nearest task."""


def nearest(name: str) -> Nearest:
    """The task of lm-eval for another program's evaluation.

    Raises:
        UnconvertibleError: No task of lm-eval has its documents.
    """
    if name not in _NEAREST:
        known = ", ".join(sorted(_NEAREST))
        raise UnconvertibleError(
            f"lm-eval has no text task for {name!r}; it has some for {known}"
        )
    return _NEAREST[name]
