"""Requests assigned to replicas that may die: each gets one response, and only requests
that kill every replica are given up. Does not need Ray."""

from __future__ import annotations

from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.core.request import Generate, Loglikelihood
from pytest_evals.models.ray.scheduler import BLAMED_AT, FIXED, LEAST, WorkQueue


def choices(n, each=4):
    """``n`` questions with this many choices each."""
    return [Loglikelihood(f"question {i // each}", f" {i % each}") for i in range(n)]


def test_assignments_are_contiguous_and_get_smaller():
    deck = WorkQueue(choices(4000), 4)
    shares = list(iter(deck.deal, None))
    assert [i for share in shares for i in share.positions] == list(range(4000))
    sizes = [len(share.positions) for share in shares]
    assert sizes[:-1] == sorted(sizes[:-1], reverse=True)
    assert sizes[0] == 500  # an eighth, so that four replicas have two each at first
    cost = FIXED + 2  # and a quarter of a short question
    assert 0.8 * LEAST < sizes[-2] * cost < 1.2 * LEAST


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
        220 < len(share.positions) < 280
    )  # this many requests contain half of all text


def test_the_smallest_assignment_depends_on_tokens_and_not_on_requests():
    """The last assignments of long generations are short, so that all replicas end
    together."""
    answers = [Generate(f"{i}", max_tokens=4096) for i in range(64)]
    sizes = [len(share.positions) for share in iter(WorkQueue(answers, 4).deal, None)]
    assert sizes[0] == 8
    assert sizes[-1] == 1


def test_a_reserved_share_is_dealt_to_its_consumer_or_last_to_another():
    deck = WorkQueue(choices(4000), 2)
    first = deck.reserve("a")
    assert deck.reserve("a") is None
    second = deck.deal("b")
    assert first.positions == range(first.positions[-1] + 1)
    assert second.positions[0] == len(first.positions)
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


@given(
    n=st.integers(1, 300),
    n_replicas=st.integers(1, 5),
    deadly=st.sets(st.integers(0, 299), max_size=3),
    random=st.randoms(use_true_random=False),
)
def test_every_request_is_answered_once_if_replicas_die(n, n_replicas, deadly, random):
    """Replicas with two assignments each, which die at deadly requests and sometimes at
    random."""
    deck, found = WorkQueue(choices(n), n_replicas), Counter()
    given_up: list[int] = []
    hands = [deque() for _ in range(n_replicas)]
    deaths: Counter[int] = Counter()
    while deck.n_open:
        for hand in hands:
            while len(hand) < 2 and (share := deck.deal()):
                hand.append((share, set()))
        hand = random.choice([h for h in hands if h])
        share, answered = hand[0]
        left = [i for i in share.positions if i not in answered]
        by_chance = random.random() < 0.05
        if left and (left[0] in deadly or by_chance):
            deaths[left[0]] += 1
            for k, (lost, done) in enumerate(list(hand)):
                given_up += deck.give_back(lost, done, died=k == 0)
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
