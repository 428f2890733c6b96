"""The arguments of replicas, without Ray."""

from __future__ import annotations

import pytest

from pytest_evals.errors import MissingExtraError, OptionError
from pytest_evals.guests.ray import kind
from pytest_evals.guests.ray.settings import RaySettings, read_settings
from pytest_evals.models.registry import (
    answering,
    check_spec,
    fingerprint_of,
    parse_spec,
)


def test_arguments_that_are_not_about_the_cluster_are_the_models():
    spec = parse_spec(
        'ray:hf:"a,b",dtype=bf16,replicas=4,gpus=0.5,address=ray://head:10001'
    )
    assert read_settings(spec) == RaySettings(
        address="ray://head:10001", replicas=4, gpus=0.5
    )
    inner = answering(spec)
    assert (inner.kind, inner.target) == ("hf", "a,b")
    assert inner.arguments == {"dtype": "bf16"}


@pytest.mark.parametrize(
    "address", ["auto", "local", "10.0.0.1:6379", "ray://a-b.c:10001", "[::1]:6379"]
)
def test_addresses(address):
    assert read_settings(parse_spec(f"ray:scripted:first,address={address}")).address


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "address=evals/",
            "'evals/' is not the address of a Ray cluster; write HOST:6379",
        ),
        ("address=evals/a.yaml::a[1]", "is not the address of a Ray cluster"),
        ("replicas=0", "the ray model's replicas is '0'; write a whole number from 1"),
        ("gpus=1.5", "gpus is '1.5'; write a share such as 0.5, or 1, 2, …"),
        ("gpus=-1", "gpus is '-1'; write a share"),
        ("cpus=nan", "cpus is 'nan'; write a share"),
        ("replica=2", "the scripted model takes no argument 'replica'"),
    ],
)
def test_an_invalid_setting_is_reported_before_a_cluster_is_joined(arguments, message):
    with pytest.raises(OptionError) as caught:
        check_spec(parse_spec(f"ray:scripted:first,{arguments}"))
    assert message in str(caught.value)


def test_one_device_of_one_machine_is_refused(tiny_model_path):
    check_spec(parse_spec(f"ray:hf:{tiny_model_path},device=cuda"))
    with pytest.raises(OptionError, match="Ray gives each replica its own; leave the"):
        check_spec(parse_spec(f"ray:hf:{tiny_model_path},device=cuda:1"))


def test_servers_are_not_replicated():
    with pytest.raises(OptionError, match="not 'openai'; a server is asked with conc"):
        check_spec(parse_spec("ray:openai:gpt-4o"))


@pytest.mark.parametrize("name", ["replicas", "gpus"])
def test_replicas_without_a_cluster_report_the_missing_part(name, tiny_model_path):
    with pytest.raises(OptionError, match="--evals-ray replicates a model on a Ray cl"):
        check_spec(parse_spec(f"hf:{tiny_model_path},{name}=2"))


def test_stored_responses_are_those_of_one_replica(tiny_model_path):
    """So a run on a cluster completes a run that was started without one."""
    alone = f"hf:{tiny_model_path},dtype=float32"
    spread = f"ray:{alone},replicas=3,address=local"

    def found(text):
        return fingerprint_of(parse_spec(text), lambda path: path.name)

    assert found(spread) == found(alone)


def test_without_the_extra_there_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(kind, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as caught:
        kind.RAY.open(parse_spec("ray:scripted:first"))
    assert str(caught.value) == (
        "a model on a Ray cluster needs ray: pip install 'pytest-model-evals[ray]'"
    )
