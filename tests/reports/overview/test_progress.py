"""The progress line; numbers computed by hand."""

import pytest

from pytest_evals.reports.overview.progress import duration, progress_line


def test_it_shows_documents_percentage_speed_and_time_left():
    line = progress_line(250, 1000, 50_000, 20.0, 10.0)
    assert line == "evals: 250/1000 documents · 25 % · 5,000 tokens/s · 1:00 left"


def test_before_the_first_answer_it_guesses_nothing():
    assert progress_line(0, 1000, 0, 0.0, 0.0) == "evals: 0/1000 documents · 0 %"
    assert progress_line(0, 0, 0, 0.0, 0.0) == "evals: 0/0 documents"


def test_the_first_answers_tell_no_time_left():
    """The first of them wait for the model to warm up."""
    assert "left" not in progress_line(1, 1000, 50, 20.0, 10.0)
    assert "left" in progress_line(20, 1000, 50, 20.0, 10.0)


def test_100_percent_is_shown_only_at_the_end():
    assert "99 %" in progress_line(999, 1000, 0, 1.0, 1.0)
    assert (
        progress_line(9, 9, 9, 3.0, 0.0) == "evals: 9/9 documents · 100 % · 3 tokens/s"
    )


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.04, "0.0 s"),
        (59.9, "59.9 s"),
        (59.96, "1:00"),
        (92.4, "1:32"),
        (7450, "2:04:10"),
    ],
)
def test_durations_are_short(seconds, shown):
    assert duration(seconds) == shown
