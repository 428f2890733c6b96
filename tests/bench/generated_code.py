"""Time of code_eval: 164 tasks with 10 programs each, at a level of isolation.

Usage: ``python -m tests.bench.generated_code [LEVEL]``. Prints wall and processor
seconds of the whole process with its children, and the number of correct programs.
"""

import resource
import sys
import time

from pytest_evals.sandbox.runner import Sandbox

N_TASKS, N_PROGRAMS = 164, 10
TESTS = """
def check(candidate):
    assert candidate(12) == [2, 3, 4, 6]
    assert candidate(7) == []
    assert candidate(9) == [3]
    assert candidate(30) == [2, 3, 5, 6, 10, 15]
    assert candidate(1) == []
    assert candidate(4) == [2]
check(divisors)
"""


def main(level: str) -> None:
    code = "def divisors(n):\n    return [i for i in range(2, n) if n % i == 0]\n"
    programs = [
        (f"{code}# {task} {n}\n", TESTS)
        for task in range(N_TASKS)
        for n in range(N_PROGRAMS)
    ]
    start = time.perf_counter()
    sandbox = Sandbox(level, consents=True)
    found = sandbox.test_all(programs, 3.0)
    sandbox.close()
    wall = time.perf_counter() - start
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    cpu = sum(sum(resource.getrusage(kind)[:2]) for kind in kinds)
    passed = found.count("passed")
    times = f"{wall:.1f} s, {cpu:.1f} CPU s"
    print(f"{level}: {len(found)} programs, {passed} passed, {times}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "process")
