"""The same requests, responses and numbers as lm-eval 0.4.13.

Every file of ``recorded/`` was made by ``record.py``, which ran lm-eval itself on a
task file and one of the models of ``models.py``. Here the same file is run by this
package.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_evals.core.model import Model
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Loglikelihood, Request, Rolling
from pytest_evals.core.result import TaskResult
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.dialects.lm_eval.task import load_tasks
from pytest_evals.models.registry import open_model, parse_spec
from pytest_evals.reports.files.samples import sample_of
from pytest_evals.run.batches import answered, ask, places_of
from pytest_evals.run.flow import score
from pytest_evals.scorers.summary import summarise

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECORDINGS = sorted((HERE / "recorded").glob("*.json"))
NATS = 1e-4
"""Maximum difference of two log-probabilities: other batches add up in another
order."""
OF_LOGPROBS = frozenset(
    {
        "bits_per_byte",
        "brier_score",
        "byte_perplexity",
        "gap",
        "perplexity",
        "word_perplexity",
    }
)
"""Metrics whose precision is that of the log-probabilities."""
_MAX_KEYS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")


@dataclass(frozen=True)
class Run:
    """A recording, and the result of this package for the same file."""

    recorded: dict[str, Any]
    task: Task
    records: list[Record]
    result: TaskResult
    tokenizer: Any

    def pairs(self) -> Iterator[tuple[dict[str, Any], Record]]:
        """Recorded documents with those of this package."""
        for document in self.recorded["documents"]:
            yield document, self.records[document["doc_id"]]


class Opened(NamedTuple):
    """A model and its tokenizer."""

    model: Model
    tokenizer: Any


@pytest.fixture(scope="session")
def opened(tmp_path_factory, model_folder) -> Callable[[str], Opened]:
    """A model of ``models.py`` by its name, loaded once."""
    from transformers import AutoTokenizer

    @cache
    def open_named(name: str) -> Opened:
        folder = model_folder(name, tmp_path_factory.mktemp(name))
        spec = parse_spec(f"hf:{folder},dtype=float32,device=cpu")
        return Opened(open_model(spec), AutoTokenizer.from_pretrained(folder))

    return open_named


@pytest.fixture(scope="module", params=RECORDINGS, ids=lambda path: path.stem)
def run(request, opened) -> Run:
    return run_of(request.param, opened)


def run_of(
    recording: Path,
    opened: Callable[[str], Opened],
    changed: Callable[[Path], Path] = lambda file: file,
) -> Run:
    """A recording, and the result of this package for its task file or a modified
    one."""
    recorded = json.loads(recording.read_text(encoding="utf-8"))
    model, tokenizer = opened(recorded["model"])
    # A recorded task runs a script next to it by its name, as lm-eval does.
    options = TaskOptions(**recorded["options"], allow_unsafe_code=True)
    (task,) = load_tasks(changed(ROOT / recorded["file"]), options)
    task.rows.ids()
    asked = [ask(task, index) for index in task.rows.indices()]
    found = sorted(
        answered(asked, places_of(asked, model), model), key=lambda pair: pair[0]
    )
    records = [score(record, task) for _, record in found]
    result = summarise(task, records, len(records))
    return Run(recorded, task, records, result, tokenizer)


@pytest.mark.slow
def test_every_document_is_there_and_scored(run):
    assert run.recorded["versions"]["lm_eval"] == "0.4.13"
    assert len(run.records) == run.recorded["n_documents"]
    assert [record.error for record in run.records if record.error] == []


@pytest.mark.slow
def test_requests_are_lm_evals_character_for_character(run):
    for document, record in run.pairs():
        ours = [_arguments(request, run.tokenizer) for request in record.requests]
        theirs = [_as_sent(arguments) for arguments in document["arguments"]]
        repeats = run.task.repeats
        assert ours == [each for each in theirs for _ in range(repeats)]


def test_targets_are_lm_evals(run):
    for document, record in run.pairs():
        assert _near(record.doc.target, document["target"])


def test_answers_are_lm_evals(run):
    for document, record in run.pairs():
        theirs = [each for repeats in document["resps"] for each in repeats]
        assert len(record.responses) == len(theirs)
        for request, response, expected in zip(
            record.requests, record.responses, theirs, strict=True
        ):
            if isinstance(request, Generate):
                assert response.text == expected
            elif isinstance(request, Rolling):
                assert response.logprob == pytest.approx(
                    expected, abs=NATS, rel=NATS / 10
                )
            else:
                assert response.logprob == pytest.approx(expected[0], abs=NATS)
                assert response.greedy is bool(expected[1])


def test_filtered_answers_are_lm_evals(run):
    for document, record in run.pairs():
        ours = {one.filter: one.filtered for one in record.scores}
        theirs = {
            name: entry["filtered_resps"]
            for name, entry in document["filters"].items()
            if entry["metrics"]
        }
        assert sorted(ours) == sorted(theirs)
        for name, values in theirs.items():
            assert _near(list(ours[name]), values), name


def test_scores_of_documents_are_lm_evals(run):
    for document, record in run.pairs():
        ours = {one.key: one.value for one in record.scores}
        theirs = {
            f"{metric},{pipeline}": value
            for pipeline, entry in document["filters"].items()
            for metric, value in entry["metrics"].items()
        }
        assert sorted(ours) == sorted(theirs)
        for key, value in theirs.items():
            assert _near(ours[key], value), key


def test_metrics_and_standard_errors_are_lm_evals(run):
    theirs = run.recorded["results"]
    keys = [key for key in theirs if "," in key and "_stderr," not in key]
    ours = {metric.key: metric for metric in run.result.metrics}
    assert sorted(ours) == sorted(keys)
    for key, metric in ours.items():
        assert metric.estimate is not None, metric.error
        near = _near if metric.name in OF_LOGPROBS else _equal
        name, pipeline = key.rsplit(",", 1)
        assert near(metric.estimate.value, theirs[key]), key
        stderr = theirs[f"{name}_stderr,{pipeline}"]
        expected = None if stderr == "N/A" else stderr
        assert near(metric.estimate.stderr, expected), key


def test_directions_and_num_fewshot_are_lm_evals(run):
    assert run.task.n_shots == run.recorded["n_shots"]
    ours = {metric.name: metric.higher_is_better for metric in run.result.metrics}
    for name, direction in run.recorded["higher_is_better"].items():
        assert ours.get(name) == direction, name


def test_hashes_in_sample_files_are_lm_evals(run):
    for document, record in run.pairs():
        for line in sample_of(record, run.task).lines:
            row = json.loads(line)
            for name in ("doc_hash", "target_hash"):
                assert row[name] == document[name], name
            if not run.recorded["options"].get("chat"):  # rendered by the model
                assert row["prompt_hash"] == document["prompt_hash"]


def _arguments(request: Request, tokenizer: Any) -> list[Any]:
    """Our request in lm-eval's form."""
    if isinstance(request, Rolling):
        return [request.text]
    if isinstance(request, Loglikelihood):
        return [_text(request.context, tokenizer), request.continuation]
    sampling = {
        "until": list(request.stop),
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "options": dict(request.options),
    }
    return [_text(request.prompt, tokenizer), sampling]


