"""Random damage to stored responses: a response is read as it was written, or its loss
is reported.

``python -m tests.fuzz.damage --seed 7 --rounds 1000``; ``--round 12`` repeats one.

The stores are those of runs that ended, and of runs that were killed and left a log.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_evals.core.key import RequestKey, request_keys
from pytest_evals.core.request import Generate, Response
from pytest_evals.store.responses import NAME, Responses

MODEL = {"weights": "0a1b"}
PAGE = 4096
SIZES = (5, 40, 300, 900)
"""Responses of a store."""
ENDS = ("closed", "killed", "killed late")


def contents(n: int) -> dict[RequestKey, Response]:
    """The responses of a store."""
    draw = random.Random(n)
    keys = list(request_keys(Generate(f"prompt {i}") for i in range(n)))
    lengths = (1, 20, 300, 300, 9000)
    return {
        key: Response(text=f"{i} " + "x" * draw.choice(lengths), finish="stop")
        for i, key in enumerate(keys)
        if key is not None
    }


def build(base: Path, n: int, end: str) -> None:
    """Write a store in another process, which is closed or killed."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    store, rows = Responses(base, MODEL), [*contents(n).items()]
    parts = 4 if end == "killed" else 2
    for start in range(0, n, -(-n // parts)):
        for key, response in rows[start : start + -(-n // parts)]:
            store.add(key, response)
        time.sleep(1.2 if end == "killed late" else 0.2)
    if end == "closed":
        store.close()
    os._exit(0)


# --- damage ---------------------------------------------------------------------------


def _bytes(raw: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 1, 4, 16, 64))):
        raw[draw.randrange(len(raw))] = draw.randrange(256)


def _bits(raw: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 1, 2, 8))):
        raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)


def _block(raw: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(raw))
    length = min(len(raw) - start, draw.choice((2, 16, 512, 4096, 16384)))
    raw[start : start + length] = draw.randbytes(length)


def _zeros(raw: bytearray, draw: random.Random) -> None:
    start = draw.randrange(0, len(raw), draw.choice((1, 512, PAGE)))
    length = min(len(raw) - start, draw.choice((16, 512, PAGE, 4 * PAGE)))
    raw[start : start + length] = bytes(length)


def _cut(raw: bytearray, draw: random.Random) -> None:
    place = draw.randrange(len(raw))
    del raw[draw.choice((place, place - place % PAGE, place - place % 512, 0)) :]


def _copied_page(raw: bytearray, draw: random.Random) -> None:
    n = max(1, len(raw) // PAGE)
    a, b = (PAGE * draw.randrange(n) for _ in range(2))
    raw[a : a + PAGE] = raw[b : b + PAGE]


def _inserted(raw: bytearray, draw: random.Random) -> None:
    place = draw.randrange(len(raw))
    raw[place:place] = draw.randbytes(draw.choice((1, 32, PAGE)))


KINDS: Sequence[Callable[[bytearray, random.Random], None]] = (
    _bytes, _bytes, _bits, _bits, _block, _zeros, _cut, _copied_page, _inserted,
)  # fmt: skip


def damage(base: Path, draw: random.Random) -> str:
    """Damage a file of a store; return how."""
    names = [NAME] * 5 + [f"{NAME}-wal"] * 5 + [f"{NAME}-count", f"{NAME}-shm"]
    there = [n for n in names if (base / n).exists() and (base / n).stat().st_size]
    path = base / draw.choice(there)
    if not draw.randrange(12):
        path.unlink()
        return f"{path.name} removed"
    kind = draw.choice(KINDS)
    raw = bytearray(path.read_bytes())
    kind(raw, draw)
    path.write_bytes(raw)
    return f"{path.name}: {kind.__name__.strip('_')}"


# --- a round --------------------------------------------------------------------------


def use(
    base: Path, written: dict[RequestKey, Response]
) -> tuple[int, list[str], list[str]]:
    """Use a store as a run does: read, and add what is missing.

    Returns:
        The number of missing responses, faults, and notes.
    """
    store = Responses(base, MODEL)
    found = store.read([*written])
    faults = [f"{key} is another one" for key in found if found[key] != written[key]]
    for key, response in written.items():
        if key not in found:
            store.add(key, response)
    store.close()
    return len(written) - len(found), faults, store.notes


def run(template: Path, n: int, draw: random.Random) -> tuple[str, str]:
    """Damage a copy of a store and use it twice.

    Returns:
        What was done, and what is wrong, or nothing.
    """
    written = contents(n)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name) / ".evals"
        shutil.copytree(template, base)
        how = damage(base, draw)
        n_missing, faults, notes = use(base, written)
        what = f"{how}; {n_missing} of {n} missing; {notes}"
        if n_missing and not notes:
            faults.append("silent")
        n_missing, more, notes = use(base, written)
        faults += more
        if n_missing:
            faults.append(f"{n_missing} are missing again: {notes}")
        return what, "; ".join(faults)


def main() -> int:
    """Run the rounds of the command line; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.damage")
    parser.add_argument("--seed", type=int, help="any number; a new one by default")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--round", type=int, help="run this one only")
    given = parser.parse_args()
    seed = random.randrange(10**6) if given.seed is None else given.seed
    numbers = range(given.rounds) if given.round is None else [given.round]
    failed, n_lossy = [], 0
    with tempfile.TemporaryDirectory() as name:
        stores = [(Path(name) / f"{n}-{end}", n) for n in SIZES for end in ENDS]
        for path, n in stores:
            build(path, n, path.name.partition("-")[2])
        for number in numbers:
            draw = random.Random(f"{seed} {number}")
            path, n = draw.choice(stores)
            what, fault = run(path, n, draw)
            n_lossy += not what.split("; ")[1].startswith("0 ")
            if fault or given.round is not None:
                print(f"{number}: {path.name}: {what}\n  {fault}", flush=True)
            if fault:
                failed.append(number)
    print(
        f"seed {seed}: {len(numbers)} rounds, responses were lost in {n_lossy}, "
        f"{len(failed)} failed: {failed}"
    )
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
