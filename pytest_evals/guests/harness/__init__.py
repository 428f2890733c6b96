"""This package's engines in the runs of other harnesses: ``LM`` for lm-eval,
``lighteval_model`` for lighteval. Neither library is imported before its name is
used. ``lm_eval`` and ``lighteval`` have one model each, ``models`` what both share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_evals.guests.harness.lighteval import lighteval_model

if TYPE_CHECKING:
    LM: type

__all__ = ["LM", "lighteval_model"]


def __getattr__(name: str) -> Any:
    """Return ``LM``; lm-eval is imported then."""
    if name == "LM":
        from pytest_evals.guests.harness.lm_eval import lm_class

        return lm_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
