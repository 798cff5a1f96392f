"""A calibrated scenario is judged by days of the log that it was not fitted to, and a change of the fleet is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedsim.scenario import Scenario
from tests.command import Done, fedsim
from tests.production import COLUMNS, DAY, HOUR, OUTCOMES, Production, log_in, written

NAMED = ("--columns", f"{COLUMNS},round=round", "--outcomes", OUTCOMES)
ALWAYS = {
    "chance": (1.0 - 1e-9, 0.0),
    "night": (30 * HOUR, 0.0),
    "zones": ("UTC",),
    "classes": {"phone": (100, 120.0, 0.5)},
}


NO_CHECK_INS = "the log does not say when devices are available"


def reasons(text: str) -> list[str]:
    """Return the lines that say why figures are off, for all of these at once."""
    return [line.removeprefix("# ") for line in text.splitlines() if "Why figures may be off: " in line]


def calibrated(folder: Path, *options: object, **planted: Any) -> Done:
    log_in(folder, Production(**{"days": 3, "pause": 600.0} | ALWAYS | planted).sessions())
    return fedsim("calibrate", folder / "log.csv", *NAMED, *options)


@pytest.mark.parametrize("seed", [1, 2])
def test_days_like_the_fitted_ones_are_as_expected(tmp_path: Path, seed: int) -> None:
    """All figures of a log at once are within in 90 % of logs; the seeds are fixed."""
    done = calibrated(tmp_path, "--check", 5, "--json", "--page", tmp_path / "page.html", seed=seed)
    judged = json.loads(done.stdout)["backtest"]
    assert [each["name"] for each in judged if not each["within"]] == []
    assert done.returncode == 0
    names = [each["name"] for each in judged]
    assert {"updates.per_day", "sessions.dropped_share", "participation.gini", "participation.never_share"} <= {*names}
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Yes: how fast it goes, how long rounds take, how sessions end, who takes part and when" in page
    assert "No: " not in page
    assert page.count(">within</td>") == len(names)


@pytest.mark.parametrize(
    ("planted", "named"),
    [
        ({"slower_from": (2 * DAY, 1.5)}, "phone: the median session in seconds was 12"),
        ({"fails_from": (2 * DAY, 6.0)}, "phone: the rate of drop-outs in an hour was 0."),
    ],
)
def test_a_change_of_the_fleet_is_named(tmp_path: Path, planted: dict[str, Any], named: str) -> None:
    page = tmp_path / "page.html"
    done = calibrated(tmp_path, "--check", 5, "--out", tmp_path / "made.fedsim.yaml", "--page", page, **planted)
    assert done.returncode == 1
    assert ": off by " in done.stderr
    assert [line for line in reasons(done.stderr) if named in line and NO_CHECK_INS in line] == reasons(done.stderr)
    assert all(option in done.stderr.splitlines()[-1] for option in ("`--since DAY`", "`--check-ins`"))
    assert f"<span>{page}</span> <span>--check-ins</span> <span>check-ins.csv</span></code>" in page.read_text(
        encoding="utf-8"
    )
    assert "No: how" in done.stderr
    assert Scenario.load(tmp_path / "made.fedsim.yaml").devices == 100


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "slower": ({"slower_from": (6 * DAY, 1.4)}, "the median session in seconds was"),
    "fails": ({"fails_from": (6 * DAY, 4.0)}, "the rate of drop-outs in an hour was"),
    "gone": ({"leave": (6 * DAY, "old")}, "50 clients of old came before "),
    "fewer": ({"leave": (6 * DAY, "tablet")}, "60 clients of tablet came before "),
    "both": ({"slower_from": (6 * DAY, 0.7), "fails_from": (6 * DAY, 4.0)}, "the median session in seconds was"),
}


@pytest.mark.campaign
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_the_last_third_is_named(tmp_path: Path, change: str) -> None:
    planted, named = CHANGES[change]
    judged = backtested(tmp_path, Production(seed=40, days=9, missing=0.05, twice=0.02, **planted))
    off = [each for each in judged if not each["within"]]
    assert off
    assert all(named in each["because"] for each in off)


@pytest.mark.campaign
def test_twenty_logs_are_as_their_first_days_let_expect(tmp_path: Path) -> None:
    """Of the figures of 20 logs 90 % at least are within their intervals."""
    judged = [each for seed in range(20) for each in backtested(tmp_path, usual(seed))]
    assert sum(each["within"] for each in judged) >= 0.9 * len(judged)


def usual(seed: int) -> Production:
    return Production(seed=seed, days=9, missing=0.05, twice=0.02)


def backtested(folder: Path, production: Production) -> list[dict[str, Any]]:
    """Backtest a log in milliseconds with doubled rows, and check-ins of which some are missing."""
    written(folder, production)
    done = fedsim("calibrate", folder / "log.csv", *NAMED, "--check-ins", folder / "there.csv", "--backtest", "--json")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["backtest"])


def test_a_log_is_compared_with_the_scenario_that_is_replayed(tmp_path: Path) -> None:
    out = tmp_path / "made.fedsim.yaml"
    assert calibrated(tmp_path, "--out", out, seed=1).returncode == 0
    done = calibrated(tmp_path, "--against", out, "--check", 5, seed=2)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(": within\n") == len(done.stdout.splitlines()) - 1 > 10
    assert reasons(done.stdout) == []
    done = calibrated(tmp_path, "--against", out, "--check", 5, seed=2, classes={"phone": (100, 240.0, 0.5)})
    assert done.returncode == 1
    assert ": off by " in done.stdout
    (why,) = reasons(done.stdout)
    assert "phone: the median session in seconds was 1" in why
    assert "in the scenario, and 2" in why
    assert NO_CHECK_INS in why


@pytest.mark.long
def test_a_log_differs_from_a_scenario_with_names_of_its_own(tmp_path: Path) -> None:
    """Whose devices are always there; the log's are there at night, and take as long."""
    written(tmp_path, Production(seed=3, days=3, zones=("UTC",), classes={"phone": (100, 120.0, 0.5)}))
    made = tmp_path / "made.fedsim.yaml"
    made.write_text(
        "stop: {duration: 3d}\npopulation: [{name: mine, devices: 100, session: {download: 0s, upload: 0s, "
        "train: {kind: lognormal, median: 2m, sigma: 0.5}, fails: {per_hour: 0.5}}}]\n"
        "server: {cohort: 8, over_select: 1.2, deadline: 15m, pause: 2m}\n"
    )
    against = ("calibrate", tmp_path / "log.csv", *NAMED, "--against", made)
    for checks in ((), ("--check-ins", tmp_path / "there.csv")):
        told = fedsim(*against, *checks).stdout
        assert ": off by " in told
        (why,) = reasons(told)
        assert "off: devices: the rate of drop-outs in an hour was 0.5" in why
        assert ("devices were available in the log for 2" in why) == bool(checks)
        assert (NO_CHECK_INS in why) != bool(checks)


def test_a_backtest_of_two_days_is_refused(tmp_path: Path) -> None:
    done = calibrated(tmp_path, "--backtest", days=2)
    assert (done.returncode, "a backtest needs 3" in done.stderr) == (2, True)


def test_the_days_after_a_change_are_fitted_alone(tmp_path: Path) -> None:
    """All of them together have a median between that before and that after."""
    change: dict[str, Any] = {"seed": 5, "days": 4, "slower_from": (2 * DAY, 2.0)}
    medians = [
        json.loads(calibrated(tmp_path, "--json", *part, **change).stdout)["found"]["phone"]["duration"]["median"]
        for part in ((), ("--since", "2026-01-07"), ("--until", "2026-01-07T00:00:00Z"))
    ]
    assert medians[1:] == pytest.approx([240.0, 120.0], rel=0.05)
    assert medians[2] * 1.2 < medians[0] < medians[1] / 1.2
    for day, complaint in (("soon", "'soon'"), ("2027-01-01", "has no session in the part that is kept")):
        done = calibrated(tmp_path, "--since", day, **change)
        assert (done.returncode, complaint in done.stderr) == (2, True), done.stderr
