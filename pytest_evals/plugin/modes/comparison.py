"""``--evals-save-baseline`` and ``--evals-compare``: save this run as a baseline, and
compare it with one."""

from __future__ import annotations

import pytest

from pytest_evals.errors import StoreError
from pytest_evals.plugin.messages import write_text
from pytest_evals.plugin.session import EvalSession
from pytest_evals.reports.escape import near
from pytest_evals.reports.terminal.comparison import comparison_lines


class ComparisonMode:
    """Saves and compares runs, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._lines: list[tuple[str, bool]] = []

    def pytest_collection_finish(self) -> None:
        """Check that the runs can be compared, before a model is opened.

        Raises:
            pytest.UsageError: Other shots, limit, version, judge or model interface.
        """
        if self._session.assignment is not None:
            return
        faults = self._session.run.comparison_faults()
        if faults:
            name = self._session.options.compare
            raise pytest.UsageError(
                f"--evals-compare={name}: this run is not comparable\n  "
                + "\n  ".join(faults)
            )

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare, then save; if one of them is not possible, the session fails. A part
        of a run is neither compared nor saved."""
        run, options = self._session.run, self._session.options
        if run.result is None or self._session.assignment is not None:
            return
        try:
            # The summary shows errors of the disk.
            if not run.writer.error and not options.shard:
                run.compare()
                if options.save_baseline:
                    self._save()
        except StoreError as error:
            self._lines.append((str(error), True))
        if options.compare and options.json is not None:
            run.writer.copy(options.json)
        found = run.result.comparison
        refused = found.refused if found is not None else ()
        bad = [text for text, is_bad in self._lines if is_bad]
        for reason in filter(None, (run.writer.error, *bad, *refused)):
            self._session.outcome.fail(session, reason)

    def _save(self) -> None:
        place, (failure, *lines) = self._session.run.save()
        shown = near(place, self._session.config.invocation_params.dir)
        self._lines += [(f"baseline: {shown}{failure}", False)]
        self._lines += [(line, False) for line in lines]

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Show the changes and the baseline's path."""
        result = self._session.run.result
        found = result.comparison if result is not None else None
        if found is not None:
            terminalreporter.write_sep("=", f"compared with {found.name}")
            width = terminalreporter._tw.fullwidth
            brief = terminalreporter.config.get_verbosity() < 0
            for line in comparison_lines(found, width, brief=brief):
                terminalreporter.write_line(line.text, **line.markup)
        for text, is_bad in self._lines:
            write_text(terminalreporter, text, red=is_bad, bold=is_bad)
