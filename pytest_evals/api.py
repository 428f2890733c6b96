"""``evaluate()``: a run with arguments instead of pytest's options.

It prints nothing, has no exit code, and writes no files without ``folder``. If an event
loop is running, the run uses its own thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack, overload

from pytest_evals.core.model import Model, ModelLike
from pytest_evals.core.model_results import ModelResults
from pytest_evals.core.reasoning import REFUSALS
from pytest_evals.core.reference import MIN_OVERLAP
from pytest_evals.core.result import RunResult
from pytest_evals.core.task import Group, Task, TaskOptions
from pytest_evals.dialects.gates_section.suite_gates import SuiteGates
from pytest_evals.dialects.native.python import Eval
from pytest_evals.dialects.native.rows import is_rows, rows_eval
from pytest_evals.dialects.native.settings import EvalSettings, as_tuple
from pytest_evals.errors import OptionError, StoreError
from pytest_evals.gates.read.entry import read_expression
from pytest_evals.masking.logs import masking_logs
from pytest_evals.masking.registry import remembering
from pytest_evals.masking.values import watch_environment
from pytest_evals.models.http.spend_ledger import Ledger, RunCaps
from pytest_evals.models.python.model import model_of
from pytest_evals.models.registry import ModelHook, check_spec
from pytest_evals.models.spec import is_command
from pytest_evals.reports.files.model import model_arguments
from pytest_evals.run.arguments import (
    Models,
    OneModel,
    Settings,
    Tasks,
    with_checked_arguments,
)
from pytest_evals.run.baselines import measured_rate
from pytest_evals.run.cached_model import CachedModels
from pytest_evals.run.config import RunConfig, StopMode
from pytest_evals.run.inference import Given, Inference, open_model
from pytest_evals.run.interrupts import repeating_interrupts
from pytest_evals.run.model_comparison import (
    check_several,
    compare_models,
    compare_variants,
    has_variants,
    methods_of,
    models_of,
)
from pytest_evals.run.notebook import in_own_thread, progress
from pytest_evals.run.profile import RELEASE, Profile, policy_of
from pytest_evals.run.readiness import PlannedRequests, why_refused
from pytest_evals.run.reference_models import answered_by, named_by
from pytest_evals.run.run import Run
from pytest_evals.run.start import Start
from pytest_evals.run.suite import Suite
from pytest_evals.run.suite_reader import Source, read_suite
from pytest_evals.run.user_hooks import (
    Plugins,
    adds_metrics,
    prepared,
    registered_metrics,
)
from pytest_evals.sandbox.session import set_sandbox
from pytest_evals.store.baselines import of_model, own_baseline
from pytest_evals.store.history import read_run
from pytest_evals.store.writable import check_base

NO_JUDGE = (
    "no judge is set\n  fix: pass one, such as evaluate(…, judge='openai:gpt-4o')"
)


@overload
def evaluate(
    tasks: Tasks,
    model: Models,
    options: TaskOptions | None = None,
    **settings: Unpack[Settings],
) -> ModelResults: ...


@overload
def evaluate(
    tasks: Tasks,
    model: OneModel,
    options: TaskOptions | None = None,
    **settings: Unpack[Settings],
) -> RunResult: ...


@with_checked_arguments
def evaluate(  # noqa: PLR0913 - what pytest has as options
    tasks: Tasks,
    model: OneModel | Models,
    options: TaskOptions | None = None,
    *,
    prompt: str = "",
    target: Any = None,
    choices: Any = None,
    score: Any = (),
    gates: Sequence[str] = (),
    refusals: str = REFUSALS[0],
    judge: str | ModelLike = "",
    folder: str | Path | None = None,
    compare: str = "",
    save: str = "",
    save_failed: bool = False,
    stop: StopMode = "off",
    stop_error: float = 0.01,
    profile: Profile = "",
    max_requests: int = 0,
    max_cost: float = 0.0,
    plugins: Sequence[object] = (),
    reference: str = "",
) -> RunResult | ModelResults:
    """Run tasks and judge their gates: the same metrics and verdicts as with pytest.

    Args:
        tasks: Files with tasks or groups, in any dialect, and folders of such files; or
            tasks and groups that were loaded; or evals in Python. A ``gates.yaml`` in
            their folders applies. Or rows: a list of mappings or cases.
        model: A spec as for ``--model``, an object with a name and ``answer``, or a
            function or coroutine function of your application. Or several, as a list,
            or as a dict of names to models: they run one after the other, and the
            result has a :class:`RunResult` for each.
        options: Changes to every task.
        prompt: For rows: a template over their values; by default the value
            ``prompt``.
        target: For rows: a template or a column; by default the column ``target``.
        choices: For rows: a template, a column or a list of templates; the target is
            then the text, the letter or the index of the correct one.
        score: For rows: scorers, or their names; ``exact`` by default.
        gates: Further gates, as for ``--evals-gate``: ``["arc_easy/acc >= 0.6"]``; for
            rows, ``["exact >= 0.9"]``.
        refusals: For rows: ``"answer"`` scores the text of a refusal as the answer.
        judge: The model that judges answers, if a task needs one.
        folder: Results folder, like pytest's ``.evals``: contains the response cache,
            the run and baselines. Without it, no files are written, and baselines are
            read from ``.evals``.
        compare: A baseline or the folder of a run, as for ``--evals-compare``; the
            differences are in ``comparison`` of the result.
        save: Save this run as the baseline of that name, in ``folder``; the run of each
            of several models as ``save-NAME``.
        save_failed: Save it even if gates failed or documents could not be scored.
        stop: When to stop a task whose gates are decided, as for ``--evals-stop``; its
            documents run in a random order that depends on the suite's commit, or on
            ``options.typed_seed``.
        stop_error: Probability, over all gates, that a verdict of ``stop="auto"``
            differs from that of the full run.
        profile: ``"release"`` as for ``--evals-profile``: inconclusive gates fail,
            thresholds without ``over`` are on the population, and ``options`` must not
            limit the documents.
        max_requests: Most requests to all served models and applications together, as
            for ``--evals-max-requests``; 0 for no maximum.
        max_cost: Most that all served models together may cost; likewise.
        plugins: Objects or modules with hooks, like a ``conftest.py``;
            ``pytest_evals_result`` is called at the end. ``config`` is ``None``.
        reference: The name of the model that the others are compared with, of several;
            the first by default.

    Raises:
        TaskFileError: A file, a dataset or a gate in a file cannot be used.
        TypeError: An argument is missing or unknown.
        OptionError: An argument has the wrong type, a spec, a gate or a name is
            invalid, or the run cannot be compared.
        ModelError: A model cannot be opened, or failed.
        StoreError: The folder cannot be written to, the baseline does not exist, or
            this run cannot be saved as one.
    """
    texts = {"prompt": prompt, "target": target, "choices": choices}
    sources = _sources(tasks, texts, score, gates, refusals)
    several = models_of(model) if isinstance(model, list | tuple | dict) else {}
    check_several(several, reference, save)
    judged_by = judge if isinstance(judge, str) else model_of(judge, "judge")
    config = RunConfig(
        dir=Path(folder or ".evals").absolute(),
        here=Path.cwd(),
        root=Path.cwd(),
        started=Start.now(),
        name="",
        judge=judged_by if isinstance(judged_by, str) else judged_by.name,
        compare=compare,
        save=save,
        save_failed=save_failed,
        consent="evaluate(…, save_failed=True)",
        stop=stop,
        stop_error=stop_error,
        inconclusive=policy_of(profile),
        min_overlap=1.0 if profile == RELEASE else MIN_OVERLAP,
        order_seed=options.typed_seed if options is not None else None,
        chat=options.chat if options is not None else False,
        keeps_records=True,
        writes=folder is not None or bool(compare),
    )
    call = _Call(
        config=config,
        sources=sources,
        model="",
        options=options or TaskOptions(),
        gates=() if is_rows(tasks) else gates,  # those of rows are part of their eval
        is_release=profile == RELEASE,
        judge=judged_by,
        stores=folder is not None,
        hook=Plugins(plugins),
        caps=RunCaps(max_requests, max_cost),
    )
    with remembering(), masking_logs(), repeating_interrupts():
        watch_environment()
        set_sandbox(call.options.sandbox, consents=call.options.allow_unsafe_code)
        if several:
            return in_own_thread(partial(call.run_all, several, reference))
        given: Any = model
        return in_own_thread(call.with_model("", given).run)


def _sources(
    tasks: Any,
    texts: Mapping[str, Any],
    score: Any,
    gates: Sequence[str],
    refusals: str,
) -> Sequence[Source]:
    """Return the tasks as a list; rows become an eval with the arguments for rows."""
    if isinstance(tasks, str | Path | Task | Group | Eval):
        tasks = [tasks]
    if is_rows(tasks):
        settings = EvalSettings(
            score=as_tuple(score), gates=as_tuple(gates), refusals=refusals
        )
        return [rows_eval(tasks, settings, **texts)]
    has_texts = texts["prompt"] or not (texts["target"] is texts["choices"] is None)
    if has_texts or score or refusals != REFUSALS[0]:
        text = "prompt, target, choices, score and refusals are for rows, not for tasks"
        raise OptionError(text)
    sources: Sequence[Source] = tasks
    return sources


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """The arguments of a call."""

    config: RunConfig
    sources: Sequence[Source]
    model: Given
    options: TaskOptions
    gates: Sequence[str]
    is_release: bool
    judge: Given
    stores: bool
    hook: Plugins
    caps: RunCaps
    closes: bool = False
    """Whether the model is closed at the end: a class of sessions."""
    name: str = ""
    """The name of its model, of several."""
    runs: dict[str, Path] = field(default_factory=dict)
    """Name of each model → the folder of its run."""

    def with_model(self, name: str, given: OneModel) -> _Call:
        """Return the call for one model."""
        tested = given if isinstance(given, str) else model_of(given, "model")
        spec = tested if isinstance(tested, str) else ""
        shown = spec or getattr(tested, "name", "")
        config = replace(
            self.config,
            name=shown,
            spec=spec,
            full_spec=spec,
            label=name,
            compare=own_baseline(self.config.dir, self.config.compare, name),
            save=of_model(self.config.save, name) if self.config.save else "",
        )
        closes = isinstance(given, type)
        return replace(self, config=config, model=tested, name=name, closes=closes)

    def run_all(self, models: Mapping[str, Any], reference: str) -> ModelResults:
        """Run the models one after the other, and compare them."""
        with ExitStack() as closing:
            config = self.config
            if not self.stores:  # runs are compared by their files
                folder = closing.enter_context(TemporaryDirectory())
                config = replace(config, writes=True, writes_to=Path(folder))
            call = replace(self, config=config)
            results = {n: call.with_model(n, one).run() for n, one in models.items()}
            found = compare_models(
                {name: read_run(self.runs[name]) for name in results},
                reference or next(iter(results)),
                methods_of(results.values()),
                min_overlap=config.min_overlap,
            )
        return ModelResults(results, found)

    def run(self) -> RunResult:
        """Read, answer, score, judge and write."""
        with Ledger.lasting(self.caps):
            return self._run()

    def _run(self) -> RunResult:
        config, hook = self.config, self.hook.hook
        self._check_specs()
        suite = self._suite()
        with ExitStack() as closing:
            reads = config.compare or has_variants(suite.tasks.values())
            if reads and not self.stores and config.writes_to is None:
                # Runs are compared by their files, which are deleted afterwards.
                folder = closing.enter_context(TemporaryDirectory())
                config = replace(config, writes=True, writes_to=Path(folder))
            n_documents = sum(len(run.ids) for run in suite.tasks.values())
            inference = Inference(self._answers())
            inference.given_name = self.name
            answered = partial(getattr, inference, "n_answered")
            inference.on_answer = progress(answered, n_documents)
            config = replace(config, options=self._public())
            run = Run(config, suite, inference, hook)
            self._check(run)
            models = named_by(suite, run.baselines.is_model, lambda path: hook)
            references = answered_by(
                models, self._answers(), self.judge, no_judge=NO_JUDGE
            )
            run.baselines.add(references)
            if self.closes and isinstance(self.model, Model):
                closing.callback(self.model.close)
            model = open_model(inference.answers, self.model, closing)
            closing.callback(inference.close)  # also if the run raises an error
            inference.open(None, model)
            open_judge = partial(open_model, inference.answers, self.judge, closing)
            inference.judge_by(None, open_judge)
            self._answer(run)
            inference.answers.close()
            for one in suite.all():
                for gate in one.gates:
                    run.gate_judge.judge(gate)
            result = run.finish(run.warnings())
            if config.writes:
                result = self._write(run)
        hook.pytest_evals_result(result=result)
        return result

    def _write(self, run: Run) -> RunResult:
        """Write the finished run, compare it and save it."""
        assert run.result is not None
        run.writer.sort()  # early stopping runs documents in random order
        run.writer.results(run.result, node_ids=run.suite.node_ids())
        run.compare()
        if run.writer.path is not None:
            self.runs[self.name] = run.writer.path
            if has_variants(run.suite.tasks.values()):
                tasks = [one.task for one in run.suite.tasks.values()]
                found = compare_variants(
                    {"": read_run(run.writer.path)},
                    tasks,
                    methods_of([run.result]),
                    min_overlap=self.config.min_overlap,
                )
                run.result = replace(run.result, variants=tuple(found))
        if self.config.save:
            try:
                run.save()
            except StoreError as error:
                place = f"the run itself is in {run.writer.path}"
                raise StoreError(f"{error}\n  {place}") from None
        return run.result

    def _suite(self) -> Suite:
        hook, config = self.hook.hook, self.config
        metrics = registered_metrics(hook, None)
        options = replace(
            self.options, has_model=True, has_judge=bool(self.judge), metrics=metrics
        )
        if config.spec and not options.model_arguments:
            options = replace(options, model_arguments=model_arguments(config.spec))
        noise = partial(measured_rate, config.dir, config.compare, config.label)
        expressions = tuple(map(read_expression, self.gates))
        gates = SuiteGates(
            config.here,
            expressions,
            noise,
            is_release=self.is_release,
            min_overlap=config.min_overlap,
        )
        reads = bool(hook.pytest_evals_load_tasks.get_hookimpls())
        load = self.hook.load if reads else None
        return read_suite(
            self.sources, options, gates, load, adds_metrics=adds_metrics(hook)
        )

    def _answers(self) -> CachedModels:
        plugins = self.hook
        hook = ModelHook(lambda: plugins.open_models, plugins.open_model)
        given = (self.model, self.judge)
        commands = [one for one in given if isinstance(one, str) and is_command(one)]
        return CachedModels(
            self.config.dir, "use" if self.stores else "off", hook, commands=commands
        )

    def _check_specs(self) -> None:
        """Refuse invalid specs before a file or a dataset is read."""
        answers = self._answers()
        for name, given in (("", self.model), ("judge: ", self.judge)):
            if isinstance(given, str) and given:
                error = answers.unready(given, check_spec)
                if error is not None:
                    raise OptionError(f"{name}{error}")

    def _check(self, run: Run) -> None:
        """Check that the run can be compared and written, before anything is sent."""
        faults = run.comparison_faults()
        if faults:
            raise OptionError(
                f"compare={self.config.compare!r}: this run is not comparable\n  "
                + "\n  ".join(faults)
            )
        if self.stores:
            check_base(self.config.dir, "folder", stores=True, save=self.config.save)

    def _answer(self, run: Run) -> None:
        jobs, ends = run.jobs()
        prepare = partial(prepared, self.hook.hook)
        planned = PlannedRequests(
            jobs=jobs,
            tested=self.config.spec or None,
            judge=self.judge if isinstance(self.judge, str) else None,
            prepare=prepare,
            no_judge=NO_JUDGE,
        )
        error = why_refused(planned, run.inference.answers)
        if error is not None:
            raise error
        run.inference.add_batches(None, jobs, prepare, ends=ends)
        run.answer(jobs)

    def _public(self) -> Mapping[str, Any]:
        """Return the options as JSON values, by the names of pytest's options."""
        left_out = (
            "takes",
            "variants",
            "library",
            "metrics",
            "model_arguments",
            "base",
        )
        plain = {
            name: getattr(self.options, name)
            for name in TaskOptions.__slots__
            if name not in left_out
        }
        chat, config = plain.pop("chat"), self.config
        named = {"model": config.spec, "judge": config.judge}
        return {**plain, "apply_chat_template": chat, **named}
