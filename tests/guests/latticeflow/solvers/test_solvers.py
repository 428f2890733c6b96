"""Solvers: their requests, round by round, and their outputs. SEED, DOC and GUIDE are
LatticeFlow's public pages; the rest is our own decision."""

import json

import pytest

from pytest_evals.core.dialogue import Exchange, replayed
from pytest_evals.core.request import FITTING, Response
from pytest_evals.errors import DocumentError
from pytest_evals.guests.latticeflow.solvers.model_client import ModelClient

CHAT = """
type: single_turn_solver
input_builder:
  type: chat_completion
  input_messages:
    - {role: system, content: "Be brief."}
    - {role: user, content: "Say {{ sample.word }}."}
"""
GENERIC = """
type: single_turn_solver
input_builder:
  type: generic
  template: >
    {"messages": [{"role": "user", "content": "{{ sample.word }}"}], "temperature": 0.5,
     "max_tokens": 7, "stop": "END", "top_p": 0.9}
"""


def upper(_model, prompt):
    return prompt[-1].content.upper()


def turns(output):
    return [(m.role, m.content) for m in output.messages]


def test_a_chat_sends_one_request(solve):
    output, rounds = solve(CHAT, {"word": "hi"}, upper)
    assert rounds == [[("", (("system", "Be brief."), ("user", "Say hi.")))]]
    assert turns(output)[1:] == [("user", "Say hi."), ("assistant", "SAY HI.")]
    assert str(output.output) == "SAY HI."
    assert output.raw_outputs[0].choices[0].message.content == "SAY HI."


def test_a_generic_input_sets_generation_arguments(read):
    """SEED: extra keys such as temperature are passed on."""
    parts, _ = read(GENERIC)
    (sent,) = next(parts.solve({"word": "hi"}, 0))
    request = sent.request
    assert (request.temperature, request.max_tokens) == (0.5, 7)
    assert (request.stop, request.options) == (("END",), (("top_p", 0.9),))


@pytest.mark.parametrize("gen_kwargs", [{}, {"max_new_tokens": 5}])
def test_a_default_length_is_only_an_upper_bound(read, gen_kwargs):
    """A value in the input or on the command line overrides the default."""
    parts, _ = read(CHAT, lambda key: ModelClient(name=key, gen_kwargs=gen_kwargs))
    (found,) = next(parts.solve({"word": "hi"}, 0))
    length, fits = found.request.max_tokens, (FITTING, True)
    expected = (5, False) if gen_kwargs else (1024, True)
    assert (length, fits in found.request.options) == expected


def test_the_command_line_sets_the_length_of_answers_by_any_name(read):
    parts, _ = read(
        GENERIC, lambda key: ModelClient(name=key, gen_kwargs={"max_tokens": 3})
    )
    (found,) = next(parts.solve({"word": "hi"}, 0))
    assert found.request.max_tokens == 3


def test_the_error_of_a_template_without_json_shows_its_output(solve):
    """Matches an upstream quirk: quotes in the data break quotes in the template."""
    with pytest.raises(DocumentError) as caught:
        solve(GENERIC, {"word": 'say "hi"'}, upper)
    text = str(caught.value)
    assert "t.yaml:5: template must render JSON (Expecting" in text
    assert '"content": "say "hi""' in text
    assert "fix: {{ sample.question | tojson }}, without quotes around it" in text


def test_a_plain_model_takes_nothing_but_a_chat(solve):
    yaml = "type: single_turn_solver\ninput_builder: {type: generic, template: '[1]'}"
    with pytest.raises(DocumentError, match=r"an object with messages.*is \[1\]"):
        solve(yaml, {}, upper)
    image = '{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}'
    yaml = yaml.replace("[1]", image)
    with pytest.raises(
        DocumentError, match="this model supports text content only, not"
    ):
        solve(yaml, {}, upper)


def test_a_model_of_latticeflow_takes_and_gives_any_json(solve):
    yaml = """
    type: single_turn_solver
    input_builder: {type: generic, template: '{"n": {{ sample.n }}}'}
    """
    native = ModelClient(native=True, takes_sample=True)
    sent = []

    def reply(_model, prompt):
        sent.append(prompt)
        return json.dumps({"twice": 2 * json.loads(prompt)["n"]})

    output, _ = solve(yaml, {"n": 4}, reply, lines=lambda _key: native)
    assert sent == ['{"n": 4}']
    assert output.output.twice == 8
    assert [item.type for item in output.trace.items] == [
        "custom_task_input_message",
        "custom_task_output_message",
    ]


def test_trials_are_separate_requests(read):
    hot = ModelClient(temperature=1.0)
    parts, _ = read(CHAT, lambda _key: hot)
    cold, _ = read(CHAT)
    asks = [next(parts.solve({"word": "a"}, n))[0] for n in range(2)]
    assert [one.request.repeat for one in asks] == [0, 1]
    assert [next(cold.solve({"word": "a"}, n))[0].request.repeat for n in range(2)] == [
        0,
        1,
    ]


