"""Three small tasks as a lighteval module."""

from pathlib import Path

import numpy as np
from lighteval.metrics.dynamic_metrics import LogLikelihoodAccMetric
from lighteval.metrics.metrics import Metrics
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.normalizations import LogProbCharNorm
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod

DATA = Path(__file__).parent / "data"


class Length(SampleLevelComputation):
    def compute(self, doc, model_response, **kwargs):
        return len(model_response.text[0])


LENGTH = SampleLevelMetric(
    metric_name="length",
    higher_is_better=False,
    category=SamplingMethod.GENERATIVE,
    sample_level_fn=Length(),
    corpus_level_fn=np.mean,
)


def colour(line, task_name: str = ""):
    return Doc(
        task_name=task_name,
        query=f"What is the colour of {line['thing']}?",
        choices=[f" {choice}" for choice in line["choices"]],
        gold_index=line["label"],
    )


def addition(line, task_name: str = ""):
    return Doc(
        task_name=task_name,
        query=f"{line['question']}=",
        choices=[f" {line['answer']}"],
        gold_index=0,
        instruction="Add.\n",
    )


def text(line, task_name: str = ""):
    return Doc(task_name=task_name, query=line["text"], choices=[], gold_index=[])


def task(name, prompt_function, metrics, train=None, **more):
    files = {"test": str(DATA / f"{name}.jsonl")}
    if train:
        files["train"] = str(DATA / train)
    return LightevalTaskConfig(
        name=f"small:{name}",
        prompt_function=prompt_function,
        hf_repo="json",
        hf_subset="default",
        hf_data_files=files,
        hf_avail_splits=list(files),
        evaluation_splits=["test"],
        metrics=metrics,
        version=1,
        **more,
    )


TASKS_TABLE = [
    task(
        "colours",
        colour,
        [Metrics.loglikelihood_acc, LogLikelihoodAccMetric(LogProbCharNorm())],
    ),
    task(
        "sums",
        addition,
        [Metrics.exact_match, LENGTH],
        train="train.jsonl",
        num_fewshots=1,
        few_shots_split="train",
        few_shots_select="sequential",
        generation_size=60,
        stop_sequence=["\n\n"],
    ),
    task("texts", text, [Metrics.word_perplexity, Metrics.bits_per_byte]),
]
