"""Generation after prompts with images, by transformers' ``generate``.

Greedy completions run in batches padded on the left; each row ends at its own stop
strings. Sampling and beam search run one request at a time, so that results do not
depend on the batch. Prompts are never truncated: images would be cut.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from pytest_evals.core.key import public_options
from pytest_evals.core.request import Finish, Generate, Response
from pytest_evals.models.engine.generation_options import seed_of
from pytest_evals.models.engine.scorer import NOT_A_NUMBER
from pytest_evals.models.engine.stop_strings import (
    StopStrings,
    answer_text,
    cut_at_stops,
)
from pytest_evals.models.engine.tool_replies import keeps_special_tokens
from pytest_evals.models.hf.generation.engine import end_ids
from pytest_evals.models.hf.generation.sampling import SamplingParams, top_of
from pytest_evals.models.hf.images.runner import BatchRunner, error_at
from pytest_evals.models.images.processor import IDS, EncodedPrompts
from pytest_evals.models.images.prompts import ImagePrompt
from pytest_evals.models.prefetch import Answer
from pytest_evals.models.tokens.prompt_truncation import fit_prompt
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
)


class TextJob(NamedTuple):
    """A text to generate."""

    position: int
    request: Generate
    prompt: ImagePrompt
    params: SamplingParams

    @property
    def stop(self) -> tuple[str, ...]:
        """The stop strings."""
        return tuple(one for one in self.request.stop if one)


class _Row(NamedTuple):
    """The new tokens of a job."""

    tokens: list[int]  # With the end-of-sequence token, if it ended there
    finite: bool  # Whether no logits were NaN
    tops: list[list[tuple[int, float]]]  # Top tokens of each step


class TextRunner(BatchRunner[TextJob]):
    """Generates texts. The jobs of a call have equal sampling parameters."""

    @cached_property
    def _ends(self) -> frozenset[int]:
        return end_ids(self._runtime.model, self._runtime.encoder)

    def _why_not(self, job: TextJob, n_prompt: int) -> str:
        limit = self._limit(job, n_prompt)
        return str(limit) if isinstance(limit, InvalidRequestError) else ""

    def _limit(self, job: TextJob, n_prompt: int) -> int | InvalidRequestError:
        """Maximum of new tokens."""
        window = self._runtime.loaded.max_length
        budget = fit_prompt(job.request, n_prompt, window)
        if isinstance(budget, InvalidRequestError):
            return budget
        if budget.n_prompt < n_prompt:
            return InvalidRequestError(
                f"the prompt has {n_prompt} tokens, images included, and the answer up "
                f"to {job.request.max_tokens}; the model's window has {window}\n"
                "  fix: set max_pixels or image_max_side, or fewer max_tokens"
            )
        return budget.max_tokens

    def _logits(self, encoded: EncodedPrompts, jobs: Sequence[TextJob]) -> list[Tensor]:
        found = self._generate(
            encoded, max_new_tokens=1, do_sample=False, num_beams=1, output_logits=True
        )
        return [*found.logits[0].float()]

    def _run(
        self, encoded: EncodedPrompts, jobs: Sequence[TextJob], begun: float
    ) -> list[Answer]:
        sized = zip(jobs, encoded.lengths, strict=True)
        limits = [limit for one in sized if isinstance(limit := self._limit(*one), int)]
        rows = self._rows(encoded, jobs, limits)
        share = (time.perf_counter() - begun) / len(jobs)
        return [
            (job.position, self._response(job, row, limit, n, share))
            for job, row, limit, n in zip(
                jobs, rows, limits, encoded.lengths, strict=True
            )
        ]

    def _errors(self, job: TextJob, why: str) -> list[Answer]:
        return [error_at(job.position, why)]

    def _rows(
        self, encoded: EncodedPrompts, jobs: Sequence[TextJob], limits: Sequence[int]
    ) -> list[_Row]:
        params, n_prompt = jobs[0].params, encoded.tensors[IDS].shape[1]
        stops = _RowStops(self._runtime.encoder, [job.stop for job in jobs], n_prompt)
        device = self._runtime.model.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(_seed(jobs[0].request))
            found = self._generate(
                encoded,
                stopping_criteria=StoppingCriteriaList([stops]),
                max_new_tokens=max(limits),
                output_logits=params.num_beams == 1,
                **params.settings,
            )
        new = found.sequences[:, n_prompt:].tolist()
        steps: Sequence[Tensor] = found.logits or ()
        broken = [step.isnan().any(dim=-1).tolist() for step in steps]
        rows = []
        for i, limit in enumerate(limits):
            tokens = self._ended(new[i][:limit], params)
            seen = steps[: len(tokens)] if params.top_logprobs else ()
            tops = [top_of(step[i : i + 1], params.top_logprobs)[0] for step in seen]
            is_broken = any(step[i] for step in broken[: len(tokens)])
            rows.append(_Row(tokens, not is_broken, tops))
        return rows

    @torch.inference_mode()
    def _generate(self, encoded: EncodedPrompts, **settings: Any) -> Any:
        with warnings.catch_warnings():
            # transformers warns of lengths that it then does its best with.
            warnings.simplefilter("ignore")
            return self._runtime.model.generate(
                **self._runtime.placed(encoded),
                pad_token_id=self._runtime.processor.pad_id,
                return_dict_in_generate=True,
                **settings,
            )

    def _ended(self, tokens: list[int], params: SamplingParams) -> list[int]:
        """The tokens up to the end of the sequence."""
        named = dict(params.others).get("eos_token_id")
        more = named if isinstance(named, tuple) else (named,)
        ends = self._ends if named is None else {self._runtime.encoder.end_id, *more}
        end = next((i for i, t in enumerate(tokens) if t in ends), len(tokens))
        return tokens[: end + 1]

    def _response(
        self, job: TextJob, row: _Row, limit: int, n_prompt: int, elapsed_s: float
    ) -> Response:
        if not row.finite:
            return Response(error=NOT_A_NUMBER, elapsed_s=elapsed_s)
        encoder, tokens = self._runtime.encoder, row.tokens
        specials = keeps_special_tokens(job.request)
        has_end = bool(tokens) and tokens[-1] in self._ends
        kept = tokens[:-1] if specials and has_end else tokens
        mark = self._runtime.loaded.settings.think_end_token
        text, _ = answer_text(encoder, kept, mark, specials=specials)
        cut = cut_at_stops(text, (*job.stop, encoder.end_text))
        stopped = has_end or len(tokens) < limit or cut != text
        finish: Finish = "stop" if stopped else "length"
        name = encoder.name_of
        return Response(
            text=cut,
            n_prompt_tokens=n_prompt,
            n_tokens=len(tokens),
            finish=finish,
            elapsed_s=elapsed_s,
            top_logprobs=tuple(
                (name(token), tuple((name(one), value) for one, value in top))
                for token, top in zip(tokens, row.tops, strict=False)
                if top
            ),
        )


def _seed(request: Generate) -> int:
    """The request's own seed; of images their content is part of it, not their
    place."""
    options = public_options(request.options)
    return seed_of(replace(request, options=options)) % 2**63


class _RowStops(StoppingCriteria):
    """Ends each row at its own stop strings."""

    def __init__(
        self, encoder: RequestEncoder, stops: Sequence[tuple[str, ...]], n_prompt: int
    ) -> None:
        made: Mapping[tuple[str, ...], StopStrings] = {
            one: StopStrings(encoder, one) for one in set(stops)
        }
        self._stops = [made[one] for one in stops]
        self._encoder = encoder
        self._n_prompt = n_prompt

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """(B,) whether each of the rows ends, (B, T) ``input_ids``."""
        n_beams = len(input_ids) // len(self._stops)
        done = []
        for number, row in enumerate(input_ids[:, self._n_prompt :].tolist()):
            stops = self._stops[number // n_beams]
            tail = stops.tail(row)
            (text,) = self._encoder.decode_all([tail]) if tail else ("",)
            done.append(stops.in_text(text))
        return torch.tensor(done, device=input_ids.device)
