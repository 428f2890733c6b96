"""For this project's own tests: pytester, and the model that is shipped with it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

# Task files that tests read; they are no suites of ours.
collect_ignore = ["tests/task_files", "tests/parity/tasks", "tests/fuzz/suites"]

ROOT = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option of these tests."""
    text = "recorded values of lighteval to compare with, instead of those in tests/"
    parser.addoption("--vectors", metavar="PATH", default="", help=text)


@pytest.fixture(scope="session")
def tiny_model_path() -> Path:
    """The bundled model: a folder with weights and tokenizer."""
    return ROOT / "example_suites" / "tiny"


@pytest.fixture(scope="session")
def example_suites() -> Path:
    """The folder of suites that run offline with the bundled model."""
    return ROOT / "example_suites"
