"""An adapter file: two templates between a model's input and the body of a call, and
between its reply and the model's output."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from pytest_evals.dialects.latticeflow.entities import Entity
from pytest_evals.dialects.latticeflow.header import read_header
from pytest_evals.dialects.latticeflow.prompts.message_types import wrapped
from pytest_evals.dialects.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.dialects.latticeflow.solvers.template_fields import template
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Problem, TaskFileError
from pytest_evals.models.latticeflow.adapters import Adapter, ModelInfo, parsed


def read_adapter(entity: Entity) -> Adapter:
    """The adapter of a file, with all secrets put in.

    Raises:
        TaskFileError: With all problems of the file.
    """
    problems: list[Problem] = []
    top = Section(entity.file, problems)
    read_header(top, "a model adapter", ("key", "display_name"), provided=True)
    top.text("provider")
    for ignored in ("secrets", "task"):
        top.raw(ignored)
    to_body, to_output = _side(top, "process_input"), _side(top, "process_output")
    top.close("a model adapter")
    if problems or to_body is None or to_output is None:
        raise TaskFileError(problems)
    told = json.dumps([to_body.text, to_output.text])
    return Adapter(
        key=f"{entity.key}:{hashlib.sha256(told.encode()).hexdigest()}",
        to_body=_writer(to_body),
        to_output=_reader(to_output),
        takes_faults="status_code" in to_output.text,
    )


def _side(top: Section, key: str) -> SampleTemplate | None:
    inner = top.section(key)
    if inner is None:
        if top.values.get(key) is None:
            fix = f"{key}: {{language: jinja, source_code: …}}"
            top.problem(key, f"{key} is missing", fix)
        return None
    inner.one_of("language", "language", ("jinja",), "jinja")
    found = template(inner, "source_code", "{{ input | tojson }}")
    inner.close(key)
    return found


def _writer(
    template: SampleTemplate,
) -> Callable[[Any, Mapping[str, Any], ModelInfo], str]:
    def to_body(given: Any, kwargs: Mapping[str, Any], info: ModelInfo) -> str:
        variables = {
            "input": wrapped(given),
            "kwargs": wrapped(kwargs),
            "model_info": _told(info),
        }
        return template.render(variables)

    return to_body


def _reader(template: SampleTemplate) -> Callable[[str, int, ModelInfo], Any]:
    def to_output(text: str, status: int, info: ModelInfo) -> Any:
        variables = {"body": text, "status_code": status, "model_info": _told(info)}
        return parsed(template.render(variables), f"{template.place}: process_output")

    return to_output


def _told(info: ModelInfo) -> Mapping[str, str]:
    return {
        "model_key": info.model_key,
        "task": info.task,
        "modality": info.modality,
    }
