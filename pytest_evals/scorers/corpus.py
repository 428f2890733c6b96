"""Corpus metrics of generated texts with sacrebleu: BLEU, chrF and TER.

A text's counts (n-grams, edits, lengths) do not depend on other texts, so they are
computed once, and a resample of the corpus is a sum of counts. sacrebleu's settings and
the format of references equal lm-eval 0.4.13 (``lm_eval.api.metrics``: ``bleu``,
``chrf``, ``chrfpp``, ``ter``, ``_sacreformat``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_evals.core.metric import Span, Totals
from pytest_evals.errors import EvalsError, MissingExtraError

if TYPE_CHECKING:
    from pytest_evals.scorers.bootstrap import Counts, Replicates, Statistic


def _bleu(language: str) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    # force: no warning for texts that look tokenized
    return BLEU(force=True, trg_lang=language)


def _chrf(word_order: int, language: str) -> Any:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(word_order=word_order)


def _ter(language: str) -> Any:
    from sacrebleu.metrics.ter import TER

    return TER(asian_support=bool(language))


CORPUS_METRICS: Mapping[str, Callable[[str], Any]] = {
    "bleu": _bleu,
    "chrf": partial(_chrf, 0),
    "chrf++": partial(_chrf, 2),
    "ter": _ter,
}
"""Name → factory of sacrebleu's metric for a language (zh, ja, ko, or empty for
languages with spaces between words); in percent."""
SPANS: Mapping[str, Span] = {
    "bleu": Span(0.0, 100.0),
    "chrf": Span(0.0, 100.0),
    "chrf++": Span(0.0, 100.0),
    "ter": Span(low=0.0),
}
"""Name → range; TER exceeds 100 if there are more edits than words."""
_SMOOTH = ("chrf", "chrf++")
"""Metrics that are smooth in the counts: BLEU has a brevity penalty, and TER counts
whole edits."""


def check_library(name: str) -> None:
    """Require sacrebleu without importing it."""
    if find_spec("sacrebleu") is None:
        raise MissingExtraError(f"aggregation {name!r}", "sacrebleu", "metrics")


def _sacrebleu_metric(name: str, language: str) -> Any:
    try:
        return CORPUS_METRICS[name](language)
    except (ImportError, RuntimeError) as error:
        library = f"sacrebleu[{language}]"
        message = f"{name} of texts in {language!r}"
        raise MissingExtraError(message, library, "languages") from error


class _Pair(NamedTuple):
    references: tuple[str | None, ...]
    text: str


@lru_cache(maxsize=8)  # gates and comparisons read the texts of the metric again
def _counts(
    name: str, language: str, pairs: tuple[_Pair, ...], n: int
) -> list[list[float]]:
    """(m, N): the counts of each text against its first ``n`` references; zeros for
    texts with fewer."""
    metric = _sacrebleu_metric(name, language)
    known = [pair for pair in pairs if len(pair.references) >= n]
    references = [[pair.references[i] for pair in known] for i in range(n)]
    texts = [pair.text for pair in known]
    # Not public, but used by sacrebleu's significance tests.
    rows = iter(metric._extract_corpus_statistics(texts, references))
    table = [[*next(rows)] if len(pair.references) >= n else [] for pair in pairs]
    width = max(map(len, table))
    return [[row[i] if row else 0 for row in table] for i in range(width)]


class Corpus:
    """Texts and references as additive counts. If documents have different numbers of
    references, the smallest number is used for all; in a resample, the smallest number
    in the resample."""

    def __init__(self, name: str, values: Sequence[Any], language: str = "") -> None:
        """Compute the counts. Raises EvalsError if a value is not such a pair, or the
        values mix strings and lists; MissingExtraError if sacrebleu is not installed.

        Args:
            name: Key of :data:`CORPUS_METRICS`.
            values: Pairs of references (a string or a list of strings) and the
                generated text (or a list of one).
            language: Language code, for languages that need a tokenizer.
        """
        check_library(name)
        self._name = name
        self._metric = _sacrebleu_metric(name, language)
        pairs = tuple(_pairs(values))
        self._n_references = [len(pair.references) for pair in pairs]
        self._columns = {
            n: _counts(name, language, pairs, n)
            for n in sorted(set(self._n_references))
        }

    def _score(self, sums: Sequence[float]) -> float:
        return float(self._metric._compute_score_from_stats([*sums]).score)

    def score(self) -> float:
        """The metric of the corpus."""
        columns = self._columns[min(self._n_references)]
        return self._score([sum(column) for column in columns])

    def totals(self) -> Totals:
        """The counts of each text, with the corpus's number of references."""
        columns = self._columns[min(self._n_references)]
        smooth = self._name in _SMOOTH
        return Totals(columns=columns, score=self._score, is_smooth=smooth)

    def resampled(self) -> Statistic:
        """The metric of resamples of the texts."""
        import numpy as np

        from pytest_evals.scorers.bootstrap import resampled_scores

        by_number = {
            n: resampled_scores(columns, self._score)
            for n, columns in self._columns.items()
        }
        if len(by_number) == 1:
            (same,) = by_number.values()
            return same
        n_references = np.array(self._n_references)

        def statistic(counts: Counts) -> Replicates:
            fewest = np.where(counts > 0, n_references, n_references.max()).min(axis=1)
            out = np.empty(len(counts))
            for n, scores in by_number.items():
                if (fewest == n).any():
                    out[fewest == n] = scores(counts[fewest == n])
            return out

        return statistic


def _pairs(values: Sequence[Any]) -> list[_Pair]:
    pairs: list[_Pair] = []
    kinds: set[tuple[bool, bool]] = set()
    for position, value in enumerate(values):
        message = f"value {position} is {value!r:.200}"
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise EvalsError(f"it requires pairs of reference and text, but {message}")
        references, text = value
        kinds.add((isinstance(references, str), isinstance(text, str)))
        if len(kinds) > 1:
            raise EvalsError(
                "references must be all strings or all lists, and so must the "
                f"generated texts; {message}, unlike the earlier ones"
            )
        if isinstance(text, (list, tuple)) and len(text) == 1:
            (text,) = text
        listed = [references] if isinstance(references, str) else references
        if not _are_references(listed) or not isinstance(text, str):
            why = f"it compares a string with one or several strings, but {message}"
            raise EvalsError(why)
        pairs.append(_Pair(tuple(listed), text))
    return pairs


def _are_references(given: Any) -> bool:
    """Whether this is a list with a string; ``None`` is a missing one."""
    if not isinstance(given, (list, tuple)) or all(one is None for one in given):
        return False
    return all(one is None or isinstance(one, str) for one in given)
