"""Files that ask for more than a machine has: refused at their place, before the memory is taken."""

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim.common.errors import ScenarioError
from fedsim.learning import LearningError
from fedsim.learning.data import samples as arrays
from fedsim.population import client_files as columns
from fedsim.run import budget
from fedsim.run.preflight import preflight
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from fedsim.scenario.sources import Column
from fedsim.trials.plan import points_of
from tests.command import answers_within
from tests.conftest import SMALL, Load, Write

LEARNING = "learning: {problem: PROBLEM, optimizers: [fedavg], step_size: 0.1}\n"
ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)
DEEP = "[" * 50_000 + "]" * 50_000

# By name: what is done, the file, and what is said about it.
CASES: dict[str, tuple[list[str], str, str]] = {
    "devices": (["validate"], SMALL.replace("12", "1_000_000_000_000"), ":3:15: error: population[0].devices: "),
    "devices of many groups": (
        ["validate"],
        SMALL.replace("  - {devices: 12", "\n".join(["  - {devices: 90_000_000}"] * 2) + "\n  - {devices: 12"),
        "the groups have 180,000,012 devices",
    ),
    "devices that are possible elsewhere": (
        ["run", "--out", "out"],
        SMALL.replace("12", "100_000_000"),
        ":3:15: error: population[0].devices: 100,000,000 devices would take 15.8 GiB of memory, and the budget is ",
    ),
    "aliases": (["validate"], SMALL + ALIASES, "has more than 40,000 values; are aliases (*name) meant?"),
    "a list": (["validate"], SMALL + "expect: [" + "1, " * 1_000_000 + "1]\n", "has more than 40,000 keys and values"),
    "a large file": (["validate"], SMALL + "#" * 20_000_000, ":1:1: error: is larger than 3 MiB"),
    "depth": (["validate"], SMALL + f"expect: {DEEP}\n", ":5:108: error: is nested too deeply"),
    "a number": (["validate"], SMALL + f"seed: 0x{'f' * 50_000}\n", ":5:7: error: seed: '0xfff"),
    "digits": (["validate"], SMALL.replace("60", "9" * 50_000), ":1:16: error: stop.rounds: '999"),
    "a duration": (["validate"], SMALL + f"records: {{gauges: {'9' * 50_000}h}}\n", ":5:19: error: records.gauges: "),
    "rounds": (
        ["validate"],
        SMALL.replace("60", "1_000_000_000_000_000"),
        ":1:16: error: stop.rounds: must be at most",
    ),
    "a log": (
        ["replay"],
        SMALL.replace("60", "20_000_000"),
        ":1:16: error: stop.rounds: a log of about 60,000,000 participations would take 2.0 GiB",
    ),
    "a table of rounds": (
        ["run", "--out", "out"],
        SMALL.replace("60", "1_000_000_000"),
        ":1:16: error: stop.rounds: a table of about 1,000,000,000 rounds would take 37.3 GiB",
    ),
    "a cohort": (
        ["validate"],
        SMALL.replace("cohort: 3", "cohort: 1_000_000_000_000"),
        ":4:18: error: server.cohort: ",
    ),
    "gauges": (
        ["validate"],
        SMALL.replace("rounds: 60", "duration: 30000d") + "records: {gauges: 1ms}\n",
        "every 0.001 s, about 2,592,000,000,000 times, would take 141.4 TiB of memory",
    ),
    "dimensions": (
        ["validate"],
        SMALL + LEARNING.replace("PROBLEM", "{kind: quadratic, dimension: 1_000_000_000_000}"),
        ":5:21: error: learning.problem: the problem's data for 12 clients would take ",
    ),
    "samples": (
        ["validate"],
        SMALL + LEARNING.replace("PROBLEM", "{kind: robust_regression, samples: 1_000_000_000_000}"),
        ":5:21: error: learning.problem: the problem's data for 12 clients would take ",
    ),
    "minibatches": (
        ["validate"],
        SMALL + LEARNING.replace("PROBLEM", "robust_regression, batch_size: 1_000_000_000_000"),
        ":5:52: error: learning.batch_size: the cohort's minibatches of 1,000,000,000,000 samples would take ",
    ),
    "a grid": (
        ["plan"],
        SMALL
        + "sweep: {grid: {"
        + ", ".join(f"records.x{axis}: [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]" for axis in range(9))
        + "}}\n",
        ":5:8: error: sweep: has 1,000,000,000 points; at most 100,000 are possible",
    ),
    "seeds": (["plan"], SMALL + "sweep: {seeds: 1_000_000_000}\n", ":5:16: error: sweep.seeds: "),
    "points": (
        ["plan"],
        SMALL + f"sweep: {{grid: {{server.cohort: {list(range(300))}, seedling: {list(range(300))}}}}}\n",
        ":5:8: error: sweep: a sweep of 90,000 points would take ",
    ),
    "replicates": (["validate"], SMALL + "replicates: 1_000_000_000\n", ":5:13: error: replicates: must be at most"),
    "separations": (["chain", "--separation", "0:1000000000000"], SMALL, "0:1000000000000 would take "),
    "separations with many digits": (["chain", "--separation", "9" * 5000], SMALL, "is not a number of rounds"),
    "rounds of convergence": (["chain", "--convergence", "1000000000000"], SMALL, "for '--convergence': "),
}


