"""Each shortest path ends with a failed gate, from an empty folder."""

import pytest

from tests.first_hour import first_hour


@pytest.mark.nightly
@pytest.mark.parametrize("path", first_hour.PATHS, ids=lambda path: path.name)
def test_a_path_from_an_empty_folder_ends_with_a_failed_gate(path):
    output, _ = first_hour.run(path)
    assert "contains 0.500 is not >= 0.95" in output
