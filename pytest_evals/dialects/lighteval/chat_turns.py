"""Multi-turn documents: the user's turns are sent one after the other, each with the
chat history so far.

The turns are in ``doc.specific["multi_turn_queries"]``, as in lighteval's MT-Bench; the
first turn is the document's query. Judges grade the answers.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_evals.core.dialogue import Ask, Dialogue
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Message, Prompt

TURNS = "multi_turn_queries"


def later_turns(record: Record) -> Dialogue[list[str]]:
    """Send the second and later turns; return the model's answers to them.

    Raises:
        DocumentError: A response contains an error.
    """
    queries = (record.doc.specific or {}).get(TURNS)
    request = next((r for r in record.requests if isinstance(r, Generate)), None)
    answers: list[str] = []
    if not isinstance(queries, list | tuple) or request is None:
        return answers
    answer = record.responses[0].text
    for query in queries[1:]:
        messages = (
            *_messages(request.prompt),
            Message("assistant", answer),
            Message("user", str(query)),
        )
        request = replace(request, prompt=messages)
        (response,) = yield [Ask("", request)]
        answer = response.raise_for_error().text
        answers.append(answer)
    return answers


def _messages(prompt: Prompt) -> tuple[Message, ...]:
    return (Message("user", prompt),) if isinstance(prompt, str) else prompt
