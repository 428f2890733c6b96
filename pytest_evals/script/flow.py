"""``evaluate()``: what pytest does with a suite, as one function.

It prints nothing, has no exit code, and leaves nothing on the disk unless it is given a
folder.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_evals.core.group import Group
from pytest_evals.core.request import Model
from pytest_evals.core.result import RunResult
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.errors import Place, StoreError
from pytest_evals.models.spec import open_model, parse_spec, redacted
from pytest_evals.opened import Answers
from pytest_evals.pipeline import Plan
from pytest_evals.recording import Samples
from pytest_evals.references import measured_rate
from pytest_evals.reports.environment import environment
from pytest_evals.reports.jsonfile import results_json
from pytest_evals.reports.model import model_arguments
from pytest_evals.script.models import Models, info_of
from pytest_evals.script.running import Running
from pytest_evals.script.suite import Source, read_suite

__all__ = ["evaluate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keeping:
    """What is kept and used: :class:`pytest_evals.opened.Keeping`."""

    dir: Path
    no_cache: bool
    fresh: bool = False
    rescore: bool = False
    explain_cache: str = ""


def evaluate(
    tasks: Source | Sequence[Source],
    model: str | Model,
    options: TaskOptions | None = None,
    *,
    gates: Sequence[str] = (),
    judge: str | Model = "",
    folder: str | Path | None = None,
) -> RunResult:
    """Run tasks and judge their gates: the numbers and verdicts that pytest gives.

    Args:
        tasks: Files with tasks or groups, in any dialect, and folders of such files; or
            tasks and groups that were loaded. A ``gates.yaml`` in their folders counts.
        model: A spec as for ``--model``, or whatever has a name and answers requests.
        options: What to change in every task.
        gates: Further gates, as for ``--evals-gate``: ``["arc_easy/acc >= 0.6"]``.
        judge: The model that judges answers, if a task asks for one.
        folder: Results folder: stored responses are used and kept there, and the run is
            written there, as pytest does it in ``.evals``. Without one nothing is
            written. Baselines are looked up there too, else in ``.evals``.

    Raises:
        TaskFileError: A file, a dataset or a gate in a file cannot be used.
        OptionError: A spec or a gate means nothing.
        ModelError: A model cannot be opened, or broke.
        StoreError: The folder cannot be written to.
    """
    started, clock = time.time(), time.perf_counter()
    base = Path(folder or ".evals").absolute()
    spec = model if isinstance(model, str) else ""
    named_judge = judge if isinstance(judge, str) else judge.name
    options = replace(options or TaskOptions(), has_model=True, has_judge=bool(judge))
    if spec and not options.model_arguments:
        options = replace(options, model_arguments=model_arguments(spec))
    sources = [tasks] if isinstance(tasks, str | Path | Task | Group) else tasks
    suite = read_suite(sources, options, gates, partial(measured_rate, base, ""))
    keeping = _Keeping(dir=base, no_cache=folder is None)
    answers = Answers(keeping, lambda text: open_model(parse_spec(text)), lambda: True)
    with ExitStack() as closing:
        models = Models(answers, judge, closing)
        answering = models.open(model)
        samples = Samples(base, spec or answering.name, started)
        run = Running(suite, samples, info_of(answering), chat=options.chat)
        plan = Plan(run.jobs, furthers=models.find)
        run.answer(plan, answering, writes=folder is not None)
        answers.close()
    result = RunResult(
        model=answering.name,
        model_info=info_of(answering),
        judges=models.judges,
        tasks=tuple(run.results.values()),
        groups=tuple(run.group_results.values()),
        verdicts=tuple(run.verdicts(base, named_judge)),
        options=_public(options, spec, named_judge),
        started=started,
        elapsed_s=time.perf_counter() - clock,
        model_s=plan.model_s,
        n_requests=plan.n_requests,
        reuse=answers.reuse,
    )
    if folder is not None:
        _write(result, samples)
    return result


def _public(options: TaskOptions, spec: str, judge: str) -> Mapping[str, Any]:
    """The options as JSON values, by the names that pytest's have in results files."""
    left_out = ("takes", "library", "metrics", "model_arguments", "base")
    plain = {
        name: getattr(options, name)
        for name in TaskOptions.__slots__
        if name not in left_out
    }
    chat = plain.pop("chat")
    models = {"model": redacted(spec), "judge": redacted(judge)}
    return {**plain, "apply_chat_template": chat, **models}


def _write(result: RunResult, samples: Samples) -> None:
    """Write what pytest writes.

    Raises:
        StoreError: It cannot be written.
    """
    nodes = {one.task.name: one.task.source for one in result.tasks}
    nodes |= {one.group.name: one.group.source for one in result.groups}
    results = results_json(
        result,
        environment=environment(),
        task_hashes=samples.hashes.digests(),
        sample_files=samples.files,
        node_ids={name: f"{Place(at.path)}::{name}" for name, at in nodes.items()},
    )
    samples.results(results, None)
    if samples.error:
        raise StoreError(samples.error)
