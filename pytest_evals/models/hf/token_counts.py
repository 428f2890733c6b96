"""What a model has read so far, for whoever measures it."""

from __future__ import annotations


class TokenCounts:
    """Numbers that only grow."""

    def __init__(self) -> None:
        """Nothing has been read."""
        self.n_read = 0
        """Tokens that went through the model, padding included."""
        self.n_padding = 0
        """How many of them were padding."""

    def add(self, n_read: int, n_useful: int) -> None:
        """A pass has read so many tokens; the rest of them was padding."""
        self.n_read += n_read
        self.n_padding += n_read - n_useful

    def as_mapping(self) -> dict[str, int]:
        """The numbers by their names."""
        return {"n_read": self.n_read, "n_padding": self.n_padding}
