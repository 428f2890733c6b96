"""The task files here are test data, not suites to run."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

collect_ignore = ["images", "tasks", "vision"]


@pytest.fixture(scope="session")
def model_folder() -> Callable[[str, Path], Path]:
    """The function of ``models.py``, which the recorder uses as well."""
    path = Path(__file__).with_name("models.py")
    spec = importlib.util.spec_from_file_location("parity_models", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.model_folder
