"""The parts of an eval, from which a task is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.core.dialogue import ModelSource
from pytest_evals.core.gate import Gate
from pytest_evals.core.reasoning import REFUSALS
from pytest_evals.core.task import TaskOptions
from pytest_evals.data.line_places import RowPlaces
from pytest_evals.dialects.native.cases import EvalCases
from pytest_evals.dialects.native.simulated_users import UserSimulator
from pytest_evals.errors import EvalsError, Place
from pytest_evals.prompts.arguments import argument_errors
from pytest_evals.prompts.generation import Sampling, SamplingResult, read_sampling
from pytest_evals.scorers.answers import AnswerScorer
from pytest_evals.scorers.extract import Extraction
from pytest_evals.scorers.functions import FunctionScorer
from pytest_evals.scorers.model_scorer import ModelScorer

FILTER = "none"


MAX_TOKENS = 1024
"""Most new tokens of an answer, if an eval sets no limit."""


Scorer = AnswerScorer | ModelScorer | FunctionScorer


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalParts:
    """What an eval consists of.

    Args:
        load: Returns its cases. Raises ``TaskFileError``.
        scorers: At least one, but none for choices; names are unique. The first decides
            whether a case is correct.
        choices_by: If cases have choices, how these are answered, see
            :mod:`~pytest_evals.dialects.native.choices`; else ``None``.
        sampling: How answers are generated.
        repeats: Answers to each prompt; scores are their means.
        refusals: See :class:`Task`.
        extract: The part of answers that is scored, unless a scorer sets its own.
        tools: Returns the tools of a row as JSON, empty without any.
        traces: Whether calls and usage are read from the application's spans.
        has_turns: Whether cases may be conversations.
        shows_images: Whether prompts have images, if that is known.
        user: Settings of simulated users.
        system: System message before each prompt.
        model: Source of the model if the session has none.
        config: JSON values for results files and the task's hash.
        begins_early: Whether async scorers may run before their case's turn.
        is_text: Whether all values of rows are text, but for nested ones.
        places: Name of a scorer → where it is defined, if not in ``source``.
        row_place: Where rows are in a file; ``None`` for cases of a function.
    """

    name: str
    source: Place
    load: Callable[[], EvalCases]
    scorers: Sequence[Scorer]
    sampling: Sampling
    choices_by: str | None = None
    repeats: int = 1
    refusals: str = REFUSALS[0]
    extract: Extraction | None = None
    tools: Callable[[Mapping[str, Any]], str] | None = None
    traces: bool = False
    has_turns: bool = False
    shows_images: bool = False
    user: UserSimulator | None = None
    system: str = ""
    model: ModelSource | None = None
    gates: tuple[Gate, ...] = ()
    tags: tuple[str, ...] = ()
    version: str | int | float | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    remedies: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    begins_early: bool = True
    is_text: bool = False
    places: Mapping[str, Place] = field(default_factory=dict)
    row_place: RowPlaces | None = None


def sampling_of(generation: Mapping[str, Any], options: TaskOptions) -> SamplingResult:
    """The sampling parameters of an eval, with those of the command line.

    Raises:
        EvalsError: A parameter is invalid.
    """
    for error in argument_errors(generation):
        fix = f"\n  fix: {error.fix}" if error.fix else ""
        raise EvalsError(error.what + fix)
    given = dict(generation)
    if "stop" in given:
        given["until"] = given.pop("stop")
    given.setdefault("until", [])
    given.setdefault("max_tokens", MAX_TOKENS)
    return read_sampling(given, options.gen_kwargs, "")
