"""Docs, docstrings and messages use plain words and the terms of the field."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.tools import language

CEILINGS = {
    "dialects messages": 1,  # a prompt to a judge, whose words decide its scores
    "models messages": 1,  # text that tokenizers are tried with
}
"""Areas with text that is data, and the hits in it."""


def areas() -> dict[str, list[language.Text]]:
    """Prose by page, and by package and kind."""
    modules = sorted(language.PACKAGE.rglob("*.py"))
    prose: dict[str, list[language.Text]] = defaultdict(list)
    for text in language.texts([*language.pages(), *modules]):
        parts = text.path.relative_to(language.ROOT).parts
        package = parts[1] if len(parts) > 2 else ""
        page = text.kind == "docs"
        area = "/".join(parts) if page else f"{package} {text.kind}".strip()
        prose[area].append(text)
    return prose


AREAS = areas()


@pytest.mark.parametrize("area", AREAS)
def test_prose_has_no_pattern_with_a_plainer_wording(area):
    prose = AREAS[area]
    hits = language.hits(prose)
    listing = "\n".join(map(str, hits))
    ceiling = CEILINGS.get(area, 0)
    assert len(hits) <= ceiling, f"{len(hits)} hits, at most {ceiling}:\n{listing}"


@pytest.mark.parametrize("area", AREAS)
def test_prose_has_less_than_one_vague_word_in_1000(area):
    prose = AREAS[area]
    hits = language.vague(prose)
    listing = "\n".join(map(str, hits))
    # A short text may have one: rates are for those of thousands of words.
    assert len(hits) <= max(1, language.n_words(prose) / 1000), listing


@pytest.mark.parametrize(
    ("prose", "n"),
    [
        ("'metrc' is no key of a metric", 1),
        ("There are no documents; the key is no longer read", 0),
        ("A baseline that is not there is told of", 1),
        ("Checked as far as the server allows", 1),
        ("A gate by itself", 1),
        ("The gate fails below its threshold", 0),
    ],
)
def test_patterns_match_what_they_are_for(prose, n):
    text = language.Text(language.ROOT / "README.md", 1, "docs", prose)
    assert len(language.hits([text])) == n
