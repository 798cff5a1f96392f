"""Smaller scenarios: what is divided, what is refused, and what is said of it; and the page of what is kept."""

from pathlib import Path

import numpy as np
import pytest

from fedsim.common.errors import ScenarioError
from fedsim.population import build_population
from fedsim.privacy.bounds import enforced_bounds
from fedsim.privacy.guarantee import guarantee
from fedsim.run.scaled import parse_scale, scale_down
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from tests.command import fedsim
from tests.conftest import Write

LARGE = """\
seed: 3
stop: {rounds: 200}
population:
  - {name: a, devices: 3_000, separation: 5, weight: {kind: lognormal, sigma: 1}, availability: habits}
  - {name: b, devices: 1_000, separation: 5}
server: {cohort: 60, over_select: 1.5, shortage: proceed, pause: 1m}
"""


def test_sizes_are_divided_and_nothing_else(write: Write) -> None:
    large = Scenario.load(write(LARGE))
    small = scale_down(large, 10)
    assert [group.devices for group in small.scenario.population] == [300, 100]
    assert (small.scenario.server.wanted, small.scenario.sync_server.cohort) == (9, 6)
    assert small.notes == ["only 9 selected at a time: below 10 figures of rounds and L1 are not kept"]
    sizes = {"population.0.devices": 3_000, "population.1.devices": 1_000, "server.cohort": 60, "name": large.name}
    assert small.scenario.with_values(sizes) == large
    buffered = Scenario.load(
        write(LARGE.partition("server:")[0] + "server: {mode: buffered, concurrency: 90, buffer: 30}")
    )
    assert scale_down(buffered, 3).scenario.server.model_dump()["buffer"] == 10
    assert scale_down(buffered, 3).scenario.server.wanted == 30


@pytest.mark.long
def test_shares_are_those_of_the_large_one(write: Write) -> None:
    """Over seeds: within three standard errors of each other, and not by being vague."""
    large = Scenario.load(write(LARGE))
    runs = [
        [simulate(each.with_values({"seed": seed})).metrics for seed in range(4)]
        for each in (large, scale_down(large, 2).scenario)
    ]
    for name in ("group.b.share", "participation.l1_uniform"):
        one, other = (np.array([metrics[name] for metrics in each]) for each in runs)
        error = np.sqrt((one.var(ddof=1) + other.var(ddof=1)) / 4)
        assert abs(one.mean() - other.mean()) < max(3 * error, 0.03 * one.mean())
        assert error < 0.05 * one.mean()


def test_what_is_rounded_or_not_kept_is_said(write: Write) -> None:
    zipf = LARGE.replace("kind: lognormal, sigma: 1", "kind: zipf, exponent: 1")
    notes = " ".join(scale_down(Scenario.load(write(zipf + "expect: [rounds.count > 5]\n")), 400).notes)
    for words in (
        "rounding: 20.00% of the devices are selected at a time, where 2.25% were",
        "rounding: not all groups have the same share",
        "zipf goes by rank",
        "its limits and drift are those of the large scenario",
    ):
        assert words in notes
    assert "zipf" not in " ".join(scale_down(Scenario.load(write(LARGE)), 400).notes)


def test_what_cannot_be_made_smaller_is_refused(write: Write) -> None:
    listed = LARGE.replace("{name: b, devices: 1_000, separation: 5}", "{name: b, devices: 2, weight: [1, 2]}")
    with pytest.raises(ScenarioError, match=r"population\[1\].weight: has a value for each device"):
        scale_down(Scenario.load(write(listed)), 2)


def test_swept_sizes_are_divided_too(write: Write) -> None:
    swept = "sweep: {grid: {server.cohort: [12, 20, 30], population.*.separation: [1, 2]}, exclude: [%s]}\n"
    large = Scenario.load(write(LARGE + swept % "{server.cohort: [12, 30], population.*.separation: 1}"))
    sweep = scale_down(large, 10).scenario.sweep
    assert sweep is not None
    assert sweep.grid == {"server.cohort": [1, 2, 3], "population.*.separation": [1, 2]}
    assert sweep.exclude == [{"server.cohort": [1, 3], "population.*.separation": 1}]


