"""Profiles: named combinations of settings. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from pytest_evals.core.gate import Policy

Profile = Literal["", "default", "release"]
"""The name of a profile; empty is the default one."""
PROFILES = ("default", "release")
RELEASE = "release"
_ALL_DOCUMENTS = "a release is judged over all documents"


class Conflict(NamedTuple):
    """A setting that contradicts the profile, and the reason."""

    setting: str
    value: Any
    why: str


def policy_of(profile: str) -> Policy:
    """The default meaning of inconclusive verdicts."""
    return "fail" if profile == RELEASE else "warn"


def conflict(
    profile: str, limit: float | None, sample: float | None, policy: object = None
) -> Conflict | None:
    """The first of these settings that contradicts the profile."""
    if profile != RELEASE:
        return None
    for setting, value in (("limit", limit), ("sample", sample)):
        if value:
            return Conflict(setting, value, _ALL_DOCUMENTS)
    if policy not in (None, "", "fail"):
        return Conflict("inconclusive", policy, "inconclusive gates fail a release")
    return None
