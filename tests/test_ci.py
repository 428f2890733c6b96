"""Shared code of .ci/run and .ci/nightly."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent


def test_every_direct_dependency_but_torch_is_installed_at_its_lower_bound():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        declared += extra
    pins = (ROOT / "constraints.txt").read_text().split()
    expected = {pin for pin in pins if pin.startswith("torch==")}
    for requirement in map(Requirement, declared):
        if requirement.name not in ("torch", project["name"]):
            (bound,) = requirement.specifier
            assert bound.operator == ">="
            expected.add(f"{requirement.name}=={bound.version}")
    command = [". .ci/lib.sh && lowest_versions"]
    done = subprocess.run(
        ["bash", "-euc", *command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == expected
