"""Task classes that the parity tests name with ``class:``."""

from __future__ import annotations

import json
from functools import partial
from math import exp
from pathlib import Path

import datasets
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean, median
from lm_eval.api.task import ConfigurableTask

DATA = Path(__file__).parent / "data"


def _rows(name):
    lines = (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return datasets.Dataset.from_list([json.loads(line) for line in lines])


def _share(least, pairs):
    return sum(said == right and p >= least for said, right, p in pairs) / len(pairs)


class Sums(ConfigurableTask):
    """Sends a generation and a log-likelihood request per document, both at index 0,
    and aggregates a custom structure."""

    VERSION = 3
    DATASET_PATH = "none"

    def __init__(self, config=None):
        super().__init__(config={"metadata": {"version": self.VERSION}})

    def download(self, *args, **kwargs):
        self.dataset = {"train": _rows("sums_train"), "validation": _rows("sums")}

    def has_training_docs(self):
        return True

    def has_validation_docs(self):
        return True

    def has_test_docs(self):
        return False

    def training_docs(self):
        return self.dataset["train"]

    def validation_docs(self):
        return self.dataset["validation"]

    def doc_to_text(self, doc, doc_to_text=None):
        return doc["question"]

    def doc_to_target(self, doc, doc_to_target=None):
        return " " + doc["answer"]

    def construct_requests(
        self, doc, ctx, chat_template=None, apply_chat_template=False, **kwargs
    ):
        continuation = doc["answer"] if apply_chat_template else " " + doc["answer"]
        return [
            Instance(
                request_type="generate_until",
                doc=doc,
                arguments=(ctx, {"until": ["\n"], "max_gen_toks": 8}),
                idx=0,
                **kwargs,
            ),
            Instance(
                request_type="loglikelihood",
                doc=doc,
                arguments=(ctx, continuation),
                idx=0,
                **kwargs,
            ),
        ]

    def process_results(self, doc, results):
        text, (logprob, greedy) = results
        said = text.strip()
        return {
            "exact": float(said == doc["answer"]),
            "greedy": int(greedy),
            "sure": (said, doc["answer"], exp(logprob)),
            "length": len(said),
            "middle": len(said),
        }

    def aggregation(self):
        return {
            "exact": mean,
            "greedy": mean,
            "middle": median,
            "sure": partial(_share, 0.0),
        }

    def higher_is_better(self):
        return {"exact": True, "greedy": True, "sure": True}


class Reversed(ConfigurableTask):
    """The keys of its file, but for the question."""

    def __init__(self, config):
        config.pop("class")
        super().__init__(config=config)

    def doc_to_text(self, doc, doc_to_text=None):
        return "Reverse: " + doc["letters"] + "\nAnswer:"


class Letters(ConfigurableTask):
    """Custom choices, requested from the last to the first, with lm-eval's metrics."""

    VERSION = "two"

    def __init__(self, **kwargs):
        keys = {
            "task": "ignored",
            "output_type": "multiple_choice",
            "training_split": "train",
            "test_split": "test",
            "num_fewshot": 1,
            "doc_to_choice": "choices",
            "doc_to_target": "label",
            "doc_to_text": "question",
            "description": "Sums.\n\n",
            "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
            "metadata": {"version": 7},
        }
        super().__init__(config=keys)

    def download(self, *args, **kwargs):
        self.dataset = {"train": _rows("sums_train"), "test": _rows("sums")}

    def doc_to_choice(self, doc, doc_to_choice=None):
        return doc["choices"][:2]

    def doc_to_target(self, doc, doc_to_target=None):
        return min(doc["label"], 1)

    def construct_requests(self, doc, ctx, **kwargs):
        return super().construct_requests(doc, ctx, **kwargs)[::-1]
