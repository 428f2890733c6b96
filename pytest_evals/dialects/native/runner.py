"""Requests and scores of the cases of an eval."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from pytest_evals.core.case import Case
from pytest_evals.core.dialogue import OWN_MODEL, Ask, Dialogue, replayed, together
from pytest_evals.core.doc import Doc
from pytest_evals.core.record import Record, Score
from pytest_evals.core.request import (
    TOOLS,
    TRACES,
    Message,
    Prompt,
    Response,
    are_copies,
)
from pytest_evals.core.returned import compact
from pytest_evals.core.task import Asked, TaskOptions
from pytest_evals.dialects.native.cases import CaseRows
from pytest_evals.dialects.native.choices import EvalChoices
from pytest_evals.dialects.native.conversations import conversation
from pytest_evals.dialects.native.parts import FILTER, EvalParts, Scorer
from pytest_evals.dialects.native.row_checks import text_error
from pytest_evals.errors import DocumentError
from pytest_evals.prompts.case_files import image_option
from pytest_evals.scorers.answers import AnswerScorer
from pytest_evals.scorers.extract import Extraction
from pytest_evals.scorers.functions import FunctionScorer, Started
from pytest_evals.scorers.metric_value import all_or_unscored
from pytest_evals.scorers.model_scorer import ModelScorer
from pytest_evals.scorers.rubric import RubricScorer


class _Answers(NamedTuple):
    """A case, the responses to it and the scores of the judges."""

    case: Case
    responses: Sequence[Response]
    judged: Sequence[Score]


class _Begun(NamedTuple):
    """Async scorers that were started for a case: name and number of the answer →
    result."""

    responses: Sequence[Response]
    started: Mapping[tuple[str, int], Started | None]


class EvalRunner:
    """Requests and scores of one eval."""

    def __init__(self, parts: EvalParts, rows: CaseRows, options: TaskOptions) -> None:
        self._parts, self._rows, self._options = parts, rows, options
        self.own_model = None if options.has_model else parts.model
        self.begins_early = parts.begins_early and any(
            isinstance(one, FunctionScorer) and one.is_async for one in parts.scorers
        )
        self._templates = [
            template
            for scorer in parts.scorers
            for template in scorer.templates
            if parts.is_text
        ]
        self._begun: dict[int, _Begun] = {}
        by = parts.choices_by
        self.choices = None if by is None else EvalChoices(by, options)

    def ask(self, index: int) -> Asked:
        """The document of a case, and its requests. Raises DocumentError if the case
        cannot be built."""
        case = self._rows.cases.case(index)
        if case.user is not None and self._parts.user is None:
            raise DocumentError(
                "the case has a simulated user, and the eval names no model for it\n"
                '  fix: user={"model": "openai:gpt-4o-mini"}'
            )
        asked = self._asked(case, index)
        is_chat = case.turns or self._parts.user
        is_later = bool(is_chat) or self.own_model is not None
        return asked._replace(requests=()) if is_later else asked

    def follow_up(
        self, record: Record, *, is_longest: bool = False
    ) -> Dialogue[_Answers]:
        """Ask the eval's own model, if the session has none; then the judges.
        ``is_longest``: also about answers that lack the part that is scored."""
        responses: Sequence[Response] = record.responses
        case = replace(
            self._rows.cases.case(record.index), id=record.doc.id, row=record.doc.row
        )
        text_error(self._templates, case)
        tested = "" if self.own_model is None else OWN_MODEL
        if case.turns or self._parts.user:
            name = f"{record.task}[{case.id}]"
            requests = self._asked(case, record.index, name).requests
            user = self._parts.user
            talk = conversation if user is None else user.conversation
            conversations = [talk(case, one, tested) for one in requests]
            responses = yield from together(conversations)
        elif tested:
            asked = self._asked(case, record.index)
            responses = yield [Ask(tested, one) for one in asked.requests]
        answered = [one.raise_for_error() for one in responses]
        judges = [one for one in self._parts.scorers if isinstance(one, ModelScorer)]
        dialogues = [
            one.dialogue(each, case) if is_longest else self._judged(one, each, case)
            for one in judges
            for each in answered
        ]
        judged = yield from together(dialogues)
        return _Answers(case, responses, judged)

    def begin(self, record: Record) -> None:
        """Start the async scorers of an answered case in the background."""
        try:
            found = replayed(self.follow_up(record), record.exchanges, by_order=True)
        except DocumentError:
            return  # raised again when the case is scored
        started: dict[tuple[str, int], Started | None] = {}
        for scorer in self._parts.scorers:
            if isinstance(scorer, FunctionScorer):
                for n, one in enumerate(found.responses):
                    text = self._part(one) or ""
                    started[scorer.name, n] = scorer.start(text, found.case, one)
        self._begun[record.index] = _Begun(found.responses, started)

    def score(
        self, record: Record, *, keeps_repeats: bool = False
    ) -> tuple[Score, ...]:
        """The scores of an answered case. Raises DocumentError if it cannot be
        scored."""
        found = replayed(self.follow_up(record), record.exchanges, by_order=True)
        if self.choices is not None:
            return self.choices.scores(record.doc, found.responses)
        begun = self._begun.pop(record.index, None)
        if begun is None or begun.responses != found.responses:
            begun = _Begun(found.responses, {})
        scores = all_or_unscored(
            [*self._scorers(found, begun.started)],
            lambda name, why: Score(metric=name, filter=FILTER, unscored=why),
        )
        if keeps_repeats:
            return tuple(scores)
        return tuple(replace(one, repeats=(), repeat_answers=()) for one in scores)

    def _scorers(
        self, found: _Answers, started: Mapping[tuple[str, int], Started | None]
    ) -> Iterator[tuple[tuple[str], Callable[[], list[Score]]]]:
        """Yield the name of each scorer, and a function that returns its score."""
        answers = [one.text for one in found.responses]
        is_sampled = self._parts.sampling.temperature > 0 and len(answers) > 1
        is_copied = is_sampled and len(set(answers)) == 1
        by_judge = iter(found.judged)

        def score(scorer: Scorer) -> list[Score]:
            if isinstance(scorer, ModelScorer):
                values = [next(by_judge) for _ in answers]
            elif isinstance(scorer, FunctionScorer):
                values = [
                    scorer(
                        self._part(one) or "",
                        found.case,
                        one,
                        started.get((scorer.name, n)),
                    )
                    for n, one in enumerate(found.responses)
                ]
            else:
                values = [
                    self._compared(scorer, one, found.case) for one in found.responses
                ]
            combined = replace(
                _combined(values, answers),
                is_copied=is_copied,
                is_deterministic=are_copies(found.responses),
            )
            if isinstance(scorer, RubricScorer):
                combined = scorer.labelled(combined, found.case.id, answers[0])
            return [combined]

        for scorer in self._parts.scorers:
            yield (scorer.name,), partial(score, scorer)

    def _part(
        self, response: Response, extract: Extraction | None = None
    ) -> str | None:
        """The part of an answer that is scored, ``None`` if it is missing."""
        extract = extract or self._parts.extract
        return response.text if extract is None else extract(response.text)

    def _compared(self, scorer: AnswerScorer, response: Response, case: Case) -> Score:
        part = self._part(response, scorer.extract)
        if part is None and not scorer.reads_response:
            return self._without_part(scorer, response, scorer.extract)
        is_whole = part is response.text
        return scorer(
            response if is_whole else replace(response, text=part or ""), case
        )

    def _judged(
        self, judge: ModelScorer, response: Response, case: Case
    ) -> Dialogue[Score]:
        part = self._part(response)
        if part is None:
            return self._without_part(judge, response)
        return (yield from judge.dialogue(replace(response, text=part), case))

    def _without_part(
        self, scorer: Scorer, response: Response, extract: Extraction | None = None
    ) -> Score:
        extract = extract or self._parts.extract
        return Score(
            metric=scorer.name,
            value=0.0,
            correct=False,
            answer=response.text,
            explanation=extract.missing if extract else "",
        )

    def _asked(self, case: Case, index: int, conversation: str = "") -> Asked:
        doc = _doc(case, self._rows.id(index), self._parts.name)
        system = self._options.system_instruction or self._parts.system
        prompt = prompt_of(case.prompt, system, chat=self._options.chat)
        if self.choices is not None:
            images = image_option(case, len(prompt) - len(case.prompt))
            return self.choices.asked(index, doc, prompt, images)
        sampling = self._parts.sampling
        more = image_option(case, len(prompt) - len(case.prompt))
        more += ((TRACES, True),) if self._parts.traces else ()
        if self._parts.tools is not None:
            text = self._parts.tools(case.row)
            more += ((TOOLS, text),) if text else ()
        if more:
            options = tuple(sorted((*sampling.options, *more)))
            sampling = replace(sampling, options=options)
        repeats = self._parts.repeats
        return Asked(doc, sampling.requests(prompt, repeats, conversation))


def prompt_of(prompt: Prompt, system: str, *, chat: bool) -> Prompt:
    """The prompt as text, or as a chat if it has messages or a system message."""
    if isinstance(prompt, str):
        if not chat and not system:
            return prompt
        messages = [Message("user", prompt)]
    else:
        messages = [*prompt]
    if system and messages[0].role != "system":
        messages.insert(0, Message("system", system))
    return tuple(messages)


def _doc(case: Case, id_: str, task: str) -> Doc:
    target = case.target
    listed = list(target) if isinstance(target, list | tuple) else [target]
    texts = [] if target is None else [*map(_target_text, listed)]
    query = case.prompt if isinstance(case.prompt, str) else case.prompt[-1].content
    if case.choices is not None:
        texts, golds = [*case.choices], case.golds
        listed = [texts[n] for n in golds]
        target = listed[0] if len(listed) == 1 else listed
    else:
        golds = [*range(len(texts))]
    return Doc(
        query,
        texts,
        golds[0] if len(golds) == 1 else golds,
        id=id_,
        task_name=task,
        row=case.row,
        target=target,
    )


def _target_text(target: Any) -> str:
    return compact(target) if isinstance(target, dict | list) else str(target)


def _combined(scores: Sequence[Score], answers: Sequence[str]) -> Score:
    """The score of a case: the mean over its answers; correct if at least half are."""
    first = scores[0]
    if len(scores) == 1:
        return first
    missing = next((one for one in scores if one.unscored), None)
    if missing is not None:
        return missing
    values = [one.value for one in scores]
    if not all(isinstance(one, bool | int | float) for one in values):
        raise DocumentError(f"{first.metric}: with repeats, scores must be numbers")
    known = [one.correct for one in scores if one.correct is not None]
    wrong = next((one for one in scores if one.correct is False), first)
    return replace(
        wrong,
        value=sum(values) / len(values),
        correct=2 * sum(known) >= len(known) if known else None,
        repeats=tuple(values),
        votes=tuple(vote for one in scores for vote in one.votes),
        repeat_answers=tuple(
            one.answer or text for one, text in zip(scores, answers, strict=True)
        ),
    )
