"""Shared code of .ci/run and .ci/nightly, the build of a release, and its changelog."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        ("v9.9.9", "the tag is v9.9.9, but the version in pyproject.toml is {version}"),
        ("v{version}", "CHANGELOG.md has no section '## {version} (DATE)'"),
    ],
)
def test_a_tag_without_its_version_or_changelog_is_not_built(tag, message, tmp_path):
    project = (ROOT / "pyproject.toml").read_text()
    version = tomllib.loads(project)["project"]["version"]
    (tmp_path / "pyproject.toml").write_text(project)
    (tmp_path / "CHANGELOG.md").write_text(f"## {version} (unreleased)\n")
    (tmp_path / ".ci").mkdir()
    build = tmp_path / ".ci" / "build"
    build.write_text((ROOT / ".ci" / "build").read_text())
    command = ["bash", str(build), tag.format(version=version)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip() == message.format(version=version)
    assert not (tmp_path / "dist").exists()


def test_the_unreleased_changes_have_40_lines_at_most():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for section in re.split(r"(?m)^(?=## )", text)[1:]:
        assert "(unreleased)" not in section or section.count("\n") <= 40


def test_a_release_is_checked_and_built_before_it_is_published():
    path = ROOT / ".github" / "workflows" / "release.yml"
    jobs = yaml.safe_load(path.read_text())["jobs"]
    assert jobs["publish"]["needs"] == ["check", "build"]
    assert jobs["publish"]["permissions"]["id-token"] == "write"
    for name in ("check", "build"):
        assert jobs[name]["permissions"] == {"contents": "read"}
        (command,) = [step["run"] for step in jobs[name]["steps"] if "run" in step]
        assert (ROOT / command.split()[0]).exists()


@pytest.mark.guests
def test_the_paths_of_the_scripts_exist():
    for script in ("run", "nightly"):
        text = (ROOT / ".ci" / script).read_text(encoding="utf-8")
        for path in re.findall(r"(?<![/\w])tests/[\w/{},.]+", text):
            before, _, rest = path.partition("{")
            names, _, after = rest.partition("}")
            for name in names.split(","):
                assert (ROOT / f"{before}{name}{after}").exists(), path
