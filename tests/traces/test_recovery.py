"""Fits of worlds that fedsim made: each parameter comes back, and the share of time available with it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.availability import build_model
from fedsim.availability.trace import Pattern
from fedsim.scenario.habits import Habits
from fedsim.traces.fit import fit
from fedsim.traces.fit_habits import short_lengths, time_by_hour
from tests.availability.cases import model_of
from tests.command import fedsim
from tests.traces.test_fit import DAY, recorded


def world(written: dict[str, Any], devices: int = 200, days: float = 14) -> Pattern:
    return recorded(build_model(Habits.model_validate({"kind": "habits", **written})), devices, days)


@pytest.mark.long
@pytest.mark.parametrize(
    "idle",
    [
        {},
        {"settle": "0s", "uses_per_day": 20, "spread": 0.3},
        {"settle": "5m", "uses_per_day": 30, "spread": 0.2, "use": {"kind": "lognormal", "median": "2m", "sigma": 0.8}},
    ],
)
def test_the_use_of_the_screen_comes_back(idle: dict[str, Any]) -> None:
    """Though uses during others, and before the device has settled, are not seen: every parameter, and the curve."""
    truth = Habits.model_validate({"kind": "habits", "require": ["idle"], "idle": idle}).idle
    found = fit(world({"require": ["idle"], "idle": idle}), "habits")
    back = Habits.model_validate(found.availability).idle
    assert back.settle == truth.settle
    assert back.use.kind == "lognormal"
    assert truth.use.kind == "lognormal"
    assert back.uses_per_day == pytest.approx(truth.uses_per_day, rel=0.12)
    assert back.spread == pytest.approx(truth.spread, abs=0.1)
    assert back.use.median == pytest.approx(truth.use.median, rel=0.35)
    assert back.use.sigma == pytest.approx(truth.use.sigma, abs=0.4)
    shares = [np.array(each.by_hour) / sum(each.by_hour) for each in (back, truth)]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.006)
    assert found.hours.share == pytest.approx(found.hours.of_trace, abs=0.02)
    assert found.hours.largest < 0.05
    assert found.out_of_sample is not None
    assert found.out_of_sample.largest < 0.12


@pytest.mark.long
def test_charging_comes_back() -> None:
    """Every parameter of nights and top-ups; an exponential truth of 40 minutes is found to be one."""
    night = {
        "chance": 0.8, "plug_in": "21:30", "plug_in_weekend": "22:40", "length": "6h30m", "length_weekend": "8h",
        "between_persons": "40m", "between_days": "25m", "length_between_persons": "30m", "length_between_days": "20m",
    }  # fmt: skip
    top_up = {"per_day": 0.7, "per_day_weekend": 1.2, "length": {"kind": "exponential", "mean": "40m"}}
    written = {"require": ["charging"], "charging": {"night": night, "top_up": top_up, "spread": 0.3}}
    truth = Habits.model_validate({"kind": "habits", **written}).charging
    found = fit(world(written, 300), "habits")
    back = Habits.model_validate(found.availability).charging
    assert back.top_up.length.kind == "exponential"
    assert back.top_up.length.mean == pytest.approx(2400, rel=0.06)
    assert back.top_up.per_day == pytest.approx(0.7, rel=0.15)
    assert back.top_up.per_day_weekend == pytest.approx(1.2, rel=0.15)
    assert back.night.chance == pytest.approx(0.8, abs=0.04)
    for name in ("plug_in", "plug_in_weekend", "length", "length_weekend"):
        assert getattr(back.night, name) == pytest.approx(getattr(truth.night, name), abs=900), name
    for name in ("between_persons", "between_days", "length_between_persons", "length_between_days"):
        assert getattr(back.night, name) == pytest.approx(getattr(truth.night, name), abs=600), name
    shares = [np.array(each.top_up.by_hour) / sum(each.top_up.by_hour) for each in (back, truth)]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.02)


def test_the_law_of_lengths_is_the_one_that_foretells() -> None:
    draws = np.random.default_rng(1)
    assert short_lengths(draws.exponential(2400, 3000)) == {"kind": "exponential", "mean": "2372s"}
    law = short_lengths(draws.lognormal(7, 0.6, 3000))
    assert (law["kind"], law["sigma"]) == ("lognormal", pytest.approx(0.6, abs=0.03))


def test_a_short_recording_keeps_its_availability() -> None:
    """Two days of devices that are seldom available: a tail nobody saw does not decide how often they are."""
    off = {"kind": "lognormal", "median": "15h", "sigma": 2.2}
    pattern = recorded(model_of({"kind": "renewal", "on": {"kind": "exponential", "mean": "2h"}, "off": off}), 400, 2)
    share = float((pattern.spans.ends_s - pattern.spans.starts_s).sum()) / (400 * 2 * DAY)
    found = fit(pattern, "renewal")
    assert found.hours.share == pytest.approx(share, rel=1e-6)
    assert share < 0.06
    assert "the mean of `off` is the one that gives the share of time available" in found.notes
    on = found.availability["on"]
    assert on["kind"] in {"exponential", "weibull"}


def test_time_by_hour_adds_up() -> None:
    pattern = world({"require": ["charging"]}, 20, 3)
    table = time_by_hour(pattern.spans)
    own = np.bincount(pattern.spans.who, pattern.spans.ends_s - pattern.spans.starts_s, 20)
    np.testing.assert_allclose(table.sum(axis=1), own)
    one = sum(
        max(0.0, min(end, day * DAY + 8 * 3600) - max(start, day * DAY + 7 * 3600))
        for start, end in zip(*((times / 1e3).tolist() for times in pattern.spans.of(4)), strict=True)
        for day in range(4)
    )
    assert table[4, 7] == pytest.approx(one)


@pytest.mark.long
def test_what_can_be_fitted_is_fitted(tmp_path: Path) -> None:
    """One day is too short for the habits of charging, and long enough for the use of the screen."""
    found = fit(world({"require": ["charging", "idle"]}, 60, 1.2), "habits")
    assert "idle" in found.availability
    assert "charging" not in found.availability
    assert any(
        note.startswith("the habits of charging keep their defaults: 1 whole days are too few") for note in found.notes
    )
    path = tmp_path / "t.csv"
    path.write_text(
        "device,start_s,end_s\n" + "".join(f"d{n},{n * 600},{n * 600 + 300}\nd{n},40000,40100\n" for n in range(30))
    )
    done = fedsim("trace", "fit", path, "--base", "2020-02-03T00:00:00Z")
    assert (done.returncode, "cannot be fitted by habits: 0 whole days" in done.stderr) == (0, True)
    assert done.stdout.startswith("# renewal")
    assert "# fitted to half of the devices and judged by the others:" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.count(" ?") > 5]
    assert len(line.split()) == 25
    facts = json.loads(fedsim("trace", "fit", path, "--base", "2020-02-03T00:00:00Z", "--json").stdout)
    assert facts["fits"][0]["by_hour"][23] is None
    one = path.read_text().splitlines()[:1] + [f"d,{n * 600},{n * 600 + 300}" for n in range(30)]
    path.write_text("\n".join(one))
    done = fedsim("trace", "fit", path, "--base", "2020-02-03T00:00:00Z", "--kind", "renewal")
    assert "# not judged out of sample: half of the devices cannot be fitted (there is one device)" in done.stdout
