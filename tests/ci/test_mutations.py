"""Small changes of a scenario's numbers are tried, and those that no limit or lock would notice are told."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedsim import simulate
from fedsim.ci.lock import compare_with_lock, lock_path, platform_key, read_lock
from fedsim.ci.mutations import mutations
from fedsim.scenario import Scenario
from tests.command import fedsim
from tests.conftest import SMALL, Write

LONG = {"mnist", "which"}  # scenarios that `make replay` leaves out
PAUSE = SMALL.replace("{cohort: 3}", "{cohort: 3, pause: 30s}")


@pytest.fixture(autouse=True)
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsim.ci.replay.LocalProcesses", ThreadPoolExecutor)


def test_each_number_is_changed_once_and_makes_a_scenario(write: Write) -> None:
    scenario = Scenario.load(write(PAUSE + "seed: 3\nexpect: [rounds.count == 60]\nname: '7 phones'\n"))
    found = {each.key: each.new for each in mutations(scenario)}
    assert found == {
        "stop.rounds": 66,
        "population.0.devices": 13,
        "population.0.weight.exponent": 2,
        "population.0.separation": 3,
        "server.cohort": 4,
        "server.pause": "33s",
    }
    for key, new in found.items():
        assert scenario.with_values({key: new}).as_written != scenario.as_written


def test_what_would_be_no_scenario_is_not_tried(write: Write) -> None:
    share = "separation: 2, availability: {kind: habits, network: {home: 0.95, work: 0.5}}"
    keys = {each.key for each in mutations(Scenario.load(write(PAUSE.replace("separation: 2", share))))}
    assert "population.0.availability.network.work" in keys
    assert "population.0.availability.network.home" not in keys  # 1.045 is no share


def test_changes_that_nothing_notices_fail(write: Write, tmp_path: Path) -> None:
    path = write(PAUSE + "expect: [participation.gap.min >= 3]\n")
    done = fedsim("replay", path.name, "--mutate", "--junit", "junit.xml", cwd=tmp_path)
    assert done.returncode == 1
    assert "0 of 6 changes noticed" in done.stdout
    assert "case.fedsim.yaml:3:66: error: population.0.separation: no limit or lock notices 3 for 2" in done.stderr
    assert "server.pause: no limit or lock notices 33s for 30s" in (tmp_path / "junit.xml").read_text()


def test_limits_and_locks_notice_changes(write: Write, tmp_path: Path) -> None:
    path = write(
        PAUSE + "expect: [rounds.count == 60]\ndrift: {figures: [participation.l1_uniform, updates.per_day]}\n"
    )
    assert fedsim("replay", path.name, "--update", cwd=tmp_path).returncode == 0
    done = fedsim("replay", path.name, "--mutate", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "6 of 6 changes noticed, " in done.stdout
    path.write_text(path.read_text().replace("pause: 30s", "pause: 30s, deadline: 9d"))
    done = fedsim("replay", path.name, "--mutate", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "6 of 6 changes noticed, 1 more change no figure" in done.stdout  # nobody is so late


def test_a_scenario_that_fails_as_it_is_is_told_as_in_a_replay(write: Write, tmp_path: Path) -> None:
    done = fedsim("replay", write(PAUSE + "expect: [rounds.count < 60]\n").name, "--mutate", cwd=tmp_path)
    assert done.returncode == 1
    assert "rounds.count < 60: observed 60" in done.stderr
    assert fedsim("replay", "case.fedsim.yaml", "--mutate", "--update", cwd=tmp_path).returncode == 2


OURS = sorted(path for path in Path("scenarios").glob("*/*.fedsim.yaml") if path.name.partition("-")[0] not in LONG)


@pytest.mark.parametrize("file", OURS, ids=lambda file: file.name.partition(".")[0])
def test_every_scenario_of_the_repository_has_limits_or_a_whole_lock(file: Path) -> None:
    scenario, lock = Scenario.load(file), read_lock(lock_path(file))
    assert scenario.drift or any(each.severity == "error" for each in scenario.expect)
    for figure in scenario.drift.figures if scenario.drift else ():
        assert any(figure.name in entry.figures for entry in lock.values()), figure.name


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "path", "value"),
    [
        ("paper/fedavg-synthetic", "population.*.separation", 6),
        ("paper/fedavg-synthetic", "population.*.weight.exponent", 1.3),
        ("studies/separation-sweep", "population.*.weight.sigma", 2),
        ("studies/night-charging", "server.pause", "3m"),
        ("studies/three-continents", "population.2.devices", 50),
        ("studies/three-continents", "population.1.time_zone", "Europe/Berlin"),
    ],
)
def test_what_a_question_is_about_does_not_change_unnoticed(file: str, path: str, value: object) -> None:
    """Without the training, whose figures are locked too."""
    place = Path(f"scenarios/{file}.fedsim.yaml")
    scenario = Scenario.load(place).with_values({path: value, "learning": None, "expect": []})
    found = compare_with_lock(scenario, read_lock(lock_path(place)), platform_key(), simulate(scenario).metrics, {})
    assert "drift" in {each.status for each in found}
