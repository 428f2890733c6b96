"""Output of a solver: its trace and the model's raw outputs.

One class covers both versions of LatticeFlow's format. Source: ``latticeflow-core``
3.17.0.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from copy import copy, deepcopy
from typing import Any

from pytest_evals.dialects.latticeflow.prompts.chat_output import (
    chat_output,
    chat_view,
    raw_output_of,
)
from pytest_evals.dialects.latticeflow.prompts.items import (
    items_of,
    reply_items,
    text_of,
)
from pytest_evals.dialects.latticeflow.prompts.message_types import (
    CustomTaskInputMessage,
    CustomTaskOutputMessage,
    Message,
    Part,
    Structured,
    unwrap,
)
from pytest_evals.dialects.latticeflow.prompts.trace import Trace, trace_of
from pytest_evals.errors import DocumentError


class ModelResponse(Structured):
    """Response of a model to one call."""

    def __init__(self, raw_output: Any) -> None:
        """Parse the output of a chat, an agent or a custom task."""
        self.raw_output = raw_output_of(raw_output)
        self.items = _items(self.raw_output)

    @property
    def text(self) -> str:
        """The model's last text."""
        text_ = Trace(self.items).get_last_assistant_text()
        if text_ is None and self.items and "content" in self.items[-1]:
            content = self.items[-1]["content"]
            text_ = content if isinstance(content, str) else None
        if text_ is None:
            raise DocumentError(
                f"the model's output has no text: {self.raw_output!r:.80}"
            )
        return text_

    def __str__(self) -> str:
        return self.text


def _items(raw: Any) -> list[Part]:
    """Return the items of an output; of several choices only the first is used."""
    if isinstance(raw, Mapping) and "choices" in raw:
        text_ = []
        for choice in raw["choices"][:1]:
            references = choice.get("references") or ()
            text_ += reply_items(choice.get("message") or {}, references)
        return text_
    if isinstance(raw, Mapping) and isinstance(raw.get("items"), list):
        return items_of(raw["items"])
    return [CustomTaskOutputMessage(content=raw)]


class SolverTrace(Structured):
    """A trace that a snippet builds."""

    def __init__(self, trace: Trace | None = None) -> None:
        self.trace = trace or Trace()
        self.raw_outputs: list[Any] = []
        self.direct_ios: list[Any] = []

    def __str__(self) -> str:
        """Return the messages so far."""
        return str(self.trace)

    @property
    def items(self) -> list[Part]:
        """Items so far."""
        return self.trace.items

    def append(self, item: Any) -> None:
        """Add an item, or an OpenAI chat message."""
        self.trace.items += items_of([item])

    def extend(self, items: Iterable[Any]) -> None:
        """Add several items."""
        self.trace.items += items_of(list(items))

    def append_user_message(self, text: str) -> None:
        """Add a user message."""
        self.append(Message(role="user", content=_not_null(text)))

    def append_system_message(self, text: str) -> None:
        """Add a system message."""
        self.append(Message(role="system", content=_not_null(text)))

    def append_custom_task_input_message(self, content: Any) -> None:
        """Add an input of a custom task's model."""
        self.append(CustomTaskInputMessage(content=content))

    def add_model_response(self, response: ModelResponse) -> None:
        """Add a model's response.

        Raises:
            DocumentError: It is not a response, for example because ``predict`` was not
                awaited.
        """
        if not isinstance(response, ModelResponse):
            is_open = inspect.isawaitable(response)
            kind = "coroutine" if is_open else type(response).__name__
            raise DocumentError(
                "add_model_response needs the response of model.predict, not "
                f"{kind}; await it"
            )
        self.trace.items += response.items
        self.raw_outputs.append(response.raw_output)


def _not_null(text: Any) -> Any:
    if text is None:
        raise DocumentError("the text of a message is null")
    return text


class SolverOutput(Structured):
    """Output of a solver, as scorers see it.

    Args:
        trace: The conversation, in any supported form.
        raw_outputs: Outputs of the model, one per call.
        direct_ios: Recorded calls, in any form.
        solver_outputs: Outputs of a grouped solver, one per call.
        output: The last output, if there are no raw outputs.
    """

    def __init__(
        self,
        trace: Any = None,
        raw_outputs: Sequence[Any] = (),
        direct_ios: Sequence[Any] = (),
        solver_outputs: Any = None,
        output: Any = None,
    ) -> None:
        """Create an output; snippets create outputs too.

        Raises:
            DocumentError: The trace is invalid.
        """
        self.raw_outputs = [raw_output_of(one) for one in raw_outputs]
        if output is not None and not self.raw_outputs:
            self.raw_outputs = [raw_output_of(output)]
        if trace is None:
            trace = [item for raw in self.raw_outputs for item in _items(raw)]
        self.trace = trace_of(trace)
        self.direct_ios = list(direct_ios)
        self.solver_outputs = solver_outputs

    def __deepcopy__(self, memo: dict[int, Any]) -> SolverOutput:
        """Return a copy; recorded calls can be any object and are shared."""
        copied = copy(self)
        copied.trace = deepcopy(self.trace, memo)
        copied.raw_outputs = deepcopy(self.raw_outputs, memo)
        copied.direct_ios = list(self.direct_ios)
        return copied

    @property
    def output(self) -> Any:
        """The last output: for a chat, the answer's text with the output's fields;
        without an output, the assistant's last text."""
        if self.raw_outputs:
            return chat_view(self.raw_outputs[-1])
        return chat_output(self.trace.get_last_assistant_text())

    @property
    def outputs(self) -> list[Any]:
        """All outputs, as chat outputs."""
        return [chat_view(raw) for raw in self.raw_outputs]

    @property
    def messages(self) -> list[Any]:
        """The conversation as messages with role and content, without calls."""
        text_: list[Any] = []
        for item in self.trace.items:
            if item.get("type") == "message":
                text_.append(Part(role=item["role"], content=text_of(item) or ""))
            elif str(item.get("type")).startswith("custom_task_"):
                text_.append(item.get("content"))
        return text_

    @property
    def answer(self) -> str:
        """The assistant's last text, or a custom task model's output if a string."""
        text_ = self.trace.get_last_assistant_text()
        if text_ is None and isinstance(self.output, str):
            text_ = self.output
        if text_ is None:
            raise DocumentError("no answer: the trace has no assistant message")
        return text_

    @property
    def references(self) -> list[str]:
        """The passages that the last answer cites."""
        messages = [i for i in self.trace.items if i.get("role") == "assistant"]
        parts = messages[-1]["content"] if messages else ()
        return [
            str(note["content"])
            for part in parts
            for note in part.get("annotations") or ()
            if note.get("type") == "text_citation"
        ]

    def __str__(self) -> str:
        """Return the answer."""
        return self.answer

    def to_dict(self) -> dict[str, Any]:
        """Return the output as JSON values."""
        return {"trace": self.trace.to_dict(), "raw_outputs": unwrap(self.raw_outputs)}
