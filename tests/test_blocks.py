"""Every bash block of the pages is run word by word, as a newcomer would; but for those
that are listed here with the reason.

The folder of a page has what its blocks speak of: the suite of the tutorial in
``evals/``, the example suites, and copies of their model under the names that the
blocks use. ``pytest`` runs in this process, which has loaded its libraries once.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import screen_suites

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))
MODELS = ("tiny", "candidate", "release", "checkpoints/last")
BUILDS = "builds an environment"
NETWORK = "asks a server, or a model of the Hub"
NOT_RUN = {
    "README.md": {"python3 -m venv": BUILDS},
    "index.md": {
        "pip install": BUILDS,
        "pip wheel": BUILDS,
        "pytest --model=hf:example_suites/tiny": "run by "
        "tests/parity/test_example_suites.py",
    },
    "coming_from_latticeflow.md": {"pytest evals/task.yaml": NETWORK},
    "coming_from_lighteval.md": {"lighteval accelerate": NETWORK},
    "metrics.md": {"pytest --model=hf:my-model": NETWORK},
    "models_hf.md": {"pytest --model=hf:gpt2": NETWORK},
    "models_openai.md": {"pytest --model=openai:": NETWORK},
    "performance.md": {"python tests/bench/": "measures for minutes"},
    "scaling.md": {"pip install": "starts a Ray cluster of several machines"},
    "tutorial.md": {"pip install": BUILDS},
}
"""Page → how a block begins → why it is not run."""


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
    """Where a page is followed."""
    pytester.makeini("[pytest]\n")
    shutil.copytree(ROOT / "example_suites", "example_suites")
    for name in MODELS:
        shutil.copytree(ROOT / "example_suites" / "tiny", name)
    screen_suites.tutorial()
    return pytester


def stored(folder: pytest.Pytester, name: str) -> None:
    """A baseline ``main``, and a run of that name."""
    run(folder, "pytest --model=hf:./release evals/ --evals-save-baseline=main")
    (path,) = Path(".evals/runs").iterdir()
    path.rename(path.with_name(name))


def run(folder: pytest.Pytester, line: str) -> None:
    """Run a line; a gate may be red, but nothing may go wrong."""
    if line.startswith("pytest "):
        done = folder.runpytest_inprocess(*shlex.split(line, comments=True)[1:])
        assert done.ret in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), line
        assert "errors" not in done.parseoutcomes(), line
        return
    line = re.sub(r"^python ", f"{shlex.quote(sys.executable)} ", line)
    subprocess.run(line, shell=True, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if lines(page)], ids=lambda page: page.stem
)
def test_the_blocks_of_a_page_run(page, folder):
    named = re.search(r"\.evals/runs/([\w-]+) ", " ".join(lines(page)))
    if named is not None:
        stored(folder, named[1])
    for line in lines(page):
        run(folder, line)
