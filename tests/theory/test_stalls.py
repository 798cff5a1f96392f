"""What theory says about chains that stall."""

from pathlib import Path

import numpy as np
import pytest

from fedsim.common.errors import ChainError
from fedsim.theory import mean_field, monte_carlo, stationary
from fedsim.theory.stationary import answer
from tests.command import fedsim

# 13 who rest for a round and 169 who rest for 80 supply 8.6 a round on average, but not in every round.
STALLS = (np.ones(182), np.array([1] * 13 + [80] * 169), 8)


def test_a_chain_that_stalls_is_told() -> None:
    weights, rounds, cohort = STALLS
    with pytest.raises(ChainError, match="the chain stalls"):
        monte_carlo(weights, rounds, cohort, "midzuno")
    result = mean_field(weights, rounds, cohort)
    (caveat,) = result.caveats
    assert caveat.startswith("this chain stalls: after ")
    assert answer(result)["caveats"] == [caveat]


def test_a_chain_that_is_not_seen_to_stall_says_how_far_it_was_tried() -> None:
    result = mean_field(np.ones(50), np.array([0] * 49 + [3]), 2)
    assert result.caveats == (
        "separations differ, and such a chain may stall; none of 8 replicas did in 1,000 rounds, and pi is that of a "
        "chain that never does",
    )


@pytest.mark.parametrize(
    ("law", "rounds"), [("midzuno", 3), ("bernoulli", [0, 3, 1, 2, 0, 0]), ("cyclic", [0, 1, 1, 0, 0, 0])]
)
def test_nothing_is_said_where_nothing_can_stall(law: str, rounds: object) -> None:
    assert mean_field(np.ones(6), np.asarray(rounds), 1, law).caveats == ()
    assert stationary(np.ones(6), np.asarray(rounds), 1, law).caveats == ()


def test_the_command_line_says_so(tmp_path: Path) -> None:
    path = tmp_path / "stalls.fedsim.yaml"
    path.write_text(
        "stop: {rounds: 30}\npopulation: [{devices: 13, separation: 1}, {devices: 169, separation: 80}]\n"
        "server: {cohort: 8}\n"
    )
    done = fedsim("chain", path, "--method", "mean-field")
    assert done.returncode == 0, done.stderr
    assert "this chain stalls: after" in done.stdout
