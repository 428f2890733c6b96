"""Simulated users: a second model writes the user's messages of a conversation, from a
goal, until the goal is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_evals.core.case import Case, UserRole
from pytest_evals.core.dialogue import USER, Dialogue, ModelSource, ReadAsk
from pytest_evals.core.finite import is_finite
from pytest_evals.core.request import Generate, Message, Request, Response
from pytest_evals.core.task import MOST_REPEATS
from pytest_evals.dialects.native.conversations import ChatHistory
from pytest_evals.errors import DocumentError, EvalsError, unknown_name
from pytest_evals.scorers.templates import ScorerTemplate

GOAL = "goal"
"""Name in rows of the rendered goal."""
MOST_TURNS = 100
PROMPT = (
    "You play a user who talks to an assistant. Stay in this role.\n\n"
    "The user's goal: {goal}\n"
    "{persona}\n"
    "Write only the next message of the user, as plain text. Give a fact of the goal "
    "when the assistant asks for it or needs it, and invent none. Do not help the "
    "assistant, and do not repeat its words. When the assistant has done what "
    "the user wants, and has not only promised or offered it, or when it is clear that "
    "the goal cannot be reached, write {stop} and nothing else."
)
FIRST = "(The conversation begins. Write the user's first message.)"
_FIX = 'user: {goal: "Get a refund.", model: "openai:gpt-4o-mini"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSimulator:
    """Settings of simulated users.

    Args:
        source: The model that writes the user's messages.
        goal: What the user wants; a template over the row. ``None`` if each case has
            its own.
        persona: How the user behaves; likewise.
        max_turns: Most messages of the user.
        stop: Text with which the user ends the conversation.
        temperature: Of the user's messages.
        seed: Seed of the user's messages; ``None`` for none.
        max_tokens: Most tokens of a message.
    """

    source: ModelSource
    goal: ScorerTemplate | None = None
    persona: ScorerTemplate | None = None
    max_turns: int = 8
    stop: str = "[done]"
    temperature: float = 0.0
    seed: int | None = None
    max_tokens: int = 512

    @property
    def templates(self) -> tuple[ScorerTemplate, ...]:
        """All texts that are rendered for each case."""
        return tuple(one for one in (self.goal, self.persona) if one is not None)

    def role(self, given: Any, row: Mapping[str, Any]) -> UserRole:
        """The role of a case's user. ``given``: the case's own role, if it has one.

        Raises:
            DocumentError: The goal is missing, or a template cannot be rendered.
        """
        own = None if given is None else UserRole.of(given)
        bare = Case(prompt="-", row=row)
        goal = own.goal if own else ""
        if not goal and self.goal is not None:
            goal = self.goal.render(bare).strip()
        if not goal:
            raise DocumentError(f"the user has no goal\n  fix: {_FIX}")
        persona = own.persona if own else ""
        if not persona and self.persona is not None:
            persona = self.persona.render(bare).strip()
        return UserRole(goal=goal, persona=persona)

    def applied(self, case: Case) -> Case:
        """The case with its role, whose row has the goal.

        Raises:
            DocumentError: As for :meth:`role`; or the case has turns.
        """
        role = self.role(case.user, case.row)
        return replace(case, user=role, row={GOAL: role.goal, **case.row})

    def conversation(
        self, case: Case, first: Request, model: str
    ) -> Dialogue[Response]:
        """Let the user and the tested model talk.

        The result is as that of fixed turns; its ``metadata`` has ``stop_reason``
        (``stop`` or ``max_turns``) and ``turns``.

        Args:
            first: The request of the first turn: its last message is the first one of
                the user, or has its place.
            model: Name of the tested model in :class:`Ask`.

        Raises:
            DocumentError: One of both has no answer; the message names the turn.
        """
        assert case.user is not None
        talk = ChatHistory(first, model, is_open=case.has_opening)
        spoken = [talk.opening] if case.has_opening else []
        reason = "max_turns"
        for number in range(1, self.max_turns + 1):
            text: str | None = None
            is_last = False
            if number > 1 or not case.has_opening:
                request = self._request(case.user, spoken, talk)
                message = yield from self._message(request, number)
                text = message.partition(self.stop)[0].strip()
                is_last = self.stop in message
                spoken.append(text)
            if text != "":
                yield from talk.turn(text, number)
            if is_last:
                reason = "stop"
                break
        if not talk.answers:
            raise DocumentError("the simulated user stopped before its first message")
        found = talk.combined()
        more = {"stop_reason": reason, "turns": len(talk.answers)}
        return replace(found, metadata={**(found.metadata or {}), **more})

    def _message(self, request: Generate, number: int) -> Dialogue[str]:
        """The next message; an empty one is requested once more."""
        for repeat in (request.repeat, request.repeat + MOST_REPEATS):
            ask = ReadAsk(USER, replace(request, repeat=repeat), _text)
            (reply,) = yield [ask]
            if reply.error:
                raise DocumentError(f"user, turn {number}: {reply.error}")
            if reply.text.strip():
                return reply.text
        raise DocumentError(f"user, turn {number}: the simulated user wrote nothing")

    def _request(
        self, role: UserRole, spoken: list[str], talk: ChatHistory
    ) -> Generate:
        """The request for the next message; the assistant's texts are its input."""
        persona = f"The user: {role.persona}\n" if role.persona else ""
        system = PROMPT.format(goal=role.goal, persona=persona, stop=self.stop)
        messages = [Message("system", system), Message("user", FIRST)]
        for text, answer in zip(spoken, talk.answers, strict=True):
            messages += [
                Message("assistant", text),
                Message("user", answer.text or "(no text)"),
            ]
        options = () if self.seed is None else (("seed", self.seed),)
        return Generate(
            tuple(messages),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            options=options,
            repeat=talk.first.repeat,
            conversation=talk.first.conversation,
        )


