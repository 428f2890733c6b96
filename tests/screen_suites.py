"""Write a small suite with canned answers for screens of the docs to ``NAME/``.

    python tests/screen_suites.py even

Each has a task, its data, and ``answers.jsonl`` for ``--model=scripted:…``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
Gates = list[str | dict[str, object]]


def write(
    folder: str,
    task: str,
    n: int,
    wrong: Collection[int],
    gates: Gates,
    errors: Collection[int] = (),
) -> None:
    """A task of ``n`` questions; ``wrong`` and ``errors`` are their numbers."""
    place = Path(folder)
    place.mkdir(exist_ok=True)
    ids = [chr(97 + i) for i in range(n)] if n <= 26 else [f"q{i}" for i in range(n)]
    rows = [
        {"id": id_, "question": f"Question {i}?", "answer": f"a{i}", "page": i // 10}
        for i, id_ in enumerate(ids)
    ]
    config = {
        "task": task,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": f"{task}.jsonl"}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "metric_list": [{"metric": "exact_match"}],
        "gates": gates,
    }
    text = yaml.safe_dump(config, sort_keys=False)
    (place / f"{task}.yaml").write_text(text, "utf-8")
    lines(place / f"{task}.jsonl", rows)
    answer(folder, n, wrong, errors)


def answer(
    folder: str, n: int, wrong: Collection[int], errors: Collection[int] = ()
) -> None:
    """Rewrite the answers."""
    rules: list[object] = []
    for i in range(n):
        rule = {"prompt": f"Question {i}?", "text": "no" if i in wrong else f"a{i}"}
        if i in errors:
            rule = {"prompt": f"Question {i}?", "error": "the server is down"}
        rules.append(rule)
    lines(Path(folder) / "answers.jsonl", rules)


def lines(path: Path, values: list[object]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in values), "utf-8")


def gate(**keys: object) -> dict[str, object]:
    return {"metric": "exact_match", **keys}


def sums() -> None:
    """Four documents, one of them without an answer."""
    write("sums", "sums", 4, [0], [gate(min=0.6)], errors=[2])


def even() -> None:
    """225 of 300 are correct: the gates of *Which noise counts*."""
    gates: Gates = [
        gate(min=0.72, over="population", id="others"),
        gate(min=0.65, over="population", id="floor"),
        gate(min=0.85, over="population", id="high"),
        gate(min=0.72, noise=0.035, id="again"),
    ]
    write("even", "even", 300, range(0, 300, 4), gates)


def versus() -> None:
    """225 of 300 are correct, to be saved; ``versus_now`` gets 17 of them wrong."""
    gates: Gates = [
        gate(baseline="main", max_drop=0.02),
        gate(baseline="main", max_drop=0.02, over="run", id="point"),
    ]
    write("versus", "quiz", 300, range(0, 300, 4), gates)


def versus_now() -> None:
    """17 that were correct are wrong now."""
    lost = range(1, 1 + 4 * 17, 4)
    answer("versus", 300, {*range(0, 300, 4), *lost})


def kept() -> None:
    """The same compared with the same baseline, with four gates, one of them almost
    met."""
    gates: Gates = [gate(baseline="main", max_drop=0.0375, id="kept")]
    gates += [
        gate(min=bar, over="population", id=f"floor-{bar}") for bar in (0.5, 0.55, 0.6)
    ]
    write("versus", "quiz", 300, range(0, 300, 4), gates)
    versus_now()


def pages() -> None:
    """Questions on 30 pages: 208 of 300 are correct, clustered by page."""
    gates: Gates = [gate(min=0.7, over="population", cluster="page", id="floor")]
    wrong = {10 * page + i for page in range(30) for i in range((page % 3) * 3)}
    write("pages", "quiz", 300, {*wrong, 0, 30}, gates)


def weak() -> None:
    """Compared with the same baseline: six documents were lost, four gained."""
    versus()
    wrong = {*range(16, 300, 4), *range(1, 25, 4)}
    answer("versus", 300, wrong)


def plan() -> None:
    """Ten documents, eight of them correct."""
    write("plan", "quiz", 10, [2, 5], ["exact_match >= 0.8"])


def big() -> None:
    """90% of 1,000 are correct."""
    write("big", "big", 1000, range(3, 1000, 10), ["exact_match >= 0.7"])


def one() -> None:
    """A single document."""
    write("one", "quiz", 1, [], [])


def quiz() -> None:
    """Four documents in ``evals/``."""
    write("evals", "quiz", 4, [], [])


def drawn() -> None:
    """Forty sums for the bundled model, which samples its answers."""
    write("drawn", "quiz", 40, [], [])
    path = Path("drawn/quiz.yaml")
    config = yaml.safe_load(path.read_text("utf-8"))
    config["doc_to_text"] = "Question: {{question}}=?\nAnswer:"
    config["generation_kwargs"] = {
        "until": ["\n"],
        "max_gen_toks": 4,
        "do_sample": True,
        "temperature": 1.2,
    }
    number = {"function": "regex", "regex_pattern": r"\d+"}
    config["filter_list"] = [
        {"name": "number", "filter": [number, {"function": "take_first"}]}
    ]
    path.write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    sums = [(n + 2, n + 7) for n in range(40)]
    rows: list[object] = [
        {"question": f"{a}+{b}", "answer": f"{a + b}"} for a, b in sums
    ]
    lines(Path("drawn/quiz.jsonl"), rows)


def tutorial() -> None:
    """The suite of the tutorial as on its page, before there are gates."""
    text = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    Path("evals").mkdir(exist_ok=True)
    for name in ("evals/capitals.jsonl", "evals/capitals.yaml"):
        block = text.partition(f"<!-- {name} -->\n")[2]
        Path(name).write_text(block.partition("\n")[2].partition("```")[0], "utf-8")


FAULTY = """\
task: q
dataset_path: json
dataset_kwargs: {data_files: {test: q.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
metric_list:
  - metric: exact_match
    aggregation: maen
fewshot_config: {sampler: balanced}
tags: [quick]
generation_kwargs:
  until: ["\\n"]
  max_gen_toks: 0
"""


def faulty() -> None:
    """A task file with several mistakes."""
    Path("evals").mkdir(exist_ok=True)
    Path("evals/q.yaml").write_text(FAULTY, "utf-8")
    lines(Path("evals/q.jsonl"), [{"question": "1 + 1?", "answer": "2"}])


SUITES: dict[str, Callable[[], None]] = {
    make.__name__: make
    for make in (
        *(sums, even, versus, versus_now, kept, pages, weak, plan, big, faulty),
        *(one, quiz, drawn, tutorial),
    )
}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        SUITES[name]()
