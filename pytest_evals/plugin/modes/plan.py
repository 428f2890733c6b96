"""``--evals-plan``: the requests that a run would send, and the power of its gates. No
model is opened and no document is run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.core.dialogue import JUDGE, ModelSource
from pytest_evals.core.gate import Gate
from pytest_evals.core.key import prompt_of
from pytest_evals.core.model import ModelOpener
from pytest_evals.core.request import Generate, Request, as_sent
from pytest_evals.core.run_plan import GatePlan, RunPlan, SpendPlan, TaskPlan
from pytest_evals.errors import EvalsError
from pytest_evals.gates.plan import Known, forecast
from pytest_evals.gates.power import USUAL_FLIPS
from pytest_evals.masking.values import masked_text
from pytest_evals.plugin.checks.session import reference_models
from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.messages import write_text
from pytest_evals.plugin.modes.follow_ups import follow_up_plans, name_of, spend_of
from pytest_evals.reports.terminal.plan import plan_lines
from pytest_evals.run.baselines import control_of
from pytest_evals.run.rounds import first_round
from pytest_evals.store.history import EarlierRun, earlier_runs
from pytest_evals.store.model import StoredModel

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession


class PlanMode:
    """Shows the plan instead of running, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._unsent: dict[ModelSource, dict[Request, None]] = {}
        """Model → its requests without stored responses."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Show the plan and run nothing. pytest reports collection errors."""
        goes_on = session.config.option.continue_on_collection_errors
        if session.testsfailed and not goes_on:
            return None
        terminal = session.config.pluginmanager.getplugin("terminalreporter")
        for one in filter(lambda one: one.is_selected, self._session.all):
            found = PlanMode(one)._forecast(session.items)
            if terminal is not None:
                terminal.write_sep("=", f"evals: plan {one.model}".rstrip())
                for line in plan_lines(found, terminal._tw.fullwidth):
                    terminal.write_line(line.text, **line.markup)
                for text in one.warnings.new():
                    write_text(terminal, f"warning: {text}", yellow=True)
        return True

    def _forecast(self, items: Sequence[pytest.Item]) -> RunPlan:
        by_task: dict[str, list[DocItem]] = {}
        for item in items:
            if isinstance(item, DocItem) and self._session.owns(item):
                by_task.setdefault(item.job.task.name, []).append(item)
        documents = [one for members in by_task.values() for one in members]
        run = self._last()
        pace = self._pace()
        spec = self._session.run.config.full_spec
        tasks = [self._task(members, spec, pace) for members in by_task.values()]
        tasks += self._reference_tasks(by_task)
        gates = [*self._gates(by_task, run)]
        return RunPlan(
            tasks=tuple(tasks),
            gates=tuple(gates),
            source=str(run.path) if run is not None and gates else "",
            flips=USUAL_FLIPS,
            spend=tuple(self._spend(tasks)),
            follow_ups=tuple(follow_up_plans(self._session, documents)),
            max_requests=self._session.options.max_requests,
            max_cost=self._session.options.max_cost,
        )

    def _spend(self, tasks: Sequence[TaskPlan]) -> Iterator[SpendPlan]:
        """Return requests, tokens and cost of each served model."""
        session = self._session
        known = [one.n_generated for one in tasks if one.is_tested]
        n_generated = None if None in known else sum(filter(None, known))
        for source, requests in self._unsent.items():
            try:
                plan = spend_of(session, source, [*requests]) if requests else None
            except EvalsError as error:
                self._session.suite.warn([f"the cost is unknown: {error}"])
                continue
            if plan is not None and source == self._session.run.config.full_spec:
                yield replace(plan, n_generated=n_generated)
            elif plan is not None:
                each = self._tokens_per_reply(source)
                n_generated = None if each is None else each * plan.n_requests
                yield replace(plan, model=name_of(source), n_generated=n_generated)

    def _tokens_per_reply(self, source: ModelSource) -> float | None:
        """Return the generated tokens per reply of a judge or another auxiliary model
        in the last run that used it."""
        given = source.name if isinstance(source, ModelOpener) else str(source)
        name = _without_caps(masked_text(given))
        for run in self._earlier():
            infos = run.results.get("judges")
            for key, info in infos.items() if isinstance(infos, dict) else ():
                usage = info.get("usage") if _without_caps(key) == name else None
                if usage and usage.get("completion_tokens") and usage.get("replies"):
                    return float(usage["completion_tokens"] / usage["replies"])
        return None

    def _reference_tasks(
        self, by_task: Mapping[str, Sequence[DocItem]]
    ) -> Iterator[TaskPlan]:
        """Return the requests to reference models of gates."""
        hook = self._session.config.hook
        ids = [item.nodeid for items in by_task.values() for item in items]
        for model in reference_models(self._session, ids, lambda _: hook):
            for documents in model.documents:
                found = self._task(by_task[documents.task.name], model.spec, None)
                name = f"{found.name} ({model.shown})"
                yield replace(found, name=name, n_faults=0, is_tested=False)

    def _task(
        self,
        items: Sequence[DocItem],
        spec: str,
        pace: tuple[Mapping[str, Any], float] | None,
    ) -> TaskPlan:
        is_tested = spec == self._session.run.config.full_spec
        answers = self._session.run.inference.answers
        by_model, n_faults = self._first_requests(items)
        if not is_tested:  # other models got theirs from the tested model's plan
            by_model = {"": by_model.get("", [])}
        n_unsent = []
        for model, sent in by_model.items():
            source = self._source(items[0], model) if is_tested else spec
            is_same = bool(source and answers.is_deterministic(source))
            sent = [*dict.fromkeys(as_sent(one, is_same) for one in sent)]
            by_model[model] = sent
            unsent = self._unstored(source, sent) if source else None
            n_unsent.append(None if unsent is None else len(unsent))
            if source and is_tested:
                waiting = self._unsent.setdefault(source, {})
                waiting |= dict.fromkeys(sent if unsent is None else unsent)
        requests = [one for sent in by_model.values() for one in sent]
        n_stored = None
        if None not in n_unsent:
            n_stored = len(requests) - sum(filter(None, n_unsent))
        name = items[0].job.task.name
        n_tokens, n_generated, seconds = _as_before(name, len(items), pace)
        if seconds is not None and n_generated is not None and requests:
            seconds *= 1 - (n_stored or 0) / len(requests)
            n_generated *= 1 - (n_stored or 0) / len(requests)
        if not all(isinstance(one, Generate) for one in requests):
            n_generated = float(len(requests) - (n_stored or 0))  # a token each
        return TaskPlan(
            name=name,
            n_documents=len(items),
            n_requests=len(requests),
            n_stored=n_stored,
            n_characters=sum(map(_size, requests)),
            n_tokens=n_tokens,
            seconds=seconds,
            n_generated=n_generated,
            n_faults=n_faults,
            is_tested="" in by_model,
        )

    def _first_requests(
        self, items: Sequence[DocItem]
    ) -> tuple[dict[str, list[Request]], int]:
        """Return the distinct requests of a task that depend on no answers, by the name
        of their model, and the number of documents that cannot be prompted."""
        by_model: dict[str, dict[Request, None]] = {}
        n_faults = 0
        for item in items:
            record = self._session.models.requests_of(item)
            record, asks = first_round(record, item.job.task)
            n_faults += bool(record.error)
            for ask in asks:
                by_model.setdefault(ask.model, {})[ask.request] = None
        return {name: list(requests) for name, requests in by_model.items()}, n_faults

    def _source(self, item: DocItem, model: str) -> ModelSource | None:
        """Return the source of a model of a document's task; ``None`` if a fixture
        opens it."""
        config, options = self._session.run.config, self._session.options
        definition = item.parent.model_definition(item)
        if not model:
            return config.full_spec if definition.has_own_model else None
        source = item.job.task.models[model]
        if source != JUDGE:
            return source
        if not definition.has_own_judge:
            return None
        return config.full_spec if options.judge == options.model else options.judge

    def _unstored(
        self, source: ModelSource, requests: list[Request]
    ) -> list[Request] | None:
        """Return the requests without stored responses; ``None`` if a hook opens the
        model, whose keys are unknown until then."""
        try:
            model = self._session.run.inference.answers.without_model(source)
        except EvalsError:
            return None
        if not isinstance(model, StoredModel):
            return None
        return [requests[i] for i, one in model.answer(requests) if one.error]

    def _gates(
        self, by_task: Mapping[str, Sequence[DocItem]], run: EarlierRun | None
    ) -> Iterator[GatePlan]:
        stopping = self._session.run.early_stopping
        for one in self._session.suite.all():
            for gate in one.gates:
                members = self._session.suite.tasks_of(gate.task)
                n = sum(len(by_task.get(name, ())) for name in members)
                if not n or gate.is_about_documents:
                    continue
                known = self._known(gate, run)
                found = forecast(gate, n, self._number(gate, run), known=known)
                read = stopping.shares.get(gate.task) if stopping is not None else None
                yield replace(found, read=read)

    def _known(self, gate: Gate, run: EarlierRun | None) -> Known:
        """Return what is known of a gate's documents, with the earlier values of a
        group's tasks and the size of a sampled run's complete baseline."""
        known = self._session.run.gate_judge.known_of(gate)
        pairs = zip(known.strata, known.names, strict=True)
        strata = [
            one._replace(last=self._number(replace(gate, task=name), run))
            for one, name in pairs
        ]
        known, before = known._replace(strata=strata), self._before(gate, run)
        config = self._session.run.config
        control = gate.baseline or control_of(self._session.suite, config.compare)
        if before is None or not control or not config.options.get("sample"):
            return known
        counts = before.results.get("counts", {}).get(gate.task)
        return known._replace(n_whole=counts["selected"]) if counts else known

    def _before(self, gate: Gate, run: EarlierRun | None) -> EarlierRun | None:
        """Return the baseline of a gate, by default the earlier run."""
        if not gate.baseline:
            return run
        found = self._session.run.baselines.run(gate.baseline)
        return None if isinstance(found, str) else found

    def _number(self, gate: Gate, run: EarlierRun | None) -> float | None:
        """Return the value of a gate's metric in an earlier run."""
        run = self._before(gate, run)
        return None if run is None else run.number(gate)

    def _last(self) -> EarlierRun | None:
        """Return the baseline, or the last complete run of this model."""
        if self._session.run.compared is not None:
            return self._session.run.compared.run
        whole = (run for run in self._earlier() if not run.results.get("partial"))
        last = next(whole, None)
        return self._session.suite.named(last) if last else None

    def _earlier(self) -> Iterator[EarlierRun]:
        """Return the runs of this model, the latest first."""
        given = self._session.options.model
        model = _without_caps(masked_text(given) if given else "")
        for run in earlier_runs(self._session.options.dir):
            options = run.results.get("options")
            if not isinstance(options, dict):
                continue
            if _without_caps(str(options.get("model") or "")) == model:
                yield run

    def _pace(self) -> tuple[Mapping[str, Any], float] | None:
        """Return the counts of all tasks and the model's time in the last run of this
        model without stored responses."""
        for run in self._earlier():
            results = run.results
            if not results.get("n_reused") and results.get("counts"):
                return results["counts"], float(results.get("model_seconds") or 0)
        return None


def _without_caps(spec: str) -> str:
    """Remove spend caps and prices, with which the same requests are sent."""
    return re.sub(r",(max_requests|max_cost|price_in|price_out)=[^,]*", "", spec)


def _as_before(
    name: str, n: int, pace: tuple[Mapping[str, Any], float] | None
) -> tuple[int | None, float | None, float | None]:
    """Estimate the tokens of prompts and answers and the seconds of a task from an
    earlier run."""
    counts = pace[0].get(name) if pace is not None else None
    if pace is None or not counts:
        return None, None, None
    n_then = counts["selected"] - counts["missing"]
    everything = sum(one["prompt_tokens"] + one["tokens"] for one in pace[0].values())
    requests = counts["prompt_tokens"] + counts["tokens"]
    if n_then <= 0 or not requests:
        return None, None, None
    tokens = round(counts["prompt_tokens"] * n / n_then)
    n_generated = counts["tokens"] * n / n_then
    return tokens, n_generated, pace[1] * requests / everything * n / n_then


def _size(request: Request) -> int:
    prompt = prompt_of(request)
    if isinstance(prompt, str):
        return len(prompt) + len(getattr(request, "continuation", ""))
    return sum(len(message.content) for message in prompt)
