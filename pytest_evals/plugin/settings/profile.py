"""Profiles: options that belong together, under one name.

Standard library and pytest only: this is imported in every pytest run.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evals.plugin.settings.ini import ini_value
from pytest_evals.plugin.settings.option_table import TABLE
from pytest_evals.run.profile import PROFILES, RELEASE, conflict, policy_of


def apply_profile(config: pytest.Config, raw: dict[str, Any]) -> None:
    """Set the options of the profile.

    Args:
        raw: Name of an option → its value; changed in place.

    Raises:
        pytest.UsageError: The profile is unknown, or another option contradicts it.
    """
    name = raw["profile"]
    if name not in PROFILES:
        from pytest_evals.errors import suggestion

        hint = suggestion(name, PROFILES)
        raise pytest.UsageError(f"--evals-profile={name}: unknown profile{hint}")
    if name != RELEASE:
        return
    policy = _given(config, "inconclusive")
    found = conflict(name, raw["limit"], raw["sample"], policy)
    if found is not None:
        raise pytest.UsageError(
            f"--evals-{found.setting}={found.value} and --evals-profile={name} "
            f"contradict each other: {found.why}; give one"
        )
    raw["inconclusive"] = policy_of(name)
    if _given(config, "min-overlap") is None:
        raw["min-overlap"] = "1"


def profile_line(name: str) -> list[str]:
    """What the profile changes, for the header of a run; nothing for the default."""
    if name != RELEASE:
        return []
    return [
        "evals: profile release: inconclusive gates fail; thresholds without 'over' "
        "count as over: population; all documents (no limit, no sample); all documents "
        "of a baseline are compared"
    ]


def _given(config: pytest.Config, name: str) -> Any:
    """The value of an option that was typed or is in the ini file."""
    option = next(one for one in TABLE if one.name == name)
    typed = config.getoption(option.dest)
    return ini_value(config, option) if typed is None else typed
