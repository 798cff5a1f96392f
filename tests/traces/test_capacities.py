"""FedScale's device capacities as speeds: against the formula by hand, and what is refused."""

import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim.availability.trace import TraceError
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.traces.capacities import read_capacities
from tests.command import fedsim

PHONES = {
    1: {"computation": 100.0, "communication": 8_000},
    2: {"computation": 50.0, "communication": 16_000},
    3: {"computation": 400.0, "communication": 1_000.0},
    "4": {"computation": 0.0, "communication": 1_000.0},
}


def test_a_session_takes_training_and_the_model_both_ways() -> None:
    """100 samples at 3 x 100 ms are 30 s, and 2 MB at 8 Mbit/s 2 s each way."""
    found = read_capacities("x", pickle.dumps(PHONES), 100, 2.0)
    assert found.names == ("1", "2", "3")
    assert found.left_out == 1
    assert found.seconds == pytest.approx([30 + 4, 15 + 2, 120 + 32])
    assert found.speed == pytest.approx([1, 2, 34 / 152])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pickle.dumps({1: np.float64(3)}), "only numbers, text, lists and dictionaries"),
        (pickle.dumps([1]), "capacities are a pickle of"),
        (pickle.dumps({1: {"computation": 3.0}}), "device '1' has no two numbers"),
        (pickle.dumps({1: 5}), "device '1' has no two numbers"),
        (pickle.dumps({1: {"computation": -1, "communication": 10**400}}), "no device has capacities above 0"),
        (b"what", "pickle"),
    ],
)
def test_what_is_no_table_of_capacities_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(TraceError) as error:
        read_capacities("x", data, 100, 2.0)
    assert words in error.value.message


def test_the_command_writes_what_a_scenario_reads(tmp_path: Path) -> None:
    (tmp_path / "capacity").write_bytes(pickle.dumps(PHONES))
    out = tmp_path / "speeds.csv"
    done = fedsim("trace", "speeds", tmp_path / "capacity", "--out", out, "--samples", 100, "--megabytes", 2)
    assert done.returncode == 0
    assert "left out 1 device with a capacity that is not above 0" in done.stderr
    assert pl.read_csv(out)["seconds"].to_list() == pytest.approx([34, 17, 152])
    text = f"stop: {{rounds: 2}}\nserver: {{cohort: 1}}\npopulation:\n  - devices: 3\n    {done.stdout.strip()}\n"
    (tmp_path / "case.fedsim.yaml").write_text(text)
    scenario = Scenario.load(tmp_path / "case.fedsim.yaml")
    assert build_population(scenario).speed == pytest.approx([1, 2, 34 / 152])
    assert scenario.population[0].session.train.model_dump()["value"] == "34s"
    wrong = fedsim("trace", "speeds", tmp_path / "capacity", "--out", tmp_path / "speeds.txt")
    assert wrong.returncode == 2
    assert "must be *.csv" in wrong.stderr