def test_what_may_be_chosen_is_divided_and_the_noise_of_a_mean_is_kept(write: Write) -> None:
    """A private federation at 1/10 had ten times the noise in each mean, and chose among cohorts of the large one."""
    chosen = "choose: {server.cohort: [12, 30, 60]}\nprivacy: {epsilon: 8, delta: 1.0e-6}\n"
    large = Scenario.load(write(LARGE + chosen))
    small, notes = scale_down(large, 10).scenario, scale_down(large, 10).notes
    assert small.choose == {"server.cohort": [1, 3, 6]}
    means = []
    for each in (large, small):
        assert each.privacy is not None
        promised = guarantee(each.privacy, enforced_bounds(each, build_population(each)))
        assert promised.epsilon == pytest.approx(8, rel=1e-6)
        noise = promised.noise_multiplier * promised.sensitivity / (each.privacy.stands_for or 1.0)
        means.append(noise / each.server.wanted)
    assert means[1] == pytest.approx(means[0], rel=1e-5)
    assert any("the noise of a round's mean update is kept" in note for note in notes)
    swept = scale_down(large.with_values({"choose": {"privacy.epsilon": [1, 8]}}), 10)
    assert swept.scenario.privacy == large.privacy
    assert any("noise is larger" in note for note in swept.notes)


def test_limits_on_sums_are_divided_too(write: Write) -> None:
    """A budget of the large federation was kept by any setting of the small one."""
    limits = "sessions.device_hours <= 1000, 5 < fleet.bytes_down <= 1e9, group.a.sessions.count between 10 and 20"
    kept = "rounds.per_day >= 10, fleet.battery_share.mean < 1%"
    decide = "choose: {server.cohort: [20, 60]}\n"
    decide += f"decide: {{minimize: rounds.count, subject_to: [{limits}, {kept}]}}\n"
    small = scale_down(Scenario.load(write(LARGE + decide)), 10).scenario
    assert small.decide is not None
    assert small.decide.subject_to == [
        *("sessions.device_hours <= 100", "fleet.bytes_down > 0.5", "fleet.bytes_down <= 1e+08"),
        *("group.a.sessions.count >= 1", "group.a.sessions.count <= 2"),
        *("rounds.per_day >= 10", "fleet.battery_share.mean < 1%"),
    ]


@pytest.mark.long
def test_the_parts_of_a_loss_by_bias_and_by_privacy_are_kept(write: Write) -> None:
    """Over six seeds, and not by being vague; that of participation noise is not, but larger."""
    learning = """\
seed: 3
stop: {rounds: 100}
population: [{devices: 4_000, separation: 10, weight: {kind: lognormal, sigma: 1, correlation: {to: order, rho: 0.9}}}]
server: {cohort: 80, selection: successive}
privacy: {mechanism: banded, epsilon: 1, delta: 1.0e-8, clip: 3, training: noise}
learning:
  problem: {kind: quadratic, dimension: 10, clusters: 4, cluster_spread: 1, spread: 1}
  optimizers: [{kind: fedavg, server: {kind: sgd, step_size: 1}}]
  step_size: 0.2
  evaluate_every: 10
  loss_parts: true
"""
    large = Scenario.load(write(learning))
    parts = ("bias_loss", "privacy_noise_loss", "participation_noise_loss")
    one, other = (
        np.array(
            [
                [simulate(each.with_values({"seed": seed})).metrics[f"learning.fedavg.{part}"] for part in parts]
                for seed in range(6)
            ]
        )
        for each in (large, scale_down(large, 10).scenario)
    )
    error = np.sqrt((one.var(axis=0, ddof=1) + other.var(axis=0, ddof=1)) / 6)
    apart = other.mean(axis=0) - one.mean(axis=0)
    assert (np.abs(apart[:2]) < 3 * error[:2]).all()
    assert (error[:2] < 0.5 * one.mean(axis=0)[:2]).all()
    assert apart[2] > 3 * error[2], apart / error


def test_a_sweep_can_be_added_to_what_was_written(write: Write, tmp_path: Path) -> None:
    """``--set sweep=null`` left an empty key in the file, which made the added one a duplicate."""
    out = tmp_path / "small.fedsim.yaml"
    done = fedsim("plan", str(write(LARGE)), "--set", "sweep=null", "--scale", "1/10", "--out", str(out))
    assert done.returncode == 0, done.stderr
    out.write_text(out.read_text() + "sweep: {grid: {server.cohort: [5, 6]}}\n")
    assert Scenario.load(out).sweep is not None


@pytest.mark.parametrize("text", ["0.01", "2/100", "1/1", "1/", "100", "1/x", "1/9999999", "1/-5"])
def test_a_scale_is_one_over_a_number(text: str) -> None:
    with pytest.raises(ValueError, match="must be 1/K with a whole number K"):
        parse_scale(text)
    assert parse_scale("1/100") == 100


