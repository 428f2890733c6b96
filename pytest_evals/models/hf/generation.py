"""Texts that a model writes.

Prompts with equal settings share batches. Each row ends by itself: at an end-of-text
token, as soon as its new text holds a stop string, or at its limit; finished rows leave
the batch. Greedy texts are those of lm-eval 0.4.13 with a batch of one; there, a row of
a larger batch writes on until every row has met the same stop string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import torch

from pytest_evals.core.request import Finish
from pytest_evals.models.hf.decoding import Steps
from pytest_evals.models.hf.sampling import History, Recipe, pick
from pytest_evals.models.hf.tokens import Encoder, Ids

__all__ = ["Text", "Writer", "Writing", "cut"]

LEAVING_SHARE = 8
"""Finished rows leave when they are one in so many: a copy of all keys and values for
each row that ends would cost more than its few steps in vain."""


@dataclass(frozen=True, slots=True, eq=False)
class Writing:
    """A text to write.

    Args:
        prompt: (T,) ids, at least one; together with ``max_tokens`` no longer than the
            model's window.
        max_tokens: Most new tokens, at least 1.
        stop: Texts that end it, none of them empty.
        seed: Of its random numbers.
    """

    prompt: Ids
    max_tokens: int
    stop: tuple[str, ...]
    seed: int = 0

    @property
    def cost(self) -> int:
        """Tokens at its end, if nothing ends it before."""
        return len(self.prompt) + self.max_tokens


class Text(NamedTuple):
    """What was written.

    Args:
        text: The text, cut at the stop strings.
        n_tokens: New tokens, with the one that ended it.
        finish: Why it ended.
        sound: Whether all logits were numbers.
    """

    text: str
    n_tokens: int
    finish: Finish
    sound: bool = True


@dataclass(slots=True)
class _Row:
    """A text on its way."""

    writing: Writing
    draws: Random
    span: int
    """So many tokens at the end hold any stop string that was just completed."""
    tokens: list[int] = field(default_factory=list)
    ended: bool = False
    sound: bool = True


class Writer:
    """A model that writes texts."""

    def __init__(
        self,
        model: Any,
        encoder: Encoder,
        steps: Callable[[Sequence[Ids]], Steps],
        think_end: str = "",
    ) -> None:
        """``steps`` starts a batch; ``think_end`` ends what is not part of answers."""
        self._model = model
        self._encoder = encoder
        self._steps = steps
        self._think_end = think_end
        self._ends = _end_ids(model, encoder)
        self._end_text = encoder.end_text

    def write(self, writings: Sequence[Writing], recipe: Recipe) -> list[Text]:
        """Write all texts as one batch."""
        rows = [_Row(w, Random(w.seed), _span(w.stop)) for w in writings]
        with torch.inference_mode():
            if recipe.num_beams > 1:
                for row in rows:
                    row.tokens = self._search(row.writing, recipe)
            else:
                self._decode(rows, recipe)
        return [self._finished(row) for row in rows]

    def _decode(self, rows: Sequence[_Row], recipe: Recipe) -> None:
        """Let all rows grow until each has ended."""
        steps = self._steps([row.writing.prompt for row in rows])
        history = History([row.writing.prompt.tolist() for row in rows], recipe)
        logits = steps.first()
        present = list(rows)
        while True:
            sound = ~logits.isnan().any(dim=-1)
            # Rows with NaN end here; zeros keep the choice defined meanwhile.
            logits = history.change(torch.where(sound[:, None], logits, 0.0))
            tokens = pick(logits, recipe, [row.draws for row in present])
            self._grow(present, tokens.tolist(), sound.tolist())
            stay = [i for i, row in enumerate(present) if not row.ended]
            if not stay:
                return
            if (len(present) - len(stay)) * LEAVING_SHARE < len(present):
                stay = list(range(len(present)))
            keep = torch.tensor(stay)
            present = [present[i] for i in stay]
            tokens = tokens[keep.to(tokens.device)]
            history.add(tokens, keep)
            logits = steps.next(tokens, keep)

    def _grow(
        self, rows: Sequence[_Row], tokens: Sequence[int], sound: Sequence[bool]
    ) -> None:
        """Give each row that goes on its token, and see which of them end."""
        watched = []
        for row, token, is_sound in zip(rows, tokens, sound, strict=True):
            if row.ended:
                continue
            row.tokens.append(token)
            row.sound = is_sound
            full = len(row.tokens) >= row.writing.max_tokens
            row.ended = full or token in self._ends or not is_sound
            if not row.ended and row.span:
                watched.append(row)
        if not watched:
            return
        tails = self._encoder.decode_all([row.tokens[-row.span :] for row in watched])
        for row, tail in zip(watched, tails, strict=True):
            row.ended = any(stop in tail for stop in row.writing.stop)

    def _search(self, writing: Writing, recipe: Recipe) -> list[int]:
        """New tokens by beam search, which is transformers' own; stop strings are cut
        off afterwards."""
        ids = torch.as_tensor(writing.prompt, dtype=torch.long)[None]
        ids = ids.to(self._model.device)
        found = self._model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=writing.max_tokens,
            do_sample=False,
            num_beams=recipe.num_beams,
            length_penalty=recipe.length_penalty,
            early_stopping=recipe.early_stopping,
            repetition_penalty=recipe.repetition_penalty,
            no_repeat_ngram_size=recipe.no_repeat_ngram_size,
            pad_token_id=min(self._ends, default=0),
        )
        tokens: list[int] = found[0, ids.shape[1] :].tolist()
        end = next((i for i, t in enumerate(tokens) if t in self._ends), len(tokens))
        return tokens[: end + 1]

    def _finished(self, row: _Row) -> Text:
        tokens = row.tokens
        text = self._encoder.decode(tokens)
        if self._think_end:
            text = text.split(self._think_end)[-1].lstrip()
        stops = (*row.writing.stop, self._end_text)
        shown = cut(text, stops)
        stopped = (
            tokens[-1] in self._ends
            or len(tokens) < row.writing.max_tokens
            or shown != text
        )
        return Text(shown, len(tokens), "stop" if stopped else "length", row.sound)


def cut(text: str, stops: Iterable[str]) -> str:
    """The text before its stop strings, one after the other in their order (lm-eval
    0.4.13, ``models/utils.py``, ``postprocess_generated_text``)."""
    for stop in stops:
        if stop:
            text = text.split(stop)[0]
    return text


def _span(stops: Sequence[str]) -> int:
    """Tokens at the end of a text that hold a stop string which the last of them
    completes. A token is a byte or more, special ones without text aside, and a
    tokenizer may swallow a blank at the start of what it decodes."""
    return max((len(stop.encode()) + 4 for stop in stops), default=0)


def _end_ids(model: Any, encoder: Encoder) -> frozenset[int]:
    """The tokens that end a text: those of the model's ``generation_config``, and the
    tokenizer's."""
    named = model.generation_config.eos_token_id
    ids = named if isinstance(named, list | tuple) else [named]
    return frozenset(int(i) for i in (*ids, encoder.end_id) if i is not None)
