"""Variants of an eval's prompt: ``variants: {short: "…", long: "…"}`` instead of
``prompt``. Each becomes a task, with the same rows, scorers and gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pytest_evals.core.node_names import is_node_name, unfit_id
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import Step, YamlFile
from pytest_evals.errors import Place, Problem

VARIANTS = "variants"
_FIX = 'variants: {short: "{{question}}", long: "Question: {{question}}"}'
_LONGEST = 64
"""Maximum characters of a name, which is in the id of each document."""


def variants_of(top: Section) -> Iterator[tuple[str, Section]]:
    """Yield the name of each variant, and the eval with its prompt; without variants,
    the eval itself under an empty name. Problems are added to the section."""
    if VARIANTS not in top:
        yield "", top
        return
    given = top.take(VARIANTS, dict, {})
    if not given and not top.problems:
        top.problem(VARIANTS, "variants is empty", _FIX)
    for key in ("prompt", "turns"):
        if key in top:
            fix = "make it one of the variants"
            top.problem(key, f"{key} and variants are both set", fix)
            return
    for name, prompt in given.items():
        fault = _fault(name)
        if not fault and not (prompt and isinstance(prompt, str | list)):
            fault = f"{name} must be text or a list of messages"
        if fault:
            place = top.file.place(VARIANTS, name)
            top.problems.append(Problem(f"variants: {fault}", place, _FIX))
            continue
        yield str(name), Section(_file_of(top, name), top.problems)


def _fault(name: object) -> str:
    if not isinstance(name, str):
        return f"a variant's name must be text, not {name!r}"
    is_fit = is_node_name(name) and unfit_id([name]) is None
    if not is_fit or not name.strip() or len(name) > _LONGEST or "/" in name:
        return f"{name!r} is not a valid name: use letters, digits and dashes"
    return ""


def _file_of(top: Section, name: str) -> YamlFile:
    """Return the file as if it had this variant as its prompt."""
    file, start = top.file, (VARIANTS, name)
    values = {key: one for key, one in file.values.items() if key != VARIANTS}
    values["prompt"] = file.values[VARIANTS][name]
    if (text := file.written(file.values[VARIANTS]).get(name)) is not None:
        values["prompt"] = text
    unquoted = {**file.unquoted, id(values): (values, file.written(file.values))}
    return replace(
        file,
        values=values,
        lines=_moved(file.lines, start),
        texts=_moved(file.texts, start),
        unquoted=unquoted,
    )


def _moved(
    places: Mapping[tuple[Step, ...], Place], start: tuple[Step, ...]
) -> dict[tuple[Step, ...], Place]:
    """Return the places with those of a variant as those of the prompt."""
    n = len(start)
    moved = {
        ("prompt", *steps[n:]): place
        for steps, place in places.items()
        if steps[:n] == start
    }
    return {**places, **moved}