def test_all_parts_of_a_group_are_sent_in_one_round(solve):
    yaml = """
    type: grouped_single_turn_solver
    input_builder:
      type: generic
      template: >
        { {% for w in sample.words %}
        "{{ w }}": {"messages": [{"role": "user", "content": "{{ w }}"}]}
        {{ "," if not loop.last }}
        {% endfor %} }
    """
    output, rounds = solve(yaml, {"words": ["a", "b"]}, upper)
    assert [len(one) for one in rounds] == [2]
    assert str(output.solver_outputs["b"].output) == "B"
    with pytest.raises(
        DocumentError, match="template must render a group of model inputs"
    ):
        solve(yaml, {"words": []}, upper)


def test_a_recorded_trace_needs_no_model(solve, read):
    """DOC: its last assistant message is the output."""
    yaml = "type: pass_through_solver\ntrace_column: trace"
    trace = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    output, rounds = solve(yaml, {"trace": json.dumps(trace)}, upper)
    assert (str(output.output), rounds) == ("b", [])
    assert read(yaml)[0].models == frozenset()
    with pytest.raises(
        DocumentError, match=r"unknown column 'trace'; did you mean 'traces'\?"
    ):
        solve(yaml, {"traces": trace}, upper)
    with pytest.raises(DocumentError, match="trace_column 'trace': not a trace: 3"):
        solve(yaml, {"trace": 3}, upper)


LOOP = """
type: multi_turn_solver
message_builders:
  - {type: load_trace, trace_column: history}
  - {type: chat_message, role: user, content: "{{ sample.q }} {{ messages | length }}"}
  - {type: generate}
  - type: loop
    max_iterations: 3
    on_max_iterations: %s
    message_builders:
      - type: generate_message
        model_key: user-sim
        output_role: user
        include_conversation: %s
        extra_input_messages:
          - {type: chat_message, role: user, content: "{{ loop_index }}?"}
        terminate_if: {includes: END, keep_iteration: %s}
      - {type: generate}
"""
HISTORY = [{"role": "system", "content": "s"}]


def talk(ends_at):
    """The simulated user ends the dialogue in that iteration of the loop."""

    def reply(model, prompt):
        if not model:
            return f"a{len(prompt)}"
        return "END" if prompt[-1].content == f"{ends_at}?" else "more"

    return reply


def run_loop(solve, ends_at, way="continue", with_conversation="true", keep="false"):
    sample = {"q": "Q", "history": HISTORY}
    yaml = LOOP % (way, with_conversation, keep)
    return solve(yaml, sample, talk(ends_at))


def test_a_loop_ends_at_its_stop_text_and_drops_that_iteration(solve):
    output, rounds = run_loop(solve, 1)
    assert turns(output) == [
        ("system", "s"),
        ("user", "Q 1"),
        ("assistant", "a2"),
        ("user", "more"),
        ("assistant", "a4"),
    ]
    assert [one[0][0] for one in rounds] == ["", "user-sim", "", "user-sim"]
    assert str(output.output) == "a4"


def test_a_loop_may_keep_the_go_in_which_it_ends(solve):
    output, _ = run_loop(solve, 0, keep="true")
    assert turns(output)[-1] == ("user", "END")


def test_extra_messages_are_seen_by_the_other_model_alone(solve):
    output, rounds = run_loop(solve, 1)
    (_, prompt) = rounds[1][0]
    assert [m.content for m in prompt] == ["s", "Q 1", "a2", "0?"]
    assert "0?" not in [content for _, content in turns(output)]
    _, rounds = run_loop(solve, 1, with_conversation="false")
    assert [m.content for m in rounds[1][0][1]] == ["0?"]


def test_a_loop_that_must_end_and_does_not_is_a_fault(solve):
    output, rounds = run_loop(solve, 9)
    assert len(rounds) == 7
    assert turns(output)[-1][0] == "assistant"
    with pytest.raises(DocumentError, match="no terminate_if was met in 3 iterations"):
        run_loop(solve, 9, way="error")


def test_a_loop_without_an_ending_goes_round_as_often_as_it_may(solve):
    """DOC: reaching the maximum is normal if no end condition is set."""
    yaml = """
    type: multi_turn_solver
    message_builders:
      - type: loop
        max_iterations: 2
        message_builders:
          - {type: chat_message, role: user, content: "{{ loop_index }}"}
          - {type: generate}
    """
    output, _ = solve(yaml, {}, upper)
    assert [content for _, content in turns(output)] == ["0", "0", "1", "1"]


