"""``--evals-cache-info``: report whether a document's responses are stored.

The document is collected and set up as for a run; nothing is sent, and the model is
not opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pytest import TerminalReporter

from pytest_evals.core.key import prompt_hash, prompt_of, request_keys
from pytest_evals.core.request import Message, Prompt, as_sent
from pytest_evals.errors import did_you_mean
from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.messages import write_text
from pytest_evals.reports.details.cache_info import (
    KeyChange,
    RequestCacheInfo,
    cache_info_lines,
)
from pytest_evals.run.rounds import first_round
from pytest_evals.store.history import earlier_runs
from pytest_evals.store.model import StoredModel
from pytest_evals.store.nearest import nearest

if TYPE_CHECKING:
    from pytest_evals.core.key import RequestKey
    from pytest_evals.plugin.session import EvalSession

MOST_COMPARED = 2000  # ids that are searched for a similar one


class CacheInfoItem(DocItem):
    """The document; its cache information is reported instead of running it."""

    mode: CacheInfoMode

    def runtest(self) -> None:
        """Keep the lines for the summary."""
        self.mode.explain(self)


class CacheInfoMode:
    """Reports instead of running, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._nodeid = session.options.cache_info
        self._lines: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect all other items; refuse an id that no document has."""
        documents = {i.nodeid: i for i in items if isinstance(i, DocItem)}
        found = documents.get(self._nodeid)
        if found is None:
            near = did_you_mean(self._nodeid, [*documents][:MOST_COMPARED])
            raise pytest.UsageError(
                f"--evals-cache-info: no document {self._nodeid!r}{near}"
            )
        item = CacheInfoItem.from_parent(
            found.parent, name=found.name, nodeid=found.nodeid, job=found.job
        )
        item.mode = self
        config.hook.pytest_deselected(items=[i for i in items if i is not found])
        items[:] = [item]

    def explain(self, item: DocItem) -> None:
        """Find the nearest stored requests."""
        self._session = item.parent.evals
        definition = item.parent.model_definition(item)
        model = self._session.run.inference.opened[definition]
        if not isinstance(model, StoredModel):
            self._lines = [f"the responses of {model.name} are not stored"]
            return
        record = self._session.models.requests_of(item)
        before = {prompt_hash(prompt): prompt for prompt in self._prompts(item)}
        explained = []
        # Of a conversation, the first turn: later ones depend on answers.
        record, asks = first_round(record, item.job.task)
        first = [one.request for one in asks if not one.model]
        requests = [as_sent(one, model.is_deterministic) for one in first]
        for request, key in zip(requests, request_keys(requests), strict=True):
            explained.append(self._explanation(model, key, prompt_of(request), before))
        self._lines = list(cache_info_lines(item.nodeid, explained))
        if record.error:
            self._lines.append(record.error)

    def _explanation(
        self,
        model: StoredModel,
        key: RequestKey | None,
        prompt: Prompt,
        before: dict[bytes, Prompt],
    ) -> RequestCacheInfo:
        if key is None:
            return RequestCacheInfo(None)
        folder = self._session.options.dir
        found = nearest(folder, key, model.fingerprint, before)
        if found is None:
            return RequestCacheInfo(None)
        other = "" if found.key.prompt == key.prompt else before[found.key.prompt]
        parts = [KeyChange(c.name, c.now, c.before) for c in found.settings]
        parts += [KeyChange(f"model: {c.name}", c.now, c.before) for c in found.model]
        return RequestCacheInfo(found.stored, tuple(parts), _text(prompt), _text(other))

    def _prompts(self, item: DocItem) -> Iterator[Prompt]:
        """Return the document's prompts in earlier runs, the latest first."""
        for stored in earlier_runs(self._session.options.dir):
            run = self._session.suite.named(stored)
            for row in run.rows(item.job.task.name):
                if row["doc_id"] == item.job.index:
                    later = [one["arguments"] for one in row.get("exchanges", ())]
                    for one in (*row.get("arguments", {}).values(), *later):
                        yield _prompt(one.get("arg_0"))
                    break

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show the information."""
        if self._lines:
            terminalreporter.write_sep("=", "the store")
            for line in self._lines:
                write_text(terminalreporter, line)


def _prompt(given: Any) -> Prompt:
    if isinstance(given, list):
        return tuple(Message(one["role"], one["content"]) for one in given)
    return str(given)


def _text(prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"{message.role}: {message.content}" for message in prompt)
