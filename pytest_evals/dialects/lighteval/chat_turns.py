"""Documents with several user turns, which judges grade: the model is sent one turn
after the other, each with the chat so far.

The user's turns are in ``doc.specific["multi_turn_queries"]``, as in lighteval's
MT-Bench; the first one is the document's query.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_evals.core.dialogue import Ask, Dialogue
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Message, Prompt

TURNS = "multi_turn_queries"


def later_turns(record: Record) -> Dialogue[list[str]]:
    """Send the turns after the first one; the result is their answers.

    Raises:
        DocumentError: The model gave no answer to one of them.
    """
    queries = (record.doc.specific or {}).get(TURNS)
    request = next((r for r in record.requests if isinstance(r, Generate)), None)
    answers: list[str] = []
    if not isinstance(queries, list | tuple) or request is None:
        return answers
    said = record.responses[0].text
    for query in queries[1:]:
        messages = (
            *_messages(request.prompt),
            Message("assistant", said),
            Message("user", str(query)),
        )
        request = replace(request, prompt=messages)
        (response,) = yield [Ask("", request)]
        said = response.raise_for_error().text
        answers.append(said)
    return answers


def _messages(prompt: Prompt) -> tuple[Message, ...]:
    return (Message("user", prompt),) if isinstance(prompt, str) else prompt
