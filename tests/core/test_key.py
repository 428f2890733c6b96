"""The key that identifies a request."""

import dataclasses
import json
import subprocess
import sys
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.core.key import canonical, request_keys
from pytest_evals.core.request import Generate, Loglikelihood, Message, Rolling

MODEL = b"m" * 32
CHAT = (Message("system", "Be brief."), Message("user", "Hello"))

EXAMPLES = [
    Loglikelihood("a", "b"),
    Loglikelihood("a", "c"),
    Loglikelihood("ab", ""),
    Loglikelihood("", "ab"),
    Loglikelihood(CHAT, "b"),
    Rolling("a"),
    Rolling("ab"),
    Generate("a"),
    Generate("b"),
    Generate(CHAT),
    Generate(CHAT[1:]),
    Generate((Message("user", "Be brief."), Message("system", "Hello"))),
    Generate("a", stop=("\n",)),
    Generate("a", stop=("\n", "\n")),
    Generate("a", max_tokens=8),
    Generate("a", temperature=0.5),
    Generate("a", temperature=0.5, repeat=1),
    Generate("a", conversation="shop[0]"),
    Generate("a", conversation="shop[1]"),
    Generate("a", options=(("top_p", 0.9),)),
    Generate("a", options=(("top_k", 0.9),)),
    Generate("a", options=(("do_sample", True),)),
    Generate("a", options=(("do_sample", 1),)),
    Generate("a", options=(("do_sample", "true"),)),
]


def digest(request, model=MODEL):
    (key,) = request_keys([request])
    return key.digest(model)


def test_any_difference_between_two_requests_changes_the_key():
    digests = [digest(request) for request in EXAMPLES]
    assert len(set(digests)) == len(EXAMPLES)


@pytest.mark.parametrize("kind", [Loglikelihood, Rolling, Generate])
def test_every_field_of_a_request_is_in_its_key(kind):
    """Fields that are added later are covered too: the test lists them by name."""
    values = {
        "str": ("one", "two"),
        "Prompt": ("one", "two"),
        "tuple[str, ...]": (("a",), ("b",)),
        "int": (1, 2),
        "float": (0.25, 0.5),
        "Options": ((("a", 1),), (("a", 2),)),
    }
    fields = dataclasses.fields(kind)
    plain = {field.name: values[field.type][0] for field in fields}
    for field in fields:
        changed = {**plain, field.name: values[field.type][1]}
        assert digest(kind(**plain)) != digest(kind(**changed)), field.name


def test_the_model_is_part_of_the_key():
    assert digest(EXAMPLES[0], b"a" * 32) != digest(EXAMPLES[0], b"b" * 32)


def test_keys_are_the_same_in_every_process():
    """Python's own hashes differ between processes; keys must not."""
    code = (
        "from pytest_evals.core.key import request_keys\n"
        "from pytest_evals.core.request import Generate\n"
        "r = Generate('ü \\ud800', stop=('x',), options=(('a', {'c': 1, 'b': 2.5}),))\n"
        "(k,) = request_keys([r]); print(k.digest(b'').hex())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


def test_a_key_follows_its_definition():
    """The key is computed by hand from the definition, so that a change is noticed: it
    would invalidate all stored responses."""
    prompt = blake2b(b'"a"', digest_size=16).digest()
    settings = b'["generate_until",["\\n"],8,0.0,[],0]'
    expected = blake2b(MODEL + prompt + settings, digest_size=32).digest()
    assert digest(Generate("a", ("\n",), 8)) == expected


def test_a_request_with_an_option_that_is_not_json_has_no_key():
    odd = [
        Generate("a", options=(("grammar", object()),)),
        Generate("a", options=(("logit_bias", {50256: -100}),)),
        Generate("a", options=(("set", {1}),)),
    ]
    known = [key is not None for key in request_keys([*odd, Rolling("a")])]
    assert known == [False, False, False, True]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@pytest.mark.slow
@given(PLAIN)
def test_canonical_json_means_the_value_it_was_made_of(value):
    assert json.loads(canonical(value)) == value


@pytest.mark.slow
@given(st.dictionaries(st.text(), st.integers()))
def test_the_order_of_a_mapping_does_not_matter(value):
    turned = dict(reversed(value.items()))
    assert canonical(turned) == canonical(value)


TEXTS = st.text(st.characters(exclude_categories=()), max_size=5)
REQUESTS = st.one_of(
    st.builds(Loglikelihood, TEXTS, TEXTS),
    st.builds(Rolling, TEXTS),
    st.builds(
        Generate,
        TEXTS | st.lists(st.builds(Message, st.just("user"), TEXTS)).map(tuple),
        stop=st.lists(TEXTS, max_size=2).map(tuple),
        max_tokens=st.integers(1, 3),
        repeat=st.integers(0, 2),
    ),
)


@pytest.mark.slow
@given(REQUESTS, REQUESTS)
def test_keys_are_equal_exactly_for_equal_requests(one, other):
    assert (digest(one) == digest(other)) == (one == other and type(one) is type(other))