def _text(response: Response) -> str:
    text = response.raise_for_error().text
    if not text.strip():
        raise DocumentError("the message is empty")
    return text


_NUMBERS: Mapping[str, tuple[int, int]] = {
    "max_turns": (1, MOST_TURNS),
    "max_tokens": (1, 1_000_000),
    "seed": (0, 2**31 - 1),
}


def simulator_of(given: Any, source: ModelSource | None = None) -> UserSimulator:
    """The settings of simulated users.

    Args:
        given: A mapping of the fields of :class:`UserSimulator`, with ``model`` for
            the source.
        source: The model, if it is not a spec.

    Raises:
        EvalsError: A setting is unknown or invalid.
    """
    if not isinstance(given, Mapping):
        raise EvalsError(f"user is {given!r:.60}, not a mapping\n  fix: {_FIX}")
    known = ("goal", "persona", "model", *UserSimulator.__slots__[3:])
    for key in given:
        if key not in known:
            raise EvalsError(f"user: {unknown_name('key', str(key), known)}")
    model = given.get("model") if source is None else source
    if not callable(model) and not (isinstance(model, str) and model):
        raise EvalsError(f"user: model is missing\n  fix: {_FIX}")
    stop = given.get("stop", "[done]")
    if not isinstance(stop, str) or not stop.strip():
        raise EvalsError(f"user: stop is {stop!r}, not text\n  fix: stop: '[done]'")
    temperature = given.get("temperature", 0.0)
    if not is_finite(temperature) or temperature < 0:
        raise EvalsError(f"user: temperature is {temperature!r}, not 0 or above")
    numbers = {name: _number(given, name) for name in _NUMBERS if name in given}
    return UserSimulator(
        source=model,
        goal=_template(given, "goal"),
        persona=_template(given, "persona"),
        stop=stop,
        temperature=float(temperature),
        **numbers,
    )


def _number(given: Mapping[str, Any], name: str) -> int:
    value, (low, high) = given[name], _NUMBERS[name]
    if type(value) is not int or not low <= value <= high:
        raise EvalsError(f"user: {name} is {value!r}, not {low} to {high}")
    return value


def _template(given: Mapping[str, Any], key: str) -> ScorerTemplate | None:
    text = given.get(key)
    if text is None:
        return None
    if not isinstance(text, str) or not text.strip():
        raise EvalsError(f"user: {key} is {text!r:.60}, not text")
    return ScorerTemplate(f"user: {key}", text)
