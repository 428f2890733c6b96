"""The registry of model kinds, the hook in front of it, and user models."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest

from pytest_evals import ModelError, Response
from pytest_evals.core.model import NO_FINGERPRINT, Model
from pytest_evals.core.registry import MODEL_KINDS
from pytest_evals.core.request import Generate, Message
from pytest_evals.core.response_contract import as_model
from pytest_evals.errors import OptionError
from pytest_evals.models.registry import (
    KINDS,
    ModelHook,
    ModelKind,
    TaskRequirements,
    answering,
    check_ready,
    check_spec,
    fingerprint_of,
    open_model,
    open_tokenizer,
    parse_spec,
    why_unfit,
)
from pytest_evals.models.spec import ModelSpec

CHAT = (Message("user", "Hello"),)
ALL_KINDS = [
    pytest.param(name, marks=[pytest.mark.guests] if name in MODEL_KINDS else [])
    for name in KINDS
]


class Plain:
    """A model with the required methods only."""

    def __init__(self, name="plain"):
        self.name = name

    def answer(self, requests):
        return [(i, Response(text="yes")) for i, _ in enumerate(requests)]


class Full(Plain):
    """A model with all optional methods."""

    works_ahead = True
    notes = ("a note",)

    def __init__(self):
        super().__init__("full")
        self.info = {"size": 3}
        self.fingerprint = {"version": 1}
        self.heard = []

    def expect(self, requests):
        self.heard.append(requests)

    def render(self, prompt):
        return "rendered"

    def close(self):
        self.heard.append("close")


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_the_registry_loads_no_kind_until_a_spec_names_it():
    kinds = "[m for m in sys.modules if m.startswith('pytest_evals.models.')]"
    code = (
        "import json, sys; from pytest_evals.models.registry import *;"
        f"first = {kinds}; spec = parse_spec('scripted:first'); check_spec(spec);"
        f"print(json.dumps([first, {kinds}]))"
    )
    first, then = run(code)
    own = {"pytest_evals.models.registry", "pytest_evals.models.spec"}
    assert {*first} == own
    assert {*then} == {*own, "pytest_evals.models.scripted"}


@pytest.mark.parametrize("name", ALL_KINDS)
def test_a_kind_is_imported_without_its_libraries(name):
    heavy = {"torch", "transformers", "openai", "httpx", "ray", "numpy", "jinja2"}
    code = (
        "import json, sys; from pytest_evals.models.registry import KINDS;"
        f"kind = KINDS[{name!r}]; print(json.dumps([kind.name, *sys.modules]))"
    )
    found, *modules = run(code)
    assert found == name
    assert not heavy & {*modules}


@pytest.mark.parametrize("name", ALL_KINDS)
def test_the_example_of_a_kind_is_one_of_its_specs(name):
    assert parse_spec(KINDS[name].example).kind == name


def test_a_kind_needs_only_a_way_to_open_it(monkeypatch):
    kind = ModelKind(
        name="plain", example="plain:x", open=lambda spec: as_model(Plain(), "")
    )
    monkeypatch.setitem(KINDS._entries, "plain", kind)
    spec = parse_spec("plain:x,any=thing")
    check_spec(spec)
    check_ready(spec)
    assert open_model(spec).name == "plain"
    assert answering(spec) is spec
    assert open_tokenizer(spec) is None
    assert fingerprint_of(spec, str) is None
    assert (
        why_unfit(spec, TaskRequirements("multiple_choice", chat=True, images=True))
        == ""
    )
    with pytest.raises(FrozenInstanceError):
        kind.name = "other"


@pytest.mark.guests
def test_replicas_are_of_kinds_that_run_where_they_are_opened():
    assert {name for name in KINDS if KINDS[name].is_local} == {"hf", "scripted"}
    spec = parse_spec("ray:scripted:first,replicas=2")
    assert answering(spec) == ModelSpec(kind="scripted", target="first")
    with pytest.raises(OptionError, match="replicates hf and scripted models, not 'op"):
        check_spec(parse_spec("ray:openai:gpt"))


def test_optional_members_of_a_plain_object_have_defaults():
    model = as_model(Plain(), "a test")
    assert isinstance(model, Model)
    assert (model.name, model.works_ahead) == ("plain", False)
    assert (dict(model.info), [*model.notes]) == ({}, [])
    assert model.fingerprint is NO_FINGERPRINT
    assert model.render(CHAT) == CHAT
    model.expect([Generate("a")])
    model.close()
    assert str(model) == "Plain 'plain'"
    assert [*model.answer([Generate("a")])] == [(0, Response(text="yes"))]


def test_a_plain_object_may_have_optional_attributes_and_change_them():
    given = Full()
    model = as_model(given, "a test")
    assert (model.works_ahead, model.info) == (True, {"size": 3})
    assert (model.notes, model.fingerprint) == (("a note",), {"version": 1})
    assert model.render(CHAT) == "rendered"
    model.expect([1])
    model.close()
    assert given.heard == [[1], "close"]
    given.notes, given.info, given.fingerprint = ["later"], None, None
    assert (model.notes, dict(model.info), model.fingerprint) == (["later"], {}, None)


def test_a_subclass_may_define_members_in_any_way():
    class Mine(Model):
        name = "mine"
        notes = ["constant"]  # noqa: RUF012

        def __init__(self):
            self.info = {"n": 0}

        @property
        def works_ahead(self):
            return bool(self.info["n"])

        def answer(self, requests):
            self.info["n"] += len(requests)
            yield from ()

    model = Mine()
    assert as_model(model, "a test") is model
    assert not model.works_ahead
    assert [*model.answer([1, 2])] == []
    assert (model.works_ahead, model.info) == (True, {"n": 2})
    assert (model.notes, model.fingerprint) == (["constant"], NO_FINGERPRINT)


@pytest.mark.parametrize("given", [None, 7, "hf:gpt2", {"name": "x"}, Plain, object()])
def test_other_objects_are_refused_with_their_source(given):
    with pytest.raises(ModelError, match=r"^the fixture eval_model gave .* is not a"):
        as_model(given, "the fixture eval_model")


def hook(opened, exists=True):
    calls = []

    def call(text):
        calls.append(text)
        found = opened(text)
        return Plain(text) if found is True else found or None

    return ModelHook(lambda: exists, call), calls


def test_a_hook_is_called_once_a_spec():
    models, calls = hook(lambda text: text == "hf:mine")
    assert not models.takes("hf:other")
    assert models.open("hf:other") is None
    assert not models.has_opened
    assert models.takes("hf:mine")
    assert models.open("hf:mine").name == "hf:mine"
    assert models.takes("hf:mine")
    assert calls == ["hf:other", "hf:mine"]
    assert models.has_opened
    assert models.open("hf:mine").name == "hf:mine", "another one, since that is in use"


def test_a_hook_is_not_called_to_find_out_who_opens_a_kind_of_its_own():
    models, calls = hook(lambda text: True)
    assert models.takes("constant:yes")
    assert calls == []


def test_without_a_hook_nothing_is_called():
    models, calls = hook(lambda text: True, exists=False)
    assert not models.takes("hf:x")
    assert not models.takes("constant:x")
    assert models.open("hf:x") is None
    assert calls == []


def test_an_unused_model_of_a_hook_is_closed():
    opened = Full()
    models, _ = hook(lambda text: opened)
    assert models.takes("hf:x")
    models.close()
    models.close()
    assert opened.heard == ["close"]


def test_an_error_of_a_hook_is_raised_where_its_model_is_needed():
    def fails(text):
        raise ModelError("no room")

    models, _ = hook(fails)
    assert models.takes("hf:x")
    with pytest.raises(ModelError, match="no room"):
        models.open("hf:x")
    assert models.has_opened
