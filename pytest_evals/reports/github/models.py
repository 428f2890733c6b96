"""Models side by side as Markdown for a pull request."""

from __future__ import annotations

from pytest_evals.core.comparison import ModelComparison
from pytest_evals.reports.github.markdown import code, plain, table
from pytest_evals.reports.terminal.models import cells, disputed, is_better, notes

_ROWS = 300
"""Maximum number of rows of the table."""
_SIGNS = {True: " ✅", False: " ❌", None: ""}


def models_markdown(found: ModelComparison, kind: str = "model") -> str:
    """Return the table of metrics and models, with a final line break. ``kind``: what
    is compared, ``model`` or ``variant``."""
    heading = ["task", "metric", kind, "value:", "change:", "90% CI", "p:"]
    heading += ["rank:", "first:"]
    rows = []
    for one in found.metrics[:_ROWS]:
        name, *numbers = cells(one)
        numbers[1] += _SIGNS[is_better(one)]
        shown = (code(one.task), code(one.name), code(name), *map(plain, numbers))
        rows.append(shown)
    parts = [f"## {kind.capitalize()}s", table(heading, rows)]
    if len(found.metrics) > _ROWS:
        parts.append(f"and {len(found.metrics) - _ROWS:,} more rows")
    parts += map(plain, notes(found))
    documents, more = disputed(found)
    if documents:
        heading = ["they disagree", "target", *map(code, found.models)]
        parts.append(table(heading, [tuple(map(code, row)) for row in documents]))
    parts += map(plain, filter(None, (more, *found.refused)))
    return "\n\n".join(parts) + "\n"
