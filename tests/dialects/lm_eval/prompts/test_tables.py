"""Splits, ``process_docs`` and datasets in files."""

import json
import random
import subprocess
import sys
from pathlib import Path

import datasets
import pytest

from pytest_evals.core.task import TaskOptions
from pytest_evals.data.source_paths import Source
from pytest_evals.data.sources import load
from pytest_evals.dialects.lm_eval.prompts.recipe import Fields, Recipe, Shots, Splits
from pytest_evals.dialects.lm_eval.prompts.tables import load_tables
from pytest_evals.errors import Place, TaskFileError
from pytest_evals.prompts.fields import Field
from pytest_evals.prompts.generation import Sampling


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evals").mkdir()
    return tmp_path / "evals"


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def source(folder, path="json", **arguments):
    here = Place(folder / "toy.yaml", 4)
    return Source(
        path=path,
        arguments=arguments,
        place=here,
        data_place=Place(folder / "toy.yaml", 6),
        base=Path.cwd(),
    )


def failure(function, *arguments):
    with pytest.raises(TaskFileError) as error:
        function(*arguments)
    return str(error.value)


class TestFiles:
    def test_a_file_next_to_the_task_file_comes_first(self, folder):
        write(folder / "x.jsonl", [{"q": "near"}])
        write(folder.parent / "x.jsonl", [{"q": "far"}])

        splits = load(source(folder, data_files={"test": "x.jsonl"}))

        assert list(splits["test"]) == [{"q": "near"}]

    def test_a_file_in_the_working_directory_comes_second(self, folder):
        write(folder.parent / "x.jsonl", [{"q": "far"}])

        splits = load(source(folder, data_files={"test": ["x.jsonl"]}))

        assert list(splits["test"]) == [{"q": "far"}]

    def test_patterns_and_folders_work_too(self, folder):
        (folder / "data").mkdir()
        write(folder / "data" / "1.jsonl", [{"q": 1}])
        write(folder / "data" / "2.jsonl", [{"q": 2}])

        by_pattern = load(source(folder, data_files="data/*.jsonl"))["train"]
        by_folder = load(source(folder, data_dir="data"))["train"]
        by_path = load(source(folder, path="./data"))["train"]
        by_name = load(source(folder, path="data"))["train"]

        for rows in (by_pattern, by_folder, by_path, by_name):
            assert list(rows) == [{"q": 1}, {"q": 2}]

    def test_csv_and_parquet_are_read(self, folder):
        (folder / "x.csv").write_text("q,a\nwhat,1\n")
        datasets.Dataset.from_list([{"q": "what"}]).to_parquet(folder / "x.parquet")

        csv = load(source(folder, path="csv", data_files={"test": "x.csv"}))
        parquet = load(source(folder, path="parquet", data_files={"test": "x.parquet"}))

        assert list(csv["test"]) == [{"q": "what", "a": 1}]
        assert list(parquet["test"]) == [{"q": "what"}]

    def test_a_dataset_that_was_saved_to_disk_is_read(self, folder):
        saved = datasets.DatasetDict({"test": datasets.Dataset.from_list([{"q": 1}])})
        saved.save_to_disk(folder / "saved")

        assert list(load(source(folder, path="./saved"))["test"]) == [{"q": 1}]

    @pytest.mark.parametrize("path", ["hellaswag", "org/name", "arrow", "json"])
    def test_a_data_dir_that_was_saved_to_disk_is_read(self, folder, path):
        """The seed: dataset_path: hellaswag, with data_dir: hellaswag_local/."""
        saved = datasets.DatasetDict({"test": datasets.Dataset.from_list([{"q": 1}])})
        saved.save_to_disk(folder / "local")

        splits = load(source(folder, path=path, data_dir="local/"))

        assert list(splits["test"]) == [{"q": 1}]

    @pytest.mark.parametrize(("split", "name"), [(None, "train"), ("test", "test")])
    def test_one_split_that_was_saved_to_disk_is_read(self, folder, split, name):
        rows = datasets.Dataset.from_list([{"q": 1}], split=split)
        rows.save_to_disk(folder / "saved")

        assert list(load(source(folder, path="./saved"))[name]) == [{"q": 1}]

    def test_a_dataset_is_read_once_and_again_when_its_file_changes(self, folder):
        write(folder / "x.jsonl", [{"q": 1}])
        given = source(folder, data_files={"test": "x.jsonl"})

        first, again = load(given), load(given)
        write(folder / "x.jsonl", [{"q": 2}, {"q": 3}])

        assert first is again
        assert list(load(given)["test"]) == [{"q": 2}, {"q": 3}]

    def test_a_missing_file_names_all_places_that_were_tried(self, folder):
        given = source(folder, data_files={"test": "x.jsonl"})

        assert failure(load, given) == (
            "evals/toy.yaml:6: data file not found: evals/x.jsonl or x.jsonl\n"
            "  fix: give a path relative to the task file"
        )

    def test_a_broken_file_is_an_error_of_the_task_file(self, folder):
        (folder / "x.jsonl").write_text('{"q": 1}\n{"q": \n')

        text = failure(load, source(folder, data_files={"test": "x.jsonl"}))

        assert text == (
            "evals/toy.yaml:6: evals/x.jsonl:2: invalid JSON: Expecting value "
            "(column 6); close the object with } on its line"
        )

    def test_a_wrong_argument_is_an_error_of_the_task_file(self, folder):
        write(folder / "x.jsonl", [{"q": 1}])

        text = failure(load, source(folder, data_files="x.jsonl", no_such_thing=1))

        assert text.startswith("evals/toy.yaml:4: the dataset 'json' cannot be read: ")
        assert "no_such_thing" in text

    def test_trust_remote_code_is_left_out(self, folder):
        write(folder / "x.jsonl", [{"q": 1}])

        given = source(folder, data_files="x.jsonl", trust_remote_code=True)

        assert list(load(given)["train"]) == [{"q": 1}]

    def test_a_dataset_that_is_a_loading_script_is_an_error_with_its_reason(
        self, folder
    ):
        (folder / "rows.py").write_text("import datasets\n")

        text = failure(load, source(folder, path="rows.py", trust_remote_code=True))

        assert text == (
            "evals/toy.yaml:4: the dataset 'rows.py' is a loading script, which the "
            "datasets library no longer runs, with or without trust_remote_code\n"
            "  fix: most datasets of the Hub are also available as Parquet: "
            "dataset_kwargs: {revision: refs/convert/parquet}; or load it with "
            "custom_dataset"
        )

    def test_a_streamed_dataset_is_read_whole(self, folder):
        write(folder / "x.jsonl", [{"q": 1}, {"q": 2}])

        given = source(folder, data_files="x.jsonl", streaming=True)

        assert list(load(given)["train"]) == [{"q": 1}, {"q": 2}]

    def test_an_unreachable_dataset_is_an_error_of_the_task_file(
        self, folder, monkeypatch
    ):
        monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

        text = failure(load, source(folder, path="no-such-owner/no-such-dataset"))

        assert text.startswith(
            "evals/toy.yaml:4: the dataset 'no-such-owner/no-such-dataset' cannot be "
            "read: "
        )
        assert "\n  fix: check the name, the network" in text


