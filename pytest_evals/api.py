"""``evaluate()``: what pytest does with a suite, as one function.

It prints nothing, has no exit code, and leaves nothing on the disk unless it is given a
folder. Where an event loop runs already, all of it happens in a thread of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.core.group import Group
from pytest_evals.core.record import Record
from pytest_evals.core.request import Model
from pytest_evals.core.result import RunResult, lacking
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.dialects.detect import is_passed_by
from pytest_evals.dialects.gates_section.suite_gates import SuiteGates
from pytest_evals.dialects.task_index.library import TaskLibrary
from pytest_evals.dialects.task_index.names import Scanner
from pytest_evals.dialects.task_index.suite_names import SuiteNames
from pytest_evals.gates.documents import required_by
from pytest_evals.gates.read.entry import read_expression
from pytest_evals.gates.when import ungated
from pytest_evals.masking.known import remembering
from pytest_evals.masking.logs import masking_logs
from pytest_evals.reports.files.model import model_arguments
from pytest_evals.run.arguments import with_checked_arguments
from pytest_evals.run.baselines import is_model, measured_rate
from pytest_evals.run.cached_model import Answers
from pytest_evals.run.disk import Disk
from pytest_evals.run.early import Stop, StopMode
from pytest_evals.run.event_loop import apart
from pytest_evals.run.inference import Job, Plan
from pytest_evals.run.models import NO_JUDGE, Models, info_of
from pytest_evals.run.plugins import Plugins
from pytest_evals.run.readiness import Asked, why_refused
from pytest_evals.run.reference_models import Documents, answered_by, named_by
from pytest_evals.run.run_writer import Samples
from pytest_evals.run.running import Beside, Running
from pytest_evals.run.suite import Source, Suite, read_suite
from pytest_evals.run.user_hooks import adds_metrics, registered_metrics
from pytest_evals.scorers.groups import overall_results
from pytest_evals.store.history import EarlierRun

__all__ = ["evaluate"]

Prepare = Callable[[Task, list[Record]], list[Record]]
"""Records to those that are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keeping:
    """What is kept and used: :class:`pytest_evals.run.cached_model.Keeping`."""

    dir: Path
    no_cache: bool
    fresh: bool = False
    rescore: bool = False
    explain_cache: str = ""


