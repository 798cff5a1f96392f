"""Theory asked from Python says what the command says."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.common.errors import ChainError
from fedsim.learning import frequencies
from tests.command import fedsim as fedsim_command
from tests.conftest import SMALL, Load, Write

COMING_AND_GOING = """\
stop: {rounds: 1500}
population:
  - {name: there, devices: 30, separation: 3}
  - {name: seldom, devices: 30, availability: {kind: renewal, on: 2h, off: 6h}, separation: 3}
server: {cohort: 3, pause: 10m}
"""


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ([], {}),
        (["--separation", "0:2", "--precision", "0.05"], {"separation": range(3), "precision": 0.05}),
        (["--target-l1", "0.05"], {"target_l1": 0.05}),
    ],
)
def test_the_answers_are_those_of_the_command(
    small: Load, tmp_path: Path, options: list[str], asked: dict[str, Any]
) -> None:
    small()
    path = tmp_path / "case.fedsim.yaml"
    answer = fedsim.participation_theory(path, **asked)
    answers = answer if isinstance(answer, list) else [answer]
    assert isinstance(answer, list) == ("separation" in asked)
    assert json.loads(fedsim_command("chain", path, *options, "--json").stdout)["results"] == [
        each.as_json for each in answers
    ]


def test_a_remedy_of_what_is_too_large_is_none_for_mixing_alone(write: Write) -> None:
    """Another method, as was said, led to the next error: the mixing time is exact, whatever the method."""
    large = write(SMALL.replace("devices: 12", "devices: 300"))
    with pytest.raises(ChainError, match=r"use the method 'mean-field' .*; and leave mixing out, which is exact too"):
        fedsim.participation_theory(large, separation=2, method="exact", mixing=True)
    with pytest.raises(ChainError, match=r"common$"):
        fedsim.participation_theory(large, separation=2, method="exact")


def test_devices_that_come_and_go_have_intervals_of_their_shares(write: Write) -> None:
    """Half of the devices are there for a quarter of the time. What is told is what the mean field says of the log."""
    path = write(COMING_AND_GOING)
    answer = fedsim.participation_theory(path, availability=True)
    result = fedsim.simulate(path)
    shares = frequencies(result.participations, 60)
    interval = answer.as_json["interval"]
    inside = (np.array(interval["low"]) <= shares) & (shares <= np.array(interval["high"]))
    assert inside.mean() > 0.85
    assert answer.pi[30:].sum() == pytest.approx(shares[30:].sum(), abs=0.03)
    assert answer.pi[30:].sum() < 0.35
    said = fedsim_command("chain", path, "--availability").stdout
    top = int(answer.pi.argmax())
    assert f"largest share {answer.pi[top]:.3%}, of client {top}; 95 % interval {interval['low'][top]:.3%} to" in said
    with pytest.raises(fedsim.ChainError, match="as it is are told, and nothing else"):
        fedsim.participation_theory(path, availability=True, separation=1)
    buffered = fedsim.Scenario.load(path, ["server={mode: buffered, concurrency: 5, buffer: 2}"])
    with pytest.raises(fedsim.ChainError, match="does not know of a buffered server"):
        fedsim.participation_theory(buffered, availability=True)
