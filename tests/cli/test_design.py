"""`fedsim design`: the weights that it writes give what was wanted, when they are simulated."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim import Scenario, simulate
from fedsim.measure.contributions import pulls
from fedsim.measure.noise import by_chance
from fedsim.population import build_population
from tests.command import fedsim

CHAIN = """\
stop: {rounds: 4000}
population: [{devices: 40, separation: 3, weight: {kind: zipf, exponent: 1}}]
server: {cohort: 4, selection: successive}
"""
COMING_AND_GOING = """\
stop: {rounds: 3000}
population:
  - {name: often, devices: 60, availability: {kind: renewal, on: 3h, off: 1h}, separation: 2}
  - {name: seldom, devices: 60, availability: {kind: renewal, on: 1h, off: 2h}, separation: 2}
server: {cohort: 4, selection: successive, pause: 5m}
"""


def shares(file: Path) -> tuple[np.ndarray, int]:
    result = simulate(Scenario.load(file))
    taken = result.participations
    return pulls(taken, result.scenario.devices), len(taken)


@pytest.mark.long
@pytest.mark.parametrize(("text", "devices", "slack"), [(CHAIN, 40, 1.0), (COMING_AND_GOING, 120, 1.6)])
def test_new_weights_give_what_was_wanted(tmp_path: Path, text: str, devices: int, slack: float) -> None:
    (tmp_path / "case.fedsim.yaml").write_text(text)
    target = 1.0 + np.arange(devices) / devices
    pl.DataFrame({"target": target}).write_csv(tmp_path / "target.csv")
    before, _ = shares(tmp_path / "case.fedsim.yaml")
    done = fedsim(
        "design",
        tmp_path / "case.fedsim.yaml",
        "--target",
        tmp_path / "target.csv",
        "--out",
        tmp_path / "new.fedsim.yaml",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    assert ("finding weights, 2 of 2: 0%" in done.stderr) == (text == COMING_AND_GOING)
    said = json.loads(done.stdout)
    after, taken = shares(tmp_path / "new.fedsim.yaml")
    wanted = target / target.sum()
    # what independent draws would give by chance; a separation leaves less of it, and availability more
    assert np.abs(after - wanted).sum() < slack * by_chance(taken, devices) < np.abs(before - wanted).sum() / 2
    assert said["after"]["tv"] == pytest.approx(np.abs(after - wanted).sum() / 2)
    assert said["missed"] == []
    assert said["after"]["updates_per_day"] > 0


DRAWN = """\
stop: {rounds: 50}
population:
  - devices: 20
    separation: {kind: uniform, low: 0, high: 3}
    cooldown: {kind: exponential, mean: 20s}
    time_zone: {kind: mixture, parts: [{share: 1, source: Europe/Berlin}, {share: 1, source: Asia/Kolkata}]}
    session: {speed: {kind: lognormal, sigma: 0.3}}
    joins: {kind: uniform, low: 0s, high: 1m}
  - devices: 9
    weight: {kind: zipf, exponent: 1}
    session:
      model: 1MB
      samples: {kind: lognormal, median: 9, sigma: 1}
      device: {kirin-970: 1, jetson-nano: 2}
      link: {down: 1Mbps, up: 1Mbps}
server: {cohort: 3, selection: successive}
"""


def test_the_scenario_that_is_written_has_the_devices_that_it_is_for(tmp_path: Path) -> None:
    """All that is drawn for a client stands beside its weight, so that another seed draws nothing of it anew."""
    (tmp_path / "case.fedsim.yaml").write_text(DRAWN)
    done = fedsim(
        "design", tmp_path / "case.fedsim.yaml", "--seed", "3", "--out", tmp_path / "new.fedsim.yaml", "--json"
    )
    assert done.returncode == 0, done.stderr
    new, said = Scenario.load(tmp_path / "new.fedsim.yaml"), json.loads(done.stdout)
    was = build_population(Scenario.load(tmp_path / "case.fedsim.yaml").model_copy(update={"seed": 3}))
    for seed in range(3):
        now = build_population(new.model_copy(update={"seed": seed}))
        np.testing.assert_allclose(now.weight, np.array(said["weights"]) / 29)
        zones = [np.array(each.zone_names)[each.zone].tolist() for each in (now, was)]
        assert zones[0] == zones[1]
        for name in ("separation", "cooldown_s", "speed", "joins", "leaves", "train_s"):
            np.testing.assert_array_equal(getattr(now, name), getattr(was, name))
    assert said["other_seed"]["tv"] > 0
    assert said["error"] is None


def test_a_mean_field_is_called_one_with_its_error(tmp_path: Path) -> None:
    (tmp_path / "case.fedsim.yaml").write_text(CHAIN.replace("4000", "50"))
    done = fedsim("design", tmp_path / "case.fedsim.yaml", "--out", tmp_path / "new.fedsim.yaml")
    assert "by the mean field of the chain" in done.stdout
    assert "error of what is expected, for a client: up to" in done.stdout
    (tmp_path / "exact.fedsim.yaml").write_text(CHAIN.replace("4000", "50").replace("cohort: 4", "cohort: 1"))
    done = fedsim("design", tmp_path / "exact.fedsim.yaml", "--out", tmp_path / "one.fedsim.yaml")
    assert "times their mean, by the chain" in done.stdout
    assert "error of what is expected" not in done.stdout


@pytest.mark.long
def test_what_weights_cannot_do_is_said(tmp_path: Path) -> None:
    (tmp_path / "case.fedsim.yaml").write_text(CHAIN.replace("successive", "midzuno"))
    pl.DataFrame({"target": [3.0] + [1.0] * 39}).write_csv(tmp_path / "t.csv")
    call = ("design", tmp_path / "case.fedsim.yaml", "--target", tmp_path / "t.csv", "--out", tmp_path / "new.yaml")
    done = fedsim(*call)
    assert done.returncode == 0, done.stderr
    assert " of 40 clients are more than 1 % away from what is wanted: 1 have less" in done.stderr.replace(",", "")
    assert "`selection: successive` takes all" in done.stderr
    assert "expected:" in done.stdout
    assert fedsim(*call).returncode == 0  # the same again replaces nothing
    again = fedsim(*call, "--set", "population.0.separation=2")
    assert again.returncode == 2
    assert "exists; choose another name" in again.stderr


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (("successive", "uniform"), (), "does not take clients by their weights"),
        (("", ""), ("--target", "none.csv"), "none.csv"),
        (("", ""), ("--target", "39.csv"), "39 numbers, and there are 40 clients"),
        (("", ""), ("--target", "negative.csv"), "the target of client 39 is -3: it must be positive"),
        (("", ""), ("--target", "case.fedsim.yaml"), "case.fedsim.yaml"),
        (("separation: 3", "separation: 3, participations: {most: 4}"), (), "cap"),
    ],
)
def test_what_has_no_answer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], options: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "case.fedsim.yaml").write_text(CHAIN.replace(*change) if change[0] else CHAIN)
    pl.DataFrame({"target": [1.0] * 39}).write_csv(tmp_path / "39.csv")
    pl.DataFrame({"target": [1.0] * 39 + [-3.0]}).write_csv(tmp_path / "negative.csv")
    done = fedsim("design", "case.fedsim.yaml", *options, "--out", "new.fedsim.yaml")
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "new.fedsim.yaml").exists()
