"""The parts of an eval, from which a task is made, and changes of an eval that remove
causes of wrong answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.core.dialogue import ModelSource
from pytest_evals.core.gate import Gate
from pytest_evals.core.reasoning import REFUSALS
from pytest_evals.core.task import TaskOptions
from pytest_evals.data.source_paths import RowPlaces
from pytest_evals.dialects.native.cases import EvalCases
from pytest_evals.dialects.native.conversations import UserSimulator
from pytest_evals.errors import EvalsError, Place
from pytest_evals.prompts.generation import (
    Sampling,
    SamplingResult,
    argument_errors,
    read_sampling,
)
from pytest_evals.scorers.answers import AnswerScorer
from pytest_evals.scorers.extract import Extraction
from pytest_evals.scorers.functions import FunctionScorer
from pytest_evals.scorers.model_scorer import ModelScorer
from pytest_evals.scorers.near_misses import LETTER, MARKDOWN, NUMBER

FILTER = "none"


MAX_TOKENS = 1024  # most new tokens of an answer, if an eval sets no limit


Scorer = AnswerScorer | ModelScorer | FunctionScorer


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalParts:
    """What an eval consists of."""

    name: str
    source: Place
    load: Callable[[], EvalCases]  # Returns its cases. Raises ``TaskFileError``.
    scorers: Sequence[Scorer]
    """At least one, but none for choices; names are unique. The first decides whether a
    case is correct."""
    sampling: Sampling  # how answers are generated
    choices_by: str | None = None
    """If cases have choices, how these are answered, see
    :mod:`~pytest_evals.dialects.native.choices`; else ``None``."""
    repeats: int = 1  # answers to each prompt; scores are their means
    refusals: str = REFUSALS[0]  # see :class:`Task`
    extract: Extraction | None = None
    """The part of answers that is scored, unless a scorer sets its own."""
    tools: Callable[[Mapping[str, Any]], str] | None = None
    """Returns the tools of a row as JSON, empty without any."""
    traces: bool = False
    """Whether calls and usage are read from the application's spans."""
    has_turns: bool = False  # whether cases may be conversations
    shows_images: bool = False  # whether prompts have images, if that is known
    user: UserSimulator | None = None  # settings of simulated users
    system: str = ""  # system message before each prompt
    model: ModelSource | None = None  # source of the model if the session has none
    gates: tuple[Gate, ...] = ()
    tags: tuple[str, ...] = ()
    version: str | int | float | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    """JSON values for results files and the task's hash."""
    remedies: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    begins_early: bool = True  # whether async scorers may run before their case's turn
    is_text: bool = False  # whether all values of rows are text, but for nested ones
    places: Mapping[str, Place] = field(default_factory=dict)
    """Name of a scorer → where it is defined, if not in ``source``."""
    row_place: RowPlaces | None = None
    """Where rows are in a file; ``None`` for cases of a function."""


def sampling_of(generation: Mapping[str, Any], options: TaskOptions) -> SamplingResult:
    """The sampling parameters of an eval, with those of the command line. Raises
    EvalsError if a parameter is invalid."""
    for error in argument_errors(generation):
        fix = f"\n  fix: {error.fix}" if error.fix else ""
        raise EvalsError(error.message + fix)
    given = dict(generation)
    if "stop" in given:
        given["until"] = given.pop("stop")
    given.setdefault("until", [])
    given.setdefault("max_tokens", MAX_TOKENS)
    return read_sampling(given, options.gen_kwargs, "")


_PATTERNS = {
    "markdown": MARKDOWN,
    "first number": f"({NUMBER})",
    "last number": rf"(?s)({NUMBER})(?!.*\d)",
    "first letter": f"({LETTER})",
    "last letter": rf"(?s)({LETTER})(?!.*{LETTER})",
}
_IGNORED = {"case": "ignore_case", "punctuation": "ignore_punctuation"}
_ARGUMENTS = {
    "exact": ("ignore_case", "ignore_punctuation"),
    "contains": ("ignore_case",),
    "starts_with": ("ignore_case",),
}
"""Scorers that compare the whole answer with the target, and what they can ignore."""


YAML = {
    "ignore": "set {key}: true on {scorer}",
    "match": "set score: {{regex: {{pattern: '{pattern}', group: 1}}}}",
    "target": "remove the whitespace from target",
    "stop": r'add "\n" to stop in generation',
    "limit": "raise max_tokens in generation",
}
PYTHON = {
    "ignore": "pass {key}=True to {scorer}()",
    "match": "use regex(r'{pattern}', group=1)",
    "target": "remove the whitespace from target=",
    "stop": r'set generation={"stop": ["\n"]}',
    "limit": 'raise "max_tokens" in generation=',
}
"""Changes of an eval in YAML, and of one in Python."""


def remedies(scorers: Sequence[Scorer], texts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the change of an eval for each cause of wrong answers of the first scorer,
    which decides what is correct. ``texts``: :data:`YAML` or :data:`PYTHON`."""
    name = scorers[0].name if scorers else ""
    found = {cause: texts[cause] for cause in ("target", "stop", "limit")}
    if name == "exact":
        for cause, pattern in _PATTERNS.items():
            found[cause] = texts["match"].format(pattern=pattern)
        found["whitespace"] = ""  # ignored already
    for cause, key in _IGNORED.items():
        if key in _ARGUMENTS.get(name, ()):
            found[cause] = texts["ignore"].format(key=key, scorer=name)
    return found