@with_checked_arguments
def evaluate(  # noqa: PLR0913 - what pytest has as options
    tasks: Source | Sequence[Source],
    model: str | Model,
    options: TaskOptions | None = None,
    *,
    gates: Sequence[str] = (),
    judge: str | Model = "",
    folder: str | Path | None = None,
    compare: str = "",
    save: str = "",
    save_failed: bool = False,
    stop: StopMode = "off",
    stop_error: float = 0.01,
    plugins: Sequence[object] = (),
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
            left on the disk. Baselines are looked up there too, else in ``.evals``.
        compare: A baseline or the folder of a run, as for ``--evals-compare``: what has
            changed is in the result's ``comparison``.
        save: Save this run as the baseline of that name, in ``folder``.
        save_failed: Save it although gates failed or documents could not be scored.
        stop: When to leave a task whose gates are decided, as for ``--evals-stop``; its
            documents are asked in an order that the suite's commit has drawn, or
            ``options.typed_seed``.
        stop_error: Probability, over all gates, that a verdict of ``stop="auto"`` is
            not that of the full run.
        plugins: Objects or modules with hooks, as a ``conftest.py`` has them;
            ``pytest_evals_result`` hears of the run at the end. ``config`` is ``None``.

    Raises:
        TaskFileError: A file, a dataset or a gate in a file cannot be used.
        TypeError: An argument is missing or unknown.
        OptionError: An argument has the wrong type, a spec, a gate or a name means
            nothing, or the run cannot be compared.
        ModelError: A model cannot be opened, or broke.
        StoreError: The folder cannot be written to, there is no such baseline, or this
            run is none.
    """
    sources = [tasks] if isinstance(tasks, str | Path | Task | Group) else tasks
    disk = Disk(
        folder=Path(folder) if folder else None,
        compare=compare,
        save=save,
        save_failed=save_failed,
    )
    call = _Call(
        sources=sources,
        model=model,
        options=options or TaskOptions(),
        gates=gates,
        judge=judge,
        disk=disk,
        stop=Stop(mode=stop, error=stop_error),
        plugins=Plugins(plugins),
    )
    with remembering(), masking_logs():
        return apart(call.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """The arguments of a call."""

    sources: Sequence[Source]
    model: str | Model
    options: TaskOptions
    gates: Sequence[str]
    judge: str | Model
    disk: Disk
    stop: Stop
    plugins: Plugins

    @property
    def spec(self) -> str:
        """The model's spec; empty for one that was given."""
        return self.model if isinstance(self.model, str) else ""

    @property
    def judge_name(self) -> str:
        """What judges answers, as results files have it."""
        return self.judge if isinstance(self.judge, str) else self.judge.name

    def task_options(self) -> TaskOptions:
        """What front ends are told."""
        options = replace(self.options, has_model=True, has_judge=bool(self.judge))
        if self.spec and not options.model_arguments:
            options = replace(options, model_arguments=model_arguments(self.spec))
        metrics = registered_metrics(self.plugins.hook, None)
        return replace(options, metrics=metrics) if metrics else options

    def suite(self, options: TaskOptions) -> Suite:
        """The tasks and groups."""
        noise = partial(measured_rate, self.disk.base, self.disk.compare)
        beside = SuiteGates(Path.cwd(), tuple(map(read_expression, self.gates)), noise)
        hook, library = self.plugins.hook, options.library
        if not isinstance(library, TaskLibrary):
            scanner = Scanner(skips=is_passed_by)
            library = TaskLibrary(Path.cwd(), scanner=scanner)
        reads = bool(hook.pytest_evals_load_tasks.get_hookimpls())
        names = SuiteNames(library, is_passed_by, has_hooks=reads)
        load, hooked = self.plugins.load, adds_metrics(hook)
        return read_suite(self.sources, options, beside, load, names, hooked=hooked)

    def run(self) -> RunResult:
        """Read, ask, score, judge and keep."""
        started, clock = time.time(), time.perf_counter()
        disk, options = self.disk, self.task_options()
        suite = self.suite(options)
        before = disk.before(suite.tasks, self.judge_name)
        disk.check()
        with ExitStack() as closing:
            references = self._reference_runs(suite)
            answers = self._answers()
            models = Models(answers, self.judge, closing)
            model = models.open(self.model)
            closing.callback(answers.close)  # also of a run that does not end
            samples = Samples(disk.place(closing), self.spec or model.name, started)
            beside = self._beside(model, before, references)
            run = Running(suite, samples, beside, self.plugins.hook, self.stop)
            run.begin(options.typed_seed)
            self._check_ready(run.jobs, run.prepared, answers)
            plan = _plan(run, models)
            run.answer(plan, model, writes=disk.writes, chat=options.chat)
            answers.close()
            verdicts = tuple(run.verdicts())
            result = replace(
                _answered(model, plan, answers),
                judges=models.judges,
                tasks=tuple(run.results.values()),
                groups=tuple(run.group_results.values()),
                overall=overall_results([*run.results.values()], run.group_results),
                verdicts=verdicts,
                options=_public(options, self.spec, self.judge_name),
                started=started,
                elapsed_s=time.perf_counter() - clock,
                partial=lacking(run.results.values()),
                warnings=(
                    *suite.warnings(),
                    *models.notes,
                    *run.early.notes,
                    *ungated(verdicts),
                ),
            )
            result = disk.kept(result, samples)
        self.plugins.hook.pytest_evals_result(result=result)
        return result

    def _reference_runs(self, suite: Suite) -> Mapping[str, EarlierRun]:
        """The answers of the models that gates name as their baseline. The tested model
        is opened later, unless it was given."""
        base, here, hook = self.disk.base, Path.cwd(), self.plugins.hook

        def documents_of(gate: Gate) -> Iterator[Documents]:
            names = suite.tasks_of(gate.task)
            for task in suite.tasks:
                if task.name in names:
                    around = (
                        g for g in suite.gates() if task.name in suite.tasks_of(g.task)
                    )
                    required = required_by(around)
                    yield Documents(
                        task=task,
                        indices=task.rows.indices(),
                        hook=hook,
                        required=required,
                    )

        gates = [g for g in suite.gates() if is_model(base, g.baseline, here)]
        models = named_by(gates, documents_of)
        if not models:
            return {}
        answers = self._answers()
        for model in models:
            self._check_ready(model.jobs, model.prepare, answers)
        return answered_by(models, answers, self.judge)

    def _check_ready(
        self, jobs: Sequence[Job], prepare: Prepare, answers: Answers
    ) -> None:
        """Refuse judges, and models that tasks name, before the tested model is asked
        anything."""
        asked = Asked(
            jobs=jobs,
            tested=self.spec or None,
            judge=self.judge if isinstance(self.judge, str) else None,
            prepare=prepare,
            no_judge=NO_JUDGE,
        )
        error = why_refused(asked, answers)
        if error is not None:
            raise error

    def _answers(self) -> Answers:
        """Whoever opens models, with the store in front of them."""
        disk, plugins = self.disk, self.plugins
        keeping = _Keeping(dir=disk.base, no_cache=disk.folder is None)
        return Answers(keeping, plugins.open_model, lambda: not plugins.open_models)

    def _beside(
        self,
        model: Model,
        before: EarlierRun | None,
        models: Mapping[str, EarlierRun],
    ) -> Beside:
        """What gates against baselines rest on."""
        return Beside(
            base=self.disk.base,
            judge=self.judge_name,
            save=self.disk.save,
            model=model.name,
            spec=self.spec,
            info=info_of(model),
            run=before,
            models=models,
        )


def _plan(run: Running, models: Models) -> Plan:
    """The documents in windows."""
    ends = [*run.early.ends()]
    return Plan(run.jobs, run.prepared, ends=ends, auxiliary_models=models.find)


def _answered(model: Model, plan: Plan, answers: Answers) -> RunResult:
    """What is known of the model and of its answers, before they are added up."""
    return RunResult(
        model=model.name,
        model_info=info_of(model),
        model_s=plan.model_s,
        n_requests=plan.n_requests,
        reuse=answers.reuse,
    )


def _public(options: TaskOptions, spec: str, judge: str) -> Mapping[str, Any]:
    """The options as JSON values, by the names that pytest's have in results files."""
    left_out = ("takes", "library", "metrics", "model_arguments", "base")
    plain = {
        name: getattr(options, name)
        for name in TaskOptions.__slots__
        if name not in left_out
    }
    chat = plain.pop("chat")
    return {**plain, "apply_chat_template": chat, "model": spec, "judge": judge}