@pytest.mark.long
def test_what_cannot_fit_is_refused_where_it_is_written(tmp_path: Path) -> None:
    """With 3 GiB of address space, of which a refusal takes a small part."""
    commands = {}
    for index, (name, (command, text, _)) in enumerate(CASES.items()):
        path = tmp_path / f"{index}.fedsim.yaml"
        path.write_text(text)
        commands[name] = [command[0], str(path), *command[1:]]
    wrong = [
        (name, code, said[:500], peak)
        for name, code, said, peak in answers_within(3 * 2**30, commands)
        if CASES[name][2] not in said or code != 2 or len(said) > 5_000 or peak > 2**30
    ]
    assert not wrong


def test_the_budget_is_part_of_what_is_free(small: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = small("population.0.devices=1000")
    monkeypatch.setattr(budget, "free_bytes", lambda: 1_000 * budget.DEVICE_BYTES)
    message = (
        r"case.fedsim.yaml:3:5: error: population\[0\].devices: 1,000 devices would take 166.0 KiB of memory, "
        r"and the budget is 132.8 KiB \(80% of what is free\)"
    )
    with pytest.raises(ScenarioError, match=message.replace("case.fedsim.yaml:3:5", "--set population.0.devices=1000")):
        preflight(scenario)
    monkeypatch.setattr(budget, "free_bytes", lambda: 10_000 * budget.DEVICE_BYTES)
    assert len(preflight(scenario).population) == 1000
    monkeypatch.setattr(budget, "free_bytes", lambda: None)
    assert len(preflight(scenario).population) == 1000


@pytest.mark.parametrize("rounds", [2_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_a_log_is_as_large_as_estimated(small: Load, rounds: int) -> None:
    scenario = small(f"stop.rounds={rounds}", "records.gauges=null", "expect=[]")
    table = simulate(scenario).participations
    assert table.estimated_size() == pytest.approx(len(table) * budget.ROW_BYTES, rel=0.25)


def test_points_are_counted_before_they_are_made(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(SMALL + "sweep: {grid: {server.cohort: [1, 2, 3]}}\n")
    monkeypatch.setattr(budget, "free_bytes", lambda: 50_000)
    with pytest.raises(ScenarioError, match=r":5:8: error: sweep: a sweep of 3 points would take .* of memory"):
        points_of(Scenario.load(path))


def test_rounds_without_time_and_without_number_never_end(write: Write) -> None:
    session = "session: {download: 0s, train: 0s, upload: 0s}"
    text = SMALL.replace("rounds: 60", "duration: 1h").replace("separation: 2", session)
    with pytest.raises(ScenarioError, match=r"rounds take no time, so stop\.duration is never reached"):
        Scenario.load(write(text))
    assert Scenario.load(write(text), ["server.pause=1s"]).stop.duration == 3600
    assert Scenario.load(write(text), ["stop.rounds=5"]).stop.rounds == 5


def test_files_that_unfold_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte can stand for terabytes: of equal values in Parquet, of zeros in gzip and zip."""
    pl.DataFrame({"p": [1.0] * 12}).write_parquet(tmp_path / "p.parquet")
    monkeypatch.setattr(columns, "MOST_CLIENTS", 10)
    with pytest.raises(ValueError, match="has 12 rows; a group has 10 devices at most"):
        columns.read_numbers(Column(kind="column", file="p.parquet", column="p"), lambda name: tmp_path / name)
    monkeypatch.setattr(arrays, "_LARGEST", 1000)
    (tmp_path / "zeros.gz").write_bytes(gzip.compress(b"\0\0\x08\x01" + (1001).to_bytes(4, "big") + bytes(1001)))
    with pytest.raises(LearningError, match="is larger than"):
        arrays.read_idx(tmp_path / "zeros.gz")
    zeros = np.zeros(1000)
    np.savez_compressed(tmp_path / "zeros.npz", x_train=zeros, y_train=zeros, x_test=zeros, y_test=zeros)
    with pytest.raises(LearningError, match=r"is larger than .* unpacked"):
        arrays.archive(tmp_path / "zeros.npz")
