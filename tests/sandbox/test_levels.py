"""Levels, consent and the public function."""

import sys

import pytest

import pytest_evals as ev
from pytest_evals.errors import EvalsError, OptionError
from pytest_evals.sandbox.levels import ProgramLimits, SandboxError, start_of
from pytest_evals.sandbox.runner import Sandbox
from pytest_evals.sandbox.session import end_sandbox, parse_level, set_sandbox

FAKE = """#!/bin/sh
echo "$@" > {log}
while [ "$1" != -c ]; do shift; done
exec {python} -s -P -c "$2" {inside}
"""


@pytest.fixture(autouse=True)
def _own_sandbox():
    yield
    end_sandbox()


def test_a_container_has_no_network_no_rights_and_limits(tmp_path, monkeypatch):
    """A stand-in for docker keeps its command line and starts the server here."""
    import pytest_evals.sandbox.levels as levels

    fake, log = tmp_path / "docker", tmp_path / "log"
    inside = levels.__file__.rpartition("/")[0]
    fake.write_text(FAKE.format(log=log, python=sys.executable, inside=inside))
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    set_sandbox("docker:mine:1", consents=False)
    assert ev.run_code("print(6 * 7)").stdout == "42\n"
    words = log.read_text()
    for option in (
        "run --rm --interactive --pull never",
        "--network none --read-only",
        "--cap-drop ALL --security-opt no-new-privileges --user 65534:65534",
        f"--memory {(2 << 30) + (256 << 20)}",
        "--pids-limit 72",
        "size=134217728",
        "/sandbox/inside:ro",
        " mine:1 python ",
    ):
        assert option in words


def test_podman_replaces_docker_and_a_missing_daemon_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}")
    missing = "docker or podman is not installed\n  fix: start its daemon"
    with pytest.raises(SandboxError, match=missing):
        assert Sandbox("docker").level
    podman = tmp_path / "podman"
    podman.write_text("#!/bin/sh\necho 'podman: no daemon' >&2\nexit 125\n")
    podman.chmod(0o755)
    start = start_of("docker", "", ProgramLimits())
    assert start.command[0] == str(podman)
    minor = sys.version_info.minor
    assert f"python:3.{minor}-slim" in start.command
    with pytest.raises(SandboxError, match="does not work here: podman: no daemon"):
        assert Sandbox("docker").level


def test_consent_is_needed_without_a_boundary():
    set_sandbox("process", consents=False)
    with pytest.raises(EvalsError, match="without a security boundary\n  fix: "):
        ev.run_code("print(1)")
    for level in ("process", "off"):
        set_sandbox(level, consents=True)
        result = ev.run_code("print(1)")
        assert (result.ok, result.stdout, result.level) == (True, "1\n", level)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"files": {"../x": ""}}, "'../x' is not a relative path in a folder"),
        ({"files": {"/x": ""}}, "'/x' is not a relative path"),
        ({"timeout": 0}, "timeout must be seconds above 0, not 0"),
    ],
)
def test_invalid_arguments_are_errors(arguments, what):
    set_sandbox("process", consents=True)
    with pytest.raises(EvalsError, match=what):
        ev.run_code("print(1)", **arguments)


def test_levels_are_read_with_an_image():
    assert parse_level("docker:python:3.12") == ("docker", "python:3.12")
    for text in ("docker:", "bwrap:x", "vm"):
        with pytest.raises(ValueError, match="expected auto, process"):
            parse_level(text)
    with pytest.raises(OptionError, match="sandbox: 'vm': expected auto"):
        set_sandbox("vm", consents=False)


def test_fixes_name_only_levels_that_can_work_here(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox = Sandbox("process")
    with pytest.raises(EvalsError) as caught:
        sandbox.check_consent()
    assert "--evals-sandbox" not in str(caught.value)
    assert "install bubblewrap" in str(caught.value)
    (tmp_path / "bwrap").touch(0o755)
    assert sandbox.remedy.endswith("or --evals-sandbox=bwrap to isolate it")
    (tmp_path / "podman").touch(0o755)
    assert sandbox.remedy.endswith("or --evals-sandbox=docker")
