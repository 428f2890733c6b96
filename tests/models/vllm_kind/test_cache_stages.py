"""The order in which sequences use vLLM's prefix cache."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.models.vllm.scoring import (
    SHARED_BLOCKS,
    stage_numbers,
    stages,
)

BLOCK = 16
LARGE = 10**9
WORDS = st.text("ab", min_size=1, max_size=8)
TEXTS = st.lists(WORDS.map(lambda word: "".join(12 * c for c in word)), max_size=30)


def ids(text):
    return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32)


def test_a_prefix_of_all_documents_is_computed_by_one_of_them_first():
    shots = "s" * 3 * BLOCK
    sequences = [ids(shots + f"{i:03}{'x' * BLOCK}") for i in range(9)]
    first, rest = stages(sequences, BLOCK, LARGE)
    assert len(first) == 1
    assert sorted(first + rest) == list(range(9))


def test_choices_of_a_document_wait_for_the_first_one():
    shots = "s" * 3 * BLOCK
    sequences = [
        ids(shots + question * 2 * BLOCK + choice)
        for question, choice in product("abc", "1234")
    ]
    found = [{i // 4 for i in stage} for stage in stages(sequences, BLOCK, LARGE)]
    # The few-shot examples and one question; its choices and the other questions; and
    # the other choices.
    assert [len(stage) for stage in stages(sequences, BLOCK, LARGE)] == [1, 5, 6]
    assert found[1] == {0, 1, 2}


def test_short_shared_prefixes_do_not_make_stages():
    shared = "s" * (SHARED_BLOCKS * BLOCK - 1)
    sequences = [ids(f"{shared}{i}") for i in range(9)]
    assert len(list(stages(sequences, BLOCK, LARGE))) == 1


def test_no_more_sequences_than_the_cache_holds_are_between_two_stages():
    sequences = [
        ids(question * 10 * BLOCK + choice)
        for question, choice in product("abcdefgh", "12")
    ]
    found = list(stages(sequences, BLOCK, capacity=21 * BLOCK))
    assert [len(stage) for stage in found] == [2, 2] * 4
    assert all(len({i // 2 for i in stage}) == 2 for stage in found)


@given(TEXTS, st.integers(1, 500))
def test_each_sequence_runs_once(texts, capacity):
    found = stages([ids(text) for text in texts], BLOCK, capacity)
    assert sorted(i for stage in found for i in stage) == list(range(len(texts)))


@given(TEXTS)
def test_a_shared_prefix_is_in_the_cache_when_the_others_run(texts):
    sequences = [ids(text) for text in texts]
    done: set[bytes] = set()
    for stage in stages(sequences, BLOCK, LARGE):
        new: list[bytes] = []
        for i in stage:
            blocks = [
                sequences[i][: n * BLOCK].tobytes()
                for n in range(SHARED_BLOCKS, len(sequences[i]) // BLOCK + 1)
            ]
            missing = [block for block in blocks if block not in done]
            assert not {*missing} & {*new}, "computed twice in one stage"
            new += missing
        done |= {*new}


def test_stages_follow_nested_prefixes():
    # (blocks, blocks shared with the previous one)
    assert stage_numbers([(3, 0), (5, 3), (6, 5), (6, 3), (4, 0)]) == [0, 1, 2, 1, 0]
