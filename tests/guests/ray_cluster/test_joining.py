"""Joining a cluster that does not exist."""

from __future__ import annotations

import socket

import pytest

from pytest_evals.errors import ModelError
from pytest_evals.models.registry import open_model, parse_spec

pytest.importorskip("ray", reason="ray is not installed")


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_without_a_cluster_is_one_error_at_once(scheme):
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ModelError) as caught:
            open_model(parse_spec(f"ray:scripted:first,address={address}"))
    assert str(caught.value).startswith(f"there is no Ray cluster at {address!r}: ")
    assert "fix: start one by 'ray start --head', or give --evals-ray=local" in str(
        caught.value
    )
