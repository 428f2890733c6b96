"""Metrics of a whole corpus of generated texts: BLEU, chrF and TER, by sacrebleu.

A text's counts (n-grams, edits, lengths) do not depend on the texts around it. So they
are made once, and a resample of the corpus is a sum of counts. What sacrebleu is asked
for, and how references are put to it, is as in lm-eval 0.4.13 (``lm_eval.api.metrics``:
``bleu``, ``chrf``, ``chrfpp``, ``ter``, ``_sacreformat``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_evals.core.metric import Span, Totals
from pytest_evals.errors import EvalsError, MissingExtraError

if TYPE_CHECKING:
    from pytest_evals.stats.bootstrap import Draws, Replicates, Statistic


def _bleu(language: str) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    # force: says nothing of texts that look tokenized
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
"""Name → sacrebleu's metric of texts in a language (zh, ja, ko, or empty for others
with words between spaces), in percent."""
SPANS: Mapping[str, Span] = {
    "bleu": Span(0.0, 100.0),
    "chrf": Span(0.0, 100.0),
    "chrf++": Span(0.0, 100.0),
    "ter": Span(low=0.0),
}
"""Name → the values that it can have; more edits than words are above 100."""
_SMOOTH = ("chrf", "chrf++")
"""Those without a kink: BLEU has a brevity penalty, TER is cut off at whole edits."""


def check_library(name: str) -> None:
    """Make sure that the library of a corpus metric is there, without importing it.

    Raises:
        MissingExtraError: It is not installed.
    """
    if find_spec("sacrebleu") is None:
        raise MissingExtraError(f"aggregation {name!r}", "sacrebleu", "metrics")


def _made(name: str, language: str) -> Any:
    try:
        return CORPUS_METRICS[name](language)
    except (ImportError, RuntimeError) as error:
        library = f"sacrebleu[{language}]"
        what = f"{name} of texts in {language!r}"
        raise MissingExtraError(what, library, "languages") from error


class _Pair(NamedTuple):
    references: tuple[str | None, ...]
    text: str


class Corpus:
    """Texts with their references, as counts that add up.

    Where documents have different numbers of references, only as many are used as the
    document with the fewest has; in a resample, the one with the fewest that was drawn.
    """

    def __init__(self, name: str, values: Sequence[Any], language: str = "") -> None:
        """Count.

        Args:
            name: Which of :data:`CORPUS_METRICS`.
            values: Pairs of references (a text, or a list of texts) and the generated
                text (or a list of one).
            language: Code of the texts' language, for those that need their own words.

        Raises:
            EvalsError: A value is not such a pair, or the values mix texts and lists.
            MissingExtraError: sacrebleu is not installed.
        """
        check_library(name)
        self._name = name
        self._metric = _made(name, language)
        pairs = _pairs(values)
        self._n_references = [len(pair.references) for pair in pairs]
        self._columns = {
            n: self._counted(pairs, n) for n in sorted(set(self._n_references))
        }

    def _counted(self, pairs: Sequence[_Pair], n: int) -> list[list[float]]:
        """(m, N): the counts of each text against its first ``n`` references; zeros
        where it has fewer, which nobody asks for."""
        known = [pair for pair in pairs if len(pair.references) >= n]
        references = [[pair.references[i] for pair in known] for i in range(n)]
        texts = [pair.text for pair in known]
        if self._name in _SMOOTH:
            from pytest_evals.scorers.chrf import chrf_counts

            rows = iter(chrf_counts(self._metric, texts, references))
        else:  # not public, but what sacrebleu's own significance tests stand on
            rows = iter(self._metric._extract_corpus_statistics(texts, references))
        width = 0
        table: list[list[float]] = []
        for pair in pairs:
            row = next(rows) if len(pair.references) >= n else []
            width = max(width, len(row))
            table.append(list(row))
        return [[row[i] if row else 0 for row in table] for i in range(width)]

    def _score(self, sums: list[float]) -> float:
        return float(self._metric._compute_score_from_stats(sums).score)

    def score(self) -> float:
        """The metric of all texts."""
        columns = self._columns[min(self._n_references)]
        return self._score([sum(column) for column in columns])

    def totals(self) -> Totals:
        """What each text adds; the number of references stays that of all texts."""
        columns = self._columns[min(self._n_references)]
        smooth = self._name in _SMOOTH
        return Totals(columns=columns, score=self._of_sums, is_smooth=smooth)

    def _of_sums(self, sums: Sequence[float]) -> float:

        return self._score([*sums])

    def resampled(self) -> Statistic:
        """The metric of each resample of the texts."""
        import numpy as np

        from pytest_evals.stats.resampling import resampled_scores

        by_number = {
            n: resampled_scores(columns, self._score)
            for n, columns in self._columns.items()
        }
        if len(by_number) == 1:
            (same,) = by_number.values()
            return same
        n_references = np.array(self._n_references)

        def statistic(at: Draws) -> Replicates:
            fewest = n_references[at].min(axis=1)
            out = np.empty(len(at))
            for n, scores in by_number.items():
                if (fewest == n).any():
                    out[fewest == n] = scores(at[fewest == n])
            return out

        return statistic


def _pairs(values: Sequence[Any]) -> list[_Pair]:
    pairs: list[_Pair] = []
    kinds: set[tuple[bool, bool]] = set()
    for position, value in enumerate(values):
        what = f"value {position} is {value!r:.200}"
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise EvalsError(f"it takes pairs of reference and text, and {what}")
        references, text = value
        kinds.add((isinstance(references, str), isinstance(text, str)))
        if len(kinds) > 1:
            raise EvalsError(
                "references are either all texts or all lists, and so are the "
                f"generated texts; {what}, unlike those before"
            )
        if isinstance(text, (list, tuple)) and len(text) == 1:
            (text,) = text
        listed = [references] if isinstance(references, str) else references
        if not _are_references(listed) or not isinstance(text, str):
            raise EvalsError(
                f"it compares a text with one or several texts, and {what}"
            )
        pairs.append(_Pair(tuple(listed), text))
    return pairs


def _are_references(given: Any) -> bool:
    """Whether these are texts, at least one; ``None`` stands for a missing one."""
    if not isinstance(given, (list, tuple)) or not any(
        one is not None for one in given
    ):
        return False
    return all(one is None or isinstance(one, str) for one in given)
