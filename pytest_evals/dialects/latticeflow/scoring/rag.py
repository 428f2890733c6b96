"""``rag_checker``: how good a retrieved answer is, claim by claim.

A judge takes texts apart into claims and says which claims follow from which text; the
scores are counted from that. Prompts and the form of replies are ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.dialects.latticeflow.metrics.claims import (
    SCORES,
    Entailed,
    rag_scores,
)
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.scoring.scorer import ScorerParts
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.solver_model import SolverChain
from pytest_evals.dialects.latticeflow.solvers.template_fields import Lines, line_to
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import DocumentError, did_you_mean
from pytest_evals.scorers.judge_replies import read_json

_MODES = ("all_claims", "required_only", "required_and_optional")
_WITHOUT_TARGET = ("faithfulness",)
_ASKS = {
    "target_by_answer": ("recall", "f1_score", "context_utilization"),
    "answer_by_target": (
        "precision",
        "f1_score",
        "noise_sensitivity_in_relevant",
        "noise_sensitivity_in_irrelevant",
        "hallucination",
        "self_knowledge",
    ),
    "target_by_chunk": (
        "claim_recall",
        "context_precision",
        "context_utilization",
        "noise_sensitivity_in_relevant",
        "noise_sensitivity_in_irrelevant",
    ),
    "answer_by_chunk": (
        "noise_sensitivity_in_relevant",
        "noise_sensitivity_in_irrelevant",
        "hallucination",
        "self_knowledge",
        "faithfulness",
    ),
}
"""What has to be known → for which scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checker:
    """What the section says.

    Args:
        line: To the judge.
        columns: What stands in which column, by the name of the key.
        scores: Those that are wanted.
        extraction: Added to what the judge is told about claims.
        labeling: Added to what it is told about what follows from what.
        mode: Which claims count.
    """

    line: SolverChain
    columns: Mapping[str, str]
    scores: tuple[str, ...]
    extraction: str
    labeling: str
    mode: str

    def dialogue(
        self, sample: Sample, output: SolverOutput | None
    ) -> Dialogue[SampleScore]:
        """Extract the claims, then hold them against texts."""
        if output is None:
            raise DocumentError("rag_checker needs the output of a solver")
        answer, chunks = output.answer, output.references
        query = self._text(sample, "query_column")
        needs_target = any(name not in _WITHOUT_TARGET for name in self.scores)
        target = self.target(sample) if needs_target else ""
        claims = yield from self._claims(sample, query, target, answer)
        texts = {"target": [target], "answer": [answer], "chunks": chunks}
        entailed = yield from self._entailed(sample, claims, texts)
        values = self._values(sample, entailed)
        metadata = {"target_claims": claims[0], "response_claims": claims[1]}
        return SampleScore(values, metadata)

    def target(self, sample: Sample) -> str:
        """What the answer should say.

        Raises:
            DocumentError: The sample has no such column.
        """
        return self._text(sample, "target_column")

    def _column(self, sample: Sample, key: str) -> Any:
        name = self.columns[key]
        if not name:
            return None
        if sample.get(name) is None:
            hint = did_you_mean(name, [str(one) for one in sample])
            raise DocumentError(f"{key}: the sample has no {name!r}{hint}")
        return sample[name]

    def _text(self, sample: Sample, key: str) -> str:
        found = self._column(sample, key)
        if found is None:
            raise DocumentError(f"{key} is not given, and the scores need it")
        return str(found)

    def _claims(
        self, sample: Sample, query: str, target: str, answer: str
    ) -> Dialogue[tuple[list[str], list[str]]]:
        """The claims of target and answer: those of a column, else the judge's."""
        given = [
            self._column(sample, "target_claims_column"),
            self._column(sample, "response_claims_column"),
        ]
        asked, places = [], []
        for place, text in enumerate((target, answer)):
            if given[place] is None and text.strip():
                asked.append(self._ask(sample, _EXTRACT, self.extraction, query, text))
                places.append(place)
        responses = (yield asked) if asked else ()
        for place, response in zip(places, responses, strict=True):
            given[place] = _listed(self.line.read(response).text, "claims")
        return _told(given[0] or ()), _told(given[1] or ())

    def _entailed(
        self,
        sample: Sample,
        claims: tuple[list[str], list[str]],
        texts: Mapping[str, Sequence[str]],
    ) -> Dialogue[Entailed]:
        """Hold the claims of target and answer against the texts."""
        sides = {
            "target_by_answer": (claims[0], texts["answer"]),
            "answer_by_target": (claims[1], texts["target"]),
            "target_by_chunk": (claims[0], texts["chunks"]),
            "answer_by_chunk": (claims[1], texts["chunks"]),
        }
        wanted = [
            (name, own, text)
            for name, (own, held) in sides.items()
            if any(score in self.scores for score in _ASKS[name])
            for text in held
        ]
        asked = [
            self._ask(sample, _ENTAIL, self.labeling, json.dumps(own, indent=1), text)
            for _, own, text in wanted
            if own
        ]
        replies = iter((yield asked) if asked else ())
        found: dict[str, list[list[bool]]] = {name: [] for name in sides}
        for name, own, _ in wanted:
            said = self.line.read(next(replies)).text if own else ""
            found[name].append(_flags(said, len(own)) if own else [])
        return Entailed(
            target_by_answer=(found["target_by_answer"] or [[]])[0],
            answer_by_target=(found["answer_by_target"] or [[]])[0],
            target_by_chunk=found["target_by_chunk"],
            answer_by_chunk=found["answer_by_chunk"],
        )

    def _ask(
        self, sample: Sample, task: str, more: str, first: str, second: str
    ) -> Any:
        text = task.format(first=first, second=second)
        messages = [{"role": "user", "content": f"{text}\n\n{more}" if more else text}]
        return self.line.ask({"messages": messages}, sample)

    def _values(self, sample: Sample, entailed: Entailed) -> dict[str, float]:
        if self.mode == _MODES[0]:
            return rag_scores(entailed, self.scores)
        required = rag_scores(
            _only(
                entailed,
                _required(self._column(sample, "target_labels_column")),
                _required(self._column(sample, "response_labels_column")),
            ),
            self.scores,
        )
        if self.mode == "required_only":
            return required
        named = {f"required_{name}": value for name, value in required.items()}
        return {**rag_scores(entailed, self.scores), **named}


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


