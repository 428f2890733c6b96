"""A comparison with a baseline reports why the runs may differ."""

from __future__ import annotations

import hashlib

import pytest

from pytest_evals.run.comparison import paired
from pytest_evals.store.run_differences import word_diff
from pytest_evals.store.run_settings import Side


def side(arguments=None, rows=None, results=None, **info):
    known = {"device": "cuda:0", "dtype": "float32", "torch_version": "2.9.0", **info}
    facts = {"model_info": known, "config": {"model_args": arguments or {}}}
    return Side(results={**facts, **(results or {})}, rows={"quiz": rows or []})


def row(id_, prompt, **arguments):
    sent = {"arg_0": prompt, "arg_1": arguments}
    return {
        "doc_id": id_,
        "id": str(id_),
        "filter": "none",
        "metrics": ["acc"],
        "acc": 1.0,
        "status": "scored",
        "doc_hash": f"{id_}",
        "prompt_hash": hashlib.sha256(prompt.encode()).hexdigest(),
        "target_hash": "t",
        "arguments": {"gen_args_0": sent},
    }


@pytest.mark.parametrize(
    ("before", "now", "texts"),
    [
        (side(), side(), []),
        (side(), side(device="cpu"), ["device: cpu (baseline: cuda:0)"]),
        (
            side(torch_version="2.9.0"),
            side(torch_version="2.13.0", dtype="bfloat16"),
            [
                "dtype: bfloat16 (baseline: float32)",
                "torch_version: 2.13.0 (baseline: 2.9.0)",
            ],
        ),
        (
            side({"batch_size": "8"}),
            side({"batch_tokens": 64, "peft": "lora"}),
            [
                "model argument peft: lora (baseline: none)",
                "batch_size: automatic (baseline: 8)",
                "batch_tokens: 64 (baseline: automatic)",
            ],
        ),
        # a baseline of an earlier version does not contain it
        (side(), side(device_name="NVIDIA H100"), []),
        (
            side(results={"n-shot": {"quiz": 0}, "lm_eval_version": "0.4.9"}),
            side(
                results={
                    "n-shot": {"quiz": 5},
                    "lm_eval_version": "0.4.13",
                    "configs": {"quiz": {"dataset_path": "x"}},
                }
            ),
            [
                "few-shot examples: 5 (baseline: 0)",
                "version of lm-eval: 0.4.13 (baseline: 0.4.9)",
            ],
        ),
        (
            side({}, [row(1, "What is 2+2?\nA:", until=["\n"])]),
            side({}, [row(1, "What is 2+2?\nA:", until=["\n", "Q:"])]),
            ['generation argument until: ["\\n", "Q:"] (baseline: ["\\n"])'],
        ),
        (
            side({"api_key": "sk-abcdefghijklmnop"}, results={"model_name": "a"}),
            side({"api_key": "sk-qrstuvwxyzabcdef"}, results={"model_name": "b"}),
            ["model: b (baseline: a)"],
        ),
    ],
)
def test_settings_that_differ_are_listed_by_likelihood(before, now, texts):
    found = paired("main", before, now).comparison
    assert [one.text for one in found.differences] == texts


def test_prompts_that_differ_are_counted_and_shown_as_a_word_diff():
    shots = "Q: a\nA: b\n\n" * 50
    old = [row(1, f"{shots}Q: what is the sum of 1 and 2?\nA:"), row(2, "same")]
    new = [row(1, f"{shots}Q: what is the total of 1 and 2?\nA:"), row(2, "same")]
    found = paired("main", side(rows=old), side(rows=new)).comparison
    (one,) = found.differences
    assert one.text == "prompts: 1 of 2 documents (50%) have another prompt"
    assert one.examples == ("quiz[1]: … Q: what is the [-sum-]{+total+} of 1 and 2? …",)


@pytest.mark.parametrize(
    ("before", "now", "shown"),
    [
        ("a b c d", "a x y d", "a [-b c-]{+x y+} d"),
        ("a b c d", "a x c y", "a [-b-]{+x+} c [-d-]{+y+}"),
        ("a b", "a b c", "a b{+ c+}"),
        ("a b\nc", "a x\ny", "a [-b-]{+x+}⏎[-c-]{+y+}"),
        ("a", "b " * 200, f"[-a-]{{+{'b ' * 60}…+}}"),
    ],
)
def test_word_diffs_join_neighbouring_words_and_close_each_mark(before, now, shown):
    assert word_diff(before, now) == shown


def test_long_word_diffs_end_after_a_whole_mark():
    before, now = (" ".join(f"{side}{n} same" for n in range(99)) for side in "ab")
    shown = word_diff(before, now)
    assert len(shown) < 500
    assert shown.count("[-") == shown.count("-]")
    assert shown.count("{+") == shown.count("+}")
