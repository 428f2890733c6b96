"""``rag_checker`` scorers: the quality of a retrieval-augmented answer, claim by claim,
after RAGChecker (Ru et al. 2024, arXiv 2408.08067).

A judge extracts claims from texts and decides which texts entail them; the scores are
computed from that. A score with an empty denominator is omitted. The prompts and the
reply format are our own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pytest_evals.core.dialogue import Dialogue, ReadAsk
from pytest_evals.errors import DocumentError, suggestion, unknown_name
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.prompts.output import SampleScore, SolverOutput
from pytest_evals.guests.latticeflow.scoring.scorer import SampleScorer, ScorerContext
from pytest_evals.guests.latticeflow.solvers.model_client import Sample, model_client
from pytest_evals.scorers.judge_replies import read_json

SCORES = (
    "recall",
    "precision",
    "f1_score",
    "claim_recall",
    "context_precision",
    "context_utilization",
    "noise_sensitivity_in_relevant",
    "noise_sensitivity_in_irrelevant",
    "hallucination",
    "self_knowledge",
    "faithfulness",
)
"""Names of all scores; only the last needs no target."""

Entailment = Mapping[str, Sequence[Sequence[bool]]]
"""Key of ``_ASKS`` → for each text, whether it entails the claims: those of the target
or the answer. A target or an answer is one text, retrieved passages are several."""


def rag_scores(entailed: Entailment, requested: Sequence[str]) -> dict[str, float]:
    """Return the requested scores that are defined."""
    recalled, correct = (
        (entailed[name] or [[]])[0] for name in ("target_by_answer", "answer_by_target")
    )
    relevant = [any(row) for row in entailed["target_by_chunk"]]
    retrieved = _by_any(entailed["target_by_chunk"], len(recalled))
    shares: dict[str, Sequence[bool]] = {
        "recall": recalled,
        "precision": correct,
        "claim_recall": retrieved,
        "context_precision": relevant,
        "context_utilization": [
            a for a, h in zip(recalled, retrieved, strict=True) if h
        ],
        **_noise_flags(entailed["answer_by_chunk"], correct, relevant),
    }
    scores = {name: sum(flags) / len(flags) for name, flags in shares.items() if flags}
    recall, precision = scores.get("recall"), scores.get("precision")
    if recall is not None and precision is not None:
        both = recall + precision
        scores["f1_score"] = 2 * recall * precision / both if both else 0.0
    return {
        name: scores[name] for name in SCORES if name in requested and name in scores
    }


def _noise_flags(
    by_chunk: Sequence[Sequence[bool]],
    correct: Sequence[bool],
    relevant: Sequence[bool],
) -> dict[str, list[bool]]:
    n = len(by_chunk[0]) if by_chunk else len(correct)
    pairs = zip(by_chunk, relevant, strict=False)
    from_relevant = _by_any([row for row, is_relevant in pairs if is_relevant], n)
    by_any = _by_any(by_chunk, n)
    if len(correct) != n:
        return {"faithfulness": by_any}
    cases = list(zip(correct, by_any, from_relevant, strict=True))
    return {
        "faithfulness": by_any,
        "noise_sensitivity_in_relevant": [not r and c for r, _, c in cases],
        "noise_sensitivity_in_irrelevant": [not r and h and not c for r, h, c in cases],
        "hallucination": [not r and not h for r, h, _ in cases],
        "self_knowledge": [r and not h for r, h, _ in cases],
    }


def _by_any(rows: Sequence[Sequence[bool]], n: int) -> list[bool]:
    return [any(row[claim] for row in rows) for claim in range(n)]


_MODES = ("all_claims", "required_only", "required_and_optional")
_LABELS = ("target_labels_column", "response_labels_column")
_COLUMNS = {
    "query_column": "query",
    "target_column": "target",
    "target_claims_column": "",
    "response_claims_column": "",
    **dict.fromkeys(_LABELS, ""),
}
"""Key of the section → default column; empty for none."""
_NOISE = ("noise_sensitivity_in_relevant", "noise_sensitivity_in_irrelevant")
_UNFOUNDED = ("hallucination", "self_knowledge")
_ASKS = {
    "target_by_answer": ("recall", "f1_score", "context_utilization"),
    "answer_by_target": ("precision", "f1_score", *_NOISE, *_UNFOUNDED),
    "target_by_chunk": (
        "claim_recall",
        "context_precision",
        "context_utilization",
        *_NOISE,
    ),
    "answer_by_chunk": (*_NOISE, *_UNFOUNDED, "faithfulness"),
}
"""Required entailment → scores that need it."""


class _Checker:
    def __init__(self, section: Keys, task: ScorerContext) -> None:
        given = section.take("scores_to_compute", list, [])
        for name in given:
            if name not in SCORES:
                message = unknown_name("score", name, SCORES)
                section.problem("scores_to_compute", message)
        self.scores = tuple(name for name in SCORES if not given or name in given)
        self.mode = section.one_of("mode", "mode", _MODES, _MODES[0])
        self._columns = {key: section.text(key) or _COLUMNS[key] for key in _COLUMNS}
        if self.mode != _MODES[0] and not any(self._columns[key] for key in _LABELS):
            message = f"mode {self.mode} needs labels of the claims"
            section.problem("mode", message, "target_labels_column: labels")
        self._client = model_client(section, "judge_model_key", task.models)
        # Additional instructions
        self._extraction = section.text("claim_extraction_instructions")
        self._labeling = section.text("claim_labeling_instructions")

    def dialogue(
        self, sample: Sample, output: SolverOutput | None
    ) -> Dialogue[SampleScore]:
        assert output is not None, "there is a solver"
        answer, chunks = output.answer, output.references
        query = str(self._column(sample, "query_column"))
        needs_target = any(name != "faithfulness" for name in self.scores)
        target = self.target(sample) if needs_target else ""
        claims = yield from self._claims(sample, query, target, answer)
        sides = {
            "target_by_answer": (claims[0], [answer]),
            "answer_by_target": (claims[1], [target]),
            "target_by_chunk": (claims[0], chunks),
            "answer_by_chunk": (claims[1], chunks),
        }
        entailment = yield from self._entailment(sample, sides)
        values = self._values(sample, entailment)
        metadata = {"target_claims": claims[0], "response_claims": claims[1]}
        return SampleScore(values, metadata)

    def target(self, sample: Sample) -> str:
        return str(self._column(sample, "target_column"))

    def _column(self, sample: Sample, key: str) -> Any:
        name = self._columns[key]
        if not name:
            return None
        if sample.get(name) is None:
            raise DocumentError(
                f"{key}: the sample has no {name!r}{suggestion(name, sample)}"
            )
        return sample[name]

    def _claims(
        self, sample: Sample, query: str, target: str, answer: str
    ) -> Dialogue[tuple[list[str], list[str]]]:
        """Return the claims of target and answer, from a column or from the judge."""
        columns = ("target_claims_column", "response_claims_column")
        claims = [self._column(sample, key) for key in columns]
        texts = {0: target, 1: answer}
        sides = [n for n, text in texts.items() if claims[n] is None and text.strip()]
        read = partial(_reply_list, key="claims")
        prompts = [_EXTRACT.format(first=query, second=texts[n]) for n in sides]
        asks = [self._ask(sample, one, self._extraction, read) for one in prompts]
        found = yield from self._replies(asks)
        for n, one in zip(sides, found, strict=True):
            claims[n] = one
        return _as_strings(claims[0] or ()), _as_strings(claims[1] or ())

    def _entailment(
        self, sample: Sample, sides: Mapping[str, tuple[list[str], Sequence[str]]]
    ) -> Dialogue[Entailment]:
        checks = [
            (name, facts, text)
            for name, (facts, texts) in sides.items()
            if any(score in self.scores for score in _ASKS[name])
            for text in texts
        ]
        asks = []
        for _, facts, text in checks:
            if facts:
                prompt = _ENTAIL.format(first=json.dumps(facts, indent=1), second=text)
                read = partial(_flags, n=len(facts))
                asks.append(self._ask(sample, prompt, self._labeling, read))
        replies = iter((yield from self._replies(asks)))
        found: dict[str, list[list[bool]]] = {name: [] for name in sides}
        for name, facts, _ in checks:
            found[name].append(next(replies) if facts else [])
        return found

    def _replies(self, asks: Sequence[ReadAsk]) -> Dialogue[list[list[Any]]]:
        responses = (yield asks) if asks else ()
        pairs = zip(asks, responses, strict=True)
        return [ask.read(response) for ask, response in pairs]

    def _ask(
        self, sample: Sample, text: str, more: str, read: Callable[[str], list[Any]]
    ) -> ReadAsk:
        messages = [{"role": "user", "content": f"{text}\n\n{more}" if more else text}]
        ask = self._client.ask({"messages": messages}, sample)
        return self._client.readable(ask, read)

    def _values(self, sample: Sample, entailment: Entailment) -> dict[str, float]:
        if self.mode == _MODES[0]:
            return rag_scores(entailment, self.scores)
        target, answer = (_required(self._column(sample, key)) for key in _LABELS)
        only_required = {
            name: [
                _select(x, target if name.startswith("target") else answer)
                for x in rows
            ]
            for name, rows in entailment.items()
        }
        required = rag_scores(only_required, self.scores)
        if self.mode == "required_only":
            return required
        named = {f"required_{name}": value for name, value in required.items()}
        return {**rag_scores(entailment, self.scores), **named}


_EXTRACT = """Take a text apart into claims: short statements that each say one thing,
that can be understood by themselves, and that together say what the text says.

