"""A large run for looking at the HTML report: 2,400 documents, 8 gates, 3 runs.

    python tests/screen_report.py FOLDER

Writes a suite into the folder, runs it with three versions of a model that draws its
answers by a hash of the prompt, and writes ``FOLDER/report.html``. Choices, generated
text with two filters, a group, data columns, a baseline, errors and cut answers are all
in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent

MODEL = '''\
"""A model that draws its answers; REPORT_SKILL is the fraction that it knows."""

import hashlib
import math
import os

import pytest

from pytest_evals import Generate, Model, Response

SKILL = float(os.environ["REPORT_SKILL"])
NAME = os.environ["REPORT_NAME"]


def draw(*parts):
    text = "/".join(map(str, parts)).encode()
    return int(hashlib.sha256(text).hexdigest()[:12], 16) / 16**12


def last(prompt):
    text = prompt if isinstance(prompt, str) else prompt[-1].content
    return text.rpartition("Question ")[2]


def known(question):
    """Equal for all models but for the questions between their skills."""
    return SKILL - 0.25 * ("law" in question or "hard" in question)


class Drawing(Model):
    name = NAME

    def answer(self, requests):
        for position, request in enumerate(requests):
            yield position, self.one(request)

    def one(self, request):
        if isinstance(request, Generate):
            return self.text(last(request.prompt))
        question = last(request.context)
        number = int(question.split(":")[0])
        right = sorted(range(4), key=lambda i: draw("order", number, i))[0]
        place = "ABCD".find(request.continuation.strip())
        if place < 0:
            place = int(request.continuation.split()[-1])
        doubt = draw("doubt", NAME, number)
        sure = 0.3 + 0.7 * draw("sure", number)
        knows = draw("know", number) * 0.9 + 0.1 * doubt < known(question) * sure + 0.2
        best = right if knows else (right + 1 + int(3 * doubt)) % 4
        value = 4 * sure if place == best else draw("rest", number, place)
        return Response(logprob=value - 6 - 2 * doubt, greedy=place == best)

    def text(self, question):
        number = int(question.split(":")[0])
        if "rc" in NAME and draw("fail", number) < 0.004:
            return Response(error="429: rate limit exceeded, retried 5 times")
        sum_ = sum(map(int, question.split(":")[1].rstrip("?\\nAnswer:").split("+")))
        doubt = draw("sum", number) * 0.9 + 0.1 * draw("sum", NAME, number)
        steps = 1 + int(30 * draw("steps", number) * (1 + doubt))
        words = "".join(f" Step {i + 1}: add {i}." for i in range(steps))
        if steps > 45:
            return Response(text=words, finish="length", n_tokens=256)
        answer = sum_ if doubt + steps / 200 < known(question) else sum_ + steps
        n = 4 * steps + 3
        return Response(
            text=f"{words} The answer is {answer}.", finish="stop", n_tokens=n,
            n_prompt_tokens=len(question) // 3 + 12,
            latency_s=0.2 + n / 90 + draw("wait", NAME, number), cost=n * 6e-5,
        )


@pytest.fixture(scope="session")
def eval_model():
    return Drawing()
'''
SUBJECTS = ("algebra", "anatomy", "law", "history", "physics", "world religions")


def order(number: int) -> list[int]:
    """Return the permutation by which the model's file finds the right choice."""
    import hashlib

    def draw(i: int) -> int:
        text = f"order/{number}/{i}".encode()
        return int(hashlib.sha256(text).hexdigest()[:12], 16)

    return sorted(range(4), key=draw)


