"""Theory asked from Python says what the command says."""

import json
import subprocess
import sys

import numpy as np
import pytest

import fedsim
from tests.conftest import LIMIT_S, SMALL, Load, Write


@pytest.mark.long
def test_the_answers_are_those_of_the_command(small: Load, write: Write) -> None:
    scenario = small()
    path = write(SMALL)
    command = [
        sys.executable,
        "-m",
        "fedsim",
        "chain",
        str(path),
        "--separation",
        "0:2",
        "--precision",
        "0.05",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=LIMIT_S)
    answers = fedsim.chain(scenario, separation=range(3), precision=0.05)
    assert json.loads(done.stdout)["results"] == [answer.as_json for answer in answers]
    assert [answer.separation for answer in fedsim.chain(path, separation=range(3))] == [0, 1, 2]


def test_the_scenarios_own_separations_are_asked_about(small: Load) -> None:
    (own,), (common,) = fedsim.chain(small()), fedsim.chain(small(), separation=2)
    assert np.allclose(own.pi, common.pi)
    assert own.pi.sum() == pytest.approx(1)


def test_a_target_finds_the_separation(small: Load) -> None:
    (answer,) = fedsim.chain(small(), target_l1=0.05)
    assert answer.l1_uniform <= 0.05
    assert isinstance(answer.separation, int)
    (before,) = fedsim.chain(small(), separation=answer.separation - 1)
    assert before.l1_uniform > 0.05


def test_a_question_without_an_answer_is_an_error(small: Load) -> None:
    with pytest.raises(fedsim.ChainError):
        fedsim.chain(small(), separation=4)
