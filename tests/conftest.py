"""Shared set-up of all tests: modules that are imported before any in-process run.

pytester removes the modules that such a run has imported. Libraries with compiled
extensions cannot be imported twice, and each class of the package must exist once,
whichever test runs first. The controller of workers runs no test: it imports none of
them, so that its workers start at once.

Environment variables of CI servers, which change pytest's output, and those that take
libraries offline are unset. Runs inside tests do not load plugins by entry points,
which takes longer than most of the tests: they load this package and pytest-xdist only.
The README's command for the example suites tests the entry point.
"""

import gc
import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages

import pytest

import pytest_evals

TESTS = Path(__file__).parent

LIBRARIES = (
    "datasets",
    "httpcore",  # which httpx imports when a client is made
    "jinja2",
    "numpy",
    "pandas",
    "scipy.optimize",
    "transformers.modeling_utils",
)


def pytest_configure(config: pytest.Config) -> None:
    """Import the modules that must be imported once only."""
    if getattr(config.option, "tx", None) and not hasattr(config, "workerinput"):
        return
    if find_spec("vllm"):
        return  # vLLM 0.32 for CPUs fails to load a model after numba was imported
    # Collections scan a million objects that live to the end.
    gc.disable()
    ours = walk_packages(pytest_evals.__path__, "pytest_evals.")
    for name in (*LIBRARIES, *(module.name for module in ours)):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            # An environment for lighteval lacks libraries that other tests need.
            if (error.name or "").partition(".")[0] == "pytest_evals":
                raise
    gc.enable()
    gc.freeze()


MOST_VARIANTS = {"messages": 2, "models": 1, "parity": 2, "plugin": 2}
"""Folder → number of variants of one test among the quick tests. Here a variant is a
whole run, or one more architecture of models."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark further variants as slow: together they take as long as all other tests."""
    variants: Counter[str] = Counter()
    for item in items:
        if not isinstance(item, pytest.Function):
            continue  # a document of a run in a folder of the tests
        folders = [one.name for one in item.path.parents if one.parent == TESTS]
        folder = folders[0] if folders else ""
        if folder not in MOST_VARIANTS or {"slow", "nightly"} & {*item.keywords}:
            continue
        name = item.nodeid.partition("[")[0]
        variants[name] += 1
        if variants[name] > MOST_VARIANTS[folder]:
            item.add_marker(pytest.mark.slow)


class ShortTraceback:
    """The terminal formats each frame of an interrupted session, which takes as long as
    a short run, and shows the last one only."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo) -> None:
        excinfo.traceback = excinfo.traceback[-1:]


@pytest.fixture
def pytester(pytester: pytest.Pytester) -> pytest.Pytester:
    """pytest's, whose in-process runs get the plugins as modules: pytest looks for
    their names in ``PYTEST_PLUGINS`` among the entry points of all distributions, which
    takes a tenth of a short run."""
    names = os.environ["PYTEST_PLUGINS"].split(",")
    run: Callable[..., pytest.HookRecorder] = pytester.inline_run
    plugins = [*map(import_module, names), ShortTraceback()]
    pytester.inline_run = partial(run, plugins=plugins)  # type: ignore[method-assign]
    return pytester


WITHOUT_LM_EVAL = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "lm_eval":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
"""


@pytest.fixture(scope="session")
def without_lm_eval() -> str:
    """Code after which importing lm-eval fails as if it were not installed."""
    return WITHOUT_LM_EVAL


# Hundreds of processes import this package: they reuse its bytecode.
SET_OUTSIDE = (
    "CI",
    "BUILD_NUMBER",
    "COLUMNS",
    "GITHUB_ACTIONS",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_WORKSPACE",
    "HF_DATASETS_OFFLINE",
    "HF_HUB_OFFLINE",
    "PYTEST_ADDOPTS",
)
for name in (*SET_OUTSIDE, "PYTHONDONTWRITEBYTECODE"):
    os.environ.pop(name, None)

# The models here are tiny: a second thread costs more than it saves, especially if
# each worker has one core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell that starts a run in the background makes it and its children ignore
# Ctrl-C, and some tests would wait for it forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
os.environ["PYTEST_PLUGINS"] = "pytest_evals.plugin.hooks,xdist.plugin"

if find_spec("hypothesis"):
    from hypothesis import HealthCheck, settings

    # The duration of an example depends on the machine, not on the code.
    settings.register_profile(
        "patient",
        deadline=None,
        max_examples=30,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.register_profile(
        "nightly", settings.get_profile("patient"), max_examples=2_000
    )
    settings.load_profile("patient")
