"""Reads adapter files: a template from model input to request body, and one from reply
to model output."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from pytest_evals.dialects.latticeflow.entities import Entity
from pytest_evals.dialects.latticeflow.fields import read_header, template
from pytest_evals.dialects.latticeflow.prompts.items import wrap
from pytest_evals.dialects.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Problem, TaskFileError
from pytest_evals.models.latticeflow.adapters import Adapter, ModelInfo, parsed


def read_adapter(entity: Entity) -> Adapter:
    """Return the adapter of a file in which all secrets are filled in."""
    problems: list[Problem] = []
    top = Section(entity.file, problems)
    read_header(top, "a model adapter", ("key", "display_name"), provided=True)
    top.text("provider")
    for ignored in ("secrets", "task"):
        top.raw(ignored)
    to_body, to_output = (
        _read_template(top, "process_input"),
        _read_template(top, "process_output"),
    )
    top.close("a model adapter")
    if problems or to_body is None or to_output is None:
        raise TaskFileError(problems)
    sources = json.dumps([to_body.text, to_output.text])
    return Adapter(
        key=f"{entity.key}:{hashlib.sha256(sources.encode()).hexdigest()}",
        to_body=_request_writer(to_body),
        to_output=_output_reader(to_output),
        takes_faults="status_code" in to_output.text,
    )


def _read_template(top: Section, key: str) -> SampleTemplate | None:
    inner = top.section(key)
    if inner is None:
        if top.values.get(key) is None:
            fix = f"{key}: {{language: jinja, source_code: …}}"
            top.problem(key, f"{key} is missing", fix)
        return None
    inner.one_of("language", "language", ("jinja",), "jinja")
    result = template(inner, "source_code", "{{ input | tojson }}")
    inner.close(key)
    return result


def _request_writer(
    template: SampleTemplate,
) -> Callable[[Any, Mapping[str, Any], ModelInfo], str]:
    def to_body(model_input: Any, kwargs: Mapping[str, Any], info: ModelInfo) -> str:
        variables = {
            "input": wrap(model_input),
            "kwargs": wrap(kwargs),
            "model_info": _model_info(info),
        }
        return template.render(variables)

    return to_body


def _output_reader(template: SampleTemplate) -> Callable[[str, int, ModelInfo], Any]:
    def to_output(text: str, status: int, info: ModelInfo) -> Any:
        variables = {
            "body": text,
            "status_code": status,
            "model_info": _model_info(info),
        }
        return parsed(template.render(variables), f"{template.place}: process_output")

    return to_output


def _model_info(info: ModelInfo) -> Mapping[str, str]:
    return {
        "model_key": info.model_key,
        "task": info.task,
        "modality": info.modality,
    }
