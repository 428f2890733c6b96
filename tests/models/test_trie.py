"""Sequences as a tree, its groups and its rows, compared with sets of tuples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.models.hf.scoring.packing import (
    PrefixGroup,
    RowShape,
    groups_of,
    lay_out,
    masks,
    pack,
)
from pytest_evals.models.tokens.spans import ScoredSpan, trie_of

NONE = np.zeros(0, dtype=np.int32)
tokens = st.lists(st.integers(0, 2), min_size=2, max_size=25)
shapes = st.builds(
    RowShape,
    width=st.sampled_from([0, 1, 4, 16, 512]),
    gain=st.sampled_from([1, 8, 64]),
)


@st.composite
def line_sets(draw):
    sequences = draw(st.lists(tokens, min_size=1, max_size=25))
    return [
        ScoredSpan(np.array(s, dtype=np.int32), draw(st.integers(1, len(s) - 1)))
        for s in sequences
    ]


def make(*texts, n_scored=1):
    """Spans with the letters of texts as tokens, and one more that is not read."""
    return [
        ScoredSpan(np.array([ord(c) for c in text + "?"], dtype=np.int32), n_scored)
        for text in texts
    ]


def shown(sequence):
    return "".join(chr(token) for token in sequence.tolist())


def test_neighbours_have_the_longest_common_prefix_and_prefixes_come_first():
    trie = trie_of(make("abd", "x", "abc", "ab", "abc"))
    assert [shown(s) for s in trie.sequences] == ["ab", "abc", "abd", "x"]
    assert trie.shared.tolist() == [0, 2, 2, 0]
    assert trie.spans == [(3,), (2, 4), (0,), (1,)]


@pytest.mark.slow
@settings(deadline=None)
@given(spans=line_sets())
def test_the_tree_has_each_token_once(spans):
    """The number of different prefixes of the tokens that are read."""
    trie = trie_of(spans)
    beginnings = {
        tuple(span.tokens[:k].tolist())
        for span in spans
        for k in range(1, len(span.tokens))
    }
    assert int((trie.lengths - trie.shared).sum()) == len(beginnings)
    assert sorted(i for owners in trie.spans for i in owners) == list(range(len(spans)))


@pytest.mark.slow
@settings(deadline=None)
@given(spans=line_sets(), other=st.lists(st.integers(0, 2), max_size=25))
def test_each_sequence_has_its_common_prefix_with_another(spans, other):
    trie = trie_of(spans)
    expected = [
        max(n for n in range(len(other) + 1) if one.tolist()[:n] == other[:n])
        for one in trie.sequences
    ]
    assert trie.shared_with(np.array(other, dtype=np.int32)).tolist() == expected


@pytest.mark.slow
@settings(deadline=None)
@given(spans=line_sets(), shape=shapes, cached=st.lists(st.integers(0, 2), max_size=25))
def test_each_sequence_is_in_one_group_whose_prefix_it_has_and_does_not_score(
    spans, shape, cached
):
    trie = trie_of(spans)
    groups = groups_of(trie, shape, np.array(cached, dtype=np.int32))
    members = [m for group in groups for m in group.members.tolist()]
    assert sorted(members) == list(range(len(trie.sequences)))
    for group in groups:
        first = trie.sequences[group.members[0]][: group.depth].tolist()
        for member in group.members.tolist():
            assert trie.sequences[member][: group.depth].tolist() == first
            assert trie.scored_from[member] >= group.depth


def test_a_long_beginning_is_kept_and_a_short_one_is_read_again():
    block = "".join(chr(200 + i) for i in range(100))
    short = [f"{i:02}" + chr(300 + i) * 30 for i in range(20)]
    long = [block + text for text in short]
    groups = groups_of(trie_of(make(*long, *short)), RowShape(width=100, gain=50), NONE)
    assert [(group.depth, len(group.members)) for group in groups] == [
        (0, 20),
        (100, 20),
    ]


def test_a_prefix_inside_another_is_kept_too():
    block, more = "b" * 200, "m" * 100
    tails = [chr(300 + i) * 30 for i in range(20)]
    inner = [block + more + tail for tail in tails]
    outer = [block + tail for tail in tails]
    groups = groups_of(
        trie_of(make(*inner, *outer)), RowShape(width=100, gain=50), NONE
    )
    assert [group.depth for group in groups] == [200, 300]


def test_a_prefix_that_saves_less_than_a_pass_costs_is_not_kept():
    texts = ["b" * 20 + chr(300 + i) * 60 for i in range(4)]
    trie = trie_of(make(*texts))
    assert [g.depth for g in groups_of(trie, RowShape(width=100, gain=40), NONE)] == [
        20
    ]
    assert [g.depth for g in groups_of(trie, RowShape(width=100, gain=60), NONE)] == [0]


def test_a_cached_prefix_is_used_by_few_and_before_others_replace_it():
    """Four sequences fit into a row, of which the prefix of two is cached."""
    shape = RowShape(width=1000, gain=50)
    spans = make("a" * 200 + "x", "a" * 200 + "y", "c" * 60 + "x", "c" * 60 + "y")
    (cached,) = make("c" * 60)
    groups = groups_of(trie_of(spans), shape, cached.tokens[:-1])
    assert [(g.depth, g.members.tolist()) for g in groups] == [
        (60, [2, 3]),
        (0, [0, 1]),
    ]
    (short,) = make("c" * 20)
    (group,) = groups_of(trie_of(spans), shape, short.tokens[:-1])
    assert group.depth == 0  # two passes would cost more than 20 tokens
    (whole,) = make("c" * 300)
    (group,) = groups_of(trie_of(spans[2:]), shape, whole.tokens[:-1])
    assert group.depth == 60


def test_one_that_scores_the_prefix_itself_does_not_keep_the_others_from_it():
    """A text that is scored as a whole and starts like the few-shot examples of a
    task."""
    block = "b" * 300
    spans = make(*(block + chr(300 + i) * 60 for i in range(20)))
    (whole,) = make(block + "whole", n_scored=305)
    groups = groups_of(trie_of([*spans, whole]), RowShape(width=100, gain=50), NONE)
    assert [(group.depth, len(group.members)) for group in groups] == [
        (0, 1),
        (300, 20),
    ]


@pytest.mark.slow
@settings(deadline=None)
@given(spans=line_sets(), shape=shapes)
def test_rows_hold_their_sequences_and_each_token_sees_its_own_beginning_only(
    spans, shape
):
    """The mask of a row, read back: the tokens that a token attends to, in order, are
    its sequence."""
    trie = trie_of(spans)
    scored = []
    for group in groups_of(trie, shape, NONE):
        rows = pack(trie, group, shape.width)
        assert np.concatenate([r.members for r in rows]).tolist() == (
            group.members.tolist()
        )
        for row in rows:
            layout = lay_out(trie, spans, row)
            assert len(layout.ids) == row.n_tokens
            prefix = trie.sequences[row.members[0]][: row.depth].tolist()
            ends, positions = (
                torch.from_numpy(column)[None]
                for column in (layout.ends, layout.positions)
            )
            mask = masks(
                {"full_attention": 0}, ends, positions, row.depth, torch.float32
            )
            columns = prefix + layout.ids.tolist()
            seen = [
                tuple(columns[k] for k in np.flatnonzero(span == 0))
                for span in mask[0, 0]
            ]
            for spot in layout.spots:
                span = spans[spot.span].tokens.tolist()
                n = spans[spot.span].n_scored
                ways = [seen[place] for place in spot.places]
                assert ways == [
                    tuple(span[:k]) for k in range(len(span) - n, len(span))
                ]
                assert spot.targets.tolist() == span[-n:]
                scored.append(spot.span)
            assert [len(way) - 1 for way in seen] == layout.positions.tolist()
    assert sorted(scored) == list(range(len(spans)))


@pytest.mark.slow
@settings(deadline=None)
@given(spans=line_sets(), width=st.integers(0, 30))
def test_rows_are_as_wide_as_they_may_be(spans, width):
    trie = trie_of(spans)
    for row in pack(trie, PrefixGroup(0, np.arange(len(trie.sequences))), width):
        first = int(trie.lengths[row.members[0]])
        assert (
            len(row.members) == 1
            or row.n_tokens <= width
            or row.n_tokens - first <= width // 4
        )


def test_a_full_row_ends_where_least_is_read_again():
    """Three questions of 30 tokens with four answers of 4 each do not fit into 100
    tokens, two do; the third starts the next row."""
    texts = [question * 30 + answer * 4 for question in "xyz" for answer in "abcd"]
    trie = trie_of(make(*texts))
    rows = pack(trie, PrefixGroup(0, np.arange(12)), 100)
    assert [row.n_tokens for row in rows] == [92, 46]


def test_windows_and_chunks_are_measured_in_positions():
    """Two sequences after a prefix of 2 tokens, a row of 3 + 2 tokens: positions 2 3 4
    and 2 3."""
    ends = torch.tensor([[3, 3, 3, 5, 5]])
    positions = torch.tensor([[2, 3, 4, 2, 3]])
    kinds = {"full_attention": 0, "sliding_attention": 2, "chunked_attention": 2}
    built = masks(kinds, ends, positions, 2, torch.float32)
    seen = {kind: (mask[0, 0] == 0).int().tolist() for kind, mask in built.items()}
    assert seen["full_attention"] == [
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 1, 0, 0],
        [1, 1, 0, 0, 0, 1, 0],
        [1, 1, 0, 0, 0, 1, 1],
    ]
    assert seen["sliding_attention"] == [
        [0, 1, 1, 0, 0, 0, 0],
        [0, 0, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 1, 0, 0],
        [0, 1, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1, 1],
    ]
    assert seen["chunked_attention"] == [
        [0, 0, 1, 0, 0, 0, 0],
        [0, 0, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1, 1],
    ]


@pytest.mark.nightly
def test_a_large_window_reads_each_shared_beginning_once():
    """5,000 documents with four answers after 1,900 tokens, of 57 tasks."""
    draw = np.random.default_rng(0)
    shots = draw.integers(0, 30_000, (57, 1600)).astype(np.int32)
    spans = []
    for i in range(5_000):
        question = draw.integers(0, 30_000, 280).astype(np.int32)
        for answer in draw.integers(0, 30_000, (4, 20)).astype(np.int32):
            spans.append(
                ScoredSpan(np.concatenate([shots[i % 57], question, answer]), 20)
            )
    trie = trie_of(spans)
    shape = RowShape(width=512, gain=128)
    rows = [
        row for group in groups_of(trie, shape, NONE) for row in pack(trie, group, 512)
    ]
    laid_out = sum(len(lay_out(trie, spans, row).ids) for row in rows)
    assert laid_out <= 5_000 * (280 + 80)
