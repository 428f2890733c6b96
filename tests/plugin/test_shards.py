"""Shards have equal cost, keep a task's documents in blocks, and contain all of
them."""

from pathlib import Path
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.core.gate import Gate
from pytest_evals.errors import Place
from pytest_evals.plugin.workers.sharding import FIXED, shard_items, shard_models
from pytest_evals.run.suite import TaskRun

SIZES = st.lists(st.integers(0, 5000), min_size=1, max_size=40)


class SizedRows:
    """Rows of these sizes."""

    def __init__(self, sizes):
        self._sizes = sizes

    def ids(self):
        return [str(i) for i in range(len(self._sizes))]

    def indices(self):
        return range(len(self._sizes))

    def total(self):
        return len(self._sizes)

    def sizes(self):
        return self._sizes


def runs_of(tasks, gates=(), model=""):
    """Information about tasks with rows of these sizes."""
    runs = {}
    for name, sizes in tasks.items():
        rows = SizedRows(sizes)
        runs[name] = TaskRun(
            task=SimpleNamespace(rows=rows, name=name),
            path=Path("a.yaml"),
            nodeid=f"a.yaml::{name}",
            changed=False,
            ids=rows.ids(),
            indices=rows.indices(),
            n_total=len(sizes),
            gates=tuple(gates),
            model=model,
        )
    return SimpleNamespace(tasks=runs, all=lambda: [*runs.values()])


def ids_of(known):
    return [nodeid for run in known.tasks.values() for nodeid in run.document_ids()]


def costs_of(known):
    return [FIXED + n for run in known.tasks.values() for n in run.task.rows.sizes()]


@given(st.dictionaries(st.sampled_from("abcde"), SIZES, min_size=1), st.integers(1, 8))
def test_every_document_is_in_one_shard_in_contiguous_blocks(tasks, n):
    known = runs_of(tasks)
    ids = ids_of(known)
    shards = shard_items(ids, known, n).shards
    assert len(shards) == n
    assert sorted(position for shard in shards for position in shard) == [
        *range(len(ids))
    ]
    for run in known.tasks.values():
        of_task = [
            [i for i in shard if ids[i].startswith(f"{run.nodeid}[")]
            for shard in shards
        ]
        in_order = [position for block in of_task for position in block]
        assert in_order == sorted(in_order)


@given(SIZES, st.integers(2, 8))
def test_costs_of_shards_of_one_task_differ_by_one_document(sizes, n):
    known = runs_of({"a": sizes})
    costs = costs_of(known)
    totals = [
        sum(costs[i] for i in s) for s in shard_items(ids_of(known), known, n).shards
    ]
    assert max(totals) <= sum(costs) / n + max(costs)
    assert min(totals) >= sum(costs) / n - max(costs)


def test_long_documents_weigh_more_than_short_ones():
    known = runs_of({"a": [10_000] * 4 + [0] * 200})
    first, second = shard_items(ids_of(known), known, 2).shards
    assert len(first) < 10 < len(second)


def test_tasks_of_one_document_are_spread_over_all_workers():
    known = runs_of({name: [50] for name in "abcdefgh"})
    shards = shard_items(ids_of(known), known, 4).shards
    assert sorted(map(len, shards)) == [2, 2, 2, 2]


def test_gates_are_in_no_shard():
    gate = Gate(
        task="a", text="acc > 0", metric="acc", id="acc", source=Place(Path("a.yaml"))
    )
    known = runs_of({"a": [1, 2, 3]}, [gate])
    ids = [*ids_of(known), "a.yaml::a::acc"]
    assert shard_items(ids, known, 2).gates == [3]


def test_documents_of_one_cluster_are_in_one_shard():
    """Clusters alternate."""
    gate = Gate(
        task="a",
        text="acc > 0",
        metric="acc",
        id="acc",
        source=Place(Path("a.yaml")),
        cluster="page",
    )
    known = runs_of({"a": [10] * 9}, [gate])
    pages = ["x", "y", "z", "x", "y", "z", "x", "u", ""]
    known.tasks["a"].task.ask = lambda index: SimpleNamespace(
        doc=SimpleNamespace(row={"page": pages[index]}, specific=None)
    )
    known.required = lambda name: SimpleNamespace(fields={"page"})
    shards = shard_items(ids_of(known), known, 3).shards
    assert sorted(i for shard in shards for i in shard) == [*range(9)]
    where = {i: n for n, shard in enumerate(shards) for i in shard}
    for page in "xyz":
        assert len({where[i] for i, one in enumerate(pages) if one == page}) == 1
    assert all(shards)


@given(
    st.dictionaries(st.sampled_from("abc"), SIZES, min_size=1),
    st.integers(2, 10),
    st.integers(1, 8),
)
def test_workers_take_whole_models_and_share_the_rest(tasks, n_models, n):
    """Each document is in one shard; at most ``n_models % n`` models are divided, and a
    worker's whole models come first."""
    suites = [runs_of(tasks, model=f"m{place}") for place in range(n_models)]
    ids = [nodeid for known in suites for nodeid in ids_of(known)]
    shards = shard_models(ids, suites, n).shards
    assert sorted(position for shard in shards for position in shard) == [
        *range(len(ids))
    ]
    models = [[ids[i].split("[")[1].split("-")[0] for i in shard] for shard in shards]
    size = len(ids) // n_models
    whole = [{one for one in of if of.count(one) == size} for of in models]
    assert sum(map(len, whole)) >= n_models - n_models % n
    for of, complete in zip(models, whole, strict=True):
        first = n_models // n * size
        assert set(of[:first]) <= complete