def suite(folder: Path) -> None:
    """Write the suite."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conftest.py").write_text(MODEL, "utf-8")
    for task, first, n, target in (
        ("exams_social", 0, 700, "index"),
        ("exams_science", 700, 700, "letter"),
        ("passages", 1400, 200, "text"),
    ):
        rows = [choice_row(number, target) for number in range(first, first + n)]
        choices = ["A", "B", "C", "D"] if target != "text" else "{{options}}"
        config: dict[str, object] = {
            "output_type": "multiple_choice",
            "doc_to_text": "{{stem}}\nAnswer:",
            "doc_to_choice": choices,
            "doc_to_target": {
                "index": "label", "letter": "{{letter}}", "text": "{{gold}}",
            }[target],
            "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
            "num_fewshot": 2 if target == "letter" else 0,
            "fewshot_split": "test",
        }  # fmt: skip
        gates: list[object] = {
            "exams_social": [
                "acc >= 0.5",
                {"metric": "acc", "min": 0.62, "over": "population", "id": "floor"},
                {"metric": "acc", "baseline": "v1", "max_drop": 0.03},
            ],
            "exams_science": [
                {"metric": "acc_norm", "min": 0.4, "over": "population"},
                {"metric": "acc", "baseline": "v1", "max_drop": 0.01},
            ],
            "passages": [{"metric": "acc", "min": 0.6, "over": "population"}],
        }[task]
        write(folder, task, rows, config, gates)
    rows = [
        {
            "qid": f"gsm-like/arithmetic-with-long-identifiers/{number:05d}",
            "stem": f"Question {number}: {number} + {number * 7 % 90}?",
            "answer": str(number + number * 7 % 90),
            "level": ["easy", "medium", "hard"][number % 3],
            "tags": ["sum", *(["carry"] if number % 4 else [])],
        }
        for number in range(1600, 2400)
    ]
    last = {"function": "regex", "regex_pattern": r"(\d+)\.?$"}
    config = {
        "output_type": "generate_until",
        "doc_to_text": "{{stem}}\nAnswer:",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 256},
        "metric_list": [{"metric": "exact_match"}],
        "filter_list": [
            {"name": "last-number", "filter": [last, {"function": "take_first"}]},
            {"name": "verbatim", "filter": [{"function": "take_first"}]},
        ],
    }
    strict = {"metric": "exact_match,last-number"}
    write(folder, "sums", rows, config, [
        {**strict, "min": 0.3, "over": "population"},
        {**strict, "baseline": "v1", "max_drop": 0.02},
    ])  # fmt: skip
    group = {
        "group": "exams",
        "task": ["exams_social", "exams_science"],
        "aggregate_metric_list": [{"metric": "acc", "weight_by_size": True}],
    }
    (folder / "exams.yaml").write_text(yaml.safe_dump(group, sort_keys=False), "utf-8")


def choice_row(number: int, target: str) -> dict[str, object]:
    """Return a row of a task with choices."""
    subject = SUBJECTS[number % len(SUBJECTS)]
    right = order(number)[0]
    options = [f"option number {i}" for i in range(4)]
    level = ["easy", "hard"][number // 7 % 2]
    texts = "".join(f"\n{'ABCD'[i]}. {one}" for i, one in enumerate(options))
    listed = "" if target == "text" else texts
    return {
        "id": f"{subject.replace(' ', '_')}/test/{number:04d}",
        "stem": f"Question {number}: In {subject} ({level}), which one fits?{listed}",
        "options": options,
        "label": right,
        "letter": "ABCD"[right],
        "gold": options[right],
        "subject": subject,
        "level": level,
    }


def write(
    folder: Path,
    task: str,
    rows: list[dict[str, object]],
    config: dict[str, object],
    gates: list[object],
) -> None:
    """Write a task and its data."""
    data = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{task}.jsonl").write_text(data, "utf-8")
    whole = {
        "task": task,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": f"{task}.jsonl"}},
        "test_split": "test",
        **config,
        "gates": gates,
    }
    text = yaml.safe_dump(whole, sort_keys=False)
    (folder / f"{task}.yaml").write_text(text, "utf-8")


def run(folder: Path, name: str, skill: float, *options: str) -> None:
    """Run the suite with one model; failed gates are expected."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "REPORT_NAME": name,
        "REPORT_SKILL": str(skill),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", ".", *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stdout.write(done.stdout[-1500:] + done.stderr[-500:])


def main(folder: Path) -> None:
    """Write the suite, run it three times and write the report."""
    suite(folder)
    # gates on a baseline that does not exist yet do not prevent saving it
    run(folder, "acme/llm-8b v1", 0.72, "--evals-save-baseline=v1")
    run(folder, "acme/llm-3b", 0.5)
    run(
        folder, "acme/llm-8b rc2", 0.66,
        "--evals-compare=v1", "--evals-html=report.html",
    )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
