"""Counters of processed tokens."""

from __future__ import annotations


class TokenCounts:
    """Number of processed tokens and of padding."""

    def __init__(self) -> None:
        self.n_read = 0
        """Tokens processed by the model, padding included."""
        self.n_padding = 0
        """Number of padding tokens."""

    def add(self, n_read: int, n_useful: int) -> None:
        """Add a forward pass of ``n_read`` tokens, of which ``n_useful`` are not
        padding."""
        self.n_read += n_read
        self.n_padding += n_read - n_useful

    def as_mapping(self) -> dict[str, int]:
        """The counts by name."""
        return {"n_read": self.n_read, "n_padding": self.n_padding}
