"""Near misses: why answers are counted as wrong although the model may know better, and
the change of the task file that would help.

Each cause is checked with the operation that its remedy performs, so an answer counts
only if the remedy makes it equal to a target.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from pytest_evals.errors import abbreviated

NUMBER = r"-?\d+(?:\.\d+)?"
LETTER = r"\b[A-Z]\b"
MARKDOWN = r"(?s)^\s*(?:```\w*\n|[*_`#]+\s*)?(.*?)(?:\n?```|[*_`]+)?\s*$"
MAX_LINES = 3
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_LEAST_SHARE = {"number": 0.3, "letter": 0.5}
"""Share of the wrong answers from which on an extraction is proposed: a single letter
often equals the target by chance."""
_LEAST = 2
_LEAST_CUT = 0.1
_ALIKE, _SAME_CHOICE = 3, 10
"""Documents from which on equal answers, or equal choices, are reported."""
_ORDINALS = ("first", "second", "third", "fourth", "fifth")


class Answer(NamedTuple):
    """The answer to a document."""

    text: str | None  # the answer as the metric compares it; ``None`` for a choice
    targets: tuple[str, ...]
    is_wrong: bool  # whether the metric counts it as wrong
    is_cut: bool = False  # whether it ended at its limit of tokens
    choice: int | None = None  # position of the choice with the highest log-probability
    emptied_by: str = ""  # the stop string that may have ended an empty answer


class _Cause(NamedTuple):
    """A difference between an answer and its target, and how its remedy of this name
    changes both."""

    name: str
    answer: Callable[[str], str]
    target: Callable[[str], str] = str


def _matched(pattern: str, position: int) -> Callable[[str], str]:
    regex = re.compile(pattern)

    def found(text: str) -> str:
        matches: list[str] = regex.findall(text)
        return matches[position].strip() if matches else ""

    return found


def _without_punctuation(text: str) -> str:
    return text.translate(_PUNCTUATION)


_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
_WRITTEN = {"true": "True", "false": "False"}
_WRITTEN |= dict.fromkeys(("", "n/a", "na", "nan", "none", "null"), "None")
_MIDNIGHT = re.compile(r"[ T]00:00:00$")


def _inferred(text: str) -> str:
    """The text as a reader that infers types returns it: ``4.90`` as 4.9, ``007`` as 7,
    ``30.0`` as 30, an empty cell as None."""
    text = _MIDNIGHT.sub("", text)
    if _NUMBER.fullmatch(text):
        number = float(text)
        return str(int(number)) if number.is_integer() else str(number)
    return _WRITTEN.get(text.casefold(), text)


def type_fault(answer: str, target: object) -> str:
    """Return why an answer differs from its target, if that is only because a reader
    inferred types; else an empty text."""
    if target is None:
        return ""
    targets = target if isinstance(target, list | tuple) else (target,)
    texts = [str(one) for one in targets]
    answer = answer.strip()
    if answer in texts or _inferred(answer) not in map(_inferred, texts):
        return ""
    return f"the answer {_described(('types',)).replace('equal', 'equals', 1)}"


_FORM = (
    _Cause("whitespace", str.strip),
    _Cause("case", str.lower, str.lower),
    _Cause("punctuation", _without_punctuation, _without_punctuation),
)
_STOP = _Cause("stop", lambda text: text.partition("\n")[0])
_PRECISE: tuple[tuple[_Cause, ...], ...] = (
    *((one,) for one in _FORM[:2]),
    (_Cause("types", _inferred, _inferred),),
    # Before punctuation, of which Markdown is a part.
    (_Cause("markdown", _matched(MARKDOWN, 0)),),
    *(ones for n in (1, 2, 3) for ones in combinations(_FORM, n)),
    (_Cause("target", str.strip, str.strip),),
    (_STOP,),
    *((_STOP, *ones) for n in (1, 2, 3) for ones in combinations(_FORM, n)),
)
"""Causes of which a single wrong answer is evidence, the simplest first."""
_EXTRACTIONS = (
    _Cause("last number", _matched(NUMBER, -1)),
    _Cause("first number", _matched(NUMBER, 0)),
    _Cause("last letter", _matched(LETTER, -1)),
    _Cause("first letter", _matched(LETTER, 0)),
)


def near_misses(
    answers: Sequence[Answer], remedies: Mapping[str, str] | None = None
) -> list[str]:
    """Return the likely causes of wrong answers, the most frequent first, with counts.
    ``remedies``: cause → how the task file removes it, in its own dialect; empty if its
    metric ignores the difference."""
    # One that equals its target is wrong for another reason, such as other answers to
    # the same document.
    wrong = [one for one in answers if one.is_wrong and not _matches(one, ())]
    if not wrong:
        return []
    emptied = [one.emptied_by for one in wrong if one.emptied_by]
    constant = next(_constant(answers), "")
    if emptied:
        return [
            f"{len(emptied):,} of {len(wrong):,} wrong answers are empty, probably "
            f"because they begin with the stop string {emptied[0]!r}; remove it from "
            "the stop strings, or end the prompt so that answers do not begin with it"
        ]
    if constant:
        return [constant]
    return [
        _with_remedy(
            f"{n:,} of {len(wrong):,} wrong answers {message}", names, remedies
        )
        for names, message, n in _causes(answers, wrong)
    ][:MAX_LINES]


def _causes(
    answers: Sequence[Answer], wrong: Sequence[Answer]
) -> Iterator[tuple[tuple[str, ...], str, int]]:
    kept = [one for one in answers if not one.is_wrong and _matches(one, ())]
    counts: Counter[tuple[str, ...]] = Counter()
    rest = []
    by_name = {tuple(cause.name for cause in causes): causes for causes in _PRECISE}
    for one in wrong:
        names = next((n for n, causes in by_name.items() if _matches(one, causes)), ())
        if names:
            counts[names] += 1
        else:
            rest.append(one)
    for names, n in counts.most_common():
        if all(_matches(one, by_name[names]) for one in kept):
            yield names, _described(names), n
    found = {
        cause: sum(_matches(one, (cause,)) for one in rest) for cause in _EXTRACTIONS
    }
    best = max(found, key=lambda cause: found[cause])
    n, kind = found[best], best.name.split()[1]
    is_safe = all(_matches(one, (best,)) for one in kept)
    if is_safe and n >= max(_LEAST, _LEAST_SHARE[kind] * len(wrong)):
        yield (best.name,), f"equal the target if the {best.name} is taken", n
        rest = [one for one in rest if not _matches(one, (best,))]
    n = sum(one.is_cut for one in rest)
    if n and n >= _LEAST_CUT * len(wrong):
        yield ("limit",), "were cut off at their token limit", n


def _matches(one: Answer, causes: Sequence[_Cause]) -> bool:
    text, targets = one.text, list(one.targets)
    if text is None:
        return False
    for cause in causes:
        text, targets = cause.answer(text), [*map(cause.target, targets)]
    return bool(text) and text in targets


_WHOLE = {
    ("target",): "differ from the target by whitespace of the target only",
    ("types",): "equal the target as numbers, booleans, dates or missing values",
    ("markdown",): "equal the target without their Markdown",
}


def _described(names: tuple[str, ...]) -> str:
    if names in _WHOLE:
        return _WHOLE[names]
    form = _listed(names[names[0] == "stop" :])
    if names[0] != "stop":
        return f"differ from the target by {form} only"
    and_form = f", apart from {form}" if form else ""
    return f"continue after a first line that equals the target{and_form}"


def _listed(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    *others, last = words or ("",)
    return f"{', '.join(others)} and {last}" if others else last


def _constant(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield that all answers are equal although the targets differ."""
    targets = {one.targets for one in answers}
    texts = {one.text for one in answers}
    choices = {one.choice for one in answers}
    n = len(answers)
    if len(targets) < 2 or len(texts) > 1 or len(choices) > 1:
        return
    (text,), (choice,) = texts, choices
    if text is not None and n >= _ALIKE:
        shown = repr(abbreviated(text, 40))
        message = f"are {shown}" if text.strip() else "are empty"
        yield f"all {n:,} answers {message}, although the targets differ"
    elif choice is not None and n >= _SAME_CHOICE:
        name = _ORDINALS[choice] if choice < len(_ORDINALS) else f"{choice + 1}th"
        yield (
            f"the {name} choice is chosen for all {n:,} documents, although the "
            "targets differ"
        )


def _with_remedy(
    text: str, names: Sequence[str], remedies: Mapping[str, str] | None
) -> str:
    found = [(remedies or {}).get(name) for name in names]
    needed = [*dict.fromkeys(one for one in found if one)]
    return f"{text}; {_listed(needed)}" if needed and None not in found else text
