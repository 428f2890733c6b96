"""The key ``model`` of an eval: a spec, or a mapping of a server to start."""

from __future__ import annotations

from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.models.spec import command_spec

_ARGUMENTS = {"ready": "ready", "timeout": "startup_timeout", "model": "model"}
"""Keys of the mapping that are arguments of ``serve:`` specs → their names there."""


def read_model(top: Section) -> str | None:
    """The spec of the eval's own model, or ``None``; problems are collected."""
    if not isinstance(top.values.get("model"), dict):
        return top.name("model")
    section = top.section("model")
    if section is None:
        return None
    command = section.text("serve")
    if not command:
        fix = "serve: vllm serve org/name"
        section.problem("serve", "the server's command is missing", fix)
    environment = _texts(section, "env")
    arguments = _texts(section, "args")
    for key, name in _ARGUMENTS.items():
        value = section.take(key, (str, int, float), "")
        if value != "":
            arguments[name] = str(value)
    section.close("a server")
    return command_spec(command, environment, arguments)


def _texts(section: Section, key: str) -> dict[str, str]:
    """A mapping with values as arguments of specs have them."""
    found = section.take(key, dict, {})
    plain = {
        str(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in found.items()
        if isinstance(value, str | int | float)
    }
    if len(plain) < len(found):
        message = f"{key} must map names to strings, numbers and flags"
        section.problem(key, message, f"{key}: {{NAME: value}}")
    return plain
