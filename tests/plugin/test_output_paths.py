"""Output paths that cannot be written are rejected before a model is loaded."""

import pytest

from pytest_evals import evaluate
from pytest_evals.errors import StoreError


@pytest.fixture
def places(suite):
    """A suite next to a file, a dangling link, and a model that must not get
    requests."""
    (suite.pytester.path / "taken").write_text("a file")
    (suite.pytester.path / "link").symlink_to("nowhere")
    return suite


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--evals-dir=taken", "cannot make the folder '*/taken': it is a file, *"),
        ("--evals-dir=taken/below", "cannot make * '*/taken' is a file, not a folder"),
        ("--evals-dir=link", "cannot make * it is a link to 'nowhere', which is not *"),
        ("--evals-dir=/proc/evals", "cannot make the folder '/proc/evals': *"),
        ("--evals-json=evals", "cannot write '*/evals': it is a folder"),
        ("--evals-json=taken/r.json", "cannot make * it is a file, not a folder"),
        ("--evals-html=/dev/full", "cannot write '/dev/full': No space left on device"),
        ("--evals-markdown=link/s.md", "cannot make * it is a link to 'nowhere', *"),
    ],
)
def test_an_unwritable_path_is_refused(places, option, message):
    result = places.run("evals", option, model="scripted:break")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name = option.partition("=")[0]
    result.stderr.fnmatch_lines([f"ERROR: {message}", f"  fix: *{name}"])
    result.stdout.no_fnmatch_line("*= evals =*")
    assert not (places.pytester.path / ".evals").exists()


def test_an_unwritable_path_of_the_ini_file_is_refused_with_its_location(places):
    places.pytester.makeini("[pytest]\nevals_dir = link\n")
    result = places.run("evals", model="scripted:break")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["  --evals-dir is set by evals_dir in */tox.ini; *"])


def test_a_baseline_that_cannot_be_saved_is_refused(places):
    base = places.pytester.mkdir(".evals")
    (base / "baselines").write_text("a file")
    result = places.run("evals", "--evals-save-baseline=main", model="scripted:break")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *baselines': it is a file, not a folder"])
    assert places.run("evals").ret == 0


@pytest.mark.slow
def test_an_unwritable_path_is_refused_before_workers_start(places):
    result = places.run("evals", "--evals-dir=link", "-n2", model="scripted:break")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    errors = [line for line in result.errlines if line.startswith("ERROR: ")]
    assert len(errors) == 1
    assert "is a link to 'nowhere', which is not there" in errors[0]


@pytest.mark.parametrize("option", ["--collect-only", "--evals-plan", "--setup-plan"])
def test_a_session_that_writes_nothing_accepts_an_unwritable_path(places, option):
    assert places.run("evals", "--evals-dir=link", option).ret == 0


def test_a_session_without_documents_accepts_an_unwritable_path(places):
    places.pytester.makepyfile("def test_plain(): pass")
    result = places.run("--evals-dir=link", "-k", "test_plain")
    assert result.ret == 0


def test_evaluate_refuses_an_unwritable_folder_before_the_first_request(places):
    with pytest.raises(StoreError, match="is a link to 'nowhere'"):
        evaluate("evals/quiz.yaml", "scripted:break", folder="link")
