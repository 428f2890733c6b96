"""Checks of options: contradictions, and the ini file in which an invalid value is set.

Standard library and pytest only: this is imported in every pytest run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.errors import OptionError
from pytest_evals.plugin.settings.option_table import TABLE, Option
from pytest_evals.plugin.settings.parser import ini_value
from pytest_evals.run.profile import PROFILES, RELEASE, conflict, policy_of

if TYPE_CHECKING:
    from pytest_evals.models.names import NamedModel

_PATHS = (
    *("latticeflow-allow-code", "dir", "html", "include-path", "json", "markdown"),
    *("run-dir", "merge"),
)
"""Options with paths, which are bytes: any of them is valid."""

_NO_RUN = "contradict each other: no run is saved"

_WHOLE = {
    "only": "both choose documents",
    "repeatability": "contradict each other: repeatability is measured on whole runs",
}
"""Options of whole runs, and why a part cannot have them."""
_TOGETHER = (
    (("limit", "sample"), "both choose documents"),
    (
        ("validate", "plan", "cache-info", "repeatability", "prefetch"),
        "are different kinds of runs",
    ),
    *(((one, "shard"), why) for one, why in _WHOLE.items()),
    *(((one, "merge"), "contradict each other") for one in (*_WHOLE, "shard")),
    (("prefetch", "locked"), "contradict each other: the first one writes evals.lock"),
    (("validate", "save-baseline"), _NO_RUN),
    (("plan", "save-baseline"), _NO_RUN),
    (("cache-info", "save-baseline"), _NO_RUN),
)
"""Mutually exclusive options, with the reason."""


def check_encoding(raw: Mapping[str, Any]) -> None:
    """Refuse text that cannot be encoded as UTF-8: results files cannot contain it."""
    for option in TABLE:
        value = raw[option.name]
        texts = value if isinstance(value, list) else [value]
        if option.name in _PATHS or all(str(one).isascii() for one in texts):
            continue
        from pytest_evals.core.cli_values import encoding_fault

        fault = encoding_fault(value)
        if fault:
            raise pytest.UsageError(f"{option.flag}: {fault}")


_OF_ONE_MODEL = {
    "repeatability": (
        "measures one model",
        "measure each in its own run, with --model=SPEC on the command line",
    ),
    "ray": (
        "serves one model",
        "name the cluster in each spec, as in --model=ray:hf:gpt2,address=auto",
    ),
}
"""Options that need a single model, with the reason."""


def check_several(raw: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse options that need a single model, an unknown reference, and two
    models that would be saved as one baseline. ``names``: those of the models."""
    if raw["reference"] and raw["reference"] not in names:
        from pytest_evals.errors import unknown_name

        text = unknown_name("model", raw["reference"], names)
        raise pytest.UsageError(f"--evals-reference: {text}")
    for name, (why, fix) in _OF_ONE_MODEL.items():
        if raw[name]:
            raise pytest.UsageError(
                f"--evals-{name} {why}, and several are given with --model\n"
                f"  fix: {fix}"
            )
    if raw["save-baseline"]:
        from pytest_evals.store.baselines import check_model_names

        with usage_errors():
            check_model_names(raw["save-baseline"], names)


def check_together(raw: Mapping[str, Any]) -> None:
    """Refuse options that contradict each other."""
    for names, why in _TOGETHER:
        flags = [f"--evals-{name}" for name in names if raw[name]]
        if len(flags) > 1:
            raise pytest.UsageError(f"{flags[0]} and {flags[1]} {why}; give one")
    if raw["cache"] == "only" and raw["repeatability"]:
        raise pytest.UsageError(
            "--evals-cache=only and --evals-repeatability contradict each other: "
            "repeated runs need the model; give one"
        )
    if raw["stop"] != "off" and (raw["shard"] or raw["merge"]):
        part = "merge" if raw["merge"] else "shard"
        raise pytest.UsageError(
            f"--evals-stop={raw['stop']} and --evals-{part} contradict each other: "
            "gates are judged over all parts; give --evals-stop=off"
        )
    if raw["save-failed"] and not raw["save-baseline"]:
        raise pytest.UsageError(
            "--evals-save-failed needs the name of a baseline: give "
            "--evals-save-baseline too"
        )


def check_commands(
    config: pytest.Config, raw: Mapping[str, Any], models: Iterable[NamedModel]
) -> None:
    """Refuse commands of servers that the user has not typed, and a permission that a
    file gives itself: one from an ini file, ``addopts`` or the environment."""
    if not (raw["allow-server-commands"] or models or raw["judge"]):
        return
    from pytest_evals.models.registry import parse_spec
    from pytest_evals.models.spec import is_command

    typed = [str(one) for one in config.invocation_params.args]
    flag = "--evals-allow-server-commands"
    if raw["allow-server-commands"] and flag not in typed:
        raise pytest.UsageError(
            f"{flag} is not on the command line, but in addopts or PYTEST_ADDOPTS\n"
            "  fix: write it on the command line"
        )
    specs = [(one.spec, "model") for one in models] + [(raw["judge"], "judge")]
    for spec, name in specs:
        is_typed = any(one == spec or one.endswith(f"={spec}") for one in typed)
        if is_command(spec) and not (is_typed or raw["allow-server-commands"]):
            raise pytest.UsageError(
                f"--evals-{name} would execute a command that is not from the command "
                f"line\n  fix: if you trust the file that it is from, add {flag}"
            )
        if is_command(spec):
            with usage_errors():
                parse_spec(spec)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Raise an ``OptionError`` of the block as ``pytest.UsageError``."""
    try:
        yield
    except OptionError as error:
        raise pytest.UsageError(str(error)) from None


def with_place(config: pytest.Config, error: pytest.UsageError) -> pytest.UsageError:
    """Return the error with the ini key and file of each option that it names."""
    text = str(error)
    places = [
        _place(config, option)
        for option in TABLE
        if option.ini
        and re.search(rf"{option.flag}(?![\w-])", text)
        and config.getoption(option.dest) is None
        and ini_value(config, option)
    ]
    return pytest.UsageError("\n  ".join([text, *places])) if places else error


def _place(config: pytest.Config, option: Option) -> str:
    typed = config.getoption("override_ini", None) or ()
    if any(one.partition("=")[0].strip() == option.dest for one in typed):
        return f"{option.flag} is set by -o {option.dest}"
    back = "" if option.kind == "flag" else f"; {option.flag}= overrides it"
    return f"{option.flag} is set by {option.dest} in {config.inipath}{back}"


def apply_profile(config: pytest.Config, raw: dict[str, Any]) -> None:
    """Set the options of the profile; refuse an unknown one, and options that
    contradict it."""
    name = raw["profile"]
    if name not in PROFILES:
        from pytest_evals.errors import suggestion

        hint = suggestion(name, PROFILES)
        raise pytest.UsageError(f"--evals-profile={name}: unknown profile{hint}")
    if name != RELEASE:
        return
    policy = given(config, "inconclusive")
    found = conflict(name, raw["limit"], raw["sample"], policy)
    if found is not None:
        raise pytest.UsageError(
            f"--evals-{found.setting}={found.value} and --evals-profile={name} "
            f"contradict each other: {found.why}; give one"
        )
    raw["inconclusive"] = policy_of(name)
    if given(config, "min-overlap") is None:
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


def given(config: pytest.Config, name: str) -> Any:
    """Return the value of an option that was typed or is in the ini file."""
    option = next(one for one in TABLE if one.name == name)
    typed = config.getoption(option.dest)
    return ini_value(config, option) if typed is None else typed
