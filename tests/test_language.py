"""Docs, docstrings and messages use plain words and the terms of the field."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.tools import language

CEILINGS = {
    "guests messages": 1,  # a prompt to a judge, whose words decide its scores
    "models messages": 1,  # text that tokenizers are tried with
}
"""Areas with text that is data, and the hits in it."""


def areas() -> list[str]:
    """Pages, and the package and kind of other prose."""
    pages = [page.relative_to(language.ROOT).as_posix() for page in language.pages()]
    packages = ["", *sorted(one.parent.name for one in language.PACKAGE.glob("*/*.py"))]
    kinds = ("docstrings", "messages")
    return pages + [
        f"{one} {kind}".strip() for one in dict.fromkeys(packages) for kind in kinds
    ]


AREAS = areas()


def prose_of(area: str) -> list[language.Text]:
    """The prose of a page, or of a package and kind."""
    page = language.ROOT / area
    if page.is_file():
        return page_texts(page)
    package, _, kind = area.rpartition(" ")
    return [text for text in package_texts(package) if text.kind == kind]


@cache
def page_texts(page: Path) -> list[language.Text]:
    return list(language.texts([page]))


@cache
def package_texts(package: str) -> list[language.Text]:
    pattern = f"{package}/**/*.py" if package else "*.py"
    return list(language.texts(sorted(language.PACKAGE.glob(pattern))))


@pytest.mark.parametrize("area", AREAS)
def test_prose_has_no_pattern_with_a_plainer_wording(area):
    prose = prose_of(area)
    hits = language.hits(prose)
    listing = "\n".join(map(str, hits))
    ceiling = CEILINGS.get(area, 0)
    assert len(hits) <= ceiling, f"{len(hits)} hits, at most {ceiling}:\n{listing}"


@pytest.mark.parametrize("area", AREAS)
def test_prose_has_less_than_one_vague_word_in_1000(area):
    prose = prose_of(area)
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
def test_patterns_match_their_examples_only(prose, n):
    text = language.Text(language.ROOT / "README.md", 1, "docs", prose)
    assert len(language.hits([text])) == n
