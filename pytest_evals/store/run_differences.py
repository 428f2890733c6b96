"""Differences between the settings and prompts of two runs, the most likely cause of a
changed number first.

Runs of other programs have the form of lm-eval's results, as ours do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice, takewhile
from typing import Any, NamedTuple

from pytest_evals.core.comparison import RunDifference
from pytest_evals.errors import abbreviated
from pytest_evals.masking.values import masked, masked_text
from pytest_evals.store.document_pairs import Pair
from pytest_evals.store.run_settings import (
    BATCH_KEYS,
    MACHINE_KEYS,
    Row,
    Side,
    mapping_at,
)

_MODEL = ("pretrained", "model")
_SMALL = frozenset({*_MODEL, *MACHINE_KEYS, *BATCH_KEYS, "max_batch_size"})
"""Arguments of a model that are compared elsewhere, or hardly change a number."""
_EXAMPLES, _LONGEST, _CONTEXT, _WORDS = 3, 60, 4, 300
"""Prompts that are shown, characters of a value, words around a change, and words in
which changes are searched."""
_LONGEST_CHANGE = 121  # characters of a changed text, with the ellipsis
_DATASET = ("dataset_path", "dataset_name", "dataset", "test_split", "revision")

_MACHINE = ("device", "device_name", "torch_version", "transformers_version")
_UNKNOWN = object()


class _Change(NamedTuple):
    name: str
    before: Any
    now: Any

    @property
    def text(self) -> str:
        return f"{self.name}: {_shown(self.now)} (baseline: {_shown(self.before)})"

    def is_known(self) -> bool:
        return _UNKNOWN not in (self.before, self.now) and self.before != self.now


def run_differences(
    before: Side, now: Side, pairs: Mapping[str, Sequence[Pair]]
) -> tuple[RunDifference, ...]:
    """The differences between two runs."""
    both = (before.results, now.results)
    sides = (before, now)
    few_shot = {
        task: [_entry_change("few-shot examples", "n-shot", task, sides)]
        for task in pairs
    }
    settings = {task: [*_task_changes(task, pairs[task], sides)] for task in pairs}
    return (
        *_texts(_model_changes(*both)),
        *_texts(_speech_changes(*both)),
        *_by_task(few_shot),
        *_prompts(pairs),
        *_by_task(settings),
        *_texts(_program_changes(*both)),
    )


def _texts(changes: Iterator[_Change]) -> Iterator[RunDifference]:
    for one in changes:
        if one.is_known():
            texts = isinstance(one.before, str) and isinstance(one.now, str)
            is_long = texts and max(len(one.before), len(one.now)) > _LONGEST
            diff = (word_diff(one.before, one.now),) if is_long else ()
            text = f"{one.name}: another text" if is_long else one.text
            yield RunDifference(text=masked_text(text), examples=diff)


def _by_task(found: Mapping[str, Sequence[_Change]]) -> Iterator[RunDifference]:
    """Changes of tasks, each once with the tasks that it is in."""
    tasks: dict[str, list[str]] = {}
    for task, changes in found.items():
        for one in changes:
            if one.is_known():
                tasks.setdefault(one.text, []).append(task)
    for text, names in tasks.items():
        yield RunDifference(text=f"{text}{_in_tasks(names, found)}")


def _model_changes(*both: Mapping[str, Any]) -> Iterator[_Change]:
    yield _Change("model", *(one.get("model_name", _UNKNOWN) for one in both))
    old, new = map(_model_arguments, both)
    names = [one.get("model_name") for one in both]
    is_same_program = _program(both[0])[0] == _program(both[1])[0]
    for key in {**old, **new} if is_same_program else [k for k in old if k in new]:
        if key not in _SMALL and [old.get(key), new.get(key)] != names:
            yield _Change(f"model argument {key}", old.get(key), new.get(key))
    for name, key in (("commit", "sha"), ("revision", "revision")):
        values = (
            mapping_at(one, "config").get(f"model_{key}") or _UNKNOWN for one in both
        )
        yield _Change(f"model's {name}", *values)
    yield _Change("dtype", *map(_dtype, both))


def _dtype(results: Mapping[str, Any]) -> Any:
    known = (
        mapping_at(results, "model_info").get("dtype"),
        mapping_at(results, "config").get("model_dtype"),
        _model_arguments(results).get("dtype"),
    )
    found = next((one for one in known if one and one != "auto"), _UNKNOWN)
    return found.removeprefix("torch.") if isinstance(found, str) else found


def _model_arguments(results: Mapping[str, Any]) -> dict[str, Any]:
    found = mapping_at(results, "config").get("model_args")
    if isinstance(found, str):  # older releases of lm-eval
        pairs = (one.partition("=") for one in found.split(",") if one)
        return masked({key: value for key, _, value in pairs})
    return masked(dict(found)) if isinstance(found, Mapping) else {}


def _speech_changes(*both: Mapping[str, Any]) -> Iterator[_Change]:
    for name, key in (
        ("chat template", "chat_template"),
        ("system prompt", "system_instruction"),
    ):
        yield _Change(name, *(one.get(key, _UNKNOWN) for one in both))
    for name, key in (
        ("few-shot seed", "fewshot_seed"),
        ("generation arguments", "gen_kwargs"),
        ("limit", "limit"),
    ):
        values = (mapping_at(one, "config").get(key, _UNKNOWN) for one in both)
        yield _Change(name, *(None if value == {} else value for value in values))
    samples = (mapping_at(one, "options").get("sample", _UNKNOWN) for one in both)
    yield _Change("sample", *samples)


def _program_changes(*both: Mapping[str, Any]) -> Iterator[_Change]:
    old, new = map(_program, both)
    if old[0] != new[0]:
        yield _Change("program", *(" ".join(filter(None, one)) for one in (old, new)))
    elif old[1] and new[1]:
        yield _Change(f"version of {new[0]}", old[1], new[1])
    infos = [mapping_at(one, "model_info") for one in both]
    for key in _MACHINE:
        yield _Change(key, *(one.get(key) or _UNKNOWN for one in infos))
    old_args, new_args = map(_model_arguments, both)
    for key in BATCH_KEYS:
        yield _Change(key, *(one.get(key, "automatic") for one in (old_args, new_args)))


def _program(results: Mapping[str, Any]) -> tuple[str, str]:
    """Name and version of the program that made the results."""
    if "pytest_evals_version" in results:
        return "pytest-model-evals", str(results["pytest_evals_version"])
    name = str(results.get("program") or "lm-eval")
    key = "lm_eval_version" if name == "lm-eval" else "program_version"
    return name, str(results.get(key) or "")


def _entry_change(name: str, section: str, task: str, sides: Sequence[Side]) -> _Change:
    found = (one.of(section, task) for one in sides)
    return _Change(name, *(_UNKNOWN if one is None else one for one in found))


def _task_changes(
    task: str, pairs: Sequence[Pair], sides: Sequence[Side]
) -> Iterator[_Change]:
    configs = [_mapping(one.of("configs", task)) for one in sides]
    sent = [*map(_sent, pairs[0])] if pairs else [None]
    given = [one.get("generation_kwargs") for one in configs]
    old, new = map(_mapping, given if None in sent else sent)
    for key in {**old, **new}:
        yield _Change(f"generation argument {key}", old.get(key), new.get(key))
    flat = [{**mapping_at(one, "dataset_kwargs"), **one} for one in configs]
    for key in _DATASET:
        yield _Change(key, *(one.get(key, _UNKNOWN) for one in flat))
    rows = [one.rows.get(task, ()) for one in sides]
    yield _Change("filters", *map(_filters, rows))
    lists = (one.get("filter_list", _UNKNOWN) for one in configs)
    yield _Change("filter_list", *lists)
    # Without any, no document has a score.
    yield _Change("metrics", *(_metrics(one) or _UNKNOWN for one in rows))
    yield _entry_change("version of the task", "versions", task, sides)


def _prompts(pairs: Mapping[str, Sequence[Pair]]) -> Iterator[RunDifference]:
    """The documents with another prompt, over all tasks."""
    n, changed = 0, dict[str, list[Pair]]()
    for task, both in pairs.items():
        known = [one for one in both if all(r.get("prompt_hash") for r in one)]
        n += len(known)
        if found := [pair for pair in known if _is_other_prompt(*pair)]:
            changed[task] = found
    n_changed = sum(map(len, changed.values()))
    if n_changed:
        share = f"{n_changed:,} of {n:,} documents ({n_changed / n:.0%})"
        stored = (
            f"{task}[{pair[1].get('id')}]: {word_diff(*map(_prompt, pair))}"
            for task, found in changed.items()
            for pair in found
            if all(map(_prompt, pair))
        )
        examples = tuple(islice(stored, _EXAMPLES))
        yield RunDifference(
            text=f"prompts: {share} have another prompt{_in_tasks([*changed], pairs)}",
            examples=examples or ("the prompts are not stored, only their hashes",),
        )


def _in_tasks(names: Sequence[str], every: Collection[str]) -> str:
    """`` in arc, gsm8k, …``; empty if all tasks are meant."""
    named = ", ".join(names[:_EXAMPLES]) + ", …" * (len(names) > _EXAMPLES)
    return "" if len(names) == len(every) else f" in {named}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _filters(rows: Sequence[Row]) -> str:
    return ", ".join(sorted({str(row.get("filter")) for row in rows}))


def _metrics(rows: Sequence[Row]) -> str:
    return ", ".join(sorted({one for row in rows for one in row.get("metrics") or ()}))


def _sent(row: Row) -> Mapping[str, Any] | None:
    found = _argument(row, "arg_1")
    return found if isinstance(found, Mapping) else None


def _argument(row: Row, name: str) -> Any:
    return mapping_at(mapping_at(row, "arguments"), "gen_args_0").get(name)


def _is_other_prompt(old: Row, new: Row) -> bool:
    if old["prompt_hash"] == new["prompt_hash"]:
        return False
    texts = _prompt(old), _prompt(new)
    return not texts[0] or texts[0] != texts[1]  # a chat has several forms


def _prompt(row: Row) -> str:
    """The prompt as text; of a chat its messages."""
    found = _argument(row, "arg_0")
    if isinstance(found, Sequence) and not isinstance(found, str):
        turns = (one if isinstance(one, Mapping) else str(one) for one in found)
        return "\n".join(
            one if isinstance(one, str) else f"{one.get('role')}: {one.get('content')}"
            for one in turns
        )
    return found if isinstance(found, str) else ""


def word_diff(before: str, now: str) -> str:
    """The first change in a text: ``… the [-sum-]{+total+} of …``."""
    old, new = (re.findall(r"\s+|[^\s]+", text) for text in (before, now))
    start = sum(1 for _ in takewhile(_is_pair, zip(old, new, strict=False)))
    ends = zip(reversed(old[start:]), reversed(new[start:]), strict=False)
    end = sum(1 for _ in takewhile(_is_pair, ends))
    after = old[len(old) - end :][: 2 * _CONTEXT]
    old, new = old[: len(old) - end], new[: len(new) - end]
    lead = old[max(0, start - 2 * _CONTEXT) : start]
    middle = _marked(old[start:], new[start:])
    dots = "… " * (start > 2 * _CONTEXT), " …" * (end > 2 * _CONTEXT)
    return f"{dots[0]}{_line(lead)}{middle}{_line(after)}{dots[1]}"


def _is_pair(two: tuple[str, str]) -> bool:
    return two[0] == two[1]


def _marked(old: Sequence[str], new: Sequence[str]) -> str:
    """Words with the marks of a word diff; those of long texts are cut."""
    old, new = old[:_WORDS], new[:_WORDS]
    shown, gone, come = "", "", ""
    for tag, *at in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        left, added = _line(old[at[0] : at[1]]), _line(new[at[2] : at[3]])
        if (gone or come) and tag == "equal" and (not left.isspace() or "⏎" in left):
            shown, gone, come = shown + _change_mark(gone, come), "", ""
        if len(shown) > 4 * _LONGEST:
            return f"{shown}…"
        if tag != "equal" or gone or come:  # a space between two changes is in both
            gone, come = gone + left, come + added
        else:
            shown += abbreviated(left, _LONGEST_CHANGE)
    return shown + _change_mark(gone, come)


def _change_mark(gone: str, come: str) -> str:
    end = " " * (gone[-1:].isspace() and come[-1:].isspace())  # before an equal word
    gone, come = (one.removesuffix(end) if end else one for one in (gone, come))
    removed = f"[-{abbreviated(gone, _LONGEST_CHANGE)}-]" if gone else ""
    added = f"{{+{abbreviated(come, _LONGEST_CHANGE)}+}}" if come else ""
    return removed + added + end


def _line(words: Sequence[str]) -> str:
    return "".join(words).replace("\n", "⏎")


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return abbreviated(_line([text]), _LONGEST)
