"""Output of a chat model: the text of its first answer, with the output's fields.

LatticeFlow's documentation uses ``solver_output.output`` as "the last model output": as
text in prompts and comparisons, and as an object with ``choices`` elsewhere. In
LatticeFlow it is an object whose string lists its fields and which equals no text, so
correct answers score 0. Here it is a string that also has the fields.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, ClassVar, NoReturn

from pytest_evals.dialects.latticeflow.prompts.items import text_of
from pytest_evals.dialects.latticeflow.prompts.message_types import Part, wrap
from pytest_evals.dialects.latticeflow.prompts.trace import Trace
from pytest_evals.errors import DocumentError

__all__ = [
    "ChatCompletionModelOutput",
    "ChatCompletionModelOutputChoice",
    "ChatCompletionOutputMessage",
    "OutputText",
    "chat_output",
    "chat_view",
    "raw_output_of",
]


class ChatCompletionOutputMessage(Part):
    """Message of a chat model."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "role": "assistant",
        "content": None,
        "refusal": None,
    }


class ChatCompletionModelOutputChoice(Part):
    """One choice of a chat model's output."""


# ABCMeta, so that OutputText counts as one in isinstance() of snippets.
class ChatCompletionModelOutput(Part, metaclass=ABCMeta):
    """Output of a chat model with its fields; ``str()`` is the first answer."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"choices": [], "usage": None}

    def __str__(self) -> str:
        """Return the text of the first answer."""
        text = self.answer()
        if text is None:
            raise _no_answer()
        return text

    def answer(self) -> str | None:
        """Return the text or the refusal of the first answer, or ``None``."""
        for choice in self["choices"][:1]:
            message = choice.get("message") or {}
            content = text_of({"content": message.get("content")})
            refusal = message.get("refusal")
            return refusal if not content and isinstance(refusal, str) else content
        return None


class _NoAnswer(ChatCompletionModelOutput):
    """An output without text, for example with function calls only. Its fields are
    available; using it as text is an error, not an empty answer."""

    def __bool__(self) -> bool:
        """Return ``False``, as for an empty string."""
        return False

    def __len__(self) -> int:
        raise _no_answer()

    def __iter__(self) -> Iterator[str]:
        raise _no_answer()

    def __contains__(self, key: object) -> bool:
        if key in self.keys():  # "in self" would recurse
            return True
        raise _no_answer()

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else self._raise()

    def __eq__(self, other: object) -> bool:
        return self._raise() if isinstance(other, str) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return self._raise() if isinstance(other, str) else super().__ne__(other)

    __hash__ = None  # type: ignore[assignment]  # as of every dict

    def __getattr__(self, name: str) -> Any:
        if hasattr(str, name):
            self._raise()
        return super().__getattr__(name)

    def _raise(self) -> NoReturn:
        raise _no_answer()


class OutputText(str):
    """Text of a chat model's first answer, with the output's fields as attributes and
    items: ``output.choices``, ``output["usage"]``."""

    __slots__ = ("_output",)
    _output: ChatCompletionModelOutput

    def __new__(cls, text: str, output: ChatCompletionModelOutput) -> OutputText:
        """Create the text of an output."""
        text_ = super().__new__(cls, text)
        text_._output = output
        return text_

    def __getitem__(self, key: Any) -> Any:
        """Return a field by name, or a slice of the text."""
        return self._output[key] if isinstance(key, str) else super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        """Return a field, or a method of the mapping such as ``get`` or ``keys``."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._output, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> OutputText:
        """Return a copy with a copied output."""
        return OutputText(str(self), deepcopy(self._output, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling."""
        return OutputText, (str(self), self._output)


ChatCompletionModelOutput.register(OutputText)


def chat_view(raw: Any) -> Any:
    """Return a model's output as chat output; that of a custom task unchanged."""
    if isinstance(raw, OutputText):
        return raw
    if isinstance(raw, Mapping) and "choices" in raw:
        return _text_with_fields(ChatCompletionModelOutput(raw))
    if isinstance(raw, Mapping) and isinstance(raw.get("items"), list):
        return chat_output(
            Trace(raw["items"]).get_last_assistant_text(), raw.get("usage")
        )
    return wrap(raw)


def chat_output(text: str | None, usage: Any = None) -> Any:
    """Return the output of a chat model with this answer, or with none."""
    message = ChatCompletionOutputMessage(content=text)
    choices = [] if text is None else [ChatCompletionModelOutputChoice(message=message)]
    return _text_with_fields(ChatCompletionModelOutput(choices=choices, usage=usage))


def _text_with_fields(output: ChatCompletionModelOutput) -> Any:
    text = output.answer()
    return _NoAnswer(output) if text is None else OutputText(text, output)


def raw_output_of(output: Any) -> Any:
    """Return the raw output to store; for a chat, its fields."""
    return output._output if isinstance(output, OutputText) else wrap(output)


def _no_answer() -> DocumentError:
    return DocumentError("no answer: the model's output has no text")
