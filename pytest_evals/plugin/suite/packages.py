"""Folders with an ``__init__.py``. Standard library and pytest only: this is imported
in every pytest run.
"""

from __future__ import annotations

import pytest

_IMPORTED: pytest.StashKey[set[object]] = pytest.StashKey()


class Package(pytest.Package):
    """A Python package that is imported for the tests in it, but not for documents.

    pytest imports a package before the first item below it. A folder of lm-eval's tasks
    is one too, and imports all of ``lm_eval``, which may not be installed.
    """

    def setup(self) -> None:
        """Import the package if it contains items other than documents and gates."""
        stash = self.session.stash
        if _IMPORTED not in stash:
            tests = [i for i in self.session.items if getattr(i, "in_package", True)]
            nodes: set[object] = {node for test in tests for node in test.listchain()}
            stash[_IMPORTED] = nodes
        if self in stash[_IMPORTED]:
            super().setup()
