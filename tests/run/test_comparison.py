"""Warnings of a comparison with a baseline: differences that change numbers slightly,
and are not a reason to reject it."""

from __future__ import annotations

import pytest

from pytest_evals.run.comparison import compare
from pytest_evals.store.document_pairs import Side


def side(arguments=None, **info):
    known = {"device": "cuda:0", "dtype": "float32", "torch_version": "2.9.0", **info}
    results = {"model_info": known, "config": {"model_args": arguments or {}}}
    return Side(results=results, rows={})


@pytest.mark.parametrize(
    ("before", "now", "differences"),
    [
        (side(), side(), []),
        (side(), side(device="cpu"), ["device: 'cpu' (baseline: 'cuda:0')"]),
        (
            side(),
            side(torch_version="2.13.0"),
            ["torch_version: '2.13.0' (baseline: '2.9.0')"],
        ),
        (
            side(),
            side(dtype="bfloat16"),
            ["dtype: 'bfloat16' (baseline: 'float32')"],
        ),
        (
            side({"batch_size": "8"}),
            side({"batch_tokens": 64}),
            [
                "batch_size: automatic (baseline: '8'); "
                "batch_tokens: 64 (baseline: automatic)",
            ],
        ),
        (
            side(device_name="NVIDIA A100"),
            side(device_name="NVIDIA H100"),
            ["device_name: 'NVIDIA H100' (baseline: 'NVIDIA A100')"],
        ),
        # a baseline of an earlier version does not contain it
        (side(), side(device_name="NVIDIA H100"), []),
    ],
)
def test_different_machines_versions_and_batches_are_reported(before, now, differences):
    found = compare("main", before, now)
    notes = tuple(f"environment differs: {text}" for text in differences)
    assert (found.warnings, found.refused) == (notes, ())
