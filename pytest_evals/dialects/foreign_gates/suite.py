"""Suites from gate files of other projects: their content, and the parts that several
formats share.

Tasks of lm-eval have the documents of other programs' evaluations. Prompts differ, and
with them the numbers: gates on these tasks are advisory.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from pytest_evals.errors import EvalsError
from pytest_evals.gates.read.text import ConditionError, read_number

Values = Mapping[str, Any]  # the content of a file
_IRRELEVANT = frozenset((
    "backend", "batch_size", "cadence", "description", "gpu", "hardware", "model",
    "model_type", "name", "nightly", "num_gpus", "required_gpu_arch", "runner",
    "timeout_in_minutes",
))  # fmt: skip
"""Keys that change no score."""
_MOST_PARTS = 1000


class UnconvertibleError(EvalsError):
    """A file or a task that cannot be converted."""


@dataclass(frozen=True, slots=True)
class ConvertedGate:
    """``origin``: the number and the rule of the file, for a comment."""

    entry: Mapping[str, Any]
    origin: str


@dataclass(slots=True)
class Converted:
    """A suite."""

    tasks: list[Mapping[str, Any]] = field(default_factory=list)
    """Tasks of lm-eval that are its group."""
    file: Mapping[str, Any] | None = None  # its own task file instead of a group
    gates: list[ConvertedGate] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Parts of the file that are not converted, with the reason."""

    def add_task(self, name: str, num_fewshot: object = None) -> None:
        """Add a task or group of lm-eval, once. With another key it is a variant that
        belongs to the suite, whose gates cannot be on tasks of other folders."""
        settings = {"num_fewshot": num_fewshot}
        task = {
            "task": name,
            **({"task_alias": name} if num_fewshot is None else settings),
        }
        if task not in self.tasks:
            self.tasks.append(task)

    def list_others(self, values: Values, read: Iterable[str]) -> None:
        """Add the keys that are not converted and may change a number."""
        known = _IRRELEVANT.union(read)
        others = sorted(str(key) for key in values if key not in known)
        self.left_out += [f"{key}: not supported" for key in others]


def number(where: str, value: object) -> float:
    """A number of a file, which may be text or a percentage. Raises UnconvertibleError
    if it is not a finite number."""
    try:
        return float(read_number(value, where))
    except ConditionError:
        raise UnconvertibleError(f"{where} is {value!r}, not a number") from None


def expected(
    value: float, tolerance: float, *, is_share: bool, n: int | None = None
) -> dict[str, Any]:
    """The keys of a gate for ``measured >= value * (1 - tolerance)``, or ``value -
    tolerance``, in floating point.

    They are ``value`` and ``tolerance`` if the exact bound accepts the same scores, and
    ``min`` otherwise: rounding may put the bound of the rule above the exact one, on
    which a score of ``n`` documents may lie. Without ``n``, tasks whose size is a
    multiple of more than a thousand are not considered. Raises UnconvertibleError if
    every score passes.
    """
    edge = value * (1 - tolerance) if is_share else value - tolerance
    if edge <= 0:
        shown = f"{tolerance:.4g}"
        raise UnconvertibleError(
            f"a tolerance of {shown} below {value:g} accepts every score"
        )
    exact, off = Decimal(repr(value)), Decimal(repr(tolerance))
    exact = exact * (1 - off) if is_share else exact - off
    parts = exact.as_integer_ratio()[1]
    is_score = parts <= _MOST_PARTS if n is None else n % parts == 0
    if (edge > float(exact) and is_score) or tolerance < 0:
        return {"min": edge}
    if not is_share:
        return {"value": value, "tolerance": tolerance}
    percent = (off * 100).normalize()
    return {"value": value, "tolerance": f"{percent:f}%"}


def around(value: float, *, low: float, high: float | None = None) -> dict[str, Any]:
    """The keys of a gate for scores from ``low`` to ``high``, with the reference value
    between them: the bounds are exactly these numbers."""
    exact = Decimal(repr(value))
    below = exact - Decimal(repr(low))
    above = None if high is None else Decimal(repr(high)) - exact
    if below < 0 or low <= 0 or (above is not None and above < 0):
        return {"min": low} if high is None else {"min": low, "max": high}
    if above is None:
        return {"value": value, "tolerance": f"{below:f}"}
    tolerance = {"below": f"{below:f}", "above": f"{above:f}"}
    return {"value": value, "tolerance": tolerance}


def words_of(arguments: object) -> list[str]:
    """The words of a server's arguments: text, or a list of texts with words. Raises
    UnconvertibleError if a quote is not closed."""
    given = arguments if isinstance(arguments, list) else [arguments or ""]
    try:
        return [word for one in given for word in shlex.split(str(one))]
    except ValueError as error:
        raise UnconvertibleError(f"arguments of the server: {error}") from None


def server_spec(model: str, words: Sequence[str], environment: Values) -> str:
    """The spec of a vLLM server with these arguments, without ``serve:``."""
    variables = [f"{name}={shlex.quote(str(v))}" for name, v in environment.items()]
    return " ".join(
        [*variables, "vllm serve", shlex.quote(model), shlex.join(words)]
    ).strip()


def command(server: str, values: Values, folder: str, *more: str) -> str:
    """The command that runs a suite as a file does. ``values``: its ``limit``,
    ``gen_kwargs``, ``apply_chat_template`` and ``fewshot_as_multiturn``."""
    chat = bool(values.get("apply_chat_template"))
    words = ["pytest", f"--model=serve:{server}{',api=chat' if chat else ''}"]
    if values.get("limit") is not None:
        words.append(f"--evals-limit={values['limit']}")
    if given := values.get("gen_kwargs"):
        if isinstance(given, Mapping):
            given = json.dumps(dict(given))
        words.append(f"--evals-gen-kwargs={given}")
    if chat:
        words.append("--evals-apply-chat-template")
        if not values.get("fewshot_as_multiturn", True):
            words.append("--evals-fewshot-as-one-turn")
    return shlex.join([*words, *more, folder])


class Nearest(NamedTuple):
    """The task of lm-eval with the same documents."""

    task: str
    metric: str


GSM8K = Nearest("gsm8k", "exact_match,flexible-extract")
GPQA = Nearest("gpqa_diamond_cot_zeroshot", "exact_match,flexible-extract")
_NEAREST = {
    "gsm8k": GSM8K,
    "mmlu": Nearest("mmlu", "acc"),
    "gpqa": GPQA,
    "gpqa_diamond": GPQA,
    "aime24": Nearest("aime24", "exact_match"),
    "aime25": Nearest("aime25", "exact_match"),
    "humaneval": Nearest("humaneval", "pass@1,create_test"),
    "mgsm_en": Nearest("mgsm_en_cot_en", "exact_match,flexible-extract"),
}
"""Name of an evaluation of SGLang or a data set of evalscope → the nearest task."""


def nearest(name: str) -> Nearest:
    """The task of lm-eval for another program's evaluation. Raises UnconvertibleError
    if no task of lm-eval has its documents."""
    if name not in _NEAREST:
        known = ", ".join(sorted(_NEAREST))
        raise UnconvertibleError(
            f"lm-eval has no text task for {name!r}; it has some for {known}"
        )
    return _NEAREST[name]
