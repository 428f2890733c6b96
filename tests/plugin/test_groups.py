"""Groups in whole runs: collected, selected, judged and reported."""

from __future__ import annotations

import json

import pytest

EXACT = {"metric": "exact_match"}


@pytest.fixture
def groups(suite):
    """Three tasks, and a group of two of them with a gate."""
    suite.task("art", tag="arts")
    suite.task("zoo")
    suite.group("both", task=["zoo", "art"], gates=["exact_match >= 0.85"])
    suite.knows(wrong=[0, 1], tasks=["quiz", "art", "zoo"])
    return suite


def collected(suite, *arguments):
    """Node ids of the collected items, without those of further documents of a task."""
    result = suite.run(*arguments, "--collect-only", "-q")
    ids = [line for line in result.outlines if "::" in line]
    assert len(ids) == len(set(ids))
    return [i for i in ids if not i.endswith("]") or i.endswith("[q0]")]


def test_a_group_runs_its_members_each_below_its_own_file(groups):
    assert collected(groups, "evals/both.yaml") == [
        "evals/zoo.yaml::zoo[q0]",
        "evals/art.yaml::art[q0]",
        "evals/both.yaml::both::exact_match",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("evals",),
        ("evals", "evals/both.yaml"),
        ("evals", "evals/both.yaml::both"),
        ("evals/both.yaml", "evals/art.yaml::art[q3]", "evals/quiz.yaml"),
    ],
)
def test_a_document_named_twice_runs_once(groups, arguments):
    if arguments[0] == "evals" and arguments[1:] and pytest.version_tuple < (9,):
        pytest.skip("pytest 8 collects only the file if a folder is named with it")
    result = groups.run(*arguments)
    assert result.parseoutcomes() == {"passed": 24, "wrong": 6, "failed": 1}


def test_a_gate_of_a_group_is_judged_over_the_documents_of_all_members(groups):
    result = groups.run("evals/both.yaml::both")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*both: exact_match >= 0.85*",
            "exact_match 0.800 is not >= 0.85 (16 of 20)*",
            "E   1 more correct answer would have passed.",
            "  tasks, worst first",
            "    zoo  exact_match,none 0.800 over 10",
            "    pytest evals/both.yaml::both",
            "both  *20*exact_match*0.800*>= 0.85*FAILED",
            " - art*10*0.800*",
            " - zoo*10*0.800*",
        ]
    )


def test_a_group_gate_over_part_of_its_members_is_skipped(groups):
    result = groups.run("evals", "-k", "art or exact_match")
    assert result.parseoutcomes()["skipped"] == 1
    result.stdout.fnmatch_lines(["*of 20 documents were run*"])


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_group_gate_selected_by_id_runs_the_documents_of_all_members(groups, workers):
    result = groups.run("evals/both.yaml::both::exact_match", workers)
    outcomes = {"passed": 16, "wrong": 4, "failed": 1}
    assert (result.ret, result.parseoutcomes()) == (1, outcomes)


@pytest.fixture
def mixed(groups):
    """A group of three tasks of ten documents, of which one has another metric."""
    groups.task(
        "letters",
        output_type="multiple_choice",
        doc_to_choice=[f"a{i}" for i in range(10)],
        metric_list=[{"metric": "acc"}],
    )
    rules = [EXACT, {"metric": "acc"}]
    groups.group(
        "all",
        task=["art", "zoo", "letters"],
        aggregate_metric_list=rules,
        gates=["acc >= 0.95", "exact_match >= 0.1"],
    )
    groups.knows(wrong=[1, 2], tasks=["quiz", "art", "zoo", "letters"])
    return groups


def test_a_row_of_a_group_counts_the_documents_that_have_its_metric(mixed):
    result = mixed.run("evals/all.yaml", "--evals-markdown=run.md")
    result.stdout.fnmatch_lines(
        [
            "all *20 *exact_match *0.800 *>= 0.1 *passed",
            " *10 *acc *0.800 *>= 0.95*FAILED",
        ]
    )
    page = (mixed.pytester.path / "run.md").read_text()
    assert "| 20 |" in page.partition("exact_match")[0]


def test_documents_that_were_not_run_are_counted_of_those_with_the_metric(mixed):
    left_out = "--deselect=evals/letters.yaml::letters[q4]"
    result = mixed.run("evals/all.yaml", left_out)
    result.stdout.fnmatch_lines(
        [
            "all *20 *exact_match *passed",
            " *9/10 *acc *skipped",
            "all::acc skipped: 9 of 10 documents were run; indicative value 0.778",
        ]
    )
    limited = mixed.run("evals/all.yaml", "--evals-limit=4")
    limited.stdout.fnmatch_lines(["all *8 of 20 *exact_match*", " *4 of 10 *acc*"])