def here(key, spec):
    return Field(key=key, spec=spec, place=Place(Path("toy.yaml"), 9))


DATA = {
    "test": datasets.Dataset.from_list([{"q": f"Q{i}"} for i in range(8)]),
    "train": datasets.Dataset.from_list([{"q": f"T{i}"} for i in range(8)]),
}


def recipe(process=None, n=0, data=DATA, splits=None):
    fields = Fields(text=here("doc_to_text", "q"), target=here("doc_to_target", "q"))
    process_docs = here("process_docs", process) if process else None
    place = Place(Path("toy.yaml"), 2)
    return Recipe(
        name="toy",
        output_type="generate_until",
        place=place,
        source=Source(
            path="",
            arguments={},
            maker=lambda: data,
            place=place,
            data_place=place,
            base=Path(),
        ),
        splits=splits
        or Splits(
            training="train",
            test="test",
            places={"test_split": Place(Path("toy.yaml"), 5)},
        ),
        process_docs=process_docs,
        fields=fields,
        shots=Shots(n=n, process_docs=process_docs, fields=fields, place=place),
        sampling=Sampling(),
        options=TaskOptions(),
    )


def shuffled(docs):
    rows = list(docs)
    random.shuffle(rows)
    return rows


class TestProcessing:
    def test_a_random_process_docs_gives_the_rows_of_lm_evals_first_calls(self):
        """lm-eval seeds Python's generator with 0, and processes the few-shot pool
        before the documents, even without few-shot examples."""
        random.seed(0)
        shuffled(DATA["train"])
        expected = shuffled(DATA["test"])

        for n in (0, 2):
            tables = load_tables(recipe(shuffled, n))
            assert list(tables.asked) == expected
            assert tables.shuffled

    def test_the_global_generator_is_left_as_it_was(self):
        random.seed(5)
        state = random.getstate()

        load_tables(recipe(shuffled))

        assert random.getstate() == state

    def test_a_cache_on_disk_never_decides_the_rows(self):
        def draws(docs):
            return docs.map(lambda row: {"r": random.random()})

        one, two = (list(load_tables(recipe(draws)).asked) for _ in range(2))
        random.seed(99)
        three = list(load_tables(recipe(draws)).asked)

        assert one == two == three
        assert datasets.is_caching_enabled()

    def test_a_split_is_processed_once_and_the_pool_only_for_shots(self):
        seen = []

        def process(docs):
            seen.append(docs[0]["q"])
            return docs

        assert not load_tables(recipe(process)).shuffled
        assert seen == ["Q0"]
        load_tables(recipe(process, n=1))
        assert seen == ["Q0", "T0", "Q0"]
        load_tables(recipe(process, n=1, splits=Splits(test="test")))
        assert seen == ["Q0", "T0", "Q0", "Q0"]

    def test_a_failing_process_docs_is_reported_with_its_place(self):
        def process(docs):
            return dict(docs[0])["nothing"]

        line = process.__code__.co_firstlineno + 1
        text = failure(load_tables, recipe(process))
        assert text.startswith("toy.yaml:9: process_docs: KeyError: ")
        assert text.endswith(f"test_tables.py:{line})")

    def test_process_docs_must_give_rows(self):
        assert failure(load_tables, recipe(lambda docs: None)) == (
            "toy.yaml:9: process_docs: rows must be a list of mappings, not None"
        )

    def test_no_documents_are_an_error(self):
        process = lambda docs: docs.filter(lambda row: False)  # noqa: E731

        assert failure(load_tables, recipe(process)) == (
            "toy.yaml:5: test_split: the split 'test' has no documents after "
            "process_docs"
        )

    def test_a_split_that_is_not_there_is_an_error(self):
        splits = Splits(test="tets", places={"test_split": Place(Path("toy.yaml"), 5)})

        assert failure(load_tables, recipe(splits=splits)) == (
            "toy.yaml:5: test_split: the dataset has no split 'tets'; did you mean "
            "'test'?\n  fix: use one of its splits: test, train"
        )


@pytest.mark.slow
def test_reading_rows_does_not_import_torch(folder):
    write(folder / "x.jsonl", [{"q": "what"}])
    code = (
        "import sys; from pathlib import Path; from pytest_evals.errors import Place; "
        "from pytest_evals.data.sources import Source, load; "
        f"here = Place(Path({str(folder / 'toy.yaml')!r})); "
        "load(Source(path='json', arguments={'data_files': 'x.jsonl'}, place=here, "
        "data_place=here, base=Path())); "
        "sys.exit('torch' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