Question that the text is about:
{first}

Text:
{second}

Reply with a JSON object and nothing else: {{"claims": ["...", "..."]}}"""
_ENTAIL = """Say of each claim whether it follows from a text: true if the text states
or implies it, false if the text contradicts it or does not say.

Claims:
{first}

Text:
{second}

Reply with a JSON object and nothing else, with one value for each claim, in their
order: {{"entailed": [true, false]}}"""


def _reply_list(reply: str, key: str) -> list[Any]:
    results = read_json(reply, (key,))
    if results is None or not isinstance(results[key], list):
        raise DocumentError(f"the judge's reply has no list of {key}: {reply!r:.200}")
    return list(results[key])


def _flags(reply: str, n: int) -> list[bool]:
    flags = _reply_list(reply, "entailed")
    if len(flags) != n or not all(isinstance(flag, bool) for flag in flags):
        raise DocumentError(
            f"the judge's reply must have {n} values of true or false: {reply!r:.200}"
        )
    return flags


def _as_strings(claims: Any) -> list[str]:
    """Return claims as strings; those of a column have three parts."""
    return [
        " ".join(str(part) for part in claim.values())
        if isinstance(claim, Mapping)
        else str(claim)
        for claim in _listed(claims, "claims")
    ]


def _listed(values: Any, noun: str) -> Sequence[Any]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise DocumentError(f"{noun} must be a list, not {values!r:.80}")
    return values


def _required(labels: Any) -> list[bool] | None:
    if labels is None:
        return None
    listed = _listed(labels, "labels of claims")
    return [str(label).upper() == "REQUIRED" for label in listed]


def _select(flags: Sequence[bool], required: list[bool] | None) -> list[bool]:
    if required is None or not flags:
        return list(flags)
    if len(required) != len(flags):
        raise DocumentError(f"{len(flags)} claims have {len(required)} labels")
    return [flag for flag, one in zip(flags, required, strict=True) if one]


def read_rag(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return the scorer."""
    task.needs_solver(section)
    checker = _Checker(section, task)
    scores = checker.scores
    if checker.mode == "required_and_optional":
        scores = (*scores, *(f"required_{name}" for name in scores))
    return SampleScorer(dialogue=checker.dialogue, shares=scores, target=checker.target)
