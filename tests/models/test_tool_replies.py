"""Tools in chat templates of local models, and calls in their replies."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import pytest_evals as ev
from pytest_evals.core.request import TOOLS, Generate, Message, Response
from pytest_evals.models.registry import open_model, parse_spec
from pytest_evals.models.tokens.tool_calls import FORMATS, UNREAD_CALL, parser_of

HERMES = (
    "{% if tools %}<|im_start|>system\nTools:{% for t in tools %}\n{{ t | tojson }}"
    '{% endfor %}\nReply with <tool_call>{"name": …}</tool_call><|im_end|>\n'
    "{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% endif %}"
)
MISTRAL = (
    "{% if tools %}[AVAILABLE_TOOLS] {{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}"
    "{% for m in messages %}[INST] {{ m.content }}[/INST]"
    "{% if m.tool_calls %}[TOOL_CALLS] {{ m.tool_calls }}{% endif %}{% endfor %}"
)
PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
TOOL = {"type": "function", "function": {"name": "pay", "parameters": {}}}
PAY = '{"name": "pay", "arguments": {"amount": 4}}'
REFUND = '{"name": "refund", "arguments": {}}'


QWEN_CODER = HERMES + "<function=example><parameter=x>"
GLM = HERMES + "<arg_key>"
GRANITE = "{% if tools %}<|tool_call|>{% endif %}"
DEEPSEEK = "{% if tools %}<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{% endif %}"
LLAMA = 'Respond in the format {"name": function name, "parameters": {}}'
PYTHONIC = "Calls: [func_name1(params_name1=params_value1)]"
TYPES = {"pay": {"amount": {"type": "number"}, "unit": {"type": "string"}}}


def deepseek(*calls: str) -> str:
    inner = "\n".join(f"<｜tool▁call▁begin｜>{one}<｜tool▁call▁end｜>" for one in calls)
    return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"


def call(name: str, **arguments: object) -> dict:
    return {"name": name, "arguments": arguments}


NOTE = call("note", text="<tool_call></tool_call> </think> [TOOL_CALLS] <|tool_call|>")


@pytest.mark.parametrize(
    ("template", "text", "answer", "calls"),
    [
        (HERMES, f"<tool_call>\n{PAY}\n</tool_call>", "", [call("pay", amount=4)]),
        (
            HERMES,
            f"Wait. <tool_call>{PAY}</tool_call>\n<tool_call>\n{REFUND}",
            "Wait.",
            [call("pay", amount=4), call("refund")],
        ),
        (HERMES, "Write <tool_call> and JSON.", "Write <tool_call> and JSON.", []),
        (
            HERMES,
            f"<think><tool_call>{PAY}</tool_call></think>No.",
            f"<think><tool_call>{PAY}</tool_call></think>No.",
            [],
        ),
        (
            HERMES,
            f"<tool_call>{PAY}</tool_call><tool_call>{{'a': 1}}</tool_call>",
            "<tool_call>{'a': 1}</tool_call>",
            [call("pay", amount=4), UNREAD_CALL],
        ),
        (
            HERMES,
            '<tool_call>{"name": "pay", "arguments": "4"}</tool_call>',
            "",
            [{"name": "pay", "arguments": "4"}],
        ),
        (
            MISTRAL,
            f'Now [TOOL_CALLS] [{PAY}, {{"name": "a", "arguments": {{}}, "id": "x"}}]',
            "Now",
            [call("pay", amount=4), {**call("a"), "id": "x"}],
        ),
        (
            MISTRAL,
            '[TOOL_CALLS]pay[ARGS]{"amount": 4}[TOOL_CALLS]a[CALL_ID]z1[ARGS]{}',
            "",
            [call("pay", amount=4), {**call("a"), "id": "z1"}],
        ),
        (
            QWEN_CODER,
            "Now.\n<tool_call>\n<function=pay>\n<parameter=amount>\n4\n</parameter>\n"
            "<parameter=unit>\n4\n</parameter>\n<parameter=more>\n[True]\n</parameter>\n"
            "</function>\n</tool_call>",
            "Now.",
            [call("pay", amount=4, unit="4", more="[True]")],
        ),
        (QWEN_CODER, "<tool_call><function=pay>4", "<tool_call><function=pay>4", []),
        (
            GLM,
            "<tool_call>pay\n<arg_key>amount</arg_key>\n<arg_value>4</arg_value>\n"
            "<arg_key>unit</arg_key>\n<arg_value> 4</arg_value>\n</tool_call>\n"
            "<tool_call>now</tool_call>",
            "",
            [call("pay", amount=4, unit=" 4"), call("now")],
        ),
        (GRANITE, f"<|tool_call|>[{PAY}]", "", [call("pay", amount=4)]),
        (HERMES, f"<tool_call>[{PAY}]</tool_call>", "", [call("pay", amount=4)]),
        (
            DEEPSEEK,
            "Now" + deepseek('function<｜tool▁sep｜>pay\n```json\n{"amount": 4}\n```'),
            "Now",
            [call("pay", amount=4)],
        ),
        (
            DEEPSEEK,
            deepseek('pay<｜tool▁sep｜>{"amount": 4}', "a<｜tool▁sep｜>4"),
            "",
            [call("pay", amount=4), {"name": "a", "arguments": "4"}],
        ),
        (
            LLAMA,
            '<|python_tag|>{"name": "pay", "parameters": {"amount": "4"}}; '
            '{"name": "a", "parameters": {}}<|eom_id|>',
            "",
            [call("pay", amount="4"), call("a")],
        ),
        (LLAMA, f"{PAY}<|eot_id|>", f"{PAY}<|eot_id|>", []),
        (LLAMA, 'Use {"name": "a"}.', 'Use {"name": "a"}.', []),
        (
            PYTHONIC,
            "[pay(amount=-4, unit='EUR', tags=[true, None]), shop.a()]",
            "",
            [call("pay", amount=-4, unit="EUR", tags=[True, None]), call("shop.a")],
        ),
        (PYTHONIC, "[pay(4)]", "[pay(4)]", []),
        (PYTHONIC, "[pay(amount=open('x'))]", "[pay(amount=open('x'))]", []),
        (PYTHONIC, "[1, 2]", "[1, 2]", []),
        (LLAMA, '[{"name": "a", "parameters": {}}, 1]', ..., []),
        (LLAMA, '{"name": "a", "parameters": {}}; {"name": "b"', ..., []),
        (
            LLAMA,
            '<think>{"name": "b"}</think>\n{"name": "a", "parameters": {}}',
            '<think>{"name": "b"}</think>',
            [call("a")],
        ),
        # Tags in arguments, also those of reasoning.
        *(
            (form, start + json.dumps(NOTE) + end, "", [NOTE])
            for form, start, end in (
                (HERMES, "<tool_call>", "</tool_call>"),
                (MISTRAL, "[TOOL_CALLS] [", "]"),
                (GRANITE, "<|tool_call|>[", "]"),
            )
        ),
        (
            QWEN_CODER,
            "<tool_call><function=note><parameter=text>\n<tool_call> </parameter> "
            "<think>\n</parameter></function></tool_call>",
            "",
            [call("note", text="<tool_call> </parameter> <think>")],
        ),
        # The prompt has opened the reasoning; it ends twice, or not at all.
        (HERMES, f"<tool_call>{PAY}</tool_call></think>No.", ..., []),
        (
            HERMES,
            f"a</think>b<think><tool_call>{PAY}</think>c<tool_call>{REFUND}",
            f"a</think>b<think><tool_call>{PAY}</think>c",
            [call("refund")],
        ),
        (HERMES, f"a<think><tool_call>{PAY}</tool_call>", ..., []),
        # JSON that goes on, text instead of the closing tag, other keys, cut off.
        *(
            (HERMES, f"A <tool_call>{body}", ..., [])
            for body in (
                f"{PAY}}}</tool_call>",
                f"{PAY} and more</tool_call>",
                f"{PAY}, {REFUND}</tool_call>",
                f"{PAY} Paid.",
                '{"name": "pay", "parameters": {"amount": 4}}</tool_call>',
                '{"arguments": {}}</tool_call>',
                '{"name": ["pay"], "arguments": {}}</tool_call>',
                '{"name": "pay", "arguments": {"amount": NaN}}</tool_call>',
                '"pay"</tool_call>',
                "[]</tool_call>",
                PAY[:-1],
                PAY[:9],
                "",
                '{"name": "pay", "arguments": ' + '{"a":' * 3000 + "1" + "}" * 3001,
            )
        ),
        (
            HERMES,
            f"A <tool_call>{PAY}</tool_call> B <tool_call>{REFUND[:-4]}",
            f"A  B <tool_call>{REFUND[:-4]}",
            [call("pay", amount=4), UNREAD_CALL],
        ),
        (
            HERMES,
            f"<tool_call>{{'name': 1}}</tool_call>\n<tool_call>\n{PAY}\n</tool_call>é",
            "<tool_call>{'name': 1}</tool_call>\né",
            [UNREAD_CALL, call("pay", amount=4)],
        ),
        (
            HERMES,
            '<tool_call>{"name": "écrire", "arguments": {"à": {"b": {"c": ["}"]}}}}'
            "</tool_call>",
            "",
            [call("écrire", **{"à": {"b": {"c": ["}"]}}})],
        ),
        *(
            (MISTRAL, f"A [TOOL_CALLS]{body}", ..., [])
            for body in (
                f" [{PAY}",
                f" [{PAY}]]",
                f" [{PAY}], [{REFUND}]",
                f" [{PAY}, 1]",
                " []",
                'pay[ARGS]{"amount": 4',
                'pay[ARGS]{"amount": 4}}',
                'pay[ARGS]["a"]',
                "see {1}",
            )
        ),
        (
            MISTRAL,
            f'[TOOL_CALLS] [{PAY}]\nPaid. [TOOL_CALLS]refund[ARGS]{{}} see {{"b": 2}}',
            'Paid.  see {"b": 2}',
            [call("pay", amount=4), call("refund")],
        ),
        (GRANITE, f"<|tool_call|>[{PAY}] Paid.", ..., []),
        (GLM, "<tool_call>pay<arg_key>a</arg_key><arg_value>1</arg_value>", ..., []),
        (MISTRAL, "[TOOL_CALLS] [{", "[TOOL_CALLS] [{", []),
        (MISTRAL, f"<tool_call>{PAY}</tool_call>", f"<tool_call>{PAY}</tool_call>", []),
    ],
)
def test_calls_are_read_in_the_format_of_the_template(template, text, answer, calls):
    parse = parser_of(template)
    assert parse is not None
    found = parse(text, TYPES)
    answer = text if answer is ... else answer
    assert (found.text, [*found.calls]) == (answer, calls)


@pytest.mark.parametrize(
    ("target", "score", "is_right"),
    [
        ([{"pay": {"amount": [4]}}], ev.tool_calls(), False),
        ([{"pay": {"amount": [4]}}], ev.tool_calls(order="strict"), False),
        ([{"pay": {"amount": [4]}}], ev.tool_names(), False),
        ([{"pay": {"amount": [4]}}], ev.tool_calls(extra="allow"), True),
        ([], ev.tool_calls(), False),
        (None, ev.no_tool_calls(), False),
        (None, ev.max_calls(1), False),
        (None, ev.called("pay"), True),
    ],
)
@pytest.mark.parametrize("broken", ["{'name': 'pay'}</tool_call>", REFUND[:-2], ""])
def test_a_broken_call_counts_beside_an_exact_one(broken, target, score, is_right):
    parse = parser_of(HERMES)
    assert parse is not None
    found = parse(f"<tool_call>{PAY}</tool_call> <tool_call>{broken}", {})
    response = Response(text=found.text, calls=found.calls)
    assert score(response, ev.case("Pay 4.", target=target)).correct is is_right
    assert "<tool_call>" in found.text


@pytest.mark.parametrize(
    ("template", "start", "part"),
    [
        (QWEN_CODER, "<tool_call><function=a>", "<parameter=b>1</parameter>"),
        (GLM, "<tool_call>a", "<arg_key>b</arg_key><arg_value>1</arg_value>"),
        (GLM, "<tool_call>a", "<arg_key>"),
        (HERMES, "", "<tool_call>"),
        (HERMES, "<tool_call>", "["),
        (MISTRAL, "", "[TOOL_CALLS] ["),
        (DEEPSEEK, "", "<｜tool▁call▁begin｜>a<｜tool▁sep｜>"),
        (PYTHONIC, "", "[a("),
    ],
)
def test_a_long_reply_that_is_cut_off_takes_no_time(template, start, part):
    text = start + part * 2000
    parse = parser_of(template)
    assert parse is not None
    began = time.process_time()
    assert (parse(text, {}).text, parse(text, {}).calls) == (text, ())
    assert time.process_time() - began < 5


def test_the_documentation_lists_the_formats():
    page = (Path(__file__).parents[2] / "docs" / "agent_recipes.md").read_text("utf-8")
    assert [one.families for one in FORMATS if f"| {one.families} |" not in page] == []


def test_other_formats_are_unknown():
    assert parser_of("<|tool_call>call:NAME{key:1}<tool_call|>") is None
    assert parser_of(PLAIN) is None


def tokenizer_with(template: str):
    """A tokenizer of bytes with the tokens of both formats."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    inner = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<s>", "</s>", "<|im_end|>", "[TOOL_CALLS]"])
    inner.add_tokens([AddedToken(one) for one in ("<tool_call>", "</tool_call>")])
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>"
    )
    made.add_special_tokens(
        {"additional_special_tokens": ["<|im_end|>", "[TOOL_CALLS]"]}
    )
    made.chat_template = template
    return made