def test_invalid_members_are_reported_for_every_group_that_contains_them(groups):
    for name in ("bad", "worse"):
        groups.task(name, dataset_kwargs={"data_files": {"test": f"{name}.none"}})
    groups.group("inner", task=["art", "bad", "worse"])
    groups.group("all", task=["inner"])
    result = groups.run("evals")
    result.assert_outcomes(errors=4)
    for name in ("bad", "worse"):
        line = (
            f"evals/{name}.yaml:3: data file not found: evals/{name}.none or "
            f"{name}.none; did you mean '{name}.jsonl'?"
        )
        assert result.outlines.count(line) == 3
    groups.run("evals/inner.yaml", "--evals-validate").assert_outcomes(failed=1)


def test_a_group_gate_that_errors_of_a_member_could_change_is_invalid(groups):
    groups.knows(errors=[0, 1, 2, 3], tasks=["art", "zoo"])
    result = groups.run("evals/both.yaml")
    result.stdout.fnmatch_lines(["invalid: 8 of 20 documents have no score*"])
    assert groups.results()["gates"][0]["outcome"] == "invalid"


def test_the_results_file_has_lm_evals_group_keys(groups):
    groups.run("evals/both.yaml")
    results = groups.results()
    mine = results["results"]["both"]
    assert results["groups"] == {"both": mine}
    assert mine["sample_len"] == 20
    assert mine["exact_match,none"] == pytest.approx(0.8)
    # sqrt((9 * se² * 10 * 2) / 18 / 20) with se of 8 correct answers of 10
    assert mine["exact_match_stderr,none"] == pytest.approx(0.0942809041582)
    assert mine["sample_count"] == {"exact_match,none": 20}
    assert results["group_subtasks"] == {"both": ["zoo", "art"]}
    assert results["versions"]["both"] == "N/A"
    assert results["n-shot"]["both"] == 0
    assert results["higher_is_better"]["both"] == {"exact_match": True}


@pytest.mark.slow
def test_groups_are_the_same_over_several_workers(groups):
    groups.group("heading", task=["quiz", "both"])

    def everything(*arguments):
        result = groups.run("evals", *arguments)
        (path,) = groups.pytester.path.glob(".evals/runs/*/results.json")
        found = json.loads(path.read_text())
        path.unlink()
        path.parent.rename(groups.pytester.path / f"old-{len(arguments)}")
        kept = ("results", "groups", "group_subtasks", "n-shot", "gates", "counts")
        return result.parseoutcomes(), {key: found[key] for key in kept}

    alone = everything()
    assert everything("-n", "2") == alone
    assert alone[1]["group_subtasks"] == {
        "heading": ["quiz", "both"],
        "both": ["zoo", "art"],
    }


def test_a_member_that_the_group_changes_replaces_the_task(groups):
    groups.group("changed", task=[{"task": "quiz", "description": "Think. "}])
    result = groups.run("evals", "-k", "quiz")
    result.stdout.fnmatch_lines(
        ["*warning: quiz: evals/quiz.yaml runs only as a member of a group, which*"]
    )
    rows = groups.samples("quiz")
    assert len(rows) == 10
    assert rows[0]["arguments"]["gen_args_0"]["arg_0"] == "Think. quiz 0?"
    assert collected(groups, "evals/changed.yaml::changed::quiz") == [
        "evals/changed.yaml::changed::quiz[q0]"
    ]


def test_two_groups_that_change_a_task_in_two_ways_are_an_error(groups):
    groups.group("one", task=[{"task": "quiz", "description": "One. "}])
    groups.group("two", task=[{"task": "quiz", "description": "Two. "}])
    result = groups.run("evals")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [
            "evals/two.yaml:5: there is already a task called 'quiz', at evals/one.*",
            "  fix: give one of them another name, or run one file",
        ]
    )


def test_inline_members_are_selected_below_their_group(groups):
    own = {
        "task": "own",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "art.jsonl"}},
        "test_split": "test",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "gates": ["exact_match >= 0.1"],
    }
    inner = {"group": "inner", "task": [own], "gates": ["exact_match >= 0.2"]}
    inner["aggregate_metric_list"] = EXACT
    groups.group("outer", task=[inner, "zoo"])
    assert collected(groups, "evals/outer.yaml::outer::inner") == [
        "evals/outer.yaml::outer::inner::own[q0]",
        "evals/outer.yaml::outer::inner::own::exact_match",
        "evals/outer.yaml::outer::inner::exact_match",
    ]
    result = groups.run("evals/outer.yaml")
    result.assert_outcomes(passed=18)
    assert groups.results()["group_subtasks"] == {
        "outer": ["outer::inner", "zoo"],
        "outer::inner": ["outer::inner::own"],
    }


