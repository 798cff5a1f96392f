"""What a sweep page says of what was simulated."""

from dataclasses import replace
from pathlib import Path

from fedsim.findings.finished_sweep import read_finished_sweep
from fedsim.report.sweep_words import what_was_simulated

from .sweeps import write_sweep


def test_it_says_where_combinations_were_left_out(tmp_path: Path) -> None:
    sweep = read_finished_sweep(write_sweep(tmp_path / "sweep"))
    every = " ".join(sentence.text for sentence in what_was_simulated(sweep))
    assert "6 settings with" in every
    some = " ".join(sentence.text for sentence in what_was_simulated(replace(sweep, points=sweep.points.head(5))))
    assert "5 settings of 6 combinations with" in some
