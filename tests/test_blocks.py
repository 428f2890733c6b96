"""Every bash block of the pages runs as shown, except for those that are listed here
with the reason.

The folder of a page contains the files that the page shows, the suite of the tutorial
in ``evals/``, the example suites, and copies of their model under the names that the
blocks use. ``pytest`` runs in this process, which has loaded its libraries once.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import screen_suites, screens

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))
MODELS = ("tiny", "candidate", "release", "checkpoints/last")
BUILDS = "builds an environment"
NETWORK = "asks a server, or a model of the Hub"
NOT_RUN = {
    "README.md": {"python3 -m venv": BUILDS, ".venv/bin/pytest": NETWORK},
    "agents.md": {"python3 -m venv": BUILDS},
    "first_eval.md": {"python3 -m venv": BUILDS},
    "index.md": {
        "pip install": BUILDS,
        "pip wheel": BUILDS,
    },
    "coming_from_latticeflow.md": {"pytest evals/task.yaml": NETWORK},
    "coming_from_lm_eval.md": {
        'python -c "from pytest_evals.harness': NETWORK,
    },
    "coming_from_lighteval.md": {
        "lighteval accelerate": NETWORK,
        "lighteval custom": "lighteval is not installed",
    },
    "metrics.md": {"pytest --model=hf:my-model": NETWORK},
    "models_hf.md": {"pytest --model=hf:gpt2": NETWORK},
    "models_vllm.md": {
        "pytest --model=vllm:": NETWORK,
        "tests/vllm/environment.sh": BUILDS,
    },
    "models_openai.md": {"pytest --model=openai:": NETWORK},
    "models_serve.md": {"pytest '--model=serve:": BUILDS},
    "gate_files.md": {
        "python -m pytest_evals convert": "reads files of other projects",
    },
    "served_runs.md": {
        "pytest --model=openai:": NETWORK,
        "pytest --evals-plan --model=openai:": NETWORK,
    },
    "performance.md": {"python tests/bench/": "measures for minutes"},
    "scaling.md": {"pip install": "starts a Ray cluster of several machines"},
    "tutorial.md": {"python3 -m venv": BUILDS},
}
"""Page → start of a block → the reason why it is not run."""


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```bash\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def is_run(page: Path, block: str) -> bool:
    return not any(block.startswith(begin) for begin in NOT_RUN.get(page.name, ()))


def lines(page: Path) -> list[str]:
    return [
        line
        for block in blocks(page)
        if is_run(page, block)
        for line in block.splitlines()
    ]


def test_blocks_that_are_not_run_are_there():
    by_name = {page.name: blocks(page) for page in PAGES}
    for name, begins in NOT_RUN.items():
        for begin in begins:
            assert any(block.startswith(begin) for block in by_name[name]), begin


@pytest.fixture
def folder(pytester: pytest.Pytester) -> pytest.Pytester:
    """The folder in which the blocks of a page run."""
    pytester.makeini("[pytest]\n")
    shutil.copytree(ROOT / "example_suites", "example_suites")
    for name in MODELS:
        shutil.copytree(ROOT / "example_suites" / "tiny", name)
    return pytester


def write_files(page: Path) -> None:
    """Write the files that a page shows, without the text it appends to them later."""
    steps = screens.steps(page.read_text("utf-8"))
    shown = [s for s in steps if not s.command and not s.what.startswith("+ ")]
    if not any(step.what.startswith("evals/") for step in shown):
        screen_suites.tutorial()
    for step in shown:
        path = Path(step.what)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step.body or "", encoding="utf-8")


def stored(folder: pytest.Pytester, name: str) -> None:
    """A baseline ``main``, and a run of that name."""
    run(folder, "pytest --model=hf:./release evals/ --evals-save-baseline=main")
    (path,) = Path(".evals/runs").iterdir()
    path.rename(path.with_name(name))


def run(folder: pytest.Pytester, line: str) -> None:
    """Run a line; a gate may fail, but there must be no errors."""
    if line.startswith("pytest "):
        done = folder.runpytest_inprocess(*shlex.split(line, comments=True)[1:])
        assert done.ret in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), line
        assert "errors" not in done.parseoutcomes(), line
        return
    environment = {**os.environ, "PATH": screens.path()}
    subprocess.run(
        line, shell=True, check=True, env=environment, stdout=subprocess.DEVNULL
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if lines(page)], ids=lambda page: page.stem
)
def test_the_blocks_of_a_page_run(page, folder):
    write_files(page)
    named = re.search(r"\.evals/runs/([\w-]+) ", " ".join(lines(page)))
    if named is not None:
        stored(folder, named[1])
    for line in lines(page):
        run(folder, line)
