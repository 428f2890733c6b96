"""Reads adapter files: a template from model input to request body, and one from reply
to model output."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Problem, TaskFileError
from pytest_evals.guests.latticeflow.entities import Entity
from pytest_evals.guests.latticeflow.fields import (
    read_header,
    required_section,
    template,
)
from pytest_evals.guests.latticeflow.models.adapters import Adapter, ModelInfo, parsed
from pytest_evals.guests.latticeflow.prompts.items import wrap
from pytest_evals.guests.latticeflow.prompts.templates import SampleTemplate


def read_adapter(entity: Entity) -> Adapter:
    """Return the adapter of a file in which all secrets are filled in."""
    problems: list[Problem] = []
    top = Section(entity.file, problems)
    read_header(top, "a model adapter", ("key", "display_name"), provided=True)
    top.text("provider")
    for ignored in ("secrets", "task"):
        top.raw(ignored)
    request = _read_template(top, "process_input")
    reply = _read_template(top, "process_output")
    top.close("a model adapter")
    if problems or request is None or reply is None:
        raise TaskFileError(problems)

    def to_body(model_input: Any, kwargs: Mapping[str, Any], info: ModelInfo) -> str:
        given = {"input": wrap(model_input), "kwargs": wrap(kwargs)}
        return request.render({**given, "model_info": _model_info(info)})

    def to_output(text: str, status: int, info: ModelInfo) -> Any:
        given = {"body": text, "status_code": status, "model_info": _model_info(info)}
        return parsed(reply.render(given), f"{reply.place}: process_output")

    sources = json.dumps([request.text, reply.text])
    return Adapter(
        key=f"{entity.key}:{hashlib.sha256(sources.encode()).hexdigest()}",
        to_body=to_body,
        to_output=to_output,
        takes_faults="status_code" in reply.text,
    )


def _read_template(top: Section, key: str) -> SampleTemplate | None:
    inner = required_section(top, key, "{language: jinja, source_code: …}")
    if inner is None:
        return None
    inner.one_of("language", "language", ("jinja",), "jinja")
    result = template(inner, "source_code", "{{ input | tojson }}")
    inner.close(key)
    return result


def _model_info(info: ModelInfo) -> Mapping[str, str]:
    own = ("model_key", "task", "modality")
    return {name: getattr(info, name) for name in own}
