"""Encoders of Hugging Face, made by the tests, against plain passes of torch."""

from __future__ import annotations

import json

import pytest

import pytest_evals as ev
from pytest_evals import evaluate
from pytest_evals.core.request import Generate, embedding_request
from pytest_evals.errors import EvalsError
from pytest_evals.models.registry import fingerprint_of, open_model, parse_spec

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "yes", "no", "of", "course", "never"]
TEXTS = ["yes", "yes of course", "never", "no no no"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """The folder of a tiny encoder."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    inner = Tokenizer(models.WordLevel({w: n for n, w in enumerate(WORDS)}, "[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    path = tmp_path_factory.mktemp("encoders") / "tiny"
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(path)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=8,
    )
    transformers.BertModel(config).save_pretrained(path)
    return path


def expected(folder, text, pooling):
    """The embedding of a text by one pass without padding."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    ids = tokenizer(text)["input_ids"][:8]
    with torch.inference_mode():
        states = model(torch.tensor([ids])).last_hidden_state[0]
    return {"mean": states.mean(0), "cls": states[0], "last": states[-1]}[pooling]


def answers(spec, requests):
    model = open_model(parse_spec(spec))
    found = dict(model.answer(requests))
    model.close()
    return [found[n] for n in range(len(requests))], model


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_embeddings_equal_those_of_single_passes(encoder, pooling):
    spec = f"encoder:{encoder},pooling={pooling},batch_size=3"
    found, model = answers(spec, [*map(embedding_request, TEXTS), Generate("yes")])
    for text, response in zip(TEXTS, found[:-1], strict=True):
        vector = expected(encoder, text, pooling).tolist()
        assert response.data == pytest.approx(vector, abs=1e-5)
    assert [one.n_prompt_tokens for one in found[:-1]] == [3, 5, 3, 5]
    assert "return embeddings and no answers" in found[-1].error
    assert model.notes == ()


def test_texts_that_are_too_long_are_cut_and_noted(encoder):
    found, model = answers(f"encoder:{encoder}", [embedding_request("yes " * 20)])
    assert found[0].n_truncated == 22 - 8
    assert "1 texts were longer than 8 tokens" in model.notes[0]


def test_the_pooling_of_the_model_itself_is_used(encoder, tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    for file in encoder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    before = fingerprint_of(parse_spec(f"encoder:{folder}"), hash_of)
    (folder / "1_Pooling").mkdir()
    file = folder / "1_Pooling" / "config.json"
    file.write_text(json.dumps({"pooling_mode_cls_token": True}))
    found, _ = answers(f"encoder:{folder}", [embedding_request("yes")])
    assert found[0].data == pytest.approx(expected(encoder, "yes", "cls").tolist())
    assert fingerprint_of(parse_spec(f"encoder:{folder}"), hash_of) != before
    file.write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with pytest.raises(EvalsError, match=r"pooling_mode_max_tokens\) is not supported"):
        open_model(parse_spec(f"encoder:{folder}"))
    kinds = ("Transformer", "Pooling", "Dense")
    modules = [{"type": f"sentence_transformers.models.{one}"} for one in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(EvalsError, match="module Dense is not supported"):
        open_model(parse_spec(f"encoder:{folder}"))


def hash_of(path):
    return str(hash(path.read_bytes()))


def test_a_scorer_uses_an_encoder_and_stores_its_embeddings(encoder, tmp_path):
    text = (
        'prompt: "{{q}}"\nrows: [{q: yes of course, target: yes}]\n'
        f"score: {{semantic: {{model: 'hf:{encoder}', threshold: 0.1}}}}\n"
    )
    (tmp_path / "near.yaml").write_text(text)
    result = evaluate(tmp_path / "near.yaml", "scripted:echo", folder=tmp_path)
    one, other = (expected(encoder, text, "mean") for text in TEXTS[:2])
    cosine = torch.nn.functional.cosine_similarity(one, other, dim=0)
    (score,) = result.tasks[0].records[0].scores
    assert score.value == pytest.approx(float(cosine), abs=1e-5)
    again = evaluate(tmp_path / "near.yaml", "scripted:echo", folder=tmp_path)
    assert (result.reuse.n_asked, again.reuse.n_asked) == (2, 0)
    assert again.tasks[0].records[0].scores == (score,)


def test_an_encoder_cannot_be_the_tested_model(encoder):
    rows = [{"prompt": "yes", "target": "yes"}]
    result = evaluate(rows, f"encoder:{encoder}", score=[ev.exact()])
    (record,) = result.tasks[0].records
    assert "encoder: models return embeddings and no answers" in record.error
