"""``--evals-plan`` shows what a run would do, without doing it."""

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
            "quiz::exact_match *0.800 * 9.2 pt * 15.9%*",
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


@pytest.mark.slow
def test_plan_subtracts_stored_responses(suite, tiny_model_path):
    pytest.importorskip("transformers")
    suite.task("quiz", generation_kwargs={"max_gen_toks": 2})
    spec = f"hf:{tiny_model_path},device=cpu"
    suite.run("evals", "--evals-limit=4", model=spec)
    done = suite.run("evals", "--evals-plan", model=spec)
    done.stdout.fnmatch_lines(["quiz    10        10  ~* tokens       4  *"])
    done = suite.run("evals", "--evals-plan", "--evals-cache=refresh", model=spec)
    done.stdout.fnmatch_lines(["quiz    10        10  ~* tokens       0  *"])


def test_plan_follows_the_list_of_tests(suite):
    suite.task("quiz")
    done = suite.run("evals", "--collect-only", "--evals-plan")
    assert done.ret == 0
    done.stdout.fnmatch_lines(["*<DocItem quiz[[]q1]>", "*evals: plan*", "quiz *10 *"])


def test_plan_needs_no_workers(suite):
    done = suite.run("evals", "--evals-plan", "-n2")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*--evals-plan needs no workers: -n0"])


def test_plan_fails_if_collection_fails(suite):
    suite.task("zoo", output_type="multiple_choise")
    done = suite.run("evals", "--evals-plan")
    assert done.ret == pytest.ExitCode.INTERRUPTED
    done.stdout.no_fnmatch_line("*evals: plan*")


@pytest.mark.slow
def test_plan_shows_requests_tokens_and_cost_of_a_served_model(suite, server):
    """Ten prompts of seven characters; answers of up to 100 tokens."""
    spec, prompts = server
    suite.task("quiz", generation_kwargs={"max_gen_toks": 100})
    prices = "price_in=1000,price_out=2000"
    caps = "max_requests=4,max_cost=1.5"
    done = suite.run("evals", "--evals-plan", model=f"{spec},{prices},{caps}")
    words = " ".join(done.stdout.str().split())
    assert (
        "to send, without retries, probes and follow-up requests: 10 requests; ~18 "
        "prompt tokens (at 4 bytes per token; tokenizer= counts them); at most 1,000 "
        "generated tokens cost: at most ~2.018 max_requests=4: 6 requests remain for "
        "later runs max_cost=1.5: may be reached"
    ) in words
    assert prompts == []
    suite.run("evals", model=f"{spec},max_requests=4")
    done = suite.run("evals", "--evals-plan", model=f"{spec},{prices},max_cost=9")
    words = " ".join(done.stdout.str().split())
    assert "6 requests; ~10 prompt tokens" in words
    assert "cost: at most ~1.21 max_cost=9: not expected to be reached" in words
    assert len(prompts) == 4


@pytest.mark.parametrize(
    ("cap", "words"),
    [
        ("0.1", "max_cost=0.1: too low: one request may cost ~0.3"),
        ("2.1", "max_cost=2.1: may be reached"),
        ("2.4", "max_cost=2.4: not expected to be reached"),
    ],
)
def test_the_plan_of_a_cost_cap_counts_the_highest_cost_of_the_last_request(
    suite, server, cap, words
):
    """All ten answers of 100 tokens cost 2, and one of them up to 0.2 before it is
    sent, plus a token for each byte of its body."""
    spec, _ = server
    suite.task("quiz", generation_kwargs={"max_gen_toks": 100})
    model = f"{spec},price_in=1000,price_out=2000,max_cost={cap}"
    done = suite.run("evals", "--evals-plan", model=model)
    assert words in " ".join(done.stdout.str().split())


def test_plan_counts_tokens_with_a_tokenizer(suite, server, tiny_model_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model_path)
    n_tokens = sum(len(tokenizer(f"quiz {i}?").input_ids) for i in range(10))
    spec, prompts = server
    suite.task("quiz", generation_kwargs={"max_gen_toks": 100})
    done = suite.run(
        "evals",
        "--evals-plan",
        model=f"{spec},tokenizer={tiny_model_path},price_in=1000",
    )
    words = " ".join(done.stdout.str().split())
    assert f"10 requests; {n_tokens} prompt tokens; at most 1,000 generated" in words
    assert f"cost: at most {n_tokens / 1000:.4g}" in words
    assert prompts == []


def test_plan_counts_the_calls_of_a_function(suite):
    suite.pytester.makepyfile(
        app="""
        from pytest_evals import Response

        def respond(prompt):
            return Response(text="a0", n_tokens=5)
        """
    )
    suite.pytester.syspathinsert()
    done = suite.run("evals", "--evals-plan", model="python:app:respond,max_requests=3")
    words = " ".join(done.stdout.str().split())
    assert "10 requests max_requests=3: 7 requests remain for later runs" in words


def test_plan_of_a_model_that_a_hook_opens_has_no_cost(suite):
    suite.pytester.makeconftest("""
        from pytest_evals import Model, Response

        class Mine(Model):
            name = "mine"

            def answer(self, requests):
                for i, _ in enumerate(requests):
                    yield i, Response(text="a0")

        def pytest_evals_open_model(spec, config):
            return Mine() if spec.startswith(("mine:", "openai:")) else None
    """)
    for model in ("mine:any", "openai:any,price_in=1"):
        done = suite.run("evals", "--evals-plan", model=model)
        assert done.ret == 0
        assert "the cost is" not in done.stdout.str()
        assert "to send" not in done.stdout.str()


