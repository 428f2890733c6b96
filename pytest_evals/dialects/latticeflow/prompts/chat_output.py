"""What a chat model gave: the text of its first answer, with its fields.

LatticeFlow's documentation uses ``solver_output.output`` as "the last model output", as
text in prompts and comparisons and as an object with ``choices`` elsewhere. Upstream it
is an object that prints its fields and equals no text, so that right answers score 0.
Here it is a string that has the fields too.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, ClassVar, NoReturn

from pytest_evals.dialects.latticeflow.prompts.items import text_of
from pytest_evals.dialects.latticeflow.prompts.message_types import Part, wrapped
from pytest_evals.dialects.latticeflow.prompts.trace import Trace
from pytest_evals.errors import DocumentError

__all__ = [
    "ChatCompletionModelOutput",
    "ChatCompletionModelOutputChoice",
    "ChatCompletionOutputMessage",
    "OutputText",
    "chat_view",
    "raw_of",
    "saying",
]


class ChatCompletionOutputMessage(Part):
    """A chat model's message."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "role": "assistant",
        "content": None,
        "refusal": None,
    }


class ChatCompletionModelOutputChoice(Part):
    """One of a chat model's answers."""


# ABCMeta, so that OutputText counts as one in isinstance() of snippets.
class ChatCompletionModelOutput(Part, metaclass=ABCMeta):
    """A chat model's output as its fields; as text it is the first answer."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"choices": [], "usage": None}

    def __str__(self) -> str:
        """The text of the first answer.

        Raises:
            DocumentError: There is none.
        """
        text = self.answer()
        if text is None:
            raise _no_answer()
        return text

    def answer(self) -> str | None:
        """The text of the first answer, or its refusal; ``None`` without one."""
        for choice in self["choices"][:1]:
            message = choice.get("message") or {}
            content = text_of({"content": message.get("content")})
            refusal = message.get("refusal")
            return refusal if not content and isinstance(refusal, str) else content
        return None


class _NoAnswer(ChatCompletionModelOutput):
    """An output without text, such as calls of functions alone. It has its fields; used
    as text it is an error, never an empty answer."""

    def __bool__(self) -> bool:
        """False, as of an empty text."""
        return False

    def __len__(self) -> int:
        raise _no_answer()

    def __iter__(self) -> Iterator[str]:
        raise _no_answer()

    def __contains__(self, key: object) -> bool:
        if key in self.keys():  # "in self" would come back here
            return True
        raise _no_answer()

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else self._refuse()

    def __eq__(self, other: object) -> bool:
        return self._refuse() if isinstance(other, str) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return self._refuse() if isinstance(other, str) else super().__ne__(other)

    __hash__ = None  # type: ignore[assignment]  # as of every dict

    def __getattr__(self, name: str) -> Any:
        if hasattr(str, name):
            self._refuse()
        return super().__getattr__(name)

    def _refuse(self) -> NoReturn:
        raise _no_answer()


class OutputText(str):
    """The text of a chat model's first answer, with the fields of its output as
    attributes and entries: ``output.choices``, ``output["usage"]``."""

    __slots__ = ("_output",)
    _output: ChatCompletionModelOutput

    def __new__(cls, text: str, output: ChatCompletionModelOutput) -> OutputText:
        """The text, and the output that it is from."""
        made = super().__new__(cls, text)
        made._output = output
        return made

    def __getitem__(self, key: Any) -> Any:
        """A field by its name, or a part of the text."""
        return self._output[key] if isinstance(key, str) else super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        """A field, or what a mapping of them does: ``get``, ``keys``, …"""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._output, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> OutputText:
        """A text with an output of its own."""
        return OutputText(str(self), deepcopy(self._output, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is pickled."""
        return OutputText, (str(self), self._output)


ChatCompletionModelOutput.register(OutputText)


def chat_view(raw: Any) -> Any:
    """A model's output as that of a chat; that of a custom task as it is."""
    if isinstance(raw, OutputText):
        return raw
    if isinstance(raw, Mapping) and "choices" in raw:
        return _text_with_fields(ChatCompletionModelOutput(raw))
    if isinstance(raw, Mapping) and isinstance(raw.get("items"), list):
        return saying(Trace(raw["items"]).get_last_assistant_text(), raw.get("usage"))
    return wrapped(raw)


def saying(text: str | None, usage: Any = None) -> Any:
    """The output of a chat model with this answer, or with none."""
    message = ChatCompletionOutputMessage(content=text)
    choices = [] if text is None else [ChatCompletionModelOutputChoice(message=message)]
    return _text_with_fields(ChatCompletionModelOutput(choices=choices, usage=usage))


def _text_with_fields(output: ChatCompletionModelOutput) -> Any:
    text = output.answer()
    return _NoAnswer(output) if text is None else OutputText(text, output)


def raw_of(given: Any) -> Any:
    """What is kept as a raw output: of a chat's the fields."""
    return given._output if isinstance(given, OutputText) else wrapped(given)


def _no_answer() -> DocumentError:
    return DocumentError("there is no answer: the model gave no text")
