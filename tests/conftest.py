"""What all tests share: modules that are imported before any run inside this process.

pytester forgets the modules that such a run has imported. Libraries with compiled parts
cannot be imported twice, and of our own classes there must be one each, whichever test
is the first.

And what a CI server sets, by which pytest prints other lines than on a desk, is unset.
Runs inside tests look for no plugins in the whole environment, which takes longer than
most of them: they get ours and pytest-xdist. That ours is found by its entry point is
seen by the README's command for the example suites.
"""

import os
from importlib import import_module
from pkgutil import walk_packages

import datasets  # noqa: F401
import jinja2  # noqa: F401
import numpy  # noqa: F401
import pandas  # noqa: F401
import scipy.optimize  # noqa: F401
import transformers.modeling_utils  # noqa: F401
from hypothesis import HealthCheck, settings

import pytest_evals

for module in walk_packages(pytest_evals.__path__, "pytest_evals."):
    import_module(module.name)

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

os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
os.environ["PYTEST_PLUGINS"] = "pytest_evals.plugin.hooks,xdist.plugin"

# How long an example takes says something of the machine and nothing of the code.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
