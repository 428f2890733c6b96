"""Conversations: the model answers each message of the user with the whole history.

The user's messages are fixed, or a second model writes them from a goal, until the goal
is reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_evals.core.case import Case, UserRole
from pytest_evals.core.dialogue import (
    USER,
    Ask,
    Dialogue,
    Exchange,
    ModelSource,
    ReadAsk,
)
from pytest_evals.core.finite import is_finite
from pytest_evals.core.request import (
    PLACED_IMAGES,
    Generate,
    Message,
    Request,
    Response,
)
from pytest_evals.core.task import MOST_REPEATS
from pytest_evals.core.transcript import transcript
from pytest_evals.errors import DocumentError, EvalsError, unknown_name
from pytest_evals.scorers.templates import ScorerTemplate


class ChatHistory:
    """The messages between a user and the tested model so far."""

    def __init__(self, first: Request, model: str, *, is_open: bool = True) -> None:
        """Begin with the messages of the first request. ``first``: the request of the
        first turn. ``model``: name of the tested model in :class:`Ask`. ``is_open``:
        whether its last message is the user's first one; it is left out otherwise.
        Raises DocumentError if the request is not a chat."""
        if not isinstance(first, Generate) or isinstance(first.prompt, str):
            raise DocumentError("the turns of a case need generated answers to a chat")
        self.first, self._model = first, model
        self._history = [*first.prompt]
        self.opening = self._history[-1].content
        """The user's first message, if it is fixed."""
        if not is_open:
            self._history.pop()
        self._images = dict(first.options).get(PLACED_IMAGES, ())
        self._exchanges: list[Exchange] = []

    @property
    def answers(self) -> list[Response]:
        """The answers so far."""
        return [one.response for one in self._exchanges]

    def _request(self) -> Generate:
        request = replace(self.first, prompt=tuple(self._history))
        if not self._images:
            return request
        images = tuple(one for one in self._images if one[0] < len(self._history))
        options = {**dict(request.options), PLACED_IMAGES: images}
        if not images:
            del options[PLACED_IMAGES]
        return replace(request, options=tuple(options.items()))

    def turn(self, text: str | None, number: int) -> Dialogue[None]:
        """Send a message of the user with the history before it. ``text``: ``None`` for
        the opening. Raises DocumentError if the answer is missing; the message names
        the turn."""
        if text is not None:
            self._history.append(Message("user", text))
        request = self._request()
        (answer,) = yield [Ask(self._model, request)]
        if answer.error:
            raise DocumentError(f"turn {number}: {answer.error}")
        self._history.append(Message("assistant", answer.text))
        self._exchanges.append(Exchange(self._model, request, answer))

    def combined(self) -> Response:
        """The last answer, with the transcript in ``messages``, the calls and contexts
        of all turns, and the sums of tokens, seconds, costs and counts of usage."""
        answers, usage = self.answers, Counter[str]()
        for one in answers:
            usage.update({k: n for k, n in (one.usage or {}).items() if is_finite(n)})
        costs = [one.cost for one in answers]
        return replace(
            answers[-1],
            n_prompt_tokens=sum(one.n_prompt_tokens for one in answers),
            n_tokens=sum(one.n_tokens for one in answers),
            elapsed_s=sum(one.elapsed_s for one in answers),
            latency_s=sum(one.latency_s for one in answers),
            cost=None if None in costs else sum(n for n in costs if n is not None),
            usage=dict(usage) or None,
            calls=tuple(call for one in answers for call in one.calls),
            contexts=tuple(text for one in answers for text in one.contexts),
            messages=transcript(self._exchanges),
        )


def conversation(case: Case, first: Request, model: str) -> Dialogue[Response]:
    """Ask all turns of a case, one after the other; see :class:`ChatHistory`. Raises
    DocumentError if a turn has no answer; the message names it."""
    talk = ChatHistory(first, model)
    for number, turn in enumerate(case.turns, 1):
        yield from talk.turn(None if number == 1 else turn.user, number)
    return talk.combined()


def answers_of(response: Response, case: Case) -> list[Response]:
    """The answer to each turn of a case, from the transcript of its conversation."""
    answers = [one for one in response.messages if one["role"] == "assistant"]
    return [
        Response(
            text=one["content"],
            data=one.get("data"),
            calls=tuple(one.get("calls", ())),
            contexts=tuple(one.get("contexts", ())),
        )
        for one in answers[-len(case.turns) :]
    ]


GOAL = "goal"  # name in rows of the rendered goal
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
    """Settings of simulated users."""

    source: ModelSource  # the model that writes the user's messages
    goal: ScorerTemplate | None = None
    """What the user wants; a template over the row. ``None`` if each case has its
    own."""
    persona: ScorerTemplate | None = None  # how the user behaves; likewise
    max_turns: int = 8  # most messages of the user
    stop: str = "[done]"  # text with which the user ends the conversation
    temperature: float = 0.0  # of the user's messages
    seed: int | None = None  # seed of the user's messages; ``None`` for none
    max_tokens: int = 512  # most tokens of a message

    @property
    def templates(self) -> tuple[ScorerTemplate, ...]:
        """All texts that are rendered for each case."""
        return tuple(one for one in (self.goal, self.persona) if one is not None)

    def role(self, given: Any, row: Mapping[str, Any]) -> UserRole:
        """The role of a case's user. ``given``: the case's own role, if it has one.
        Raises DocumentError if the goal is missing, or a template cannot be
        rendered."""
        named = None if given is None else UserRole.of(given)
        bare = Case(prompt="-", row=row)
        goal = named.goal if named else ""
        if not goal and self.goal is not None:
            goal = self.goal.render(bare).strip()
        if not goal:
            raise DocumentError(f"the user has no goal\n  fix: {_FIX}")
        persona = named.persona if named else ""
        if not persona and self.persona is not None:
            persona = self.persona.render(bare).strip()
        return UserRole(goal=goal, persona=persona)

    def applied(self, case: Case) -> Case:
        """The case with its role, whose row has the goal. Raises DocumentError as for
        :meth:`role`; or the case has turns."""
        role = self.role(case.user, case.row)
        return replace(case, user=role, row={GOAL: role.goal, **case.row})

    def conversation(
        self, case: Case, first: Request, model: str
    ) -> Dialogue[Response]:
        """Let the user and the tested model talk.

        The result is as that of fixed turns; its ``metadata`` has ``stop_reason``
        (``stop`` or ``max_turns``) and ``turns``. ``first``: the request of the first
        turn: its last message is the first one of the user, or has its place.
        ``model``: name of the tested model in :class:`Ask`. Raises DocumentError if one
        of both has no answer; the message names the turn.
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
    """The settings of simulated users. ``given``: a mapping of the fields of
    :class:`UserSimulator`, with ``model`` for the source. ``source``: the model, if it
    is not a spec. Raises EvalsError if a setting is unknown or invalid."""
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
