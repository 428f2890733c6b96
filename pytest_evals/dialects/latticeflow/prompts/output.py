"""What a solver leaves: its trace, and the outputs of the model that it asked.

One class for both of LatticeFlow's dialects; facts: ``latticeflow-core`` 3.17.0.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from copy import copy, deepcopy
from typing import Any

from pytest_evals.dialects.latticeflow.prompts.chat_output import (
    chat_view,
    raw_of,
    saying,
)
from pytest_evals.dialects.latticeflow.prompts.items import items_of, of_reply, text_of
from pytest_evals.dialects.latticeflow.prompts.message_types import (
    CustomTaskInputMessage,
    CustomTaskOutputMessage,
    Message,
    Part,
    plain,
)
from pytest_evals.dialects.latticeflow.prompts.text_objects import Structured
from pytest_evals.dialects.latticeflow.prompts.trace import Trace, trace_of
from pytest_evals.errors import DocumentError


class ModelResponse(Structured):
    """What a model gave at one call."""

    def __init__(self, raw_output: Any) -> None:
        """Read its output: a chat's, an agent's, or anything."""
        self.raw_output = raw_of(raw_output)
        self.items = _items(self.raw_output)

    @property
    def text(self) -> str:
        """The last that the model said.

        Raises:
            DocumentError: It said nothing.
        """
        found = Trace(self.items).get_last_assistant_text()
        if found is None and self.items and "content" in self.items[-1]:
            content = self.items[-1]["content"]
            found = content if isinstance(content, str) else None
        if found is None:
            raise DocumentError(f"the model gave no text: {self.raw_output!r:.80}")
        return found

    def __str__(self) -> str:
        """The last that the model said."""
        return self.text


def _items(raw: Any) -> list[Part]:
    """The items of an output; of several choices only the first counts."""
    if isinstance(raw, Mapping) and "choices" in raw:
        found = []
        for choice in raw["choices"][:1]:
            references = choice.get("references") or ()
            found += of_reply(choice.get("message") or {}, references)
        return found
    if isinstance(raw, Mapping) and isinstance(raw.get("items"), list):
        return items_of(raw["items"])
    return [CustomTaskOutputMessage(content=raw)]


class SolverTrace(Structured):
    """A trace that a snippet writes."""

    def __init__(self, trace: Trace | None = None) -> None:
        """Begin with nothing, or with a trace."""
        self.trace = trace or Trace()
        self.raw_outputs: list[Any] = []
        self.direct_ios: list[Any] = []

    def __str__(self) -> str:
        """What was said so far."""
        return str(self.trace)

    @property
    def items(self) -> list[Part]:
        """What was said and done so far."""
        return self.trace.items

    def append(self, item: Any) -> None:
        """Add an item, or a message of OpenAI's form.

        Raises:
            DocumentError: It is neither.
        """
        self.trace.items += items_of([item])

    def extend(self, items: Iterable[Any]) -> None:
        """Add several."""
        self.trace.items += items_of(list(items))

    def append_user_message(self, text: str) -> None:
        """Add what the user says.

        Raises:
            DocumentError: It is null.
        """
        self.append(Message(role="user", content=_not_null(text)))

    def append_system_message(self, text: str) -> None:
        """Add a system message.

        Raises:
            DocumentError: It is null.
        """
        self.append(Message(role="system", content=_not_null(text)))

    def append_custom_task_input_message(self, content: Any) -> None:
        """Add what a model of a custom task is given."""
        self.append(CustomTaskInputMessage(content=content))

    def add_model_response(self, response: ModelResponse) -> None:
        """Add what a model gave.

        Raises:
            DocumentError: It is no response; ``predict`` has to be awaited.
        """
        if not isinstance(response, ModelResponse):
            is_open = inspect.isawaitable(response)
            kind = "coroutine" if is_open else type(response).__name__
            raise DocumentError(
                "add_model_response takes what model.predict gives, not "
                f"{kind}; await it"
            )
        self.trace.items += response.items
        self.raw_outputs.append(response.raw_output)


def _not_null(text: Any) -> Any:
    if text is None:
        raise DocumentError("the text of a message is null")
    return text


class SolverOutput(Structured):
    """What scorers see of a solver's work.

    Args:
        trace: The conversation, in any form that is understood.
        raw_outputs: What the model gave, one entry a call.
        direct_ios: Whatever was kept of the calls.
        solver_outputs: Of a grouped solver, one a call.
        output: The last output, where nothing else is known.
    """

    def __init__(
        self,
        trace: Any = None,
        raw_outputs: Sequence[Any] = (),
        direct_ios: Sequence[Any] = (),
        solver_outputs: Any = None,
        output: Any = None,
    ) -> None:
        """Keep it; snippets make some of these too.

        Raises:
            DocumentError: The trace is none.
        """
        self.raw_outputs = [raw_of(one) for one in raw_outputs]
        if output is not None and not self.raw_outputs:
            self.raw_outputs = [raw_of(output)]
        if trace is None:
            trace = [item for raw in self.raw_outputs for item in _items(raw)]
        self.trace = trace_of(trace)
        self.direct_ios = list(direct_ios)
        self.solver_outputs = solver_outputs

    def __deepcopy__(self, memo: dict[int, Any]) -> SolverOutput:
        """An output of its own; what was kept of the calls may be anything, and is
        shared."""
        made = copy(self)
        made.trace = deepcopy(self.trace, memo)
        made.raw_outputs = deepcopy(self.raw_outputs, memo)
        made.direct_ios = list(self.direct_ios)
        return made

    @property
    def output(self) -> Any:
        """The last output: of a chat the text of the answer, with the output's fields;
        without an output, what the assistant said last."""
        if self.raw_outputs:
            return chat_view(self.raw_outputs[-1])
        return saying(self.trace.get_last_assistant_text())

    @property
    def outputs(self) -> list[Any]:
        """All outputs, as those of chats."""
        return [chat_view(raw) for raw in self.raw_outputs]

    @property
    def messages(self) -> list[Any]:
        """The conversation as messages with role and content; calls of functions are
        left out."""
        found: list[Any] = []
        for item in self.trace.items:
            if item.get("type") == "message":
                found.append(Part(role=item["role"], content=text_of(item) or ""))
            elif str(item.get("type")).startswith("custom_task_"):
                found.append(item.get("content"))
        return found

    @property
    def answer(self) -> str:
        """What the assistant said last, or what a model of a custom task gave, if that
        is a text.

        Raises:
            DocumentError: There is no such text.
        """
        found = self.trace.get_last_assistant_text()
        if found is None and isinstance(self.output, str):
            found = self.output
        if found is None:
            raise DocumentError("there is no answer: the assistant has said nothing")
        return found

    @property
    def references(self) -> list[str]:
        """The passages that the last answer rests on."""
        messages = [i for i in self.trace.items if i.get("role") == "assistant"]
        parts = messages[-1]["content"] if messages else ()
        return [
            str(note["content"])
            for part in parts
            for note in part.get("annotations") or ()
            if note.get("type") == "text_citation"
        ]

    def __str__(self) -> str:
        """The answer."""
        return self.answer

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"trace": self.trace.to_dict(), "raw_outputs": plain(self.raw_outputs)}
