"""The models of a session side by side, and the variants of its evals: in the terminal,
as Markdown, as JSON and as an HTML page, written after the files of each model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from pytest import TerminalReporter

from pytest_evals.core.comparison import ModelComparison
from pytest_evals.errors import StoreError
from pytest_evals.plugin.messages import write_text
from pytest_evals.plugin.reporting import github
from pytest_evals.plugin.settings.run_options import path_of_model
from pytest_evals.reports.escape import near
from pytest_evals.reports.terminal.models import model_lines
from pytest_evals.run.comparison import methods_of
from pytest_evals.run.model_comparison import (
    compare_models,
    compare_variants,
    has_variants,
)
from pytest_evals.store.files import make_folder, replace_text, write_json
from pytest_evals.store.history import EarlierRun, read_run

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession


class ModelsReport:
    """Hooks of a session that compares, as a pytest plugin; not for workers."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._found: ModelComparison | None = None
        self._variants: list[ModelComparison] = []
        self._lines: list[tuple[str, bool]] = []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare the models that were run and the variants of evals, and write the
        files; an error leaves all other results intact."""
        done = [one for one in self._session.all if one.run.result is not None]
        try:
            self._compare(done)
            if self._found is not None or self._variants:
                self._write_markdown()
            if self._found is not None:
                self._write(self._found)
            self._write_variants(self._variants)
        except StoreError as error:
            self._lines.append((str(error), True))
            self._session.outcome.fail(session, str(error))
        if not (done and (self._session.model or self._variants)):
            return
        if os.environ.get("GITHUB_ACTIONS") == "true":
            self._lines += github.append_summary(self._markdown)

    def _compare(self, done: list[EvalSession]) -> None:
        options = self._session.options
        overlap, named = options.min_overlap, options.reference
        variants = any(has_variants(one.suite.tasks.values()) for one in done)
        if len(done) > 1 or variants:
            runs = {one.model: _run(one) for one in done}
            methods = methods_of(filter(None, (one.run.result for one in done)))
        if len(done) > 1:
            reference = named if named in runs else next(iter(runs))
            self._found = compare_models(runs, reference, methods, min_overlap=overlap)
        if variants:
            tasks = [run.task for run in done[0].suite.tasks.values()]
            found = compare_variants(runs, tasks, methods, min_overlap=overlap)
            self._variants = found

    def _write_variants(self, found: Sequence[ModelComparison]) -> None:
        page = self._session.shared.options.html
        for number, one in enumerate(found if page is not None else (), start=1):
            from pytest_evals.reports.html.models import write_models_html

            name = f"variants-{number}" if len(found) > 1 else "variants"
            path = path_of_model(page, name)
            assert path is not None
            write_models_html(one, path, {})
            shown = near(path, self._session.config.invocation_params.dir)
            self._lines.append((f"report: {shown}", False))

    def _write(self, found: ModelComparison) -> None:
        options = self._session.shared.options
        if options.json is not None:
            make_folder(options.json.parent, "--evals-json")
            write_json(options.json, self._as_json(found))
        if options.html is not None:
            from pytest_evals.reports.html.models import write_models_html

            pages = {name: path_of_model(options.html, name) for name in found.models}
            names = {name: path.name for name, path in pages.items() if path}
            write_models_html(found, options.html, names)
            shown = near(options.html, self._session.config.invocation_params.dir)
            self._lines.append((f"report: {shown}", False))

    def _write_markdown(self) -> None:
        path = self._session.shared.options.markdown
        if path is not None:
            make_folder(path.parent, "--evals-markdown")
            replace_text(path, self._markdown(github.COMMENT), "--evals-markdown")

    def _as_json(self, found: ModelComparison) -> dict[str, Any]:
        paths = {one.model: one.run.writer.path for one in self._session.all}
        runs = {name: str(paths[name]) for name in found.models}
        return {**asdict(found), "agreements": dict(found.agreements), "runs": runs}

    def _markdown(self, room: int) -> str:
        """Return the comparisons and the summary of each model, with about so many
        bytes in all."""
        from pytest_evals.reports.github.models import models_markdown
        from pytest_evals.reports.github.pull_request import run_markdown

        tables = [models_markdown(one, "variant") for one in self._variants]
        if self._found is not None:
            tables.insert(0, models_markdown(self._found))
        done = {one: one.run.result for one in self._session.all}
        results = {one: result for one, result in done.items() if result is not None}
        room -= sum(len(part.encode("utf-8")) for part in tables) + len(results)
        share = max(room // len(results), github.LEAST)
        runs = [
            run_markdown(result, share, github.Publishing(one).changes(result))
            for one, result in results.items()
        ]
        return "\n".join([*tables, *runs] if self._session.model else [*runs, *tables])

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Write the tables."""
        is_verbose = self._session.config.get_verbosity() > 0
        tables = [("model", self._found)]
        tables += [("variant", one) for one in self._variants]
        for kind, found in tables:
            if found is None or terminalreporter.no_summary:
                continue
            width = terminalreporter._tw.fullwidth
            left_out = () if is_verbose else self._members()
            if lines := model_lines(found, width, left_out, kind):
                terminalreporter.write_sep("=", f"evals: {kind}s")
                for line in lines:
                    terminalreporter.write_line(line.text, **line.markup)
        for text, is_bad in self._lines:
            write_text(terminalreporter, text, red=is_bad, bold=is_bad)

    def _members(self) -> set[str]:
        """Return the tasks of groups, which are shown with ``-v``."""
        groups = self._session.suite.groups.values()
        return {task.name for run in groups for task in run.group.tasks()}


def _run(session: EvalSession) -> EarlierRun:
    writer = session.run.writer
    if writer.path is None or writer.error:
        raise StoreError(f"models: the results of {session.model} are not on the disk")
    return read_run(writer.path)
