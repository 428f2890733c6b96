"""The HTML page: one file with its style, script and data, without external resources.

Its content security policy allows only this style and this script, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from pytest_evals.reports.escape import one_line
from pytest_evals.reports.html.chunks import packed

_SCRIPTS = (
    "dom",
    "formatting",
    "unpack",
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
    facts: Mapping[str, Any], index: Mapping[str, object], rows: Sequence[str]
) -> str:
    """Return the complete page."""
    title = f"{facts.get('model_name') or 'evals'} · evals"
    blocks = {"facts": packed(facts), "index": packed(index)}
    blocks |= {f"rows-{n}": text for n, text in enumerate(rows)}
    return whole_page(title, plain_html(facts), blocks)


def whole_page(
    title: str,
    plain: str,
    blocks: Mapping[str, str],
    scripts: tuple[str, ...] = _SCRIPTS,
    styles: tuple[str, ...] = ("page.css",),
) -> str:
    """Return a page with its style, script and data.

    Args:
        plain: Markup for viewers without scripts.
        blocks: Id of each block of data → its text, as ``packed`` returns it.
        scripts: Names of assets, which are concatenated.
    """
    style, script = _style(styles), _script(scripts)
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
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<noscript>{plain}</noscript>
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
            "img-src data:",
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
def _style(names: tuple[str, ...]) -> str:
    return "\n".join(map(_asset, names))


@cache
def _script(names: tuple[str, ...]) -> str:
    parts = "\n".join(_asset(f"{name}.js") for name in names)
    return f'(() => {{\n"use strict";\n{parts}\n}})();\n'


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def plain_html(facts: Mapping[str, Any]) -> str:
    """Return verdict, gates and metrics for viewers without scripts, such as many
    viewers of build artifacts; all strings are escaped."""
    verdict = facts.get("verdict") or "no gates"
    lines = [
        f"<h1>{_text(facts.get('model_name') or 'evals')}: {_text(verdict)}</h1>",
        "<p>This viewer runs no scripts: documents are shown where they may run.</p>",
    ]
    if facts.get("partial"):
        lines.append(f"<p>partial run: {_text(facts['partial'])}</p>")
    lines += [f"<p>warning: {_text(one)}</p>" for one in facts.get("warnings") or ()]
    if facts.get("gates"):
        lines += plain_table(("gate", "verdict", "why"), _gates(facts["gates"]))
    lines += plain_table(("task", "metric", "value", "stderr"), _numbers(facts))
    for one in facts["listed"]:
        part = facts["parts"][one["name"]]
        for error in part.get("judge_errors") or ():
            for text in error["text"]:
                lines.append(f"<p>{_text(part['alias'])}: {_text(text)}</p>")
    return "\n".join(lines)


def _gates(gates: list[Mapping[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for one in gates:
        yield one.get("node"), one.get("outcome"), one.get("reason")


def _numbers(facts: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for one in facts["listed"]:
        part = facts["parts"][one["name"]]
        for metric in part["metrics"]:
            yield part["alias"], metric["key"], metric["value"], metric["stderr"]


def plain_table(titles: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Return the lines of a table; all strings are escaped."""
    heading = "".join(f"<th>{title}</th>" for title in titles)
    lines = ["<table>", f"<tr>{heading}</tr>"]
    for row in rows:
        cells = "".join(f"<td>{_text(cell)}</td>" for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    return [*lines, "</table>"]


def _text(value: Any) -> str:
    return "" if value is None else escape(one_line(value))
