"""What all tests share: modules that are imported before any run inside this process.

pytester forgets the modules that such a run has imported. Libraries with compiled parts
cannot be imported twice, and of our own classes there must be one each, whichever test
is the first. The controller of workers runs no test: it imports none of them, so that
its workers start at once.

And what a CI server sets, by which pytest prints other lines than on a desk, is unset.
Runs inside tests look for no plugins in the whole environment, which takes longer than
most of them: they get ours and pytest-xdist. That ours is found by its entry point is
seen by the README's command for the example suites.
"""

import os
import signal
from importlib import import_module
from pkgutil import walk_packages

import pytest
from hypothesis import HealthCheck, settings

import pytest_evals

LIBRARIES = (
    "datasets",
    "jinja2",
    "numpy",
    "pandas",
    "scipy.optimize",
    "transformers.modeling_utils",
)


def pytest_configure(config: pytest.Config) -> None:
    """Import what is to be imported once."""
    if getattr(config.option, "tx", None) and not hasattr(config, "workerinput"):
        return
    for name in LIBRARIES:
        import_module(name)
    for module in walk_packages(pytest_evals.__path__, "pytest_evals."):
        import_module(module.name)


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
    """Code after which Python says of lm-eval what an environment without it says."""
    return WITHOUT_LM_EVAL


# Hundreds of processes are started that import this package: they keep its bytecode.
SET_OUTSIDE = (
    "CI",
    "BUILD_NUMBER",
    "COLUMNS",
    "GITHUB_ACTIONS",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_WORKSPACE",
    "PYTEST_ADDOPTS",
)
for name in (*SET_OUTSIDE, "PYTHONDONTWRITEBYTECODE"):
    os.environ.pop(name, None)

# The models here are tiny: a second thread costs more than it gives, all the more where
# each worker has a core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell that starts a run in the background lets it and its children ignore Ctrl-C,
# for which some tests would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
os.environ["PYTEST_PLUGINS"] = "pytest_evals.plugin.hooks,xdist.plugin"

# How long an example takes says something of the machine and nothing of the code.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "nightly", settings.get_profile("patient"), max_examples=2_000
)
settings.load_profile("patient")
