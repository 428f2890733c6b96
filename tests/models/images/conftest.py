"""Checkpoints and models that read images, made once in a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_evals.core.model import Model
from pytest_evals.models.registry import open_model, parse_spec
from tests.models.images.checkpoints import FAMILIES

NEEDS_TORCHVISION = {
    *("internvl", "llava_onevision", "qwen2_5_vl", "qwen2_vl", "qwen3_vl", "smolvlm")
}


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory) -> Callable[[str], Path]:
    """The folder of a family's checkpoint."""
    folder = tmp_path_factory.mktemp("image_models")

    def made(family: str) -> Path:
        import torch

        pytest.importorskip("PIL")
        if family in NEEDS_TORCHVISION:
            pytest.importorskip("torchvision")
        path: Path = folder / family
        if not path.exists():
            with torch.random.fork_rng([]):
                torch.manual_seed(1)
                FAMILIES[family](path)
        return path

    return made


@pytest.fixture
def opened(checkpoint) -> Iterator[Callable[..., Model]]:
    """Opens the model of a family, with arguments."""
    models: list[Model] = []

    def made(family: str, arguments: str = "") -> Model:
        spec = parse_spec(f"hf:{checkpoint(family)},device=cpu{arguments}")
        models.append(open_model(spec))
        return models[-1]

    yield made
    for model in models:
        model.close()
