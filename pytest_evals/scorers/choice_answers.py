"""Extract the selected choice from a generated answer, by its label or its text.

An answer that names no choice, or several, selects none: nothing is guessed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from pytest_evals.core.task import REASONING_TAGS
from pytest_evals.scorers.extraction import remove_reasoning_tags

UNPARSABLE = "unparsable"  # the metric that counts answers that select no choice


class SelectedChoice(NamedTuple):
    """The selected choice. ``choice``: its position; ``None`` if the answer is
    unparsable."""

    choice: int | None
    fault: str = ""


def select(
    answer: str,
    labels: Sequence[str],
    texts: Sequence[str] = (),
    tags: Iterable[tuple[str, str]] = REASONING_TAGS,
) -> SelectedChoice:
    """Return the choice that an answer selects, by labels such as ``A`` or ``1``, which
    all differ, or by texts, if they are known. ``tags``: start and end tags of
    reasoning, which is not part of the answer."""
    text = _without_reasoning(answer, tuple(tags))
    if text is None:
        return SelectedChoice(None, "the reasoning has no end")
    if not text.strip():
        return SelectedChoice(None, "the answer is empty")
    read = _reader(tuple(labels), tuple(texts))
    for matches in read.matches(_plain(text)):
        if len(matches) == 1:
            return SelectedChoice(next(iter(matches)))
        if matches:
            named = ", ".join(labels[index] for index in sorted(matches))
            return SelectedChoice(None, f"the answer names several choices: {named}")
    return SelectedChoice(None, "the answer names no choice")


def _without_reasoning(answer: str, tags: Sequence[tuple[str, str]]) -> str | None:
    """The answer after its reasoning; ``None`` if the reasoning was cut off."""
    answer = remove_reasoning_tags(answer, tags)
    for opening, closing in tags:
        answer = answer.rpartition(closing)[2]  # the prompt may have opened it
        if opening in answer:
            return None
    return answer


_LATEX = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|mathsf)\s*\{([^{}]*)\}"
)
_MARKUP = re.compile(r"[*`$]|__|\\[()\[\]]|</?(?:b|i|em|strong|answer)>")
_ASCII = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019", "'"),
        **dict.fromkeys("\u201c\u201d", '"'),
        **dict.fromkeys("\u2013\u2014", "-"),
    }
)
"""Quotes and dashes."""


def _plain(text: str) -> str:
    """The text without Markdown and LaTeX; full-width letters, quotes and dashes become
    ASCII."""
    text = unicodedata.normalize("NFKC", text).translate(_ASCII)
    text = _MARKUP.sub("", _LATEX.sub(r"\1", text))
    return re.sub(r"[^\S\n]+", " ", re.sub(r"\s*\n\s*", "\n", text))


def _folded(text: str) -> str:
    text = re.sub(r"\s+", " ", _plain(text).casefold())
    return text.strip(" \t.,;:!?\"'()[]")


_ANSWER = r"(?:answer|choice|option|alternative|response)"
_STATEMENT = re.compile(
    rf"(?<!\w)(?:(?P<final>final)\s+)?(?:"
    rf"(?:answer|答案)(?:\s+(?:is|would\s+be|should\s+be|must\s+be|choice|option))*"
    rf"|(?:correct|right|best|final|chosen|selected)\s+{_ANSWER}\s+is"
    rf"|i(?:'d|\s+would|'ll|\s+will)?\s+(?:choose|pick|select|go\s+with|went\s+with)"
    rf")(?:\s*(?:[:=]|是|为)|\s)\s*(?:is\s+|:\s*)*(?:the\s+)?"
    rf"(?:(?:{_ANSWER}|letter|number|label)\s*:?\s*)?",
    re.IGNORECASE,
)
_BOXED = re.compile(r"\\boxed\s*\{([^{}]*)\}")
_JOIN = re.compile(r"\s*(?:,|/|\+|&|;|\b(?:and|or)\b)?\s*(?:\b(?:and|or|also)\b\s*)?")
_OPEN, _CLOSE = r"[\"'(\[<{]*", r"[\"')\]>}]*"
_NEGATION = re.compile(
    r"\b(?:not|no|none|neither|nor|never|cannot|except)\b|n't\b", re.I
)
_AFTER_LABEL = re.compile(
    r"\s+(?:[A-Z]\b|(?:is|was|because|since|as|and|or|due|given|based|seems?|looks?)\b)"
)
"""What may follow the labels ``A`` and ``I``, which are also English words."""
_DELIMITER = re.compile(r"[.):\]]*\s*")
_OR = re.compile(r"\bor\s+(?:maybe\s+|possibly\s+|perhaps\s+|even\s+)?", re.I)


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    """The end of a match at a position; the position itself without one."""
    match = pattern.match(text, at)
    return match.end() if match else at


class _Reader:
    def __init__(self, labels: Sequence[str], texts: Sequence[str]) -> None:
        self._labels = {_plain(one).casefold(): n for n, one in enumerate(labels)}
        self._texts: dict[str, set[int]] = {}
        for n, text in enumerate(texts):
            if _folded(text) and _folded(text) not in self._labels:
                self._texts.setdefault(_folded(text), set()).add(n)
        either = "|".join(
            re.escape(one) for one in sorted(self._labels, key=len, reverse=True)
        )
        label = rf"(?P<label>{either})(?![\w'])"
        self._label = re.compile(_OPEN + label + _CLOSE, re.I)
        head = rf"(?:(?:{_ANSWER}|letter|number)\s+)?"
        self._bare = re.compile(rf"{head}{_OPEN}{label}[\"')\]>}}.,:;!]*", re.I)
        self._listed = re.compile(
            rf"{_OPEN}{label}(?:[)\]]+[.:]?|[.:]|\s+-)\s+(?P<rest>\S.*)", re.I
        )
        self._lone = re.compile(rf"(?<![\w'\-]){label}(?!-)", re.I)

    def matches(self, text: str) -> Iterator[set[int]]:
        """The choices that the text names, by the most explicit form first."""
        statements = [
            (bool(one["final"]), self._start(text[one.end() :]))
            for one in _STATEMENT.finditer(text)
        ]
        boxed = [self._whole(one) for one in _BOXED.findall(text)]
        final = [found for is_final, found in statements if is_final]
        yield set().union(*boxed, *final)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        bare = [self._whole(line) for line in lines]
        yield set().union(*bare, *(found for _, found in statements))
        yield set().union(*map(self._item, lines))
        if len(lines) == 1:
            yield self._mentioned(lines[0])

    def _whole(self, text: str) -> set[int]:
        """The choices of a text that contains nothing else."""
        match = self._bare.fullmatch(text.strip())
        if match:
            return {self._labels[match["label"].casefold()]}
        found = self._texts.get(_folded(text))
        return found if found is not None else self._several(text)

    def _several(self, text: str) -> set[int]:
        """The choices of a list such as ``A and C``; empty for any other text."""
        found: set[int] = set()
        at = 0
        text = text.strip().rstrip(".")
        while match := self._label.match(text, at):
            found.add(self._labels[match["label"].casefold()])
            at = _after(_JOIN, text, match.end())
            if match.end() == len(text):
                return found
        return set()

    def _item(self, line: str) -> set[int]:
        """The choices of a line such as ``B. Paris``: label and text must agree."""
        match = self._listed.fullmatch(line)
        if match is None:
            return set()
        label = self._labels[match["label"].casefold()]
        other = self._texts.get(_folded(match["rest"]), {label})
        found = {label} if label in other else {label, *other}
        return found | self._alternatives(match["rest"])

    def _start(self, text: str) -> set[int]:
        """The choices at the start of a text: those that follow "the answer is"."""
        line = next((one.strip() for one in text.splitlines() if one.strip()), "")
        found: set[int] = set()
        at = last = 0
        while True:
            end, more = self._choice(line, at)
            if end == at:
                break
            found |= more
            last, at = end, _after(_JOIN, line, end)
        if found:
            rest = line[_after(_DELIMITER, line, last) :]
            found |= self._texts.get(_folded(rest), set()) | self._alternatives(rest)
        return found

    def _alternatives(self, text: str) -> set[int]:
        """The choices after "or"."""
        ends = [match.end() for match in _OR.finditer(text)]
        return set().union(*(self._choice(text, end)[1] for end in ends))

    def _choice(self, line: str, at: int) -> tuple[int, set[int]]:
        """The choice at a position and its end; the position itself without one."""
        rest = line[at:].casefold()
        for text in sorted(self._texts, key=len, reverse=True):
            match = re.compile(rf"{_OPEN}{re.escape(text)}(?!\w){_CLOSE}").match(rest)
            if match:
                return at + match.end(), self._texts[text]
        match = self._label.match(line, at)
        if match is None or not self._is_label(match, line):
            return at, set()
        return match.end(), {self._labels[match["label"].casefold()]}

    def _is_label(self, match: re.Match[str], line: str) -> bool:
        """Whether a matched label is one, and not a word such as "a" or "I"."""
        given, rest = match["label"], line[match.end() :]
        is_alone = not given.isalpha() or match.group() != given
        if is_alone or not re.match(r"\s+\w", rest):
            return True
        if given.islower():
            return False
        return given not in ("A", "I") or bool(_AFTER_LABEL.match(rest))

    def _mentioned(self, line: str) -> set[int]:
        """The choices that a single line names anywhere, if it negates nothing."""
        left, found = line, set[int]()
        for text in sorted(self._texts, key=len, reverse=True):
            pattern = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.I)
            if pattern.search(left):
                found |= self._texts[text]
                left = pattern.sub(" ", left)
        for match in self._lone.finditer(left):
            given = match["label"]
            if given.isdigit() or (given.isupper() and self._is_label(match, left)):
                found.add(self._labels[given.casefold()])
        return set() if _NEGATION.search(left) else found


_reader = lru_cache(maxsize=256)(_Reader)
