"""Stated and measured error rates of gates.

    python -m tests.simulations [NAME ...] [--samples 1000]

Without a name all tables are printed. Everything is seeded. Exits with 1 if a gate
passes or fails more often than stated by more than 2 points and two standard errors of
the simulation.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

from tests.simulations.answers import changes, clusters, families, proportions
from tests.simulations.cells import Cell, printed
from tests.simulations.corpus import corpus, perplexity_rows
from tests.simulations.labels import clustered_judges, judges, label_rows
from tests.simulations.means import means, paired, repeats, unbounded
from tests.simulations.power import power_rows
from tests.simulations.reruns import point_rows, repeatability_rows
from tests.simulations.several_answers import several_rows
from tests.simulations.whole_gates import (
    divergences,
    groups,
    labels,
    outliers,
    sampled_groups,
    sampled_runs,
)
from tests.simulations.widths import width_rows

CELLS: dict[str, Callable[..., Iterator[Cell]]] = {
    "proportions": proportions,
    "means": means,
    "repeats": repeats,
    "paired": paired,
    "answers": changes,
    "clusters": clusters,
    "unbounded": unbounded,
    "families": families,
    "labels": judges,
    "label_clusters": clustered_judges,
    "corpus": corpus,
    "kl": divergences,
    "outliers": outliers,
    "f1": labels,
    "groups": groups,
    "sampled_runs": sampled_runs,
    "sampled_groups": sampled_groups,
}
"""Tables of error rates."""
ROWS: dict[str, Callable[[int], Iterator[str]]] = {
    "several_answers": lambda n_samples: several_rows(n_samples // 2),
    "label_widths": lambda n_samples: label_rows(n_samples // 2),
    "perplexities": perplexity_rows,
    "widths": lambda n_samples: width_rows(n_samples // 2),
    "point": lambda _: point_rows(),
    "repeatability": repeatability_rows,
    "power": lambda _: power_rows(),
}
"""Other tables."""
SAMPLES = {
    **dict.fromkeys(("paired", "clusters", "unbounded", "several_answers"), 400),
    **dict.fromkeys(("families", "repeatability"), 1000),
    **dict.fromkeys(("kl", "outliers", "groups", "corpus", "sampled_groups"), 200),
}
"""Samples of each cell, so that all tables take about 20 minutes of one core; 100 for
other tables. Tables that sum over all outcomes draw none."""


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [*CELLS, *ROWS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--samples", type=int, help="in each cell")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in names]
    if unknown:
        parser.error(f"no table {unknown[0]!r}; tables: {', '.join(names)}")
    above = 0
    for name in given.names or names:
        n_samples = given.samples or SAMPLES.get(name, 100)
        print(f"== {name}")
        if name in CELLS:
            above += printed(CELLS[name](), n_samples)
        else:
            print("\n".join(ROWS[name](n_samples)), flush=True)
    if {*CELLS} & {*(given.names or names)}:
        print(f"{above} cells above the stated rate")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
