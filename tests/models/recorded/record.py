"""Record lm-eval's responses on the tiny models of these tests.

    python tests/models/recorded/record.py save FOLDER     # with this project installed
    python tests/models/recorded/record.py record FOLDER   # with lm-eval 0.4.13

The first command creates the models, the second runs lm-eval (batch size 1, float32,
CPU) and rewrites ``lm_eval.json`` next to this file.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
KINDS = ("gpt2", "llama")
PAIRS = [
    ("the cat sat on the mat", " and the dog"),
    ("the cat sat on the mat", " and the cat"),
    ("hello ", "world"),
    ("  \n hello\n\n", " world"),
    ("", "hello world"),
    ("", "<s>hello"),
    ("<s>hello", " world"),
    ("Question: is it big?\nAnswer:", " no"),
    ("the cat sat and " * 20, "hello world"),
    ("é ü", " ñ"),
]
TEXTS = ["hello world", "", "q" * 63, "q" * 64, "q" * 65, "the cat and é " * 30]
PROMPTS = [
    ["the cat sat on the mat", ["zzz"], 20, {}],
    ["hello world", [], 12, {}],
    ["<s>hello world", [], 12, {}],
    ["a", ["\n\n", "c"], 30, {}],
    ["Answer:", ["t", "i"], 30, {}],
    ["q" * 100, [], 24, {}],
]
SOME = list(range(1, 300, 2))
SETTINGS = [
    {"min_new_tokens": 4, "eos_token_id": SOME},
    {"min_length": 14, "eos_token_id": SOME},
    {"eos_token_id": SOME},
    {"suppress_tokens": SOME},
    {"begin_suppress_tokens": SOME},
    {"bad_words_ids": [[n] for n in SOME]},
    {"forced_bos_token_id": 0, "forced_eos_token_id": 9},
    {"sequence_bias": [[[12], 4.0]]},
    {"exponential_decay_length_penalty": [3, 2.5]},
    {"guidance_scale": 1.7},
    {"encoder_repetition_penalty": 1.8, "renormalize_logits": True},
    {"repetition_penalty": 1.7, "no_repeat_ngram_size": 2, "min_new_tokens": 4},
    {"bos_token_id": 3, "use_mtp": False, "top_h": 0.3, "output_scores": True},
    {"max_length": 12},
    {"num_beams": 3},
    {"num_beams": 3, "early_stopping": True, "length_penalty": 2.0},
    {"num_beams": 2, "early_stopping": "never", "length_penalty": -1.0},
    {"num_beams": 4, "repetition_penalty": 1.3, "min_new_tokens": 6},
]
"""Settings that lm-eval passes to transformers' ``generate``."""
PROMPTS += [
    [prompt, until, 12, settings]
    for settings in SETTINGS
    for prompt, until in (("the cat", []), ("hello world", ["e", " the"]))
]


def save(folder: Path) -> None:
    """Create the models."""
    place = HERE.parent / "conftest.py"
    found = importlib.util.spec_from_file_location("tiny_models", place)
    made = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    for kind in KINDS:
        made.make_model(kind).save_pretrained(folder / kind)
        tokenizer = made.make_tokenizer(bos=kind == "llama")
        tokenizer.save_pretrained(folder / kind)


def record(folder: Path) -> None:
    """Run lm-eval."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    def instance(kind: str, *arguments: object) -> Instance:
        return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)

    answers = {}
    for kind in KINDS:
        model = HFLM(
            pretrained=str(folder / kind),
            device="cpu",
            dtype="float32",
            batch_size=1,
            logits_cache=False,
        )
        scored = model.loglikelihood([instance("loglikelihood", *p) for p in PAIRS])
        rolling = model.loglikelihood_rolling(
            [instance("loglikelihood_rolling", text) for text in TEXTS]
        )
        texts = [
            model.generate_until(
                [
                    instance(
                        "generate_until",
                        prompt,
                        {
                            "until": list(until),
                            "max_gen_toks": n,
                            "do_sample": False,
                            **settings,
                        },
                    )
                ]
            )[0]
            for prompt, until, n, settings in PROMPTS
        ]
        answers[kind] = {
            "loglikelihood": scored,
            "loglikelihood_rolling": rolling,
            "generate_until": texts,
        }
    requests = {"pairs": PAIRS, "texts": TEXTS, "prompts": PROMPTS}
    content = {"lm_eval": "0.4.13", "requests": requests, "answers": answers}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (HERE / "lm_eval.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    {"save": save, "record": record}[sys.argv[1]](Path(sys.argv[2]))
