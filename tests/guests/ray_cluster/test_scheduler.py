"""Requests assigned to replicas that may die: each gets one response, and only requests
that kill every replica are given up. Does not need Ray."""

from __future__ import annotations

from collections import Counter, deque
from heapq import heappop, heappush

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.core.request import Generate, Loglikelihood
from pytest_evals.guests.ray.scheduler import BLAMED_AT, FIXED, LEAST, WorkQueue


def choices(n, each=4):
    """``n`` questions with this many choices each."""
    return [Loglikelihood(f"question {i // each}", f" {i % each}") for i in range(n)]


def dealt(deck, *consumers):
    """Shares by consumer, if all need equal time for each request."""
    found = {consumer: [] for consumer in consumers}
    idle = [(0, consumer) for consumer in consumers]
    while idle:
        now, consumer = heappop(idle)
        if share := deck.deal(consumer):
            found[consumer].append(share.positions)
            heappush(idle, (now + len(share.positions), consumer))
    return found


def of(shares):
    return [position for positions in shares for position in positions]


def test_a_replica_gets_a_contiguous_part_in_shares_that_get_smaller():
    shares = dealt(WorkQueue(choices(4000), 1), "a")["a"]
    assert of(shares) == list(range(4000))
    sizes = [len(positions) for positions in shares]
    assert sizes[:-1] == sorted(sizes[:-1], reverse=True)
    assert sizes[0] == 1000
    cost = FIXED + 2 + 3  # and a quarter of a short question, without what is shared
    assert 0.7 * LEAST < sizes[-2] * cost < 1.3 * LEAST


