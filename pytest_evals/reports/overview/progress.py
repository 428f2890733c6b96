"""Progress of inference, on one line."""

from __future__ import annotations

_TELLING = 0.02
"""Fraction of documents after which the remaining time is estimated; the first ones
include the model's warm-up."""


def has_speed(model: str) -> bool:
    """Return whether tokens per second are meaningful: not for canned answers."""
    return not model.startswith("scripted:")


def progress_line(
    n_answered: int, n_documents: int, n_tokens: int, elapsed_s: float, model_s: float
) -> str:
    """Return documents, percentage, speed and remaining time."""
    parts = [f"evals: {n_answered}/{n_documents} documents"]
    if n_documents:
        # Rounded down: 100 % only when all are there.
        parts.append(f"{100 * n_answered // n_documents} %")
    busy_s = model_s or elapsed_s
    if n_tokens and busy_s > 0:
        parts.append(f"{n_tokens / busy_s:,.0f} tokens/s")
    if n_documents > n_answered >= n_documents * _TELLING:
        left_s = elapsed_s / n_answered * (n_documents - n_answered)
        parts.append(f"{duration(left_s)} left")
    return " · ".join(parts)


def duration(seconds: float) -> str:
    """Return ``4.2 s``, ``1:32`` or ``2:04:10``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
