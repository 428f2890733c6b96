"""A call of ``evaluate()``: one run, or one for each of several models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pytest_evals.core.model import Model, ModelLike
from pytest_evals.core.model_results import ModelResults
from pytest_evals.core.result import RunResult
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.gates_section.suite_gates import SuiteGates
from pytest_evals.errors import OptionError, StoreError
from pytest_evals.gates.read.entry import read_expression
from pytest_evals.models.python.model import model_of
from pytest_evals.models.registry import ModelHook, check_spec
from pytest_evals.models.spec import is_command
from pytest_evals.reports.files.model import model_arguments
from pytest_evals.run.arguments import OneModel
from pytest_evals.run.baselines import measured_rate
from pytest_evals.run.cached_model import CachedModels
from pytest_evals.run.comparison import methods_of
from pytest_evals.run.config import RunConfig
from pytest_evals.run.inference import Given, Inference, open_model
from pytest_evals.run.model_comparison import (
    compare_models,
    compare_variants,
    has_variants,
)
from pytest_evals.run.notebook import progress
from pytest_evals.run.readiness import PlannedRequests, why_refused
from pytest_evals.run.reference_models import answered_by, named_by
from pytest_evals.run.run import Run
from pytest_evals.run.suite import Suite
from pytest_evals.run.suite_reader import Source, read_suite
from pytest_evals.run.user_hooks import (
    Plugins,
    adds_metrics,
    prepared,
    registered_metrics,
)
from pytest_evals.store.baselines import of_model, own_baseline
from pytest_evals.store.history import read_run
from pytest_evals.store.writable import check_base

NO_JUDGE = (
    "no judge is set\n  fix: pass one, such as evaluate(…, judge='openai:gpt-4o')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateCall:
    """A call of ``evaluate()``: its arguments."""

    config: RunConfig
    sources: Sequence[Source]
    model: Given = ""
    options: TaskOptions
    gates: Sequence[str]
    is_release: bool
    judge: Given = ""
    stores: bool
    hook: Plugins
    closes: bool = False  # whether the model is closed at the end: a class of sessions
    name: str = ""  # the name of its model, of several
    runs: dict[str, Path] = field(default_factory=dict)
    """Name of each model → the folder of its run."""

    def with_judge(self, given: str | ModelLike) -> EvaluateCall:
        """Return the call with a judge."""
        judge = given if isinstance(given, str) else model_of(given, "judge")
        name = judge if isinstance(judge, str) else judge.name
        return replace(self, judge=judge, config=replace(self.config, judge=name))

    def with_model(self, name: str, given: OneModel) -> EvaluateCall:
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
