"""What is odd about a session's tasks, gates and models, each thing said once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evals.gates.when import ungated
from pytest_evals.plugin.settings.options import suite_root
from pytest_evals.plugin.settings.process import ALONE

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

__all__ = ["Notices"]


class Notices:
    """Finds what is odd, and knows what of it has been said."""

    def __init__(self, session: EvalSession) -> None:
        """Nothing has been said yet."""
        self._session = session
        self._said: set[str] = set()
        self.of_workers: dict[int, list[str]] = {}
        """Slot of a worker → what it has found odd."""
        self.unsendable: list[str] = []
        """Tasks with documents that cannot be sent, as known before any is."""

    def new(self) -> list[str]:
        """What has not been said yet."""
        fresh = [text for text in self.all() if text not in self._said]
        self._said.update(fresh)
        return fresh

    def all(self) -> list[str]:
        """Everything, as far as it is known."""
        session = self._session
        texts = [
            f"{run.task.name}: {text}"
            for run in session.runs.values()
            for text in run.task.warnings()
        ]
        texts += session.known.warnings()
        texts += self.unsendable
        if session.orders is None:
            texts += session.judging.doubts()
            texts += ungated(session.judging.told.values())
        texts += session.models.notes
        texts += session.stopping.notes if session.stopping else ()
        if self.of_workers:
            from pytest_evals.prompts.notes import merged, uncounted

            by_slot = [self.of_workers[slot] for slot in sorted(self.of_workers)]
            known = {*map(uncounted, texts)}
            found = merged(text for said in by_slot for text in said)
            texts += [text for text in found if uncounted(text) not in known]
        config = session.config
        if config.stash.get(ALONE, False):
            texts.append("-n auto sees no GPU and takes 1 worker; -n N takes N")
        if suite_root(config, session.options.include_path) != config.rootpath:
            texts.append(
                f"pytest took {config.rootpath} for the rootdir, and reads no ini "
                "file here; write --evals-include-path=DIR, with '='"
            )
        return [*dict.fromkeys(texts)]
