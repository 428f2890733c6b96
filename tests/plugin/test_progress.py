"""The line that shows the progress of inference, between pytest's lines."""

import pytest


def between(result):
    """The lines from the first to the last one of the file."""
    lines = result.stdout.lines
    places = [i for i, line in enumerate(lines) if line.startswith("evals/quiz.yaml")]
    return lines[places[0] : places[-1] + 1]


def at_each_answer(monkeypatch, limit):
    """Show the line after each answer, and not only after some seconds."""
    monkeypatch.setattr(f"pytest_evals.plugin.models.progress.{limit}", 0.0)
    monkeypatch.setattr("pytest_evals.run.batches.TICK_S", 0.0)


@pytest.mark.parametrize("option", ["--color=no", "-v"])
def test_a_log_has_no_empty_lines_around_it(suite, monkeypatch, option):
    at_each_answer(monkeypatch, "HEARTBEAT_S")
    suite.task("quiz", gates=["exact_match >= 0.5"])
    lines = between(suite.run("evals", option))
    assert sum(line.startswith("evals: ") for line in lines) > 9
    assert "" not in lines
    if option == "-v":
        for n in range(10):
            start = f"evals/quiz.yaml::quiz[q{n}] PASSED"
            assert sum(line.startswith(start) for line in lines) == 1, n
    else:
        assert lines[-1].startswith("evals/quiz.yaml .")
        assert lines[-1].endswith("[100%]")


def test_a_log_has_a_line_for_each_tenth_of_the_documents(suite, monkeypatch):
    at_each_answer(monkeypatch, "LEAST_S")
    suite.pytester.makeconftest(
        """
        import pytest
        from pytest_evals import Response

        class Known:
            name = "known"

            def answer(self, requests):
                for position, request in enumerate(requests):
                    yield position, Response(text="a", n_tokens=1)

        @pytest.hookimpl
        def pytest_evals_open_model(spec, config):
            return Known() if spec == "mine:x" else None
        """
    )
    shown = [
        line.split(" · ")[1]
        for line in suite.run("evals", "--model=mine:x").outlines
        if line.startswith("evals: ") and "documents · " in line
    ]
    assert shown == [f"{n}0 %" for n in range(1, 11)]


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_scripted_models_show_no_tokens_per_second(suite, monkeypatch, workers):
    at_each_answer(monkeypatch, "HEARTBEAT_S")
    result = suite.run("evals", *workers)
    result.stdout.no_fnmatch_line("*tokens/s*")
    result.stdout.fnmatch_lines(["evals: 10/10 documents*", "time: *"])


@pytest.mark.parametrize(
    ("wrong", "lines"),
    [
        (0, ["evals/quiz.yaml", "evals/zoo.yaml .."]),
        (5, ["evals/quiz.yaml", "evals/zoo.yaml", "evals/quiz.yaml .F"]),
    ],
)
def test_a_file_has_a_second_line_only_if_a_gate_failed(suite, wrong, lines):
    low = {"metric": "exact_match", "min": 0.1, "id": "low"}
    suite.task("quiz", gates=[low, "exact_match >= 0.9"])
    suite.task("zoo", gates=[low, "exact_match >= 0.2"])
    suite.knows(range(wrong), tasks=("quiz", "zoo"))
    out = suite.run("evals", "--color=no").outlines
    shown = [line[:-7].rstrip() for line in out if line.endswith("%]")]
    assert shown == lines


def test_an_inconclusive_gate_has_a_sign_on_a_line_of_its_file(suite):
    low = {"metric": "exact_match", "min": 0.1, "id": "low"}
    noisy = {"metric": "exact_match", "min": 0.5, "over": "population"}
    suite.task("quiz", gates=[low, noisy])
    suite.task("zoo", gates=[low])
    suite.knows(range(5), tasks=("quiz", "zoo"))
    out = suite.run("evals", "--color=no").outlines
    shown = [line[:-7].rstrip() for line in out if line.endswith("%]")]
    assert shown == ["evals/quiz.yaml", "evals/zoo.yaml", "evals/quiz.yaml .?"]


def test_long_reasons_are_wrapped_with_a_hanging_indent(suite, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    suite.task("quiz", gates=["exact_match >= 0.9"])
    suite.knows({3, 4})
    out = suite.run("evals", "--color=no").outlines
    start = next(i for i, line in enumerate(out) if " is not >= 0.9 (" in line)
    assert len(out[start]) <= 80
    assert out[start + 1].startswith("    ")
    assert not out[start + 1][4].isspace()
