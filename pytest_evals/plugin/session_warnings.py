"""Warnings of a session: each is reported once."""

from __future__ import annotations

import pytest

from pytest_evals.plugin.settings.options import OPTIONS, suite_root
from pytest_evals.plugin.settings.process import ALONE
from pytest_evals.run.run import Run


class SessionWarnings:
    """Collects warnings, and remembers which were reported."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        self._config, self._run = config, run
        self._reported: set[str] = set()
        self.of_workers: dict[int, list[str]] = {}
        """Slot of a worker → its warnings."""
        self.unsendable: list[str] = []
        """Tasks with documents that cannot be sent, known before any is."""

    def new(self) -> list[str]:
        """Return the warnings that were not reported yet."""
        fresh = [text for text in self.all() if text not in self._reported]
        self._reported.update(fresh)
        return fresh

    def of_documents(self) -> list[str]:
        """Return the warnings about documents and their answers in this process and its
        workers."""
        from pytest_evals.prompts.document_warnings import merge_warnings

        by_slot = [self.of_workers[slot] for slot in sorted(self.of_workers)]
        texts = [text for texts in by_slot for text in texts]
        own = self._run.inference.warnings.texts()
        return merge_warnings([*own, *self.unsendable, *texts])

    def all(self) -> list[str]:
        """Return all warnings that are known so far."""
        config = self._config
        options = config.stash[OPTIONS]
        texts = [*self._run.warnings(plans=options.plan), *self.unsendable]
        if self.of_workers:
            from pytest_evals.prompts.document_warnings import (
                merge_warnings,
                without_count,
            )

            by_slot = [self.of_workers[slot] for slot in sorted(self.of_workers)]
            known = {*map(without_count, texts)}
            found = merge_warnings(text for texts in by_slot for text in texts)
            texts += [text for text in found if without_count(text) not in known]
        if config.stash.get(ALONE, False):
            texts.append("-n auto sees no GPU and takes 1 worker; -n N takes N")
        if suite_root(config, options.include_path) != config.rootpath:
            texts.append(
                f"pytest took {config.rootpath} for the rootdir, and reads no ini "
                "file here; write --evals-include-path=DIR, with '='"
            )
        return [*dict.fromkeys(texts)]
