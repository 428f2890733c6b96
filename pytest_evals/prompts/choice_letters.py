"""Questions with lettered choices, for models that generate the answer."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import NamedTuple

from pytest_evals.core.doc import Doc, as_list
from pytest_evals.core.request import Prompt
from pytest_evals.errors import DocumentError
from pytest_evals.prompts.chat import Turn, example_turns, final_turns, render

QUESTION = "### Question\n"
"""Start of each question in a plain prompt, at which generation stops."""
_CUE = "Answer:"
_TRAILING_CUE = re.compile(
    r"(?:\s+|\A)(?:answer|response|réponse|respuesta|antwort|risposta|resposta|ответ|答案"
    r"|回答)\s*[:\uff1a]\s*\Z|\n\s*a\s*:\s*\Z",
    re.IGNORECASE,
)
"""The start of an answer at the end of a question."""
_LABEL = re.compile(r"\(?([A-Za-z]|\d{1,3})[).:]?\)?")
_LABELLED = re.compile(r"\(?([A-Za-z]|\d{1,3})[).:]\)?\s+(\S.*)", re.DOTALL)
_SEQUENCES = (string.ascii_uppercase, string.ascii_lowercase)


class LetteredQuestion(NamedTuple):
    """A question that lists its choices with labels."""

    text: str  # the question with the choices, without an answer format
    labels: tuple[str, ...]  # label of each choice
    texts: tuple[str, ...] = ()
    """Text of each choice; empty if the labels are all that is known."""

    def choice(self, index: int) -> str:
        """A choice as the question lists it."""
        label = self.labels[index]
        return f"{label}. {self.texts[index]}" if self.texts else label

    @property
    def format(self) -> str:
        """The instruction that states the answer format."""
        is_number = self.labels[0].isdecimal()
        noun = "number" if is_number else "letter"
        return (
            f"Reply with the {noun} of the correct choice, in the form "
            f'"{_CUE} {noun.upper()}".'
        )


def lettered(query: str, choices: Sequence[str]) -> LetteredQuestion:
    """List the choices of a question with labels. Choices or questions that have labels
    keep them: nothing is listed twice. Raises DocumentError if there are no choices, or
    one is not a string."""
    if not choices:
        raise DocumentError("the document has no choices")
    for choice in choices:
        if not isinstance(choice, str):
            raise DocumentError(f"choices must be strings, not {choice!r:.80}")
    query = _TRAILING_CUE.sub("", query).strip()
    texts = tuple(choice.strip() for choice in choices)
    return (
        _with_label_choices(query, texts)
        or _with_labelled_choices(query, texts)
        or _with_listed_texts(query, texts)
        or _listed(query, labels_of(len(texts)), texts)
    )


def labels_of(n: int) -> tuple[str, ...]:
    """Return the labels of ``n`` choices: letters, or numbers for more than 26."""
    if n <= len(string.ascii_uppercase):
        return tuple(string.ascii_uppercase[:n])
    return tuple(str(number) for number in range(1, n + 1))


def lettered_prompt(
    doc: Doc, question: LetteredQuestion, system: str, *, chat: bool, multiturn: bool
) -> Prompt:
    """Return the prompt of a document and its few-shot examples. ``doc``: the document,
    with its instruction and few-shot examples. ``chat``: messages instead of plain
    text. ``multiturn``: in a chat, use one message per turn. Raises DocumentError if a
    few-shot example has no choices or no correct one."""
    head = "" if chat else QUESTION
    delimiter = "\n" if chat else f"\n{_CUE} "
    turns: list[Turn] = []
    for shot in doc.fewshot_samples:
        asked = question_of(shot)
        answer = asked.labels[_first_gold(shot)]
        answer = f"{_CUE} {answer}" if chat else answer
        text = f"{head}{asked.text}\n\n{asked.format}"
        turns += example_turns(text, answer, "", delimiter, "\n\n")
    text = f"{head}{question.text}\n\n{question.format}"
    turns += final_turns(text if chat else f"{text}\n{_CUE}", "", "")
    instruction = (doc.instruction or "").strip()
    if instruction:
        first = turns[0]
        turns[0] = first._replace(content=f"{instruction}\n\n{first.content}")
    if system:
        turns.insert(0, Turn("system", system, "" if chat else "\n\n"))
    return render(turns, chat=chat, multiturn=multiturn)


def question_of(doc: Doc) -> LetteredQuestion:
    """Return the question of a document, without its instruction. Raises DocumentError
    if there are no choices, or one is not a string."""
    return lettered(doc.query.removeprefix(doc.instruction or ""), doc.choices)


def _first_gold(shot: Doc) -> int:
    for index in as_list(shot.gold_index):
        if 0 <= index < len(shot.choices):
            return int(index)
    raise DocumentError("the answer of a few-shot example is not among its choices")


def _with_label_choices(
    query: str, choices: tuple[str, ...]
) -> LetteredQuestion | None:
    """The question if its choices are labels that it lists, as in MMLU; or if they are
    the letters from A on, which need no list."""
    matches = [_LABEL.fullmatch(choice) for choice in choices]
    labels = tuple(match[1] for match in matches if match)
    if len({*labels}) < len(choices):
        return None
    listed = [
        re.search(rf"(?<!\w){re.escape(label)}\s?[.):\]]", query) for label in labels
    ]
    if all(listed):
        return LetteredQuestion(query, labels, _texts_in(query, labels))
    if len(labels) > 1 and "".join(labels) == string.ascii_uppercase[: len(labels)]:
        return LetteredQuestion(query, labels)
    return None


def _texts_in(query: str, labels: Sequence[str]) -> tuple[str, ...]:
    """The texts that a question lists, one a line; empty if they are not found."""
    texts = []
    for label in labels:
        pattern = rf"^\s*\(?{re.escape(label)}\s?[.):\]]+\s*(\S.*?)\s*$"
        found = re.findall(pattern, query, re.MULTILINE)
        texts += found[:1] if len(found) == 1 else []
    return tuple(texts) if len(texts) == len(labels) else ()


def _label_lists(n: int) -> list[tuple[str, ...]]:
    """Labels of ``n`` choices in order: letters, numbers from 1, numbers from 0."""
    numbers = tuple(str(number) for number in range(n + 1))
    letters = [tuple(one[:n]) for one in _SEQUENCES if n <= len(one)]
    return [*letters, numbers[1:], numbers[:-1]]


def _with_labelled_choices(
    query: str, choices: tuple[str, ...]
) -> LetteredQuestion | None:
    """The question if its choices start with labels, such as ``A. Paris``."""
    matches = [match for one in choices if (match := _LABELLED.fullmatch(one))]
    labels = tuple(match[1] for match in matches)
    if labels not in _label_lists(len(choices)):
        return None
    texts = tuple(match[2] for match in matches)
    if all(choice in query for choice in choices):
        return LetteredQuestion(query, labels, texts)
    return _listed(query, labels, texts)


def _with_listed_texts(query: str, choices: tuple[str, ...]) -> LetteredQuestion | None:
    """The question if it lists the texts of its choices with letters or numbers."""
    for labels in _label_lists(len(choices)):
        patterns = (
            rf"(?<!\w){label}\s?[.):\]]+\s*{re.escape(text)}"
            for label, text in zip(labels, choices, strict=True)
        )
        if all(re.search(pattern, query) for pattern in patterns):
            return LetteredQuestion(query, labels, choices)
    return None


def _listed(
    query: str, labels: tuple[str, ...], texts: tuple[str, ...]
) -> LetteredQuestion:
    lines = [f"{one}. {text}" for one, text in zip(labels, texts, strict=True)]
    head = f"{query}\n\n" if query else ""
    return LetteredQuestion(head + "\n".join(lines), labels, texts)