LATTICEFLOW = """
models:
  - key: own
    display_name: Own
    price_in: 1000
    price_out: 2000
    max_requests: 4
    max_cost: 15
    config:
      connection_type: custom_connection
      adapter: {{key: "latticeflow$openai_chat_completion"}}
      url: {url}/chat/completions
  - key: together
    display_name: Together
    price_in: 1000
    price_out: 2000
    config:
      {{connection_type: provider_connection, provider_id: together, model_key: a}}
datasets:
  - {{key: rows, display_name: Rows, source: {{type: local, file_path: rows.jsonl}}}}
tasks:
  - key: quiz
    display_name: Quiz
    description: Short answers.
    definition:
      dataset: {{key: rows}}
      solver:
        type: single_turn_solver
        input_builder: {builder}
      scorers: [{{type: string_equals, ground_truth: "yes"}}]
evaluation:
  key: quizzes
  display_name: Quizzes
  description: Two models.
  task_specifications:
    - {{key: one, task_key: quiz, model_key: own}}
    - {{key: two, task_key: quiz, model_key: together}}
"""
CHAT = (
    '{type: chat_completion, input_messages: [{role: user, content: "{{ sample.q }}"}]}'
)
SHORT = """
          type: generic
          template: >-
            {"messages": [{"role": "user", "content": "{{ sample.q }}"}],
            "max_tokens": 5}
"""


@pytest.fixture
def latticeflow(suite, server, monkeypatch):
    """Writes a run file with two models at the server, and ten samples of a question
    with seven characters."""
    url = server[0].partition("base_url=")[2].partition(",")[0]
    monkeypatch.setenv("TOGETHER_BASE_URL", url)
    monkeypatch.setenv("TOGETHER_API_KEY", "sk-test")
    (suite.evals / "quiz.yaml").unlink()
    rows = "".join(f'{{"sample_id": "s{i}", "q": "quiz {i}?"}}\n' for i in range(10))
    (suite.evals / "rows.jsonl").write_text(rows)

    def write(builder):
        text = LATTICEFLOW.format(url=url, builder=builder)
        (suite.evals / "run.yaml").write_text(text)

    return write


def words_of(done):
    return " ".join(done.stdout.str().split())


@pytest.mark.guests
def test_plan_shows_the_cost_of_each_model_of_a_latticeflow_file(
    suite, server, latticeflow
):
    """The server gets no limit from the file; models of providers get 1,024 tokens."""
    latticeflow(CHAT)
    done = suite.run("evals", "--evals-plan", model=None)
    done.stdout.fnmatch_lines(
        ["one *10 *10  70 characters *0 *", "two *10 *10  70 characters *0 *"]
    )
    sent = "to send, without retries, probes and follow-up requests: 10 requests; ~18 "
    tokens = f"{sent}prompt tokens (at 4 bytes per token);"
    words = words_of(done)
    assert f"own: {tokens} generated tokens without a limit" in words
    assert "own: cost: at least ~0.018, for prompts alone" in words
    assert "own: max_requests=4: 6 requests remain for later runs" in words
    assert "own: max_cost=15: may be reached" in words
    assert f"openai:a: {tokens} at most 10,240 generated tokens" in words
    assert "openai:a: cost: at most ~20.5" in words
    assert server[1] == []


@pytest.mark.guests
def test_plan_takes_the_token_limit_of_a_latticeflow_template(suite, latticeflow):
    latticeflow(SHORT)
    words = words_of(suite.run("evals", "--evals-plan", model=None))
    assert "own: to send, without" in words
    assert words.count("at most 50 generated tokens") == 2


@pytest.mark.slow
@pytest.mark.guests
def test_plan_leaves_out_stored_responses_of_a_latticeflow_model(suite, latticeflow):
    latticeflow(CHAT)
    suite.run("evals", model=None)
    words = words_of(suite.run("evals", "--evals-plan", model=None))
    assert "one 10 10 70 characters 4 " in words
    assert "two 10 10 70 characters 10 " in words
    assert "requests: 6 requests; ~10 prompt tokens" in words
    assert "openai:a: " not in words


@pytest.mark.guests
def test_plan_shows_the_cost_of_judging_stored_answers(suite, server):
    spec, prompts = server
    (suite.evals / "quiz.yaml").unlink()
    rows = "".join(f'{{"sample_id": "s{i}", "a": "{i}"}}\n' for i in range(3))
    (suite.evals / "rows.jsonl").write_text(rows)
    (suite.evals / "run.yaml").write_text("""
datasets:
  - {key: rows, display_name: Rows, source: {type: local, file_path: rows.jsonl}}
tasks:
  - key: sound
    display_name: Sound
    description: Rates stored answers.
    definition:
      dataset: {key: rows}
      scorers:
        - type: model_as_a_judge_classifier
          model_key: some-judge
          user_prompt: "Is it right? {{ sample.a }}"
          correct_labels: ["RIGHT"]
          incorrect_labels: ["WRONG"]
evaluation:
  key: ratings
  display_name: Ratings
  description: One judge.
  task_specifications: [{key: one, task_key: sound}]
""")
    judge = f"--evals-judge={spec},price_in=1000,max_requests=2"
    words = words_of(suite.run("evals", "--evals-plan", judge, model=None))
    assert "openai:gpt: to send, without" in words
    assert "requests: 3 requests; " in words
    assert "openai:gpt: max_requests=2: 1 request remains for later runs" in words
    assert prompts == []
