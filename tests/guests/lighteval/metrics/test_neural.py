"""Metrics that use a model, with tiny models created here, compared with the formulas
of the papers implemented in torch."""

import json

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedTokenizerFast,
)

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, ModelError
from pytest_evals.guests.lighteval.metrics.neural import (
    BLEURT,
    BertScore,
    Faithfulness,
    pair_logits,
    token_vectors,
)
from pytest_evals.scorers.custom_metrics.response import ModelResponse

TEXT = "[PAD] [UNK] [CLS] [SEP] the cat sat on mat a dog ran far away today ."
WORDS = TEXT.split()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of an encoder, and of classifiers with one class and with three."""
    tokenizer = Tokenizer(
        models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=64,
    )
    torch.manual_seed(0)
    found = {}
    for name, kind, n in [
        ("encoder", BertModel, 2),
        ("rating", BertForSequenceClassification, 1),
        ("entailment", BertForSequenceClassification, 3),
    ]:
        config = BertConfig(
            vocab_size=len(WORDS),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=64,
            num_labels=n,
            initializer_range=1.0,
        )
        folder = tmp_path_factory.mktemp(name)
        kind(config).save_pretrained(folder)
        fast.save_pretrained(folder)
        assert json.loads((folder / "config.json").read_text())["hidden_size"] == 16
        found[name] = str(folder)
    return found


def arguments(golds, preds, **specific):
    doc = Doc("", golds, list(range(len(golds))), specific=specific)
    return doc, ModelResponse(text=preds)


def test_bertscore_pairs_each_token_with_its_nearest(folders):
    metric = BertScore(
        model=folders["encoder"], num_layers=2, rescale_with_baseline=False
    )
    found = metric.compute(*arguments(["the cat sat"], ["a cat ran away"]))
    model, tokenizer = BertModel.from_pretrained(folders["encoder"]), None
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folders["encoder"])
    vectors = []
    for text in ("the cat sat", "a cat ran away"):
        encoded = tokenizer(text, return_tensors="pt")
        hidden = model.eval()(**encoded, output_hidden_states=True).hidden_states[2][0]
        vectors.append(torch.nn.functional.normalize(hidden, dim=-1))
    gold, pred = vectors
    like = pred @ gold.T
    precision = like[1:-1].max(dim=1).values.mean().item()
    recall = like[:, 1:-1].max(dim=0).values.mean().item()
    f1 = 2 * precision * recall / (precision + recall)
    expected = {"BERTScore-P": precision, "BERTScore-R": recall, "BERTScore-F": f1}
    assert found == pytest.approx(expected, abs=1e-5)


def test_bertscore_of_equal_texts_is_one_and_of_an_empty_one_zero(folders):
    metric = BertScore(
        model=folders["encoder"], num_layers=1, rescale_with_baseline=False
    )
    same = metric.compute(*arguments(["the cat sat"], ["the cat sat"]))
    assert list(same.values()) == pytest.approx([1.0, 1.0, 1.0], abs=1e-5)
    assert set(metric.compute(*arguments(["the cat"], [""])).values()) == {0.0}


def test_bleurt_takes_the_best_reference_and_the_mean_over_answers(folders):
    metric = BLEURT(folders["rating"])
    one = [
        [metric.compute(*arguments([gold], [pred])) for gold in ("the cat", "a dog")]
        for pred in ("the dog ran", "cat")
    ]
    both = metric.compute(*arguments(["the cat", "a dog"], ["the dog ran", "cat"]))
    assert both == pytest.approx((max(one[0]) + max(one[1])) / 2, abs=1e-5)


def test_faithfulness_is_entailment_less_contradiction(folders):
    source = "the cat sat on the mat today. the dog ran far away today."
    answer = "{a dog ran far away}"
    metric = Faithfulness(model=folders["entailment"])
    found = metric.compute(*arguments([""], [answer], text=source))
    pairs = [
        ("the cat sat on the mat today.", "a dog ran far away"),
        ("the dog ran far away today.", "a dog ran far away"),
    ]
    logits = torch.tensor(pair_logits(folders["entailment"], pairs, 500))
    shares = logits.softmax(dim=-1)
    expected = shares[:, 0].max() - shares[:, 1].max()
    assert found == pytest.approx(expected.item(), abs=1e-5)
    short = metric.compute(*arguments([""], ["a dog"], text=source))
    assert short == 0.0


def test_pairs_of_different_lengths_are_read_as_if_alone(folders):
    """Padding does not change a value."""
    model = folders["entailment"]
    pairs = [("the cat", "a dog"), ("the cat sat on the mat", "a dog ran far away")]
    alone = [pair_logits(model, [pair], 64)[0] for pair in pairs]
    together = pair_logits(model, pairs, 64)
    torch.testing.assert_close(torch.tensor(together), torch.tensor(alone))


def test_model_that_is_not_there_is_one_error(tmp_path, folders):
    metric = BLEURT(str(tmp_path / "nothing"))
    for _ in range(2):
        with pytest.raises(ModelError, match=r"the model .*nothing' of a metric"):
            metric.compute(*arguments(["a"], ["b"]))
    with pytest.raises(EvalsError, match="has 2 layers, and no 9"):
        token_vectors(folders["encoder"], "the cat", 9)
    with pytest.raises(DocumentError, match="must contain the source text"):
        Faithfulness(model=folders["entailment"]).compute(*arguments([""], ["a"]))
