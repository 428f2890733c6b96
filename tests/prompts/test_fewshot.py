"""Sampling of few-shot examples: the random streams were measured with CPython's
generator, and the rules are compared with drawing the rows themselves, as lm-eval
0.4.13 does."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.errors import EvalsError
from pytest_evals.prompts.fewshot import SAMPLERS, draw_positions

rows = st.lists(st.integers(0, 3), min_size=1, max_size=9).map(
    lambda numbers: [{"q": n} for n in numbers]
)


def test_the_raw_stream_is_the_one_of_the_golden_vectors():
    three, four = Random(1234), Random(1234)

    drawn = [draw_positions(three, range(8), 3) for _ in range(4)]
    with_spare = [draw_positions(four, range(8), 4) for _ in range(4)]

    assert drawn == [(7, 0, 6), (1, 6, 4), (0, 5, 6), (1, 0, 2)]
    assert with_spare == [(7, 0, 6, 5), (0, 5, 6, 7), (1, 6, 2, 7), (0, 7, 6, 2)]


@given(rows=rows, n=st.integers(1, 4), seed=st.integers(0, 9))
def test_positions_are_drawn_as_rows_would_be(rows, n, seed):
    stream = Random(seed)
    expected = []
    for row in rows:
        if n + 1 > len(rows):
            return
        drawn = [other for other in stream.sample(rows, n + 1) if other != row][:n]
        rest = [other for other in rows if other != row]
        if len(drawn) < n and len(rest) >= n:
            drawn = stream.sample(rest, n)
        expected.append(drawn if len(drawn) == n else None)

    sampler = SAMPLERS["default"](rows, n, seed, rows)

    for i in reversed(range(len(rows))):
        if expected[i] is None:
            with pytest.raises(EvalsError):
                sampler.shots(i)
        else:
            assert [rows[j] for j in sampler.shots(i)] == expected[i]


def test_a_copy_of_the_document_is_not_used_as_its_example():
    pool = [{"q": 0}, {"q": 0}, {"q": 0}, {"q": 1}, {"q": 2}]

    for name in SAMPLERS:
        shots = SAMPLERS[name](pool, 2, 1, pool).shots(0)
        assert sorted(shots) == [3, 4]


def test_a_pool_that_is_too_small_is_an_error():
    pool = [{"q": 0}, {"q": 1}]

    with pytest.raises(
        EvalsError, match="3 few-shot examples need a pool of 3 documents, but"
    ):
        SAMPLERS["first_n"](pool, 3, 0, None)
    with pytest.raises(
        EvalsError, match="2 few-shot examples need a pool of 3 documents"
    ):
        SAMPLERS["default"](pool, 2, 0, pool)
    with pytest.raises(EvalsError, match="the pool has fewer than 2 documents that"):
        SAMPLERS["first_n"](pool, 2, 0, pool).shots(0)
