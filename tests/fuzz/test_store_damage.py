"""A few rounds of the random damage to stored responses."""

import random

import pytest

from tests.fuzz.damage import SIZES, build, run


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    base = tmp_path_factory.mktemp("stores")
    for end in ("closed", "killed"):
        build(base / end, SIZES[1], end)
    return [base / "closed", base / "killed"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_response_that_damage_has_lost_is_reported(stores, seed):
    draw = random.Random(seed)
    what, fault = run(draw.choice(stores), SIZES[1], draw)
    assert not fault, what
