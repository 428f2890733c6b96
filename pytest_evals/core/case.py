"""One case of an eval: a prompt and what a good answer is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase, ascii_uppercase
from typing import Any, get_args

from pytest_evals.core.content_parts import PlacedFile, split_content
from pytest_evals.core.request import Message, Prompt, Role
from pytest_evals.errors import DocumentError, suggestion, unknown_name

_SHOWN = 60
_FIX = "give the text, the letter or the index (from 0) of the correct choice"


def checked_choices(given: Any) -> tuple[str, ...]:
    """Return choices as texts without surrounding whitespace. Raises ``DocumentError``
    if they are not a list of at least two different texts or numbers."""
    given = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise _fault(f"choices must be a list, not {given!r:.{_SHOWN}}", "")
    for n, one in enumerate(given):
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            raise _fault(
                f"choice {n} is {one!r:.{_SHOWN}}, not text", "put it in quotes"
            )
    texts = tuple(str(one).strip() for one in given)
    for n, text in enumerate(texts):
        if not text:
            raise _fault(f"choice {n} is empty", "remove it")
        if texts.index(text) != n:
            message = f"choices {texts.index(text)} and {n} are both {text!r:.{_SHOWN}}"
            raise _fault(message, "remove one of them")
    if not texts:
        raise _fault("the list of choices is empty", "")
    if len(texts) == 1:
        raise _fault(f"there is only one choice, {texts[0]!r:.{_SHOWN}}", "")
    return texts


def golds_of(target: Any, choices: Sequence[str]) -> list[int]:
    """Return the indices of the choices that a target names. ``target``: the text, the
    letter or the index of a choice, or a list of these. Raises ``DocumentError`` if the
    target names no choice, or may name several."""
    listed = target if isinstance(target, list | tuple) else [target]
    if target is None or not listed:
        raise _fault("a case with choices has no target", _FIX)
    return [*dict.fromkeys(_gold_of(one, choices) for one in listed)]


def _gold_of(target: Any, choices: Sequence[str]) -> int:
    text, n = str(target).strip(), len(choices)
    found: dict[int, str] = {}
    if text.isascii() and text.isdigit() and int(text[:9]) < n:
        found[int(text)] = "index"
    for letters in (ascii_lowercase, ascii_uppercase):
        if len(text) == 1 and text in letters[:n]:
            found[letters.index(text)] = "letter"
    if text in choices:
        found[choices.index(text)] = "text"
    if isinstance(target, bool) or not found:
        hint = suggestion(text, choices)
        raise _fault(
            f"target {target!r:.{_SHOWN}} is not among the choices{hint}", _FIX
        )
    if len(found) > 1:
        named = " and ".join(f"the {how} of choice {n}" for n, how in found.items())
        message = f"target {target!r} is ambiguous: {named}, counted from 0"
        fix = "give the index (from 0) of the correct choice"
        if "index" in found.values():
            fix = "give the letter of the correct choice, such as {{ 'ABCD'[label] }}"
        raise _fault(message, fix)
    return next(iter(found))


def _fault(message: str, fix: str) -> DocumentError:
    fix = fix or 'list at least two texts, such as ["Paris", "Rome"]'
    return DocumentError(f"{message}\n  fix: {fix}")


_ROLES = get_args(Role)
CasePrompt = str | Sequence[Message | Mapping[str, Any]]
"""What users write: text, or the messages of a chat, such as ``{"role": "user",
"content": "…"}``. Content may be a list of parts, see
:mod:`~pytest_evals.core.content_parts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurn:
    """A message of the user in a conversation."""

    user: str
    """Its text; in the turns of a case also a list of parts, as the content of a
    message."""
    checks: Sequence[Any] = ()  # scorers of the answer to it
    target: Any = None
    """What the answer is compared with by these; that of the case if ``None``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRole:
    """The role of a simulated user."""

    goal: str = ""  # what the user wants
    persona: str = ""  # how the user behaves; empty if it is not set

    @classmethod
    def of(cls, given: Any) -> UserRole:
        """A role from a mapping of its fields. Raises ``DocumentError`` if it is
        something else."""
        if isinstance(given, UserRole):
            return given
        if isinstance(given, str):
            given = {"goal": given}
        if not isinstance(given, Mapping):
            raise DocumentError(f"the user of a case is {given!r:.60}, not a goal")
        for name, value in given.items():
            if name not in cls.__slots__:
                message = unknown_name("key", str(name), cls.__slots__)
                raise DocumentError(f"user: {message}")
            if not isinstance(value, str) or not value.strip():
                raise DocumentError(f"user: {name} is {value!r:.60}, not text")
        return cls(**{name: value.strip() for name, value in given.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A prompt, its target and further data for scorers.

    Args:
        prompt: Sent to the model; messages are kept as a tuple of :class:`Message`.
        target: What the answer is compared with; a list of accepted texts, or any value
            that custom scorers read. ``None`` if nothing is compared.
        id: Unique within the eval; the position if empty.
        row: Further values by name: the row of the data, or the keyword arguments of
            :func:`case`.
        choices: Possible answers, kept as a tuple of texts; ``target`` is then the
            text, the letter or the index of the correct one, or a list of these.
            ``None`` for an open answer.
        turns: The user's messages of a conversation, kept as a tuple of
            :class:`UserTurn`: texts, or mappings of its fields. The prompt is
            then empty, or the messages before the first turn.
        files: Images and text files in the messages; set from their parts. In a
            conversation, each turn is followed by one message of the model.
        user: The role of a simulated user, kept as a :class:`UserRole`: its goal, or a
            mapping of its fields. The prompt is then the goal, or the first message of
            the user.

    Raises:
        DocumentError: The prompt is neither text nor messages, or is empty; or turns,
            choices or their target are invalid.
    """

    prompt: Prompt = ()
    target: Any = None
    id: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)
    choices: Sequence[str] | None = None
    turns: Sequence[UserTurn] = ()
    files: Sequence[PlacedFile] = ()
    user: UserRole | None = None

    def __post_init__(self) -> None:
        if self.user is not None:
            object.__setattr__(self, "user", UserRole.of(self.user))
            prompt = self.prompt or self.user.goal
            if isinstance(prompt, str) and prompt:
                prompt = (Message("user", prompt),)
            object.__setattr__(self, "prompt", prompt)
        if not isinstance(self.prompt, str):
            messages, files = _with_files(self.prompt)
            object.__setattr__(self, "prompt", messages)
            object.__setattr__(self, "files", (*self.files, *files))
        if self.turns and self.user is not None:
            raise DocumentError(
                "a case has both turns and a simulated user\n"
                "  fix: remove turns from the row, or user from the eval"
            )
        if self.turns:
            n_before = 0 if isinstance(self.prompt, str) else len(self.prompt)
            turns, of_turns = _turns(self.turns, n_before)
            object.__setattr__(self, "turns", turns)
            object.__setattr__(self, "files", (*self.files, *of_turns))
            object.__setattr__(self, "prompt", self._first_messages())
        if not self.prompt:
            raise DocumentError(
                "the prompt of a case is empty\n"
                '  fix: pytest_evals.case("2 + 2 =", target="4")'
            )
        if type(self.id) is not str:
            object.__setattr__(self, "id", "" if self.id is None else str(self.id))
        if self.choices is not None:
            object.__setattr__(self, "choices", checked_choices(self.choices))
            _ = self.golds

    def __getitem__(self, name: str) -> Any:
        return self.row[name]

    @property
    def shows_images(self) -> bool:
        """Whether its messages have images."""
        return any(one.kind == "image" for one in self.files)

    def _first_messages(self) -> tuple[Message, ...]:
        if self.choices is not None:
            raise DocumentError("a case has both turns and choices")
        if isinstance(self.prompt, str) and self.prompt:
            raise DocumentError(
                "a case has both turns and a prompt\n"
                "  fix: make the prompt the first turn, or give messages"
            )
        before, first = self.prompt or (), self.turns[0].user
        assert not isinstance(before, str)
        if before and before[-1] == ("user", first):  # a copy of a case
            return before
        return (*before, Message("user", first))

    @property
    def has_opening(self) -> bool:
        """Whether the first message of a simulated user is fixed."""
        if self.user is None or isinstance(self.prompt, str):
            return True
        return self.prompt[-1] != ("user", self.user.goal)

    @property
    def golds(self) -> list[int]:
        """Indices of the correct choices."""
        return [] if self.choices is None else golds_of(self.target, self.choices)


def case(
    prompt: CasePrompt = (),
    target: Any = None,
    id: str = "",  # noqa: A002 - pytest's word
    choices: Sequence[str] | None = None,
    turns: Sequence[Any] = (),
    user: Any = None,
    **row: Any,
) -> Case:
    """Return a case; keyword arguments are its row, which scorers can read.

    With ``turns``, the user's messages of a conversation, or ``user``, the goal of a
    simulated user, no prompt is needed. With
    ``choices``, ``target`` is the text, the letter or the index of the correct
    one.

    >>> case("2 + 2 =", target="4", topic="sums")["topic"]
    'sums'
    """
    return Case(
        prompt=prompt,  # type: ignore[arg-type]
        target=target,
        id=id,
        row=row,
        choices=choices,
        turns=turns,
        user=user,
    )


def _turns(
    given: Any, n_before: int
) -> tuple[tuple[UserTurn, ...], Sequence[PlacedFile]]:
    """The turns and their files. ``n_before``: messages before the first one."""
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise DocumentError(
            f"turns is a {type(given).__name__}\n  fix: give a list of texts"
        )
    turns, files = list[UserTurn](), list[PlacedFile]()
    for number, one in enumerate(given):
        turn, turn_files = _turn(number + 1, one, n_before + 2 * number)
        turns.append(turn)
        files += turn_files
    return tuple(turns), files


def _turn(
    number: int, given: Any, message: int
) -> tuple[UserTurn, Sequence[PlacedFile]]:
    if isinstance(given, UserTurn):
        if isinstance(given.user, str):
            return given, ()
        given = {name: getattr(given, name) for name in UserTurn.__slots__}
    if isinstance(given, str):
        given = {"user": given}
    given = given if isinstance(given, Mapping) else {}
    for name in given:
        if name not in UserTurn.__slots__:
            problem = unknown_name("key", str(name), UserTurn.__slots__)
            raise DocumentError(f"turn {number}: {problem}")
    checks = given.get("checks") or ()
    user, files = _split_turn(number, given.get("user"), message)
    if not isinstance(user, str) or not (user or files):
        raise DocumentError(
            f"turn {number} has no text of the user\n"
            '  fix: turns: [{user: "My order is A-17", checks: [{contains: A-17}]}]'
        )
    return UserTurn(
        user=user,
        checks=checks if isinstance(checks, list | tuple) else (checks,),
        target=given.get("target"),
    ), files


def _split_turn(
    number: int, given: Any, message: int
) -> tuple[Any, Sequence[PlacedFile]]:
    if not isinstance(given, list | tuple):
        return given, ()
    try:
        return split_content(given, message)
    except DocumentError as error:
        raise DocumentError(f"turn {number}: {error}") from None


def _with_files(prompt: Any) -> tuple[tuple[Message, ...], list[PlacedFile]]:
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes):
        raise DocumentError(
            f"the prompt of a case is a {type(prompt).__name__}\n"
            "  fix: give text or a list of messages"
        )
    messages, files = list[Message](), list[PlacedFile]()
    for number, one in enumerate(prompt):
        if isinstance(one, Mapping) and set(one) == {"role", "content"}:
            content = one["content"]
            if isinstance(content, list | tuple):
                content, more = split_content(content, number)
                files += more
            one = Message(one["role"], content)
        messages.append(_message(one))
    return tuple(messages), files


def _message(one: Any) -> Message:
    if isinstance(one, Message) and one.role in _ROLES and isinstance(one.content, str):
        return one
    raise DocumentError(
        f"a message needs role ({', '.join(_ROLES)}) and content, text or parts\n"
        '  fix: {"role": "user", "content": "2 + 2 ="}'
    )