def _as_sent(arguments: list[Any]) -> list[Any]:
    """Recorded arguments with generation arguments as lm-eval's models read them
    (0.4.13, ``models/utils.py``, ``normalize_gen_kwargs``)."""
    if not isinstance(arguments[-1], dict):
        return arguments
    given = dict(arguments[1])
    until = given.pop("until")
    limits = [given.pop(key) for key in _MAX_KEYS if key in given]
    sampled = given.pop("do_sample", given.get("temperature", 0.0) > 0)
    temperature = given.pop("temperature", 0.0) if sampled else 0.0
    given.pop("temperature", None)
    sampling = {
        "until": [until] if isinstance(until, str) else until,
        "max_tokens": int(limits[0]) if limits else 256,
        "temperature": temperature,
        "options": given,
    }
    return [arguments[0], sampling]


def _text(prompt: Any, tokenizer: Any) -> str:
    """A prompt as text; a chat as the model's own template renders it."""
    if isinstance(prompt, str):
        return prompt
    messages = [message._asdict() for message in prompt]
    open_answer = messages[-1]["role"] == "assistant"
    return tokenizer.apply_chat_template(
        messages,
        tokenize=False,
        add_generation_prompt=not open_answer,
        continue_final_message=open_answer,
    )


def _equal(ours: float | None, theirs: float | None) -> bool:
    """Equal up to the order of a sum."""
    if ours is None or theirs is None:
        return ours is theirs
    return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)


def _near(ours: Any, theirs: Any) -> bool:
    """Equal; numbers within the tolerance of log-probabilities; JSON's lists for
    tuples."""
    if isinstance(theirs, list):
        ours = ours.tolist() if hasattr(ours, "tolist") else ours
        return len(ours) == len(theirs) and all(
            _near(a, b) for a, b in zip(ours, theirs, strict=True)
        )
    if theirs is None or ours is None:
        return ours is theirs
    if theirs == "nan":
        return math.isnan(ours)
    if isinstance(theirs, bool | int | float) and not isinstance(ours, str):
        return math.isclose(ours, theirs, rel_tol=1e-4, abs_tol=NATS)
    return bool(ours == theirs)
