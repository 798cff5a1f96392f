"""The points of a sweep and the names of its runs."""

import itertools
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.privacy.independence import KEYS
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from fedsim.scenario.sweep import WITHOUT_EFFECT
from fedsim.trials.plan import plan_sweep, points_of, seeds_of
from tests.conftest import SMALL, Load, Write

values = st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True)


@pytest.mark.long
@settings(max_examples=30)
@given(first=values, second=values, left_out=st.integers(0, 3))
def test_a_grid_is_every_combination_but_the_excluded(
    write: Write, first: list[int], second: list[int], left_out: int
) -> None:
    """Compared with a product written by hand; the last path varies fastest."""
    sweep = (
        f"{{grid: {{population.*.separation: {first}, records.eligible: [false, true]}}, "
        f"zip: {{server.cohort: {[each + 1 for each in second]}, server.pause: {[f'{each}s' for each in second]}}}, "
        f"exclude: [{{population.*.separation: {left_out}, records.eligible: true}}]}}"
    )
    points = points_of(Scenario.load(write(f"{SMALL}sweep: {sweep}\n")))
    expected = [
        (separation, eligible, each + 1, f"{each}s")
        for separation, eligible, each in itertools.product(first, [False, True], second)
        if not (separation == left_out and eligible)
    ]
    assert [tuple(point.values.values()) for point in points] == expected
    assert [point.index for point in points] == list(range(len(expected)))
    for point in points:
        assert point.scenario.sync_server.cohort == point.values["server.cohort"]
        assert point.scenario.sweep is None


def test_values_do_not_leak_from_one_point_to_the_next(write: Write) -> None:
    sweep = "{grid: {server: [{cohort: 2}], server.cohort: [3, 4]}}"
    points = points_of(Scenario.load(write(f"{SMALL}sweep: {sweep}\n")))
    assert [point.values for point in points] == [
        {"server": {"cohort": 2}, "server.cohort": 3},
        {"server": {"cohort": 2}, "server.cohort": 4},
    ]


def test_seeds_count_up_from_the_scenarios_own(write: Write) -> None:
    path = write(f"{SMALL}seed: 7\nsweep: {{seeds: 3}}\n")
    assert seeds_of(Scenario.load(path)) == [7, 8, 9]
    assert seeds_of(Scenario.load(path, seed=2)) == [2, 3, 4]
    assert seeds_of(Scenario.load(path, ["sweep.seeds=[5, 1]"])) == [5, 1]
    assert seeds_of(Scenario.load(path, ["sweep=null"])) == [7]


def names(scenario: Scenario) -> list[str]:
    return [run.run_id for run in plan_sweep(scenario).runs]


def test_a_run_is_named_by_what_its_figures_depend_on(small: Load) -> None:
    """Not by its title, its seed list or the point's number; and a value may be written in several ways."""
    plain = names(small("sweep={seeds: 2}"))
    assert len(set(plain)) == 2
    assert names(small("sweep={seeds: 2}", "name=other", "description=words")) == plain
    assert names(small("sweep={seeds: 2}", "headline=rounds.count", "replicates=3")) == plain
    assert names(small("sweep={seeds: [1]}")) == plain[1:]
    assert names(small("sweep={grid: {server.cohort: [2, 3]}, seeds: 2}"))[2:] == plain
    assert names(small("population.0.separation={kind: constant, value: 2}", "sweep={seeds: 2}")) == plain
    assert not set(names(small("sweep={seeds: 2}", "stop.rounds=61"))) & set(plain)


def test_keys_without_effect_decide_about_no_model_either() -> None:
    kinds = {name: KEYS[f"Scenario.{name}"] for name in WITHOUT_EFFECT - {"schema_version"}}
    assert set(kinds.values()) == {"shown"}, kinds


def test_a_run_is_named_by_the_contents_of_files(write: Write, tmp_path: Path) -> None:
    path = write(SMALL.replace("{kind: zipf, exponent: 1}", "{kind: column, file: w.csv, column: w}"))
    found = []
    for power in (1, 2, 1):
        pl.DataFrame({"w": [float(i + 1) ** power for i in range(12)]}).write_csv(tmp_path / "w.csv")
        found.append(names(Scenario.load(path)))
    assert found[0] == found[2] != found[1]


def test_every_point_sees_the_same_worlds(small: Load) -> None:
    """With one seed, the same devices are available at the same instants whatever the server does."""
    plan = plan_sweep(
        small(
            "sweep={grid: {server.cohort: [2, 3]}, seeds: 2}",
            "stop={duration: 3h}",
            "records.gauges=1m",
            "population.0.availability={kind: renewal, on: 30m, off: 10m}",
        )
    )
    available = {}
    for run in plan.runs:
        available[run.point, run.seed] = simulate(plan.scenario_of(run)).gauges["available"].to_list()
    assert available[0, 0] == available[1, 0] != available[0, 1] == available[1, 1]


def test_every_module_of_ones_own_is_part_of_what_a_run_is(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is named: a run is another one once the code has changed."""
    learning = (
        "learning: {problem: quadratic, optimizers: [{kind: fedavg, server: 'own_update:Own'}], step_size: 0.1}\n"
    )
    module = tmp_path / "own_update.py"
    module.write_text("from fedsim.learning.server_updates import Sgd\nclass Own(Sgd):\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    scenario = Scenario.load(write(SMALL + learning), allow_plugins=True)
    (before,) = points_of(scenario)
    module.write_text(module.read_text() + "# more\n")
    (after,) = points_of(scenario)
    assert before.digest != after.digest
