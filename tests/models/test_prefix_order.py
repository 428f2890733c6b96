"""The order of prompts in which common prefixes are adjacent."""

from __future__ import annotations

from itertools import pairwise, takewhile

from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.models.prefix_order import BLOCK, prefix_order

WORDS = st.text("ab", min_size=1, max_size=6)
PROMPTS = st.lists(WORDS.map(lambda w: "".join(40 * c for c in w)), max_size=20)


def shared(one, other):
    """Whole blocks at the beginning of both."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) // BLOCK


def test_documents_of_a_passage_become_adjacent_in_the_order_of_their_passages():
    two, one = "two " * BLOCK, "one " * BLOCK
    prompts = [two + "a", one + "b", "short", two + "c", one + "d"]
    assert prefix_order(prompts) == [0, 3, 1, 4, 2]


def test_prompts_that_share_nothing_stay_in_order():
    prompts = [chr(ord("z") - i) * 100 for i in range(20)]
    assert prefix_order(prompts) == list(range(20))


@given(PROMPTS)
def test_no_prompt_shares_more_with_an_earlier_one_than_with_its_neighbour(prompts):
    order = [prompts[i] for i in prefix_order(prompts)]
    assert sorted(order) == sorted(prompts)
    for place, (previous, prompt) in enumerate(pairwise(order)):
        assert shared(prompt, previous) == max(
            shared(prompt, other) for other in order[: place + 1]
        )
