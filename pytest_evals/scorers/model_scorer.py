"""Scorers that ask models: what judges share, and their requests.

A judge replies with a JSON object whose schema is sent along, so that servers with
structured outputs enforce it. A reply that does not fit the schema, or a model that
fails, leaves the case unscored: that is not a wrong answer.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

from pytest_evals.core.case import Case
from pytest_evals.core.dialogue import JUDGE, Dialogue, ModelSource, ReadAsk
from pytest_evals.core.record import Score
from pytest_evals.core.request import (
    PLACED_IMAGES,
    RATING,
    RESPONSE_FORMAT,
    Generate,
    Message,
    Response,
)
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.prompts.case_files import image_option
from pytest_evals.scorers.templates import ScorerTemplate, prompt_text

T = TypeVar("T")
Tag = tuple[str, str]  # name and content of a part of a judge's message

JUDGE_NAME = "judge"  # name in ``Ask.model`` of the session's judge
_MAX_TOKENS = 1024
_SHORTEST = 8  # characters of the code in tags


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelScorer(ABC):
    """A scorer that asks one model or several."""

    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)  # smallest and largest value
    check: ClassVar[Callable[[Any, Case], object] | None] = None
    """Raises an error for a case that cannot be scored with any answer."""
    is_trivial: ClassVar[None] = None
    name: str
    sources: tuple[ModelSource, ...] = (JUDGE,)
    """The models; by default that of ``--evals-judge``."""
    roles: tuple[str, ...] = (JUDGE_NAME,)  # their names in ``Ask.model``
    threshold: float = 0.5  # a case is correct from this value on
    structured: bool = True
    """Whether schemas of replies are sent as ``response_format``."""
    images: bool = False  # whether the models get the images of a case
    settings: Mapping[str, Any] = field(default_factory=dict)
    """JSON values that determine the scores; part of the task's hash."""

    def __post_init__(self) -> None:
        low, high = self.limits
        if not low < self.threshold <= high:
            raise EvalsError(
                f"{self.name}: threshold is {self.threshold}, not above {low:g} and at "
                f"most {high:g}\n  fix: set scale for other grades, such as [1, 5]"
            )

    @property
    def is_graded(self) -> bool:
        """Whether a score may be another one than 0 and 1."""
        return True

    @property
    def templates(self) -> tuple[ScorerTemplate, ...]:
        """All texts that are rendered for each case."""
        return ()

    @abstractmethod
    def dialogue(self, answered: Response, case: Case) -> Dialogue[Score]:
        """Ask the models about an answer and return its score."""

    def scored(self, answered: Response, value: float, why: str) -> Score:
        """The score of an answer; ``why`` explains its value."""
        return Score(
            metric=self.name,
            value=value,
            correct=value >= self.threshold,
            answer=answered.text,
            explanation=why,
        )

    def unscored(self, answered: Response, why: object) -> Score:
        """The score of an answer that could not be rated."""
        return Score(metric=self.name, answer=answered.text, unscored=f"judge: {why}")


class ReplyForm(NamedTuple):
    """The form of a judge's reply. ``instructions``: the end of the request, which
    describes it. ``schema``: JSON Schema of the reply."""

    instructions: str
    schema: Mapping[str, Any]


def judge_request(
    system: str,
    parts: Callable[[Tag], Sequence[Tag]],
    form: ReplyForm,
    *,
    structured: bool = True,
    temperature: float = 0.0,
) -> Generate:
    """The request to rate something. ``system``: the system message; ``{code}`` is
    replaced by the end of all tags. ``parts``: marks before and after inserted text →
    the parts of the message, each between its tags."""

    def message(code: str) -> str:
        marks = (f"<inserted{code}>", f"</inserted{code}>")
        texts = [f"<{tag}{code}>\n{one}\n</{tag}{code}>" for tag, one in parts(marks)]
        return "\n\n".join([*texts, form.instructions])

    code = f"-{_code(message(''))}"
    schema = {"name": RATING, "strict": True, "schema": form.schema}
    asked = json.dumps({"type": "json_schema", "json_schema": schema})
    orders = system.replace("{code}", code)
    return Generate(
        (Message("system", orders), Message("user", message(code))),
        max_tokens=_MAX_TOKENS,
        temperature=temperature,
        options=((RESPONSE_FORMAT, asked),) if structured else (),
    )


def with_case_images(request: Generate, case: Case, question: str) -> Generate:
    """A judge's request with the images of a case. ``question``: the first part of the
    message. Images of a prompt are at their places in it, those of a conversation at
    its end."""
    placed = dict(image_option(case, 0)).get(PLACED_IMAGES, ())
    if not isinstance(placed, tuple) or not placed:
        return request
    start = cast(tuple[Message, ...], request.prompt)[1].content.index("\n") + 1
    starts, end = list[int](), start + len(question)
    if question == prompt_text(case):
        for one in cast(tuple[Message, ...], case.prompt):
            starts.append(start + len(f"{one.role}: "))
            start = starts[-1] + len(one.content) + len("\n")
    images = tuple(
        (1, starts[n] + at if n < len(starts) else end, *rest)
        for n, at, *rest in placed
    )
    return replace(request, options=(*request.options, (PLACED_IMAGES, images)))


def _code(message: str) -> str:
    """The code in the tags of a message: a digest of it, as long as needed so that the
    message does not contain it. Nobody who writes a part can know it, and equal
    messages have equal codes."""
    digest, n = "", _SHORTEST
    while not digest or digest[:n] in message:
        n += bool(digest)
        if n > len(digest):
            text = (digest + message).encode("utf-8", "surrogatepass")
            digest += sha256(text).hexdigest()
    return digest[:n]


def asked_again(
    role: str, request: Generate, read: Callable[[Response], T], instructions: str
) -> Dialogue[T]:
    """Send a request to a judge. A reply that cannot be read is returned to it once,
    with the error and the form of the reply. Raises DocumentError if the reply is
    missing, or the second one cannot be read either."""
    (reply,) = yield (ReadAsk(role, request, read),)
    try:
        return read(reply)
    except DocumentError as error:
        if reply.error:
            raise
        fault = str(error).partition(": ")[0]
    messages = (
        *cast(tuple[Message, ...], request.prompt),
        Message("assistant", reply.text or "(empty)"),
        Message("user", f"Your reply cannot be used: {fault}. {instructions}"),
    )
    repeated = replace(request, prompt=messages)
    (reply,) = yield (ReadAsk(role, repeated, read),)
    return read(reply)


def closed_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