def test_each_replica_computes_shared_examples_once():
    """Five tasks of 800 requests for four replicas: each has a fourth of them, and only
    a replica of which they are a part gets a task."""
    examples = [f"examples of task {i} " + str(i) * 3000 for i in range(5)]
    requests = [
        Generate(f"{examples[i // 800]}question {i}", max_tokens=64)
        for i in range(4000)
    ]
    parts = dealt(WorkQueue(requests, 4), *"abcd").values()
    assert sorted(i for shares in parts for i in of(shares)) == [*range(4000)]
    assert sum(len({i // 800 for i in of(shares)}) for shares in parts) <= 5 + 3
    assert max(len(of(shares)) for shares in parts) < 1100


def test_requests_that_share_a_prefix_become_adjacent():
    """The documents of two tasks, in turn."""
    examples = ["one " * 1000, "two " * 1000]
    requests = [Generate(f"{examples[i % 2]}{i}", max_tokens=2) for i in range(2000)]
    first, second = dealt(WorkQueue(requests, 2), *"ab").values()
    assert {i % 2 for i in of(first)} == {0}
    assert {i % 2 for i in of(second)} == {1}


def test_a_prefix_that_costs_more_than_the_rest_is_computed_by_one_replica():
    """10,000 tokens before 20 questions of 400."""
    passage = "long " * 8000
    requests = [
        Generate(f"{passage}{i} {'word ' * 320}", max_tokens=1) for i in range(20)
    ]
    deck = WorkQueue(requests, 8)
    assert deck.deal("a").positions == [0]
    assert deck.deal("b") is None
    assert of(dealt(deck, *"ab")["a"]) == [*range(1, 20)]


def test_half_of_the_rest_of_a_slow_replica_is_taken_over():
    deck = WorkQueue(choices(4000), 2)
    slow = deck.deal("slow").positions
    assert slow[0] == 0
    fast = of(dealt(deck, "fast")["fast"])
    assert fast[:2000] == [*range(2000, 4000)]
    assert sorted([*slow, *fast]) == [*range(4000)]


def test_the_rest_of_a_lost_replica_is_assigned_as_a_whole():
    deck = WorkQueue(choices(4000), 2)
    lost = deck.deal("lost")
    reserved = deck.reserve("lost").positions
    assert reserved[0] == lost.positions[-1] + 1
    deck.release("lost")
    deck.give_back(lost, (), died=True)
    found = of(dealt(deck, "other")["other"])
    rest = range(reserved[-1] + 1, 2000)
    assert found == [*reserved, *lost.positions, *range(2000, 4000), *rest]


def test_requests_about_one_prompt_stay_together():
    """Its prompt is prefilled once then."""
    deck = WorkQueue(choices(3000, each=7), 3)
    edges = [share.positions[0] for share in iter(deck.deal, None)]
    assert [edge % 7 for edge in edges] == [0] * len(edges)


def test_assignments_of_long_requests_have_fewer_requests():
    long = [Generate(f"{i}" + "word " * 2000, max_tokens=8) for i in range(500)]
    short = [Generate(f"{i}", max_tokens=8) for i in range(500)]
    share = WorkQueue(long + short, 1).deal()
    assert share is not None
    assert (
        100 < len(share.positions) < 150
    )  # this many requests contain a fourth of all text


def test_the_smallest_assignment_depends_on_tokens_and_not_on_requests():
    """The last assignments of long generations are short, so that all replicas end
    together."""
    answers = [Generate(f"{i}", max_tokens=4096) for i in range(64)]
    sizes = [len(share.positions) for share in iter(WorkQueue(answers, 4).deal, None)]
    assert sizes[0] == 4
    assert sizes[-1] == 1


def test_a_reserved_share_is_dealt_to_its_consumer_or_last_to_another():
    deck = WorkQueue(choices(4000), 2)
    first = deck.reserve("a")
    assert deck.reserve("a") is None
    second = deck.deal("b")
    assert first.positions == [*range(len(first.positions))]
    assert second.positions[0] == 2000
    assert deck.deal("a") is first
    reserved = deck.reserve("a")
    *_, last = iter(lambda: deck.deal("b"), None)
    assert last is reserved


def test_a_window_smaller_than_an_assignment_is_one_assignment():
    deck = WorkQueue(choices(3), 8)
    assert [len(s.positions) for s in iter(deck.deal, None)] == [3]


def test_responses_from_before_a_replica_died_are_not_requested_again():
    deck = WorkQueue(choices(20), 1)
    share = deck.deal()
    assert deck.give_back(share, {0, 1, 5}, died=True) == []
    again = deck.deal()
    assert list(again.positions) == [i for i in range(20) if i not in (0, 1, 5)]


@pytest.mark.slow
@given(
    n=st.integers(1, 300),
    passage=st.sampled_from([0, 10_000, 60_000]),
    n_replicas=st.integers(1, 5),
    deadly=st.sets(st.integers(0, 299), max_size=3),
    random=st.randoms(use_true_random=False),
)
def test_every_request_is_answered_once_if_replicas_die(
    n, passage, n_replicas, deadly, random
):
    """Replicas with two assignments each, which die at deadly requests and sometimes at
    random, for example before their first one."""
    requests = [
        Generate("p" * (passage * (i % 2)) + f"{i // 4}", max_tokens=500)
        for i in range(n)
    ]
    deck, found = WorkQueue(requests, n_replicas), Counter()
    given_up: list[int] = []
    hands = [deque() for _ in range(n_replicas)]
    deaths: Counter[int] = Counter()
    while deck.n_open:
        for k, hand in enumerate(hands):
            while len(hand) < 2 and (share := deck.deal(k)):
                hand.append((share, set()))
        k = random.choice([k for k, hand in enumerate(hands) if hand])
        hand = hands[k]
        share, answered = hand[0]
        left = [i for i in share.positions if i not in answered]
        by_chance = random.random() < 0.05
        if left and (left[0] in deadly or by_chance):
            deaths[left[0]] += 1
            deck.release(k)
            for place, (lost, done) in enumerate(list(hand)):
                given_up += deck.give_back(lost, done, died=place == 0)
            hand.clear()
        elif left:
            answered.add(left[0])
            found[left[0]] += 1
            deck.answered(1)
        if not [i for i in share.positions if i not in answered] and hand:
            hand.popleft()
    assert set(found) | set(given_up) == set(range(n))
    assert set(found.values()) <= {1}
    assert not set(found) & set(given_up)
    assert {i for i in deadly if i < n} <= set(given_up)
    assert all(deaths[i] for i in given_up), "only what a replica has died at"
    assert BLAMED_AT == 3
