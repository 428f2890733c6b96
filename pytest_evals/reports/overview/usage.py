"""What a model has used, in a line: requests that were sent again, and money."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["usage_line"]


def usage_line(info: Mapping[str, Any]) -> str:
    """``server: 20 of 1,020 requests were sent again: 429 (18), timeout (2); cost …``;
    empty if there is nothing to say.

    Args:
        info: What the model says of itself; counts stand below ``usage``.
    """
    usage = info.get("usage")
    if not isinstance(usage, Mapping):
        return ""
    told = []
    again = usage.get("retried")
    if isinstance(again, Mapping) and again:
        ordered = sorted(again.items(), key=lambda one: -one[1])
        reasons = ", ".join(f"{why} ({n})" for why, n in ordered)
        n, n_all = int(usage.get("retries", 0)), int(usage.get("requests", 0))
        told.append(f"{n:,} of {n_all:,} requests were sent again: {reasons}")
    if "cost" in usage:
        n_in, n_out = (
            int(usage.get(f"{name}_tokens", 0)) for name in ("prompt", "completion")
        )
        told.append(
            f"cost {usage['cost']:.4f} for {n_in:,} tokens of prompts and {n_out:,} of "
            "answers"
        )
    return f"server: {'; '.join(told)}" if told else ""
