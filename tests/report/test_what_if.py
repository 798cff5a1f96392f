"""What the sliders of a run page are given: for which runs, which bars, and the command that runs an answer."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.common.files import write_text
from fedsim.findings.finished_run import read_run
from fedsim.report import what_if as module
from fedsim.report.what_if import what_if
from fedsim.theory import stationary
from tests.command import fedsim

from .runs import GROUPS, SEPARATION, SIZE, write_manifest, write_metrics


def run(folder: Path, text: str, *overrides: str) -> Path:
    """Run a scenario and return its directory."""
    folder.mkdir(exist_ok=True)
    write_text(folder / "case.fedsim.yaml", text)
    words = [word for override in overrides for word in ("--set", override)]
    done = fedsim("run", "case.fedsim.yaml", "--out", "run", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def given(directory: Path) -> Mapping[str, Any]:
    found = what_if(read_run(directory))
    assert found is not None
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


NAMED = """
stop: {rounds: 40}
population:
  - {name: many, devices: 30, separation: 2}
  - {name: few, devices: 10, weight: 4, separation: 2}
server: {cohort: 4}
"""


def test_whole_groups_are_the_units_and_the_bars(written: Path) -> None:
    found = given(written)
    assert (found["clients"], found["cohort"], found["turns_per_round"]) == (GROUPS * SIZE, 1, SIZE)
    assert (found["separation"], found["separations"]) == (SEPARATION, list(range(GROUPS)))
    assert [bar["name"] for bar in found["bars"]] == [f"group {g + 1}" for g in range(GROUPS)]
    assert found["bar_of"] == list(range(GROUPS))
    table = read_run(written).clients
    frequency = table["frequency"].to_numpy().reshape(GROUPS, SIZE).sum(axis=1)
    assert np.allclose([bar["measured"] for bar in found["bars"]], GROUPS * frequency)
    assert found["measured"] == pytest.approx(np.abs(table["frequency"].to_numpy() - 0.01).sum() / 2)


def test_groups_of_the_population_are_bars_heaviest_first(tmp_path: Path, no_charts: None) -> None:
    found = given(run(tmp_path, NAMED))
    assert [(bar["name"], bar["named"], bar["units"]) for bar in found["bars"]] == [
        ("few", "group few", 10),
        ("many", "group many", 30),
    ]
    assert found["bar_of"] == [1] * 30 + [0] * 10
    assert np.average([bar["measured"] for bar in found["bars"]], weights=[10, 30]) == pytest.approx(1)
    assert found["separations"] == list(range(10))
    assert found["spread"] == [{"path": "population.1.weight", "value": 4, "by": "power"}]


def test_many_clients_stand_in_tenths(tmp_path: Path, no_charts: None) -> None:
    text = "stop: {rounds: 9}\npopulation: [{devices: 45, weight: {kind: zipf, exponent: 1}}]\nserver: {cohort: 2}\n"
    found = given(run(tmp_path, text))
    assert [bar["name"] for bar in found["bars"]][::9] == ["heaviest tenth", "lightest tenth"]
    assert sum(bar["units"] for bar in found["bars"]) == 45
    assert found["bar_of"] == sorted(found["bar_of"])
    assert found["spread"] == [{"path": "population.0.weight.exponent", "value": 1, "by": "times"}]


def test_what_is_too_large_for_the_page_is_computed_in_advance(
    tmp_path: Path, no_charts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = run(tmp_path, NAMED, "population.*.separation=3")
    monkeypatch.setattr(module, "IN_PAGE", 39)
    monkeypatch.setattr(module, "GRID", 4)
    found = given(directory)
    assert found["weights"] is None
    assert found["separations"] == [0, 3, 4, 9]
    assert "at 4 of the 10 values" in found["curve_note"]
    table = read_run(directory).clients.sort("client")
    for separation, misplaced, shares in zip(found["separations"], found["misplaced"], found["shares"], strict=True):
        pi = stationary(table["weight"].to_numpy(), separation, 4).pi
        assert misplaced == pytest.approx(np.abs(pi - 1 / 40).sum() / 2)
        assert shares == pytest.approx([40 * pi[30:].mean(), 40 * pi[:30].mean()])


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        ["population.0.separation=1"],
        ["server.selection.kind=successive"],
        ["server.selection.kind=uniform"],
        ["population.1.weight=1"],
        ["population.*.availability={kind: renewal, on: 1h, off: 1h}"],
        ["server.cohort=30", "population.*.separation=0"],
    ],
    ids=str,
)
def test_where_no_closed_form_answers_there_are_no_sliders(tmp_path: Path, no_charts: None, changes: list[str]) -> None:
    assert what_if(read_run(run(tmp_path, NAMED, *changes))) is None


def test_one_client_at_a_time_has_sliders_under_successive_draws(tmp_path: Path, no_charts: None) -> None:
    found = given(run(tmp_path, NAMED, "server.selection.kind=successive", "server.cohort=1"))
    assert found["separations"][-1] == 39


@pytest.mark.long
def test_the_command_keeps_what_was_set_but_for_the_separation(run_directory: Path) -> None:
    write_manifest(run_directory, command="fedsim run 'a b.yaml' --set 'population.*.separation=8' --seed 1")
    found = given(run_directory)
    assert (found["command"], found["separation_was_set"]) == ("fedsim run 'a b.yaml' --seed 1", True)
    write_manifest(run_directory, command="fedsim run a.yaml --set server.cohort=5")
    found = given(run_directory)
    assert (found["command"], found["separation_was_set"]) == ("fedsim run a.yaml --set server.cohort=5", False)
    write_manifest(run_directory, command=None)
    assert given(run_directory)["command"] is None


def test_chance_is_named_where_it_is_most_of_what_was_measured(written: Path, tmp_path: Path, no_charts: None) -> None:
    directory = run(tmp_path, NAMED, "population.1.weight=1.2", "stop.rounds=400")
    assert "that this run measured most is chance" in given(directory)["curve_note"]
    assert "most is chance" not in given(written)["curve_note"]  # theory says 0.5 of L1 there, and so does the run
    metrics = json.loads((directory / "metrics.json").read_text(encoding="utf-8"))
    write_metrics(directory, metrics | {"participation.l1_chain": 3 * metrics["participation.l1_noise"]})
    assert "most is chance" not in given(directory)["curve_note"]  # chance does not explain it


def test_weights_that_no_setting_raises_to_a_power_have_none(tmp_path: Path, no_charts: None) -> None:
    assert given(run(tmp_path, NAMED, "population.1.weight={kind: dirichlet, concentration: 1}"))["spread"] is None
