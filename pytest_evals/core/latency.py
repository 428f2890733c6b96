"""Latency histograms, which add up over workers, and their percentiles."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

TIMES = "times"  # the key of the histograms below usage of a model's info
FIRST_TOKEN, PER_TOKEN, REPLY = "first_token_s", "per_token_s", "reply_s"
_STEP = math.log(1.02)
"""Width of a bucket: percentiles are exact to 1%."""
_LEAST_S = 1e-6
Counts = dict[str, int]


class Timings:
    """Latencies of a model's requests, and the time during which any was in flight."""

    def __init__(self, usage: dict[str, Any], no_first_token: str = "") -> None:
        """Write into a model's usage, whose numbers are added up over workers.
        ``no_first_token``: why the latency to the first token is unknown; empty for
        models that cannot stream."""
        self._usage = usage
        self._no_first_token = no_first_token
        self._n_in_flight = 0
        self._began = 0.0

    def began(self) -> None:
        """Record that a request was sent."""
        if not self._n_in_flight:
            self._began = time.perf_counter()
        self._n_in_flight += 1

    def ended(self) -> None:
        """Record that a request has ended, with or without a reply."""
        self._n_in_flight -= 1
        if not self._n_in_flight:
            busy_s = time.perf_counter() - self._began
            self._usage["busy_s"] = self._usage.get("busy_s", 0.0) + busy_s
            self._usage["clients"] = 1

    def replied(
        self, took_s: float, n_tokens: int, first_s: float | None = None
    ) -> None:
        """Record the latency of a reply.

        Args:
            took_s: Seconds from sending the request to the complete reply.
            n_tokens: Generated tokens, 0 if unknown.
            first_s: Seconds to the first token; 0 if there was none, ``None`` if
                unknown.
        """
        times = self._usage.setdefault(TIMES, {})
        _add(times.setdefault(REPLY, {}), took_s)
        if first_s:
            _add(times.setdefault(FIRST_TOKEN, {}), first_s)
        # Scored prompts have one token.
        elif first_s is None and self._no_first_token and n_tokens != 1:
            self._usage["no_first_token"] = self._no_first_token
        self.generated(took_s, n_tokens, first_s or 0.0)

    def generated(self, took_s: float, n_tokens: int, first_s: float = 0.0) -> None:
        """Record the latency per token of a reply, if its tokens are known."""
        if n_tokens > 1:
            times = self._usage.setdefault(TIMES, {})
            # The first token includes the prompt; without its time, all tokens do.
            rest = (took_s - first_s) / (n_tokens - 1) if first_s else took_s / n_tokens
            _add(times.setdefault(PER_TOKEN, {}), rest)


def _add(counts: Counts, seconds: float) -> None:
    bucket = str(round(math.log(max(seconds, _LEAST_S)) / _STEP))
    counts[bucket] = counts.get(bucket, 0) + 1


def percentile(counts: Mapping[str, int], share: float) -> float:
    """The smallest value that at least this share of a histogram does not exceed."""
    left = share * sum(counts.values())
    seconds = 0.0
    for bucket in sorted(counts, key=int):
        seconds = math.exp(int(bucket) * _STEP)
        left -= counts[bucket]
        if left <= 0:
            break
    return seconds


def with_latency(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """A model's info with ``latency`` (percentiles in seconds, and rates) instead of
    the histograms of its usage."""
    usage = info.get("usage")
    if not isinstance(usage, Mapping) or not isinstance(usage.get(TIMES), Mapping):
        return info
    left_out = (TIMES, "busy_s", "clients", "no_first_token")
    latency: dict[str, Any] = {}
    for name in (FIRST_TOKEN, PER_TOKEN, REPLY):
        counts = usage[TIMES].get(name)
        if counts:
            found = {f"p{n}": _rounded(percentile(counts, n / 100)) for n in (50, 95)}
            latency[name] = {**found, "n": sum(counts.values())}
        elif name == FIRST_TOKEN and "no_first_token" in usage:
            latency[name] = usage["no_first_token"]
    latency["per_token_includes_prompt"] = not usage[TIMES].get(FIRST_TOKEN)
    busy_s = usage.get("busy_s", 0.0) / max(1, usage.get("clients", 1))
    if busy_s > 0:
        n_replies = sum(usage[TIMES].get(REPLY, {}).values())
        latency["replies_per_s"] = _rounded(n_replies / busy_s)
        n_tokens = usage.get("completion_tokens", 0)
        if n_tokens:
            latency["tokens_per_s"] = _rounded(n_tokens / busy_s)
    kept = {name: value for name, value in usage.items() if name not in left_out}
    return {**info, "usage": kept, "latency": latency}


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
