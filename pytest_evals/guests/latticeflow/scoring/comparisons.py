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
from operator import eq
from typing import Any

from pytest_evals.data.calls import FieldError
from pytest_evals.errors import DocumentError, MissingExtraError, abbreviated
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.prompts.items import unwrap
from pytest_evals.guests.latticeflow.prompts.output import SampleScore, SolverOutput
from pytest_evals.guests.latticeflow.prompts.templates import (
    SampleTemplate,
    compile_template,
)
from pytest_evals.guests.latticeflow.scoring.scorer import (
    SampleScorer,
    ScorerContext,
    scoring,
)
from pytest_evals.guests.latticeflow.solvers.model_client import Sample
from pytest_evals.prompts.choice_letters import labels_of
from pytest_evals.scorers.choice_answers import UNPARSABLE, select
from pytest_evals.scorers.corpus import check_library


def read_equals(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return a ``string_equals`` scorer: exact match, including case and whitespace."""
    return _comparison(section, task, "is_correct", eq)


def read_bleu(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return a ``bleu`` scorer: n-gram overlap."""
    try:
        check_library("bleu")
    except MissingExtraError as error:
        section.problem("type", str(error))
    return _comparison(section, task, "bleu_score", _bleu)


def _bleu(reference: str, predicted: str) -> float:
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(effective_order=True, force=True)
    return bleu.sentence_score(predicted, [reference]).score / 100


def _comparison(
    section: Keys, task: ScorerContext, name: str, compare: Callable[[str, str], float]
) -> SampleScorer:
    """Return a scorer with one score; ``compare``: reference, answer → its value."""
    reference = section.template("ground_truth", "{{ sample.target }}")
    answer = task.answer(section)
    target = reference.for_sample

    def score(sample: Sample, output: SolverOutput | None) -> SampleScore:
        predicted = answer(sample, output)
        expected = target(sample)
        metadata = {"answer_gt": expected, "answer_pred": predicted}
        return SampleScore({name: compare(expected, predicted)}, metadata)

    return SampleScorer(dialogue=scoring(score), shares=(name,), target=target)


def read_mcqa(
    section: Keys, task: ScorerContext, *, parses_choices: bool = False
) -> SampleScorer:
    """Return a ``string_equals_mcqa`` scorer: an answer's first character counts.
    ``parses_choices``: the choice is extracted from the answer by letter or text
    instead (``--evals-choices=generate``)."""
    correct = _column_template(section, "ground_truth_choice")
    choices = _column_template(section, "choices")
    task.needs_solver(section)
    target = correct.for_sample

    def score(sample: Sample, output: SolverOutput | None) -> SampleScore:
        assert output is not None, "there is a solver"
        known = parse_literal(choices, sample)
        reference, more = target(sample), {}
        if parses_choices:
            choice, validity = _parsed_choice(output.answer, reference, known)
            predicted, more[UNPARSABLE] = choice or "", choice is None
        else:
            predicted, validity = output.answer[:1], "unknown"
            if isinstance(known, list | tuple):
                validity = "valid" if predicted in known else "invalid"
        metadata = {
            "ground_truth_choices": known,
            "ground_truth_correct_choice": reference,
            "predicted_choice": predicted,
            "completion_validity": validity,
        }
        return SampleScore({"is_correct": predicted == reference, **more}, metadata)

    shares = ("is_correct", UNPARSABLE) if parses_choices else ("is_correct",)
    return SampleScorer(dialogue=scoring(score), shares=shares, target=target)


def _parsed_choice(answer: str, reference: str, known: Any) -> tuple[str | None, str]:
    """Return the choice of an answer, if it has one, and its validity."""
    if not isinstance(known, list | tuple) or not known:
        raise DocumentError(f"choices must be a list of choices, not {known!r:.80}")
    texts = [str(one) for one in known]
    has_labels = reference in texts
    labels = texts if has_labels else labels_of(len(texts))
    found = select(answer, labels, () if has_labels else texts)
    choice = None if found.choice is None else labels[found.choice]
    return choice, found.fault or "valid"


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


Call = Mapping[str, Any]
"""Name of a function, and its arguments by name. A required call without arguments
matches any; an actual one without arguments had invalid JSON."""


def read_coverage(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return the scorer."""
    fix = "{{ sample.function_calls | tojson }}"
    required = section.template("function_calls", fix)
    in_order = section.one_of("mode", "mode", _MODES, _MODES[0]) == "in_order"
    task.needs_solver(section)

    def score(sample: Sample, output: SolverOutput | None) -> SampleScore:
        assert output is not None, "there is a solver"
        made = [_actual_call(call) for call in output.trace.function_calls]
        return _coverage(_required(required, sample), made, in_order=in_order)

    return SampleScorer(
        dialogue=scoring(score),
        shares=_SHARES,
        others=_COUNTS,
        target=required.for_sample,
    )


def _required(template: SampleTemplate, sample: Sample) -> list[Call]:
    value = parse_literal(template, sample)
    if not isinstance(value, list | tuple):
        message = f"function_calls must be a list, not {value!r:.80}"
        raise FieldError(message, template.place, '["lookup", {"name": "book"}]')
    return [_required_call(one, template) for one in value]


def _required_call(value: Any, template: SampleTemplate) -> Call:
    if isinstance(value, str):
        return {"name": value}
    known = isinstance(value, Mapping) and set(value) <= {"name", "arguments"}
    if not known or not isinstance(value.get("name"), str):
        message = f"a call must be a name, or name and arguments, not {value!r:.80}"
        raise FieldError(f"function_calls: {message}", template.place)
    return _call(value["name"], value.get("arguments"))


def _actual_call(call: Mapping[str, Any]) -> Call:
    try:
        arguments = json.loads(call.get("arguments") or "")
    except (TypeError, ValueError, RecursionError):
        arguments = None
    return _call(str(call.get("name")), unwrap(arguments))


def _call(name: str, arguments: Any) -> Call:
    return {"name": name} | ({} if arguments is None else {"arguments": arguments})


def _is_match(required: Call, made: Call) -> bool:
    return all(made.get(key) == value for key, value in required.items())


def _coverage(
    required: Sequence[Call], made: Sequence[Call], *, in_order: bool
) -> SampleScore:
    """Match actual calls with required ones; one that is listed twice needs two calls.
    ``in_order``: whether the required order matters (other calls may be in between);
    affects ``all_required_calls_made`` only."""
    free = list(range(len(made)))
    matched: set[int] = set()
    for n in sorted(range(len(required)), key=lambda n: "arguments" not in required[n]):
        position = next((at for at in free if _is_match(required[n], made[at])), None)
        if position is not None:
            matched.add(n)
            free.remove(position)
    total, hits = len(required), len(matched)
    left = iter(made)
    is_subsequence = all(any(_is_match(x, one) for one in left) for x in required)
    values = {
        "all_required_calls_made": hits == total and (not in_order or is_subsequence),
        "required_calls_coverage": hits / total if total else 1.0,
        "num_required_calls_made": hits,
        "num_required_calls_not_made": total - hits,
        "num_unrequired_calls": len(made) - hits,
        "num_required_calls_total": total,
    }
    metadata = {
        "required_function_calls": required,
        "called_function_calls": made,
        "matched_required": [required[n] for n in sorted(matched)],
        "unmatched_required": [
            call for n, call in enumerate(required) if n not in matched
        ],
    }
    return SampleScore(values, metadata)
