"""Three tasks of a synthetic world as a lighteval module: multiple choice, few-shot
generation and perplexity. Its data is that of the neighbouring suite."""

from pathlib import Path

from lighteval.metrics.dynamic_metrics import LogLikelihoodAccMetric
from lighteval.metrics.metrics import Metrics
from lighteval.metrics.normalizations import LogProbCharNorm
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc

DATA = Path(__file__).parent.parent / "lm_eval" / "data"


def capital(line, task_name: str = ""):
    """Capitals, half of which occur in no training text."""
    return Doc(
        task_name=task_name,
        query=f"Question: What is the capital of {line['country']}?\nAnswer:",
        choices=[f" {choice}" for choice in line["choices"]],
        gold_index=line["label"],
    )


def addition(line, task_name: str = ""):
    """Sums of two numbers."""
    return Doc(
        task_name=task_name,
        query=f"Question: {line['question']}=?\nAnswer:",
        choices=[f" {line['answer']}"],
        gold_index=0,
    )


def story(line, task_name: str = ""):
    """Perplexity of texts."""
    return Doc(task_name=task_name, query=line["text"], choices=[], gold_index=[])


def task(name, prompt_function, metrics, **more):
    """A task of one of the configurations that the folder's README lists."""
    return LightevalTaskConfig(
        name=f"toyworld:{name}",
        prompt_function=prompt_function,
        hf_repo=str(DATA),
        hf_subset=name,
        evaluation_splits=["test"],
        metrics=metrics,
        version=1,
        **more,
    )


TASKS_TABLE = [
    task(
        "capitals",
        capital,
        [Metrics.loglikelihood_acc, LogLikelihoodAccMetric(LogProbCharNorm())],
    ),
    task(
        "addition",
        addition,
        [Metrics.exact_match],
        num_fewshots=2,
        few_shots_select="random_sampling_from_train",
        generation_size=8,
        stop_sequence=["\n\n"],
    ),
    task("stories", story, [Metrics.word_perplexity, Metrics.bits_per_byte]),
]
