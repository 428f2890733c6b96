"""Prefixes that are prefilled once, and the order of prompts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.models.hf.generation.prefill import prompt_groups

prompts_of_few_letters = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=12), max_size=30
)


def arrays(rows):
    return [np.asarray(row, dtype=np.int32) for row in rows]


def n_read(found, prompts):
    """Tokens prefilled in total: each branch once, and the rest of each leaf."""
    branches = {
        step: None for leaf in found if leaf.branch for step in leaf.branch.path
    }
    once = sum(len(b.ids) - (len(b.parent.ids) if b.parent else 0) for b in branches)
    rest = (
        len(prompts[leaf.members[0]]) - (len(leaf.branch.ids) if leaf.branch else 0)
        for leaf in found
    )
    return once + sum(rest), len(branches)


@given(rows=prompts_of_few_letters, pays=st.integers(1, 20))
def test_each_prompt_comes_once_and_begins_with_its_branch(rows, pays):
    prompts = arrays(rows)
    found = prompt_groups(prompts, [len(p) for p in prompts], pays)
    assert sorted(i for leaf in found for i in leaf.members) == list(range(len(rows)))
    for leaf in found:
        (text,) = {tuple(rows[i]) for i in leaf.members}
        beginnings = (
            [step.ids.tolist() for step in leaf.branch.path] if leaf.branch else []
        )
        lengths = [len(ids) for ids in beginnings]
        assert lengths == sorted(set(lengths))
        assert all(list(text[: len(ids)]) == ids for ids in beginnings)
        assert all(0 < n < len(text) for n in lengths)


@given(rows=prompts_of_few_letters, pays=st.integers(1, 20))
def test_each_branch_saves_at_least_its_cost(rows, pays):
    prompts = arrays(rows)
    found = prompt_groups(prompts, [len(p) for p in prompts], pays)
    plain = sum(len(text) for text in {tuple(row) for row in rows})
    with_branches, n_branches = n_read(found, prompts)
    assert with_branches + n_branches * pays <= plain


@given(rows=prompts_of_few_letters)
def test_branches_come_one_after_the_other_and_longer_ones_after_shorter(rows):
    """So that only one path of them must be kept."""
    prompts = arrays(rows)
    held = ()
    done = set()
    for leaf in prompt_groups(prompts, [len(p) for p in prompts], 1):
        path = leaf.branch.path if leaf.branch else ()
        assert not done.intersection(path)
        done |= set(held) - set(path)
        held = path


def test_few_shot_examples_and_passages_within_them_are_prefilled_once():
    shots, passage = [1] * 100, [2] * 50
    rows = [
        [*shots, *passage, 3, 4],
        [*shots, *passage, 5],
        [*shots, 6],
        [*shots, 7, 8],
    ]
    found = prompt_groups(arrays(rows), [0] * 4, 40)
    branches = {leaf.members: len(leaf.branch.ids) for leaf in found}
    assert branches == {(0,): 150, (1,): 150, (2,): 100, (3,): 100}


def test_equal_prompts_are_one_leaf_and_no_branch():
    found = prompt_groups(arrays([[1] * 99, [2, 3], [1] * 99]), [0, 0, 0], 8)
    assert {leaf.members: leaf.branch for leaf in found} == {(0, 2): None, (1,): None}


def test_the_dearest_come_first():
    found = prompt_groups(arrays([[1, 2], [3, 4], [5, 6]]), [5, 9, 7], 8)
    assert [leaf.members for leaf in found] == [(1,), (2,), (0,)]
