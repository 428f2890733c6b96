"""Write lm-eval task files over synthetic texts: one folder per kind of task."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from synthetic_texts import Writer

__all__ = ["KINDS", "make_tasks"]

Rows = list[dict[str, Any]]
N_SHOTS = 5
N_SUITE = 20
LETTERS = """\
doc_to_text: "{{question.strip()}}\\nA. {{choices[0]}}\\nB. {{choices[1]}}\\n\\
  C. {{choices[2]}}\\nD. {{choices[3]}}\\nAnswer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: answer
"""
FULL_TEXT = """\
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_choice: "{{choices}}"
doc_to_target: answer
"""
CHOICES = """\
output_type: multiple_choice
metric_list:
  - metric: acc
  - metric: acc_norm
"""
SHOTS = f"""\
fewshot_split: dev
num_fewshot: {N_SHOTS}
"""
FIRST = """\
fewshot_config: {sampler: first_n}
"""
ROLLING = """\
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list:
  - metric: word_perplexity
  - metric: byte_perplexity
  - metric: bits_per_byte
"""
WRITTEN = """\
output_type: generate_until
doc_to_text: "{{text}}\\nAnswer:"
doc_to_target: answer
generation_kwargs:
  until: ["\\n\\n", "mai", "sku"]
  max_gen_toks: 96
  do_sample: false
metric_list:
  - metric: exact_match
  - metric: chrf
"""


def make_tasks(kind: str, folder: Path, n_docs: int) -> list[str]:
    """Write the files of one kind of task into ``folder``.

    Returns:
        The names of the tasks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _write(folder, name, text, splits) for name, text, splits in KINDS[kind](n_docs)
    ]


Task = tuple[str, str, Mapping[str, Rows]]


def _write(folder: Path, name: str, text: str, splits: Mapping[str, Rows]) -> str:
    files = {}
    for split, rows in splits.items():
        path = folder / f"{name}_{split}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        files[split] = str(path)
    head = (
        f"task: {name}\ndataset_path: json\n"
        f"dataset_kwargs: {{data_files: {json.dumps(files)}}}\ntest_split: test\n"
    )
    (folder / f"{name}.yaml").write_text(f"{head}{text}metadata: {{version: 1.0}}\n")
    return name


def _choices(seed: int, n: int, n_words: int, words: Sequence[int]) -> Rows:
    """Questions with four choices; ``words`` is the range of their lengths in words."""
    writer = Writer(seed)
    return [
        {
            "question": writer.text(n_words),
            "choices": [writer.phrase(writer.random.choice(words)) for _ in range(4)],
            "answer": writer.random.randrange(4),
        }
        for _ in range(n)
    ]


def _letters(name: str, n: int, seed: int) -> Task:
    splits = {
        "test": _choices(seed, n, 95, [4, 5, 6]),
        "dev": _choices(seed + 1, N_SHOTS, 95, [4, 5, 6]),
    }
    return name, LETTERS + CHOICES + SHOTS + FIRST, splits


def _full_text(name: str, n: int, seed: int) -> Task:
    splits = {
        "test": _choices(seed, n, 75, [4, 6, 8]),
        "dev": _choices(seed + 1, N_SHOTS, 75, [4, 6, 8]),
    }
    return name, FULL_TEXT + CHOICES + SHOTS + FIRST, splits


def _drawn_shots(name: str, n: int, seed: int) -> Task:
    splits = {
        "test": _choices(seed, n, 40, [4, 6, 8]),
        "dev": _choices(seed + 1, 50, 40, [4, 6, 8]),
    }
    return name, FULL_TEXT + CHOICES + SHOTS, splits


def _no_shots(name: str, n: int, seed: int) -> Task:
    return (
        name,
        FULL_TEXT + CHOICES,
        {"test": _choices(seed, n, 75, [4, 6, 8, 10])},
    )


def _rolling(name: str, n: int, seed: int) -> Task:
    writer = Writer(seed)
    lengths = (int(60 * 40 ** writer.random.random()) for _ in range(n))
    return name, ROLLING, {"test": [{"text": writer.text(m)} for m in lengths]}


def _written(name: str, n: int, seed: int) -> Task:
    writer = Writer(seed)
    rows = []
    for _ in range(n):
        length = int(30 * 12 ** writer.random.random())
        rows.append({"text": writer.text(length), "answer": writer.phrase(3)})
    return name, WRITTEN, {"test": rows}


def _suite(n: int) -> Iterator[Task]:
    """Several small tasks, as in a first evaluation of a model."""
    n = max(1, n // 5)
    for i in range(N_SUITE):
        make = (_letters, _letters, _letters, _full_text, _drawn_shots)[i % 5]
        yield make(f"bench_suite_{i:02}", n, 1_000 + 10 * i)


KINDS: Mapping[str, Callable[[int], Iterator[Task] | list[Task]]] = {
    "letters": lambda n: [_letters("bench_letters", n, 10)],
    "full_text": lambda n: [_full_text("bench_full_text", n, 20)],
    "no_shots": lambda n: [_no_shots("bench_no_shots", n, 30)],
    "rolling": lambda n: [_rolling("bench_rolling", n, 40)],
    "generation": lambda n: [_written("bench_generation", n, 50)],
    "suite": _suite,
}
"""Kind → number of documents per task (a fifth of them each in the suite of 20)."""
