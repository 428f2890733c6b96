"""``evaluate()``: a run with arguments instead of pytest's options.

It prints nothing, has no exit code, and writes no files without ``folder``. If an event
loop is running, the run uses its own thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack, overload

from pytest_evals.core.model import ModelLike
from pytest_evals.core.model_results import ModelResults
from pytest_evals.core.reasoning import REFUSALS
from pytest_evals.core.reference import MIN_OVERLAP
from pytest_evals.core.result import RunResult
from pytest_evals.core.task import Group, Task, TaskOptions
from pytest_evals.core.threads import repeating_interrupts
from pytest_evals.dialects.native.python import Eval
from pytest_evals.dialects.native.rows import is_rows, rows_eval
from pytest_evals.dialects.native.settings import EvalSettings, as_tuple
from pytest_evals.errors import OptionError
from pytest_evals.masking.registry import masking_logs, remembering
from pytest_evals.masking.values import watch_environment
from pytest_evals.models.http.spend_cap import Ledger, RunCaps
from pytest_evals.run.arguments import (
    Models,
    OneModel,
    Settings,
    Tasks,
    with_checked_arguments,
)
from pytest_evals.run.config import RunConfig, StopMode
from pytest_evals.run.evaluation import EvaluateCall
from pytest_evals.run.model_comparison import check_several, models_of
from pytest_evals.run.notebook import in_own_thread
from pytest_evals.run.profile import RELEASE, Profile, policy_of
from pytest_evals.run.start import Start
from pytest_evals.run.suite_reader import Source
from pytest_evals.run.user_hooks import Plugins
from pytest_evals.sandbox.session import set_sandbox


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
    config = RunConfig(
        dir=Path(folder or ".evals").absolute(),
        here=Path.cwd(),
        root=Path.cwd(),
        started=Start.now(),
        name="",
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
    call = EvaluateCall(
        config=config,
        sources=sources,
        options=options or TaskOptions(),
        gates=() if is_rows(tasks) else gates,  # those of rows are part of their eval
        is_release=profile == RELEASE,
        stores=folder is not None,
        hook=Plugins(plugins),
    )
    caps = Ledger.lasting(RunCaps(max_requests, max_cost))
    with caps, remembering(), masking_logs(), repeating_interrupts():
        watch_environment()
        set_sandbox(call.options.sandbox, consents=call.options.allow_unsafe_code)
        call = call.with_judge(judge)
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