def saved_script(folder, template: str, reply: str, chat: list[dict]) -> str:
    """Save a model that replies with a text: the token at each position is fixed by
    its position embeddings. Returns its spec."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = tokenizer_with(template)
    prompt = tokenizer.apply_chat_template(
        chat, tools=[TOOL], tokenize=False, add_generation_prompt=True
    )
    n = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    script = [*tokenizer(reply, add_special_tokens=False)["input_ids"]]
    script.append(tokenizer.convert_tokens_to_ids("<|im_end|>"))
    size = 1024
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=size,
        n_embd=size,
        n_layer=1,
        n_head=1,
        n_inner=1,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=[
            tokenizer.eos_token_id,
            tokenizer.convert_tokens_to_ids("<|im_end|>"),
        ],
    )
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for one in model.parameters():
            one.zero_()
        model.transformer.ln_f.weight.fill_(1.0)
        model.transformer.wpe.weight.copy_(torch.eye(size))
        for i, token in enumerate(script):
            model.lm_head.weight[token, n - 1 + i] = 1.0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return f"hf:{folder},dtype=float32,device=cpu"


def asked(prompt: str, **changes) -> Generate:
    options = ((TOOLS, json.dumps([TOOL])),)
    return Generate((Message("user", prompt),), options=options, max_tokens=200)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "reply", "text", "calls"),
    [
        (
            HERMES,
            f"One moment. <tool_call>\n{PAY}\n</tool_call>",
            "One moment.",
            [call("pay", amount=4)],
        ),
        (
            MISTRAL,
            f"[TOOL_CALLS] [{PAY}, {REFUND}]",
            "",
            [call("pay", amount=4), call("refund")],
        ),
        (HERMES, f"<tool_call>{PAY}", "", [call("pay", amount=4)]),
    ],
    ids=["Hermes", "Mistral", "the last tag is missing"],
)
def test_a_model_gets_tools_and_its_calls_are_read(
    tmp_path, template, reply, text, calls
):
    chat = [{"role": "user", "content": "Pay 4."}]
    spec = saved_script(tmp_path, template, reply, chat)
    model = open_model(parse_spec(spec))
    request = asked("Pay 4.")
    ((_, response),) = model.answer([request])
    assert (response.error, response.text) == ("", text)
    assert [*response.calls] == calls
    assert response.finish == "stop"
    from pytest_evals.core.request import with_tools

    assert '"pay"' in model.render(with_tools(request))
    ((_, plain),) = model.answer([Generate("Pay 4.", max_tokens=3)])
    assert plain.calls == ()
    model.close()


@pytest.mark.slow
def test_replies_that_cannot_be_read_stay_text_with_a_note(tmp_path):
    chat = [{"role": "user", "content": "Pay 4."}]
    reply = "<tool_call>{'name': 'pay'}</tool_call>"
    model = open_model(parse_spec(saved_script(tmp_path, HERMES, reply, chat)))
    ((_, response),) = model.answer([asked("Pay 4.")])
    assert (response.text, response.calls) == (reply, ())
    assert [one for one in model.notes if "tool calls" in one] == [
        "1 replies with tool calls that cannot be read exactly stay text"
    ]
    model.close()


@pytest.mark.slow
def test_a_template_that_ignores_tools_is_an_error(tmp_path):
    chat = [{"role": "user", "content": "Pay 4."}]
    model = open_model(parse_spec(saved_script(tmp_path, PLAIN, "Paid.", chat)))
    ((_, response),) = model.answer([asked("Pay 4.")])
    assert response.error.startswith("the chat template of the model ignores tools")
    model.close()


EVAL = """\
prompt: "Pay 4."
tools: [{name: pay, parameters: {}}]
generation: {tool_choice: auto, max_tokens: 100}
rows: [{target: [{pay: {amount: [4]}}]}]
score: tool_calls
"""


@pytest.mark.slow
def test_an_eval_compares_the_calls_of_a_local_model(pytester):
    pytester.path.joinpath("pay.yaml").write_text(EVAL)
    folder = pytester.path / "model"
    chat = [{"role": "user", "content": "Pay 4."}]
    spec = saved_script(folder, HERMES, f"<tool_call>{PAY}</tool_call>", chat)
    found = pytester.runpytest(
        f"--model={spec}", "--evals-apply-chat-template", "pay.yaml"
    )
    found.assert_outcomes(passed=1)
    (path,) = pytester.path.glob(".evals/runs/*/samples_pay.jsonl")
    row = json.loads(path.read_text())
    assert row["calls"] == [[call("pay", amount=4)]]
    assert row["tool_calls"] == 1.0
    assert "Reply with <tool_call>" in row["arguments"]["gen_args_0"]["arg_0"]


def test_a_local_template_without_tools_is_refused_before_the_model_is_loaded(
    pytester,
):
    pytester.path.joinpath("pay.yaml").write_text(EVAL)
    folder = pytester.path / "model"
    saved_script(folder, PLAIN, "Paid.", [{"role": "user", "content": "Pay 4."}])
    (folder / "model.safetensors").unlink()
    found = pytester.runpytest(f"--model=hf:{folder}", "pay.yaml")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines(["*the chat template of the model ignores tools*"])
