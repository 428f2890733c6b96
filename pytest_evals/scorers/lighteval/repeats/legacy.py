"""A class of earlier releases of lighteval that public task modules still use."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_evals.scorers.lighteval.matching.matches import match_type
from pytest_evals.scorers.lighteval.repeats.of_n import MajAtN
from pytest_evals.scorers.lighteval.texts.normalizers import Normalizer, resolved

__all__ = ["MajAtK"]


@dataclass(frozen=True)
class MajAtK(MajAtN):
    """:class:`~.of_n.MajAtN` with its old arguments.

    Args:
        k: Answers that are counted.
        normalize_gold: What the reference goes through.
        normalize_pred: What the answers go through.
        type_exact_match: ``full``, ``prefix`` or ``suffix``.
    """

    k: int | None = None
    normalize_gold: Normalizer | str | None = None
    normalize_pred: Normalizer | str | None = None
    type_exact_match: str = "full"
    _gold: Normalizer | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Take the old arguments for the new ones."""
        if self.k is not None:
            object.__setattr__(self, "n", self.k)
        object.__setattr__(self, "normalize", self.normalize_pred or self.normalize)
        kind = match_type(self.type_exact_match)
        object.__setattr__(self, "sample_scoring_function", kind)
        object.__setattr__(self, "_gold", resolved(self.normalize_gold))
        MajAtN.__post_init__(self)

    def prepared_gold(self, text: str) -> str:
        """The reference as it is compared."""
        text = text.strip() if self.strip_strings else text
        return self._gold(text) if self._gold else text
