"""How far inference is, on one line."""

from __future__ import annotations

_TELLING = 0.02
"""Share of the documents from which on the time left can be told; the first ones wait
for the model to warm up."""


def progress_line(
    n_answered: int, n_documents: int, n_tokens: int, elapsed_s: float, model_s: float
) -> str:
    """Documents, share, speed and time left.

    Args:
        n_answered: Documents that came back from the model.
        n_documents: Documents in all.
        n_tokens: Tokens of their prompts and answers.
        elapsed_s: Seconds since the first document was asked.
        model_s: Seconds of these that were spent inside the model.
    """
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
    """``4.2 s``, ``1:32`` or ``2:04:10``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
