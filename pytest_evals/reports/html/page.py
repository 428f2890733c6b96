"""The HTML page: one file with its style, script and data, without external resources.

Its content security policy allows only this style and this script, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from pytest_evals.reports.html.chunks import packed
from pytest_evals.reports.html.plain import plain_html

_SCRIPTS = (
    "dom",
    "formatting",
    "data",
    "columns",
    "charts",
    "diff",
    "summary",
    "gates",
    "figures",
    "task",
    "texts",
    "document",
    "list",
    "documents",
    "changes",
    "environment",
    "keys",
    "main",
)
"""Concatenated into one script; each depends on the previous ones."""


def page_html(
    facts: Mapping[str, object],
    index: Mapping[str, object],
    rows: Sequence[str],
) -> str:
    """Return the complete page.

    Args:
        facts: Data of the run.
        index: Entries of the list of documents.
        rows: Chunks of documents embedded in the page; empty if they are in separate
            files.
    """
    style, script = _style(), _script()
    title = escape(f"{facts.get('model_name') or 'evals'} · evals")
    blocks = {"facts": packed(facts), "index": packed(index)}
    blocks |= {f"rows-{n}": text for n, text in enumerate(rows)}
    data = "\n".join(
        f'<script type="text/plain" id="{name}">{text}</script>'
        for name, text in blocks.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>{plain_html(facts)}</noscript>
<div id="app"></div>
{data}
<script>{script}</script>
</body>
</html>
"""


def _policy(style: str, script: str) -> str:
    """Return the content security policy. Rows next to the page are scripts added by
    ours; Trusted Types prevent any other markup or script."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(script)}' 'strict-dynamic'",
            f"style-src '{_digest(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types evals-rows",
        )
    )


def _digest(text: str) -> str:
    found = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(found).decode('ascii')}"


@cache
def _style() -> str:
    return _asset("page.css")


@cache
def _script() -> str:
    parts = "\n".join(_asset(f"{name}.js") for name in _SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();\n'


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
