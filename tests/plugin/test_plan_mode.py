"""``--evals-plan`` says what a run would do, and does nothing of it."""

import pytest


def test_plan_runs_no_documents_and_shows_the_minimum_detectable_effects(suite):
    suite.task("quiz", gates=["exact_match >= 0.8", {"must_pass": ["q1"]}])
    suite.knows(wrong=[1, 4])
    suite.run("evals")
    done = suite.run("evals", "--evals-plan", model="scripted:answers.jsonl")
    assert done.ret == 0
    assert done.parseoutcomes() == {}
    done.stdout.fnmatch_lines(
        [
            "task  docs  requests * stored *time",
            "quiz    10        10  ~20 tokens       ?  ~0.0 s",
            "gate * detects*  false positive *",
            "quiz::exact_match *0.800 * 4.2 pt * 50.0%*",
            "* computed from *.evals/runs/*",
            "warning: quiz::exact_match: the threshold 0.8 is near the last number*",
        ]
    )
    assert len(list(suite.pytester.path.glob(".evals/runs/*"))) == 1


def test_plan_without_an_earlier_run_counts_characters(suite):
    suite.task("zoo", doc_to_text="{{6 // (id[1:]|int - 3)}}")
    done = suite.run("evals", "--evals-plan", "--evals-stop=auto", model=None)
    assert done.ret == 0
    done.stdout.fnmatch_lines(
        ["quiz    10        10  70 characters*", "*zoo: 1 document cannot be prompted"]
    )


def test_plan_subtracts_stored_responses(suite, tiny_model_path):
    pytest.importorskip("transformers")
    suite.task("quiz", generation_kwargs={"max_gen_toks": 2})
    spec = f"hf:{tiny_model_path},device=cpu"
    suite.run("evals", "--evals-limit=4", model=spec)
    done = suite.run("evals", "--evals-plan", model=spec)
    done.stdout.fnmatch_lines(["quiz    10        10  ~* tokens       4  *"])
    done = suite.run("evals", "--evals-plan", "--evals-cache=refresh", model=spec)
    done.stdout.fnmatch_lines(["quiz    10        10  ~* tokens       0  *"])


def test_plan_needs_no_workers(suite):
    done = suite.run("evals", "--evals-plan", "-n2")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*--evals-plan needs no workers: -n0"])


def test_plan_fails_if_collection_fails(suite):
    suite.task("zoo", output_type="multiple_choise")
    done = suite.run("evals", "--evals-plan")
    assert done.ret == pytest.ExitCode.INTERRUPTED
    done.stdout.no_fnmatch_line("*evals: plan*")