def test_evals_tasks_takes_a_group_with_its_members_and_nothing_else(groups):
    assert collected(groups, "evals", "--evals-tasks=both") == [
        "evals/zoo.yaml::zoo[q0]",
        "evals/art.yaml::art[q0]",
        "evals/both.yaml::both::exact_match",
    ]


def test_a_member_alone_does_not_bring_its_group(groups):
    assert collected(groups, "evals", "--evals-tasks=art") == [
        "evals/art.yaml::art[q0]"
    ]


def test_selecting_a_group_and_its_member_is_refused(groups):
    result = groups.run("evals", "--evals-tasks=art,both")
    result.stdout.fnmatch_lines(
        ["evals/both.yaml:1: --evals-tasks asks for task 'art' twice: as 'art' and *"]
    )
    assert groups.run("evals", "--evals-tasks=art*,bo*").ret == 1  # its gate fails


def test_k_and_m_select_members(groups):
    assert len(collected(groups, "evals", "-k", "both")) == 3
    assert collected(groups, "evals", "-m", "arts") == ["evals/art.yaml::art[q0]"]


def test_group_gates_are_read_from_gates_files_and_options(groups):
    (groups.evals / "gates.yaml").write_text(
        "gates: [{task: both, metric: exact_match, max: 0.9, id: cap}]\n"
    )
    found = collected(groups, "evals", "--evals-gate=both/exact_match >= 0.1")
    assert [one for one in found if "::both" in one] == [
        "evals/both.yaml::both::exact_match",
        "evals/both.yaml::both::cap",
        "evals/both.yaml::both::exact_match#2",
    ]


def test_a_group_gate_on_an_unknown_metric_is_a_collection_error(groups):
    groups.group("both", task=["zoo"], gates=["exact_mach >= 0.5"])
    result = groups.run("evals/both.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "*evals/both.yaml:*: unknown metric 'exact_mach' of group 'both'; did *",
        ]
    )


def test_last_failed_runs_a_failed_gate_with_all_documents_of_the_group(groups):
    assert groups.run("evals/both.yaml").ret == 1
    groups.knows(wrong=[0], tasks=["art", "zoo"])
    result = groups.run("evals/both.yaml", "--lf")
    result.assert_outcomes(passed=19)


def test_a_name_of_an_include_path_needs_no_file_on_the_command_line(groups):
    groups.pytester.makepyfile("def test_nothing_of_evals(): pass")
    path = groups.pytester.path / "library"
    groups.evals.rename(path)
    assert collected(groups, "--evals-include-path=library", "--evals-tasks=both") == [
        "library/zoo.yaml::zoo[q0]",
        "library/art.yaml::art[q0]",
        "library/both.yaml::both::exact_match",
    ]
    found = collected(groups, "--evals-include-path=library", "--evals-tasks=arts")
    assert found == ["library/art.yaml::art[q0]"]


def test_names_of_a_group_are_found_in_an_include_path(groups):
    (groups.pytester.path / "library").mkdir()
    for name in ("art.yaml", "art.jsonl", "zoo.yaml", "zoo.jsonl"):
        (groups.evals / name).rename(groups.pytester.path / "library" / name)
    groups.pytester.makeini("[pytest]\nevals_include_path = library\n")
    assert collected(groups, "evals/both.yaml")[0] == "library/zoo.yaml::zoo[q0]"


@pytest.mark.slow
def test_an_unknown_name_is_a_usage_error(groups):
    groups.evals.rename(groups.pytester.path / "library")
    result = groups.run("--evals-include-path=library", "--evals-tasks=bath")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --evals-tasks: unknown task, group or tag 'bath'; did you mean *?"]
    )


def test_an_include_path_that_is_not_a_folder_is_a_usage_error(groups):
    result = groups.run("evals", "--evals-include-path=nowhere")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--evals-include-path: */nowhere is not a folder, and no package *"]
    )


def test_members_see_the_conftest_of_their_own_folder(groups):
    """A member that is reached through a group has the nodes of its parent folders."""
    sub = groups.evals / "sub"
    sub.mkdir()
    for name in ("art.yaml", "art.jsonl"):
        (groups.evals / name).rename(sub / name)
    (sub / "conftest.py").write_text(
        "import pytest\n"
        "from pytest_evals.core.request import Response\n\n\n"
        "class Own:\n"
        "    name = 'own'\n"
        "    def answer(self, requests):\n"
        "        for i, _ in enumerate(requests):\n"
        "            yield i, Response(text='a7')\n\n\n"
        "@pytest.fixture(scope='session')\n"
        "def eval_model():\n"
        "    return Own()\n"
    )
    groups.run("evals/both.yaml")
    assert groups.results()["results"]["art"]["exact_match,none"] == 0.1
    assert groups.results()["results"]["zoo"]["exact_match,none"] == 0.8
