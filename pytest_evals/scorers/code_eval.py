"""``code_eval`` of the library ``evaluate``: programs, their tests, and pass@k.

Same arguments and results as version 0.4.6 of the library (Chen et al. 2021,
arXiv 2107.03374); programs run in the sandbox of the session instead of with
``HF_ALLOW_CODE_EVAL``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from pytest_evals.errors import EvalsError
from pytest_evals.sandbox.session import current_sandbox

Outcomes = dict[int, list[tuple[int, dict[str, Any]]]]
"""Task → number of the program, and how it ended."""


class CodeEval:
    """The metric, as ``evaluate.load("code_eval")`` returns it."""

    name = "code_eval"
    _n_imports: ClassVar[int] = 0

    @classmethod
    @contextmanager
    def during_import(cls) -> Iterator[None]:
        """Require no consent while a task's module is imported: programs are its own,
        as in the self-tests of lm-eval's tasks."""
        cls._n_imports += 1
        try:
            yield
        finally:
            cls._n_imports -= 1

    def compute(
        self,
        *,
        predictions: Sequence[Sequence[str]],
        references: Sequence[str],
        k: Sequence[int] = (1, 10, 100),
        num_workers: int = 4,
        timeout: float = 3.0,
    ) -> tuple[dict[str, float], Outcomes]:
        """Run programs with their tests.

        Args:
            predictions: Programs of each task.
            references: Tests of each task, appended to each of its programs.
            k: Numbers of programs of pass@k.
            num_workers: Not used: as many run at once as there are processors.
            timeout: Seconds for a program with its tests.

        Returns:
            ``{"pass@1": …}``, without those k for which a task has fewer programs; and
            the outcome of each program.
        """
        n_lists, n_tests = len(predictions), len(references)
        if n_lists != n_tests:
            message = f"code_eval: {n_lists} lists of programs for {n_tests} tests"
            raise EvalsError(message)
        sandbox = current_sandbox()
        if not self._n_imports:
            sandbox.check_consent()
        places = [
            (t, n) for t, many in enumerate(predictions) for n in range(len(many))
        ]
        pairs = [(predictions[t][n], references[t]) for t, n in places]
        outcomes: Outcomes = defaultdict(list)
        texts = sandbox.test_all(pairs, timeout)
        for (task, n), text in zip(places, texts, strict=True):
            outcome = {"task_id": task, "passed": text == "passed", "result": text}
            outcomes[task].append((n, {**outcome, "completion_id": n}))
        counts = [
            (len(outcomes[t]), sum(one["passed"] for _, one in outcomes[t]))
            for t in sorted(outcomes)
        ]
        rates = {
            f"pass@{size}": math.fsum(pass_at_k(n, c, size) for n, c in counts)
            / len(counts)
            for size in k
            if counts and all(n >= size for n, _ in counts)
        }
        return rates, outcomes


def pass_at_k(n: int, n_correct: int, k: int) -> float:
    """Estimate the probability that one of k answers is correct, without bias, from n
    answers, at least k: ``1 - C(n - c, k) / C(n, k)``, as a product."""
    if n - n_correct < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - n_correct + 1, n + 1))
