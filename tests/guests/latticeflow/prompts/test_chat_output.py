"""The output of a chat model is its text, and has its fields as well."""

import json
import pickle
import re
from copy import deepcopy
from operator import eq, ne

import pytest

from pytest_evals.errors import DocumentError, Place
from pytest_evals.guests.latticeflow.prompts.output import (
    ChatCompletionModelOutput,
    ModelResponse,
    SampleScore,
    SolverOutput,
    SolverTrace,
)
from pytest_evals.guests.latticeflow.prompts.templates import compile_template


def replied(content, **more):
    message = {"role": "assistant", "content": content, **more}
    return {"choices": [{"message": message}], "usage": {"num_prompt_tokens": 3}}


def outputs(text):
    """The same response, in each form in which snippets and templates can read it."""
    whole = SolverOutput(raw_outputs=[replied(text)])
    parts = [{"type": "text", "text": text}]
    messages = [{"role": "assistant", "content": text}]
    own = ChatCompletionModelOutput(replied(text))
    return {
        "output": whole.output,
        "outputs": whole.outputs[-1],
        "of a copy": deepcopy(whole).output,
        "copied": deepcopy(whole.output),
        "pickled": pickle.loads(pickle.dumps(whole.output)),
        "in parts": SolverOutput(raw_outputs=[replied(parts)]).output,
        "refusal": SolverOutput(raw_outputs=[replied(None, refusal=text)]).output,
        "agent": SolverOutput(raw_outputs=[{"items": messages}]).output,
        "trace": SolverOutput(trace=messages).output,
        "given on": SolverOutput(raw_outputs=[whole.output]).output,
        "made by a snippet": SolverOutput(output=own).output,
    }


FORMS = list(outputs("x"))


@pytest.mark.parametrize("form", FORMS)
def test_an_output_does_all_that_its_text_does(form):
    text = " Paris, France\n"
    output = outputs(text)[form]
    assert isinstance(output, str)
    assert output == text
    assert text == output
    assert output != "London"
    assert not ne(text, output)
    assert "Paris" in output
    assert output in ["London", text]
    assert text in [output]
    assert {text: 1}[output] == 1
    assert len(output) == len(text)
    assert list(output) == list(text)
    assert (output[1], output[1:6], output[::-1]) == ("P", "Paris", text[::-1])
    assert output.strip().lower() == "paris, france"
    assert (f"{output:>20}", "%s" % output) == (f"{text:>20}", text)  # noqa: UP031
    assert ("> " + output, output + "!") == ("> " + text, text + "!")
    assert re.findall("P[a-z]+", output) == ["Paris"]
    assert json.dumps({"said": output}) == json.dumps({"said": text})
    assert sorted([output, "A"]) == [text, "A"]


@pytest.mark.parametrize("form", FORMS)
def test_an_output_has_its_fields_too(form):
    output = outputs("Paris")[form]
    assert "Paris" in str(output.choices[0].message)
    assert output["choices"] == output.choices == output.get("choices")
    assert set(output.keys()) == set(dict(output)) == {"choices", "usage"}
    assert isinstance(output, ChatCompletionModelOutput)
    with pytest.raises(AttributeError, match="did you mean 'choices'"):
        output.choises  # noqa: B018


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ solver_output.output == sample.target }}", "True"),
        ("{% if sample.target in model_outputs %}yes{% endif %}", "yes"),
        ("{{ solver_output.output | length }}", "5"),
        ("{{ model_output | upper }} {{ model_output[:2] }}", "PARIS Pa"),
        ("{{ model_output | tojson }}", '"Paris"'),
        ("{{ solver_output.output.choices[0].message.content }}", "Paris"),
        ("{{ solver_output }} {{ model_outputs }}", "Paris ['Paris']"),
    ],
)
def test_templates_see_an_output_as_its_text(text, expected):
    output = SolverOutput(raw_outputs=[replied("Paris")])
    variables = {
        "sample": {"target": "Paris"},
        "solver_output": output,
        "model_output": output.output,
        "model_outputs": output.outputs,
    }
    found = compile_template(text, Place("t.yaml", 3), "value").render(variables)
    assert found == expected


CALL = {"type": "function", "id": "c", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    "output",
    [
        SolverOutput(),
        SolverOutput(raw_outputs=[{"choices": []}]),
        SolverOutput(raw_outputs=[replied(None)]),
        SolverOutput(raw_outputs=[replied(None, tool_calls=[CALL])]),
        SolverOutput(raw_outputs=[{"items": []}]),
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        lambda output: output == "",
        lambda output: eq("", output),
        lambda output: output != "Paris",
        lambda output: "Paris" in output,
        lambda output: output in ["Paris"],
        lambda output: len(output),
        lambda output: list(output),
        lambda output: output[0],
        lambda output: output[:3],
        lambda output: output.strip(),
        lambda output: f"{output}",
        str,
    ],
)
def test_an_output_without_text_is_never_an_empty_answer(output, use):
    """Such an output is neither wrong, since every target differs from it, nor
    correct."""
    assert not output.output
    assert set(output.output.keys()) == {"choices", "usage"}
    with pytest.raises(DocumentError, match="no answer"):
        use(output.output)


OUTPUT = SolverOutput(
    trace=[{"role": "user", "content": "?"}, {"role": "assistant", "content": "Paris"}],
    raw_outputs=[replied("Paris")],
)


@pytest.mark.parametrize(
    "structured",
    [
        OUTPUT,
        OUTPUT.raw_outputs[-1],
        OUTPUT.messages[-1],
        OUTPUT.trace,
        OUTPUT.trace.turns[0],
        OUTPUT.trace.items[-1],
        OUTPUT.trace.items[-1].content,
        OUTPUT.trace.items[-1].content[0],
        ModelResponse(replied("Paris")),
        SolverTrace(),
        SampleScore({"said": "Paris"}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_comparing_a_structured_output_with_a_string_is_an_error(structured):
    """A comparison that is always false would score correct answers as wrong."""
    expected = (
        f"{type(structured).__name__} was compared with .*'Paris', .*compare one of"
    )
    for compare in (
        lambda: structured == "Paris",
        lambda: eq("Paris", structured),
        lambda: structured != "Paris",
        lambda: "Paris" in [structured],
    ):
        with pytest.raises(TypeError, match=expected):
            compare()
    assert eq(structured, structured)
    assert deepcopy(structured) is not None
