"""Similarity of meaning: the cosine of the embeddings of answer and target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from typing import ClassVar

from pytest_evals.core.case import Case
from pytest_evals.core.dialogue import Dialogue, ModelSource, ReadAsk
from pytest_evals.core.record import Score
from pytest_evals.core.request import Response, embedding_of, embedding_request
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.answers import targets_of
from pytest_evals.scorers.arguments import checked_arguments
from pytest_evals.scorers.model_scorer import ModelScorer
from pytest_evals.scorers.templates import ScorerTemplate

_FIX = "  fix: semantic: {model: 'openai:text-embedding-3-small'}, or {model: 'hf:…'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticScorer(ModelScorer):
    """The cosine of the embeddings of an answer and its target; of several targets the
    highest. ``text``: what the answer is compared with; ``None`` for the target."""

    limits: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    text: ScorerTemplate | None = None

    @property
    def templates(self) -> tuple[ScorerTemplate, ...]:
        """All texts that are rendered for each case."""
        return () if self.text is None else (self.text,)

    def check(self, case: Case) -> list[str]:
        """Return the texts that answers are compared with. Raises DocumentError if the
        target is missing or empty."""
        targets = targets_of(case) if self.text is None else self.text.texts(case)
        if not all(one.strip() for one in targets):
            raise DocumentError(f"{self.name}: the target is empty")
        return [*dict.fromkeys(targets)]

    def dialogue(self, answered: Response, case: Case) -> Dialogue[Score]:
        """Ask for the embeddings of the answer and of each target."""
        texts = [answered.text, *self.check(case)]
        if not answered.text.strip():
            return self.scored(answered, 0.0, "the answer is empty")
        replies = yield [
            ReadAsk(self.roles[0], embedding_request(one), embedding_of)
            for one in texts
        ]
        try:
            answer, *others = map(embedding_of, replies)
            values = [_cosine(answer, one) for one in others]
        except DocumentError as error:
            why = f"{self.name}: {error}"
            return Score(metric=self.name, answer=answered.text, unscored=why)
        value = max(values)
        nearest = texts[1 + values.index(value)]
        return self.scored(answered, value, f"cosine {value:.3f} to {nearest!r:.120}")


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    if len(one) != len(other):
        raise DocumentError(f"embeddings have {len(one)} and {len(other)} numbers")
    norms = math.hypot(*one) * math.hypot(*other)
    if not norms:
        raise DocumentError("an embedding has zeros only")
    return max(-1.0, min(1.0, math.fsum(map(mul, one, other)) / norms))


@checked_arguments
def semantic(
    threshold: float = 0.8,
    *,
    model: ModelSource = "",
    text: str | None = None,
    name: str = "semantic",
) -> SemanticScorer:
    """The cosine of the embeddings of answer and target, from -1 to 1; an empty answer
    is 0.

    Args:
        threshold: A case is correct from this value on.
        model: Spec of a served embedding model (``openai:``) or of an encoder of
            Hugging Face (``hf:``).
        text: What the answer is compared with; a template over the case's row. By
            default the target, or the nearest of several.
    """
    if not model or not (callable(model) or isinstance(model, str)):
        raise EvalsError(f"semantic needs a model\n{_FIX}")
    kind = model.partition(":")[0] if isinstance(model, str) else ""
    if kind in ("vllm", "ray"):
        raise EvalsError(f"semantic: {kind}: models give no embeddings\n{_FIX}")
    spec = model if isinstance(model, str) else None
    source = model
    if isinstance(model, str) and kind == "hf":
        source = f"encoder:{model.removeprefix('hf:')}"
    return SemanticScorer(
        name=name,
        threshold=threshold,
        text=None if text is None else ScorerTemplate(f"{name}: text", text),
        sources=(source,),
        settings={"semantic": {"threshold": threshold, "model": spec, "text": text}},
    )
