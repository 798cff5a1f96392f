"""``fedsim solve``: the smallest value that meets a condition is that of trying all of them, and its pace is told."""

import json
from typing import Any

import pytest

from fedsim import Scenario, simulate
from tests.command import fedsim
from tests.conftest import Write

CASE = """\
stop: {rounds: 40, duration: 2d}
population:
  - {devices: 24, availability: {kind: renewal, on: 2h, off: 2h}, weight: {kind: zipf, exponent: 1}}
server: {cohort: 3, pause: 10m, selection: successive}
privacy: {mechanism: sqrt, epsilon: 6, delta: 1e-3, clip: 1, training: noise}
learning: {problem: {kind: quadratic, dimension: 2}, optimizers: [fedavg], step_size: 0.1}
"""


def solved(write: Write, *words: str) -> tuple[int, dict[str, Any]]:
    done = fedsim("solve", write(CASE), *words, "--json")
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_separation_for_b_and_one_for_k(write: Write) -> None:
    code, found = solved(write, "--to", "5", "--until", "participation.separation.least >= 4")
    answer = found["answer"]
    assert (code, answer["value"], answer["promised_b"], answer["b"] >= 4) == (0, 3, 4, True)
    assert [each["holds"] for each in found["tried"]] == [each["value"] >= 3 for each in found["tried"]]
    assert found["share_of_pace"] == pytest.approx(answer["pace"] / found["tried"][0]["pace"])
    _, capped = solved(write, "--to", "5", "--until", "participation.most <= 10", "--seeds", "2")
    every = [
        max(
            simulate(
                Scenario.load(write(CASE), [f"population.0.separation={R}", "learning=null", "privacy=null"], seed=seed)
            ).metrics["participation.most"]
            for seed in (0, 1)
        )
        for R in range(6)
    ]
    assert capped["answer"]["value"] == next(R for R, most in enumerate(every) if most <= 10)
    assert capped["answer"]["k"] == every[capped["answer"]["value"]]


def test_a_cool_down_promises_nothing_and_its_pace_is_held_against_the_target(write: Write) -> None:
    words = ("--vary", "population.0.cooldown", "--to", "3h", "--step", "30m")
    condition = ("--until", "participation.separation.least >= 3")
    done = fedsim("solve", write(CASE), *words, *condition)
    assert done.returncode == 0, done.stderr
    head, *rows, answer = done.stdout.splitlines()
    assert head.split()[:2] == ["value", "holds"]
    assert "is the smallest that gives participation.separation.least >= 3, at" in answer
    value = answer.split(" = ")[1].split()[0]
    [row] = [each.split() for each in rows if each.split()[0] == value]
    assert (row[1], row[2], int(row[3]) >= 3) == ("yes", "1", True)
    assert "are luck where they are better than what is promised" in done.stderr
    missed = fedsim("solve", write(CASE), *words, *condition, "--pace", "1.0")
    assert missed.returncode == 1
    assert "no value does both" in missed.stdout
    never = fedsim("solve", write(CASE), *words, "--until", "participation.separation.least >= 39")
    assert never.returncode == 1
    assert "no value up to 3h gives" in never.stdout


def test_where_rounds_never_come_the_federation_stalls(write: Write) -> None:
    done = fedsim("solve", write(CASE), "--to", "30", "--until", "participation.separation.least >= 25")
    assert done.returncode == 1
    assert "the federation stalls from population.*.separation = " in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--to", "3", "--until", "participation.most"), "participation.most: "),
        (("--to", "3", "--until", "participation.mots <= 3"), "did you mean 'participation.most'"),
        (("--to", "0", "--until", "participation.most <= 3"), "expected whole numbers, the first the smallest"),
        (("--to", "3d", "--from", "1", "--until", "participation.most <= 3"), "two durations such as 0s and 3d"),
        (("--to", "1h", "--from", "2h", "--until", "participation.most <= 3"), "the second must be longer"),
        (("--to", "3", "--vary", "server.chort", "--until", "participation.most <= 3"), "server.chort"),
    ],
)
def test_what_makes_no_sense_is_told(write: Write, words: tuple[str, ...], told: str) -> None:
    done = fedsim("solve", write(CASE), *words)
    assert done.returncode == 2
    assert told in done.stderr
