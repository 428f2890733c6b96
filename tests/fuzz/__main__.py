"""``python -m tests.fuzz``: run the plugin on mutated suites; see README.md."""

from __future__ import annotations

import argparse
import random
import shlex
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.cases import Case, make
from tests.fuzz.running import Failure, Outcome, attack, judge, prepare, run, shrink


def main() -> int:
    """Run the cases of the command line; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, help="any number; a new one by default")
    parser.add_argument("--cases", default="150", help="how many, or FIRST-LAST")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    parser.add_argument(
        "--suite", default="", help="cases of this suite only, such as secrets"
    )
    parser.add_argument("--case", type=int, help="run this one only, and show it")
    parser.add_argument(
        "--keep", type=Path, help="write files of failures to this folder"
    )
    options = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")
    seed = random.randrange(10**6) if options.seed is None else options.seed
    first, _, last = options.cases.rpartition("-")
    numbers = range(int(first), int(last) + 1) if first else range(int(last))
    home = prepare()
    try:
        if options.case is not None:
            return _one(make(seed, options.case, options.suite), options.keep)
        print(f"seed {seed}, cases {numbers.start} to {numbers.stop - 1}", flush=True)
        cases = attack(seed, numbers, options.jobs, options.suite)
        return _many(cases, len(numbers), options.keep)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _one(case: Case, keep: Path | None) -> int:
    outcome = run(case)
    failure = judge(case, outcome)
    print(outcome.output)
    print(f"exit code {outcome.code}, {outcome.seconds:.1f} s, by {case.how}")
    print("pytest", shlex.join(case.arguments))
    for change in case.changes:
        print(" ", change)
    if failure:
        _show(shrink(failure), keep)
    return int(failure is not None)


def _many(cases: Iterable[tuple[Case, Outcome]], n: int, keep: Path | None) -> int:
    found: dict[str, list[Failure]] = defaultdict(list)
    codes: dict[int, int] = defaultdict(int)
    slowest = 0.0
    for case, outcome in cases:
        codes[outcome.code] += 1
        slowest = max(slowest, outcome.seconds)
        if failure := judge(case, outcome):
            found[failure.key].append(failure)
            if len(found[failure.key]) == 1:
                _show(shrink(failure), keep)
    failed = sum(map(len, found.values()))
    counts = ", ".join(
        f"{m} with exit code {code}" for code, m in sorted(codes.items())
    )
    print(f"{n} cases: {counts}; the slowest took {slowest:.1f} s")
    for key, failures in found.items():
        print(f"{len(failures):4} {key}: {[f.case.number for f in failures[:8]]}")
    print(f"{n - failed} passed, {failed} failed")
    return int(failed > 0)


def _show(failure: Failure, keep: Path | None) -> None:
    case, outcome = failure.case, failure.outcome
    print(f"\n=== {failure.kind}: seed {case.seed}, case {case.number} ({case.suite})")
    suite = f" --suite {case.suite}" if case.suite in ("secrets", "structure") else ""
    again = f"python -m tests.fuzz --seed {case.seed} --case {case.number}{suite}"
    print(f"again: {again}")
    print(f"exit code {outcome.code}, {outcome.seconds:.1f} s, by {case.how}")
    print("pytest", shlex.join(case.arguments))
    for change in case.changes:
        print(" ", change)
    changed = {change.partition(":")[0] for change in case.changes}
    for name in sorted(changed & set(case.files)):
        content = case.files[name].decode("utf-8", "backslashreplace")
        print(f"--- {name}\n{content[:1500]}")
    print(f"--- output\n{outcome.output[-2500:]}\n", flush=True)
    if keep:
        case.write(keep / f"{case.seed}-{case.number}")


if __name__ == "__main__":
    sys.exit(main())
