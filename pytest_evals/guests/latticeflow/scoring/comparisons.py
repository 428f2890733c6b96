"""Scorers that compare an answer with a reference: ``string_equals``,
``string_equals_mcqa``, ``bleu``, and ``function_call_coverage``, which checks that
required functions were called.

Source: ``latticeflow-core`` 3.17.0 (function calls: greedy one-to-one matching,
starting with required calls that specify arguments). ``bleu`` is not specified; ours is
sacrebleu's sentence BLEU (13a, exponential smoothing, effective order), from 0 to 1.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.data.calls import FieldError
from pytest_evals.errors import DocumentError, MissingExtraError, abbreviated
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.metrics.measures import ScorerValue
from pytest_evals.guests.latticeflow.metrics.reader import ACCURACY, means_of
from pytest_evals.guests.latticeflow.prompts.items import unwrap
from pytest_evals.guests.latticeflow.prompts.output import SampleScore, SolverOutput
from pytest_evals.guests.latticeflow.prompts.templates import (
    SampleTemplate,
    compile_template,
)
from pytest_evals.guests.latticeflow.scoring.scorer import (
    SampleScorer,
    ScorerContext,
    answer_text,
    scoring,
)
from pytest_evals.guests.latticeflow.solvers.model_client import Sample
from pytest_evals.prompts.choice_letters import labels_of
from pytest_evals.scorers.choice_answers import UNPARSABLE, select
from pytest_evals.scorers.corpus import check_library


def read_equals(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return a ``string_equals`` scorer: exact match, including case and whitespace."""

    def equal(reference: str, predicted: str) -> dict[str, Any]:
        return {"is_correct": reference == predicted}

    return _comparison(section, task, equal, "is_correct", ACCURACY)