def test_plan_writes_the_smaller_scenario(write: Write, tmp_path: Path) -> None:
    file, out = write(LARGE), tmp_path / "small.fedsim.yaml"
    done = fedsim("plan", file, "--scale", "1/2", "--out", out)
    assert done.returncode == 0
    assert "2,000 devices for 4,000, 45 selected at a time for 90" in done.stdout
    assert "these are kept but for chance" in done.stderr
    assert Scenario.load(out) == scale_down(Scenario.load(file), 2).scenario
    assert fedsim("plan", file, "--scale", "1/2", "--out", out).returncode == 0  # the same text again
    out.write_text(f"{out.read_text()}# mine\n")
    assert "exists; choose another name" in fedsim("plan", file, "--scale", "1/2", "--out", out).stderr
    assert "is needed with --scale" in fedsim("plan", file, "--scale", "1/2").stderr
    assert "must be 1/K" in fedsim("plan", file, "--scale", "2", "--out", tmp_path / "x.yaml").stderr


def test_a_scenario_that_names_files_stays_in_its_folder(write: Write, tmp_path: Path) -> None:
    write("device,start_s,end_s\na,0,50000\nb,0,80000\n", "trace.csv")
    file = write(
        LARGE.replace(
            "availability: habits", "availability: {kind: trace, file: trace.csv, base: 2026-01-05T00:00:00Z}"
        )
    )
    other = tmp_path / "other"
    other.mkdir()
    assert "names trace.csv" in fedsim("plan", file, "--scale", "1/2", "--out", other / "small.yaml").stderr
    beside = fedsim("plan", file, "--scale", "1/2", "--out", file.parent / "small.fedsim.yaml")
    assert beside.returncode == 0
    assert "a trace gives the small population fewer of its devices" in beside.stderr


def test_a_fleet_is_made_smaller_too(write: Write) -> None:
    written = """\
stop: {duration: 1d}
population:
  - devices: 400
    joins: {kind: uniform, low: 0s, high: 1d}
    session: {model: 5MB, samples: 400, device: {kirin-970: 1, jetson-nano: 2}, link: {down: 40Mbps, up: 10Mbps}}
server: {cohort: 40}
"""
    small = scale_down(Scenario.load(write(written)), 10).scenario
    assert (small.devices, small.server.wanted) == (40, 4)
    column = written.replace("samples: 400", "samples: {kind: column, file: n.csv, column: n}")
    with pytest.raises(ScenarioError, match=r"session\.samples: has a value for each device"):
        scale_down(Scenario.load(write(column)), 10)


def test_gates_and_the_uplink_are_divided_too_where_they_are_swept(write: Write) -> None:
    written = """\
stop: {rounds: 5}
population:
  - {devices: 400, session: {model: 5MB, samples: 400, device: kirin-970, link: {down: 40Mbps, up: 10Mbps}}}
server: {cohort: 40, minimum_reports: 30, uplink: 1Gbps, secure_aggregation: {threshold: 20, unmasking: 10s}}
sweep:
  grid:
    server.uplink: [100Mbps, 1Gbps, null]
    server.secure_aggregation: [null, {threshold: 30}]
    server.minimum_reports: [0, 20, 22]
    server.over_select: [1, 2]
  exclude: [{server.uplink: 100Mbps, server.minimum_reports: 20}]
"""
    small = scale_down(Scenario.load(write(written)), 10).scenario
    server = small.sync_server
    assert (server.cohort, server.minimum_reports, server.uplink) == (4, 3, 1e8)
    assert server.secure_aggregation is not None
    assert (server.secure_aggregation.threshold, server.secure_aggregation.unmasking) == (2, 10.0)
    assert small.sweep is not None
    assert small.sweep.grid == {
        "server.uplink": ["10000000.000000bps", "100000000.000000bps", None],
        "server.secure_aggregation": [None, {"threshold": 3}],
        "server.minimum_reports": [0, 2],
        "server.over_select": [1, 2],
    }
    assert small.sweep.exclude == [{"server.uplink": "10000000.000000bps", "server.minimum_reports": 2}]


def test_training_has_the_noise_of_a_part_and_epsilon_is_of_the_whole(write: Write) -> None:
    """A tenth of a federation trains as with a tenth of the noise multiplier, and promises what the whole one does."""
    learning = "learning: {problem: quadratic, optimizers: [fedavg], step_size: 0.1}\n"
    scenario = "stop: {rounds: 20}\npopulation: [{devices: 30, separation: 2}]\nserver: {cohort: 3}\n" + learning
    privacy = "privacy: {delta: 1.0e-6, clip: 1, training: noise, "
    part = simulate(Scenario.load(write(scenario + privacy + "noise_multiplier: 2, stands_for: 10}\n")))
    less = simulate(Scenario.load(write(scenario + privacy + "noise_multiplier: 0.2}\n")))
    whole = simulate(Scenario.load(write(scenario + privacy + "noise_multiplier: 2}\n")))
    assert part.learning is not None
    assert less.learning is not None
    np.testing.assert_allclose(part.learning["loss"], less.learning["loss"], rtol=1e-12)
    assert part.metrics["privacy.epsilon"] == whole.metrics["privacy.epsilon"] < less.metrics["privacy.epsilon"]
