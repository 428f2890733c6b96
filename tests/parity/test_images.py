"""Images of lm-eval's tasks are sent to servers as lm-eval 0.4.13 sends them.

``record_images.py`` stored the messages of lm-eval's ``local-chat-completions``.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_evals.core.request import Generate
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.lm_eval.task import load_tasks
from pytest_evals.models.openai.request_bodies import request_body
from pytest_evals.models.openai.settings import read_settings
from pytest_evals.models.registry import parse_spec

IMAGES = Path(__file__).resolve().parent / "images"
_SPEC = importlib.util.spec_from_file_location("images", IMAGES / "images.py")
images = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(images)


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.json")), ids=lambda p: p.stem)
def test_messages_are_lm_evals(path):
    pytest.importorskip("PIL")
    options = TaskOptions(chat=True, system_instruction="Be brief.")
    (task,) = load_tasks(path.with_suffix(".yaml"), options)
    settings = read_settings(parse_spec("openai:any,base_url=http://127.0.0.1:1/v1"))
    ours = []
    for index in task.rows.indices():
        (request,) = task.ask(index).requests
        assert isinstance(request, Generate)
        ours.append(images.readable(request_body(request, settings)[1]["messages"]))
    theirs = json.loads(path.read_text(encoding="utf-8"))["messages"]
    assert sorted(ours, key=_text) == sorted(theirs, key=_text)


def _text(messages: list[dict[str, Any]]) -> str:
    """The last user message: a text, after the images."""
    text: str = messages[-1]["content"][-1]["text"]
    return text