def read_bleu(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return a ``bleu`` scorer: n-gram overlap."""
    try:
        check_library("bleu")
    except MissingExtraError as error:
        section.problem("type", str(error))
    (default,) = means_of(["bleu_score"])
    return _comparison(section, task, _bleu, "bleu_score", default)


def _bleu(reference: str, predicted: str) -> dict[str, Any]:
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(effective_order=True, force=True)
    return {"bleu_score": bleu.sentence_score(predicted, [reference]).score / 100}


def _comparison(
    section: Keys,
    task: ScorerContext,
    compare: Callable[[str, str], dict[str, Any]],
    score: str,
    metric: ScorerValue,
) -> SampleScorer:
    reference = section.template("ground_truth", "{{ sample.target }}")
    value = section.optional_template("value")
    task.needs_answer(section, value)
    target = reference.for_sample

    def compared(sample: Sample, output: SolverOutput | None) -> SampleScore:
        predicted = answer_text(value, sample, output)
        expected = target(sample)
        metadata = {"answer_gt": expected, "answer_pred": predicted}
        return SampleScore(compare(expected, predicted), metadata)

    return SampleScorer(
        dialogue=scoring(compared),
        shares=(score,),
        target=target,
        metric_values=(metric,),
    )


def read_mcqa(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return a ``string_equals_mcqa`` scorer: an answer's first character counts."""
    correct = _column_template(section, "ground_truth_choice")
    choices = _column_template(section, "choices")
    task.needs_solver(section)
    target = correct.for_sample

    def first_letter(sample: Sample, output: SolverOutput | None) -> SampleScore:
        assert output is not None, "there is a solver"
        known = parse_literal(choices, sample)
        reference, predicted = target(sample), output.answer[:1]
        validity = "unknown"
        if isinstance(known, list | tuple):
            validity = "valid" if predicted in known else "invalid"
        metadata = {
            "ground_truth_choices": known,
            "ground_truth_correct_choice": reference,
            "predicted_choice": predicted,
            "completion_validity": validity,
        }
        return SampleScore({"is_correct": predicted == reference}, metadata)

    return SampleScorer(
        dialogue=scoring(first_letter),
        shares=("is_correct",),
        target=target,
        metric_values=(ACCURACY,),
    )


def read_parsed_mcqa(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return a ``string_equals_mcqa`` scorer that extracts the choice from the answer
    by letter or text (``--evals-choices=generate``)."""
    first_letter = read_mcqa(section, task)

    def dialogue(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
        assert output is not None, "there is a solver"
        score = yield from first_letter.dialogue(sample, output)
        known = score.metadata["ground_truth_choices"]
        reference = score.metadata["ground_truth_correct_choice"]
        if not isinstance(known, list | tuple) or not known:
            raise DocumentError(f"choices must be a list of choices, not {known!r:.80}")
        texts = [str(one) for one in known]
        has_labels = reference in texts
        labels = texts if has_labels else labels_of(len(texts))
        found = select(output.answer, labels, () if has_labels else texts)
        predicted = "" if found.choice is None else labels[found.choice]
        values = {
            "is_correct": predicted == reference,
            UNPARSABLE: found.choice is None,
        }
        parsed = {
            "predicted_choice": predicted,
            "completion_validity": found.fault or "valid",
        }
        return SampleScore(values, {**score.metadata, **parsed})

    shares = (*first_letter.shares, UNPARSABLE)
    return replace(first_letter, dialogue=dialogue, shares=shares)


def _column_template(section: Keys, key: str) -> SampleTemplate:
    """Return the template under a key, or of the column that the deprecated key with
    the ending ``_field`` names."""
    deprecated = f"{key}_field"
    column = section.text(deprecated)
    if section.raw(key) is not None or not column:
        return section.template(key, f"{{{{ sample.{key} }}}}")
    text = f"{{{{ sample[{json.dumps(column)}] }}}}"
    return compile_template(text, section.place(deprecated), deprecated)


def parse_literal(template: SampleTemplate, sample: Sample) -> Any:
    """Return a rendered value, parsed as JSON or as a Python literal."""
    text = template.for_sample(sample)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        shown = abbreviated(text, 80)
        message = f"{template.field} is neither JSON nor Python: {shown!r}"
        fix = f"{{{{ sample.{template.field} | tojson }}}}"
        raise FieldError(message, template.place, fix) from None


_MODES = ("any_order", "in_order")
_SHARES = ("all_required_calls_made", "required_calls_coverage")
_COUNTS = (
    "num_required_calls_made",
    "num_required_calls_not_made",
    "num_unrequired_calls",
    "num_required_calls_total",
)


class Call(NamedTuple):
    """A function call. ``arguments``: by name. ``None`` matches any arguments in a
    required call, and marks invalid JSON in an actual call."""

    name: str
    arguments: Any = None

    def matches(self, made: Call) -> bool:
        """Return whether an actual call is this required one."""
        if self.name != made.name:
            return False
        return self.arguments is None or self.arguments == made.arguments


def read_coverage(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return the scorer."""
    fix = "{{ sample.function_calls | tojson }}"
    required = section.template("function_calls", fix)
    in_order = section.one_of("mode", "mode", _MODES, _MODES[0]) == "in_order"
    task.needs_solver(section)

    def score(sample: Sample, output: SolverOutput | None) -> SampleScore:
        assert output is not None, "there is a solver"
        required_calls = _required(required, sample)
        made = [_actual_call(call) for call in output.trace.function_calls]
        return cover(required_calls, made, in_order=in_order)

    return SampleScorer(
        dialogue=scoring(score),
        shares=_SHARES,
        others=_COUNTS,
        target=required.for_sample,
        metric_values=means_of(_SHARES),
    )


def _required(template: SampleTemplate, sample: Sample) -> list[Call]:
    value = parse_literal(template, sample)
    if not isinstance(value, list | tuple):
        message = f"function_calls must be a list, not {value!r:.80}"
        raise FieldError(message, template.place, '["lookup", {"name": "book"}]')
    return [_required_call(one, template) for one in value]


def _required_call(value: Any, template: SampleTemplate) -> Call:
    if isinstance(value, str):
        return Call(value)
    known = isinstance(value, Mapping) and set(value) <= {"name", "arguments"}
    if not known or not isinstance(value.get("name"), str):
        message = f"a call must be a name, or name and arguments, not {value!r:.80}"
        raise FieldError(f"function_calls: {message}", template.place)
    return Call(value["name"], value.get("arguments"))


def _actual_call(call: Mapping[str, Any]) -> Call:
    """Return a call of the trace; arguments with invalid JSON never match."""
    try:
        arguments = json.loads(call.get("arguments") or "")
    except (TypeError, ValueError, RecursionError):
        arguments = None
    return Call(str(call.get("name")), unwrap(arguments))


def cover(
    required: Sequence[Call], made: Sequence[Call], *, in_order: bool
) -> SampleScore:
    """Match actual calls with required ones; one that is listed twice needs two calls.
    ``in_order``: whether the required order matters (other calls may be in between);
    affects ``all_required_calls_made`` only."""
    free = list(range(len(made)))
    matched: set[int] = set()
    for n in sorted(range(len(required)), key=lambda n: required[n].arguments is None):
        position = next((at for at in free if required[n].matches(made[at])), None)
        if position is not None:
            matched.add(n)
            free.remove(position)
    total, hits = len(required), len(matched)
    left = iter(made)
    is_subsequence = all(any(x.matches(one) for one in left) for x in required)
    complete = hits == total and (not in_order or is_subsequence)
    values = {
        "all_required_calls_made": complete,
        "required_calls_coverage": hits / total if total else 1.0,
        "num_required_calls_made": hits,
        "num_required_calls_not_made": total - hits,
        "num_unrequired_calls": len(made) - hits,
        "num_required_calls_total": total,
    }
    calls = {
        "required_function_calls": required,
        "called_function_calls": made,
        "matched_required": [call for n, call in enumerate(required) if n in matched],
        "unmatched_required": [
            call for n, call in enumerate(required) if n not in matched
        ],
    }
    metadata = {
        name: [
            {key: one for key, one in call._asdict().items() if one is not None}
            for call in listed
        ]
        for name, listed in calls.items()
    }
    return SampleScore(values, metadata)