def _listed(reply: str, key: str) -> list[Any]:
    found = read_json(reply, (key,))
    if found is None or not isinstance(found[key], list):
        raise DocumentError(f"the judge's reply has no list of {key}: {reply!r:.200}")
    return list(found[key])


def _flags(reply: str, n: int) -> list[bool]:
    flags = _listed(reply, "entailed")
    if len(flags) != n or not all(isinstance(flag, bool) for flag in flags):
        raise DocumentError(
            f"the judge's reply does not say true or false of {n} claims: "
            f"{reply!r:.200}"
        )
    return flags


def _told(claims: Any) -> list[str]:
    """Claims as texts; those of a column have a subject, a predicate and an object."""
    if not isinstance(claims, Sequence) or isinstance(claims, str):
        raise DocumentError(f"claims are a list, not {claims!r:.80}")
    return [
        " ".join(str(part) for part in claim.values())
        if isinstance(claim, Mapping)
        else str(claim)
        for claim in claims
    ]


def _required(labels: Any) -> list[bool] | None:
    """Whether each claim is required; ``None`` where nothing is said."""
    if labels is None:
        return None
    if not isinstance(labels, Sequence) or isinstance(labels, str):
        raise DocumentError(f"labels of claims are a list, not {labels!r:.80}")
    return [str(label).upper() == "REQUIRED" for label in labels]


def _only(
    entailed: Entailed, target: list[bool] | None, answer: list[bool] | None
) -> Entailed:
    """What is known of the claims that are required."""

    def kept(flags: Sequence[bool], required: list[bool] | None) -> list[bool]:
        if required is None or not flags:
            return list(flags)
        if len(required) != len(flags):
            raise DocumentError(f"{len(flags)} claims have {len(required)} labels")
        return [flag for flag, one in zip(flags, required, strict=True) if one]

    return Entailed(
        target_by_answer=kept(entailed.target_by_answer, target),
        answer_by_target=kept(entailed.answer_by_target, answer),
        target_by_chunk=[kept(row, target) for row in entailed.target_by_chunk],
        answer_by_chunk=[kept(row, answer) for row in entailed.answer_by_chunk],
    )


def read_rag(section: Section, lines: Lines, has_solver: bool) -> ScorerParts:
    """The scorer of a section; what is wrong with it are problems of the file."""
    if not has_solver:
        section.problem("type", "rag_checker needs a task with a solver")
    scores = _scores(section)
    mode = section.one_of("mode", "mode", _MODES, _MODES[0])
    defaults = {"query_column": "query", "target_column": "target"}
    others = ("target_claims_column", "response_claims_column")
    labels = ("target_labels_column", "response_labels_column")
    columns = {
        key: section.text(key) or defaults.get(key, "")
        for key in (*defaults, *others, *labels)
    }
    if mode != _MODES[0] and not any(columns[key] for key in labels):
        what = f"mode {mode} needs to know which claims are required"
        section.problem("mode", what, "target_labels_column: labels")
    checker = _Checker(
        line=line_to(section, "judge_model_key", lines),
        columns=columns,
        scores=scores,
        extraction=section.text("claim_extraction_instructions"),
        labeling=section.text("claim_labeling_instructions"),
        mode=mode,
    )
    return ScorerParts(
        dialogue=checker.dialogue, scores=_names(scores, mode), target=checker.target
    )


def _names(scores: Sequence[str], mode: str) -> tuple[str, ...]:
    more = scores if mode == "required_and_optional" else ()
    return (*scores, *(f"required_{name}" for name in more))


def _scores(section: Section) -> tuple[str, ...]:
    given = section.take("scores_to_compute", list, [])
    for name in given:
        if name not in SCORES:
            hint = did_you_mean(str(name), SCORES) or f"; known: {', '.join(SCORES)}"
            section.problem("scores_to_compute", f"no score called {name!r}{hint}")
    return tuple(name for name in SCORES if not given or name in given)
