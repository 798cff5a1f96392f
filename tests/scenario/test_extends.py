"""Scenarios that extend others."""

import pytest

from fedsim.common.errors import ScenarioError
from fedsim.scenario import Scenario
from tests.conftest import Write

BASE = """\
name: base
seed: 3
stop: {rounds: 10, duration: 1h}
population:
  - {name: phones, devices: 10}
server: {cohort: 2, pause: 5s}
"""


def test_the_file_that_extends_wins_key_by_key(write: Write) -> None:
    write(BASE, "base.yaml")
    write("server: {pause: 7s, deadline: 1m}\nseed: 4\n", "slow.yaml")
    path = write("extends: [base.yaml, slow.yaml]\nstop: {rounds: 5}\npopulation: [{devices: 3}]\n", "mine.fedsim.yaml")
    scenario = Scenario.load(path, ["server.cohort=1"])
    server = scenario.sync_server
    assert (scenario.name, scenario.seed, scenario.stop.rounds, scenario.stop.duration) == ("mine", 4, 5, 3600.0)
    assert (server.cohort, server.pause, server.deadline) == (1, 7.0, 60.0)
    assert [group.name for group in scenario.population] == ["everyone"]


def complaints(write: Write, text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(write(text, "mine.yaml"))
    return str(caught.value)


def test_mistakes_are_told_where_they_were_written(write: Write) -> None:
    base = write(BASE.replace("pause: 5s", "pause: 5"), "base.yaml")
    told = complaints(write, "extends: base.yaml\nserver: {cohort: 0}\n")
    assert f"{base}:6:28: error: server.pause: needs a unit" in told
    assert f"{base.parent}/mine.yaml:2:18: error: server.cohort: must be at least 1, not 0" in told


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("extends: none.yaml\n", "mine.yaml:1:10: error: extends: "),
        ("extends: none.yaml\n", "none.yaml:1:1: error: cannot be read: No such file"),
        ("extends: mine.yaml\n", "mine.yaml:1:10: error: extends: 'mine.yaml' extends itself"),
        ("extends: [1]\n", "mine.yaml:1:10: error: extends: must be a file name or a list of them"),
    ],
)
def test_files_that_cannot_be_extended(write: Write, text: str, complaint: str) -> None:
    assert complaint in complaints(write, text)


def test_a_ring_of_files_is_refused(write: Write) -> None:
    write("extends: mine.yaml\n", "other.yaml")
    assert "'mine.yaml' extends itself" in complaints(write, "extends: other.yaml\n")


def test_a_chain_that_is_too_long_is_no_ring(write: Write) -> None:
    for number in range(25):
        write(BASE if not number else f"extends: {number - 1}.yaml\n", f"{number}.yaml")
    told = complaints(write, "extends: 24.yaml\n")
    assert "extends: extends too many files, one through another" in told
    assert "itself" not in told
