"""A quick version of `nox -s fuzz`: some inputs of each target, and each input that was a finding once."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets import TARGETS, make_input, run_input, seeds_of

FOUND = Path(__file__).parent / "found"
N = {"command-line": 12, "config": 12, "replay-phoenix": 4, "samples-parquet": 8}
"""Inputs of slow targets."""
NOT_READ = ("nothing", "damaged", "left out", "not JSON")


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_end_as_documented(target, tmp_path):
    """No mutated input raises anything but an error of Ragstone, and the target reads original ones."""
    inputs = [*seeds_of(target), *(make_input(target, 7, n) for n in range(N.get(target, 25)))]
    ends = []
    for n, content in enumerate(inputs):
        folder = tmp_path / str(n)
        folder.mkdir()
        ends.append(run_input(target, content, folder))
    read = [end not in NOT_READ and not end.endswith("Error") for end in ends[: len(seeds_of(target))]]
    assert any(read), ends


@pytest.mark.parametrize("path", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_ends_as_documented(path, tmp_path):
    """Inputs that ended in another way once."""
    run_input(path.parent.name, path.read_bytes(), tmp_path)


def test_each_input_depends_only_on_seed_target_and_number():
    """A printed seed repeats a run, also in another process and another order."""
    first = {target: make_input(target, 7, 3) for target in TARGETS}
    assert first == {target: make_input(target, 7, 3) for target in reversed(TARGETS)}
    assert first["judge-reply"] != make_input("judge-reply", 8, 3) or first["labels"] != make_input("labels", 8, 3)
