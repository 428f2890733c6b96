"""Models: a name and a method that answers requests. Everything else is optional."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pytest_evals.core.request import Prompt, Request, Response
from pytest_evals.errors import EvalsError

if TYPE_CHECKING:
    from builtins import property as optional
else:
    # A plain attribute of a class or an object can replace it, unlike a property.
    from functools import cached_property as optional

T = TypeVar("T")
NO_FINGERPRINT: Mapping[str, Any] = MappingProxyType({})
"""The fingerprint of a model that does not define one."""


class ModelLike(Protocol):
    """What users may give where a model is expected; a :class:`Model` is made of it
    (:func:`~pytest_evals.core.response_contract.as_model`)."""

    @property
    def name(self) -> str:
        """As of a :class:`Model`."""
        ...

    def answer(self, requests: Sequence[Request], /) -> Iterable[tuple[int, Response]]:
        """As of a :class:`Model`."""
        ...


class Model(ABC):
    """Answers requests. Subclasses define ``name`` and ``answer``; all other members
    are optional, and their defaults do nothing."""

    name: str
    """Shown in reports; part of the key of stored responses."""

    @abstractmethod
    def answer(self, requests: Sequence[Request], /) -> Iterable[tuple[int, Response]]:
        """Answer all requests: pairs of a position in ``requests`` and its response, in
        any order.

        A generator is best: documents are scored as soon as their responses arrive. A
        request that cannot be answered gives ``Response(error=…)``; an exception means
        that the model itself is broken.
        """

    @optional
    def works_ahead(self) -> bool:
        """Whether the model keeps working between two answers, in a thread or on a
        server. The next documents are then rendered in the meantime, and their requests
        are sent as soon as the last ones are answered."""
        return False

    def expect(self, requests: Sequence[Request], /) -> None:  # noqa: B027 - optional
        """Called with the requests of the next batch while the model works on this one,
        for example to tokenize them; only if it ``works_ahead``. ``answer`` may get
        fewer."""

    @optional
    def fingerprint(self) -> Mapping[str, Any] | None:
        """JSON values that are equal for models with equal answers: responses are
        stored under them. ``None`` if responses are not worth storing. By default they
        are not stored either, and the report mentions it."""
        return NO_FINGERPRINT

    @optional
    def info(self) -> Mapping[str, Any]:
        """JSON values for results files, read when the run ends. The counts below
        ``usage`` are added up over workers."""
        return {}

    @optional
    def notes(self) -> Sequence[str]:
        """Warnings about the model's numbers, shown with the results."""
        return ()

    def render(self, prompt: Prompt, /) -> Prompt:
        """The text that the model's template makes of a chat, for samples files; by
        default the chat itself.

        Raises:
            DocumentError: There is no template, or it refuses the chat.
        """
        return prompt

    def close(self) -> None:  # noqa: B027 - optional
        """Release memory and connections. Called at the end of the run for models that
        a spec, a hook or a task opened."""

    def __str__(self) -> str:
        """The class and the name, for error messages."""
        return f"{type(self).__name__} {self.name!r}"


class AdaptedModel(Model):
    """An object with ``name`` and ``answer`` as a :class:`Model`; members that it lacks
    have their defaults."""

    def __init__(self, given: Any) -> None:
        """Use :func:`~pytest_evals.core.response_contract.as_model`, which checks."""
        self._given, self.name = given, given.name

    def _member(self, name: str, default: T) -> T:
        """A member of the object as it is now: it may change while the model runs."""
        found: T | None = getattr(self._given, name, None)
        return default if found is None else found

    def answer(self, requests: Sequence[Request], /) -> Iterable[tuple[int, Response]]:
        """What the object answers."""
        answers: Iterable[tuple[int, Response]] = self._given.answer(requests)
        return answers

    @property
    def works_ahead(self) -> bool:
        """As the object's."""
        return bool(self._member("works_ahead", False))

    def expect(self, requests: Sequence[Request], /) -> None:
        """Pass them on."""
        self._member("expect", super().expect)(requests)

    @property
    def fingerprint(self) -> Mapping[str, Any] | None:
        """The object's; ``None`` is not the default."""
        found: Mapping[str, Any] | None
        found = getattr(self._given, "fingerprint", NO_FINGERPRINT)
        return found

    @property
    def info(self) -> Mapping[str, Any]:
        """As the object's."""
        return self._member("info", {})

    @property
    def notes(self) -> Sequence[str]:
        """As the object's."""
        return self._member("notes", ())

    def render(self, prompt: Prompt, /) -> Prompt:
        """What the object makes of a chat."""
        return self._member("render", super().render)(prompt)

    def close(self) -> None:
        """Close the object."""
        self._member("close", super().close)()

    def __str__(self) -> str:
        """The object's class and name."""
        return f"{type(self._given).__name__} {self.name!r}"


class ModelOpener(ABC):
    """A function that opens a model and can tell beforehand that it will fail. Equal
    openers open one model."""

    @abstractmethod
    def __call__(self) -> Model:
        """Open the model."""

    def why_unready(self) -> EvalsError | None:
        """Why the model cannot be opened on this machine; ``None`` if nothing is known
        against it."""
        return None
