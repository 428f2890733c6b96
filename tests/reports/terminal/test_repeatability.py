"""The results of repeated runs, as text."""

from pytest_evals.core.repeatability import Bar, MetricRepeatability
from pytest_evals.reports.terminal.repeatability import repeatability_lines


def test_a_limit_that_no_run_can_miss_is_omitted():
    bars = (
        Bar(value=0.05, false_alarm=0.02, catches=((0.01, 0.03),)),
        Bar(value=-0.07, false_alarm=0.001, catches=((0.01, 0.002),)),
    )
    found = MetricRepeatability(
        task="quiz",
        key="acc,none",
        n_runs=4,
        n=10,
        mean=0.15,
        stderr=0.1,
        flip_rate=0.2,
        sampling=0.1,
        bars=bars,
    )
    *_, tight, loose = [line.text.split() for line in repeatability_lines(found, 80)]
    assert (tight[0], loose[0]) == ("0.050", "none")