def test_an_ending_outside_of_loops_ends_the_conversation(solve):
    """GUIDE: a model that has responded must not be prompted again."""
    yaml = """
    type: multi_turn_solver
    message_builders:
      - {type: chat_message, role: user, content: hi}
      - {type: generate}
      - type: generate_message
        model_key: m
        extra_input_messages: [{type: chat_message, role: user, content: done?}]
        terminate_if: {includes: "<done>", keep_iteration: false}
      - {type: generate}
    """
    output, rounds = solve(yaml, {}, lambda m, p: "<done>" if m else "answer")
    assert turns(output) == [("user", "hi"), ("assistant", "answer")]
    assert len(rounds) == 2


def test_a_nested_loop_ends_alone(solve):
    yaml = """
    type: multi_turn_solver
    message_builders:
      - type: loop
        max_iterations: 2
        message_builders:
          - type: loop
            message_builders:
              - type: chat_message
                role: user
                content: "in {{ loop_index }}"
                terminate_if: {includes: "in 1"}
          - {type: chat_message, role: user, content: "out {{ loop_index }}"}
    """
    output, _ = solve(yaml, {}, upper)
    texts = [content for _, content in turns(output)]
    assert texts == ["in 0", "in 1", "out 0", "in 0", "in 1", "out 1"]


def test_loop_index_is_unknown_outside_of_loops(solve):
    yaml = """
    type: multi_turn_solver
    message_builders: [{type: chat_message, role: user, content: "{{ loop_index }}"}]
    """
    with pytest.raises(DocumentError, match="'loop_index' is undefined"):
        solve(yaml, {}, upper)


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        (
            "input_builder: {}",
            "./t.yaml:1: type is missing\n  fix: set type to one of "
            "grouped_single_turn_solver, multi_turn_solver, pass_through_solver, "
            "python, single_turn_solver",
        ),
        (
            "type: single_turn",
            "./t.yaml:1: unknown solver 'single_turn'; did you mean "
            "'single_turn_solver'?\n  fix: type: single_turn_solver",
        ),
        (
            "type: [python]",
            "./t.yaml:1: type must be a string, not a list\n"
            "  fix: write type as one string",
        ),
        (
            CHAT + "seed: 3",
            "./t.yaml:8: a solver of type single_turn_solver has no key 'seed'; known: "
            "message_format, postprocessor, type, input_builder",
        ),
        (
            "type: single_turn_solver",
            "./t.yaml:1: input_builder is missing\n  fix: input_builder: "
            "{type: chat_completion, input_messages: […]}",
        ),
        (
            "type: single_turn_solver\ninput_builder:\n  type: generic\n"
            "  template: '{{ a'",
            "./t.yaml:4: template is not a valid template: unexpected end of template, "
            "expected 'end of print statement'; write values as {{ name }}, "
            "statements as {% … %}",
        ),
        (
            "type: single_turn_solver\ninput_builder:\n  type: chat_completion\n"
            "  input_messages: [{role: usr, content: a}]",
            "./t.yaml:4: unknown role 'usr'; did you mean 'user'?\n  fix: role: user",
        ),
        (
            "type: multi_turn_solver\nmessage_builders: []",
            "./t.yaml:2: message_builders is missing\n  fix: message_builders: "
            "[{type: chat_message, …}, {type: generate}]",
        ),
        (
            "type: multi_turn_solver\nmessage_builders:\n  - type: loop\n"
            "    message_builders: [{type: load_trace, trace_column: a}]",
            "./t.yaml:4: load_trace cannot be used in a loop",
        ),
        (
            "type: multi_turn_solver\nmessage_builders:\n"
            "  - {type: generate, terminate_if: {keep_iteration: true}}",
            './t.yaml:3: includes is missing\n  fix: includes: "<done>"',
        ),
        (
            "type: pass_through_solver",
            './t.yaml:1: trace_column is missing\n  fix: trace_column: "trace"',
        ),
        (
            "type: python\nrun_solver_snippet: 'def run_solvr(): pass'",
            "./t.yaml:2: the snippet does not define run_solver; did you "
            "mean 'run_solvr'?\n"
            "  fix: def run_solver(…):",
        ),
        (
            "type: grouped_single_turn_solver\ninput_builder: {type: chat_completion}",
            "./t.yaml:2: unknown input builder 'chat_completion'; known: generic",
        ),
    ],
)
def test_an_invalid_solver_is_reported_with_its_line(read, yaml, message):
    _, problems = read(yaml)
    assert problems[0].splitlines() == message.splitlines()


def test_all_models_of_a_solver_are_known_in_advance(read):
    parts, _ = read(LOOP % ("error", "true", "true"))
    assert parts.models == {"", "user-sim"}


def test_a_solver_that_sends_something_else_when_it_is_replayed_is_an_error(read):
    parts, _ = read(CHAT)
    dialogue = parts.solve
    (ask,) = next(dialogue({"word": "a"}, 0))
    exchange = Exchange(*ask, Response(text="x"))
    assert replayed(dialogue({"word": "a"}, 0), [exchange]).output == "x"
    with pytest.raises(
        DocumentError, match="sends other requests than in the recorded run"
    ):
        replayed(dialogue({"word": "b"}, 0), [exchange])
