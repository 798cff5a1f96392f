"""Losses of clients, tenths and groups, against numbers written out."""

from pathlib import Path

import numpy as np
import pytest

from fedsim import Scenario, ScenarioError, simulate
from fedsim.learning.problems.quadratic import Quadratic
from fedsim.learning.trajectory import End
from fedsim.learning.who_pays import who_pays

LINE = Quadratic(clients=20, seed=0, dimension=1, spread=0.0)
LINE.centres = np.arange(20.0)[:, None]
AT_ZERO = End(*(np.zeros(1),) * 3, drawn_round=0)
EACH = np.arange(20.0) ** 2 / 2


def test_tenths_groups_and_the_worst_are_means_over_their_clients() -> None:
    """Client 19, farthest away, reported least often."""
    groups = (np.arange(20) >= 15).astype(np.int64)
    figures = who_pays(LINE, {"it": AT_ZERO}, np.arange(20.0)[::-1], groups, ["near", "far"])
    assert figures["learning.it.loss_of_tenth_1"] == EACH[18:].mean()
    assert figures["learning.it.loss_of_tenth_10"] == EACH[:2].mean()
    assert figures["learning.it.loss_of_worst_tenth"] == EACH[18:].mean()
    assert figures["learning.it.loss_of_group_near"] == EACH[:15].mean()
    assert figures["learning.it.loss_of_group_far"] == EACH[15:].mean()
    assert len(figures) == 13


def test_clients_that_reported_equally_often_are_no_tenths() -> None:
    """With the order of the clients as a tie-break the last tenth would have 40 times the first one's loss."""
    figures = who_pays(LINE, {"it": AT_ZERO}, np.full(20, 3.0), np.zeros(20, dtype=np.int64), ["all"])
    tenths = [figures[f"learning.it.loss_of_tenth_{number}"] for number in range(1, 11)]
    assert tenths == pytest.approx([EACH.mean()] * 10)
    assert not any("group" in name for name in figures)


def test_what_diverged_and_few_clients_have_none() -> None:
    lost = End(*(np.full(1, np.nan),) * 3, drawn_round=0)
    assert who_pays(LINE, {"it": lost}, np.ones(20), np.zeros(20, dtype=np.int64), ["all"]) == {}
    few = Quadratic(clients=9, seed=0, dimension=1)
    assert [*who_pays(few, {"it": AT_ZERO}, np.ones(9), np.zeros(9, dtype=np.int64), ["all"])] == [
        "learning.it.loss_of_worst_tenth"
    ]


SCENARIO = {
    "stop": {"rounds": 300},
    "population": [{"name": "often", "devices": 30, "weight": 9}, {"name": "rarely", "devices": 30, "weight": 1.0}],
    "server": {"cohort": 4},
    "learning": {
        "problem": {"kind": "quadratic", "clusters": 2, "cluster_spread": 3.0, "spread": 0.1},
        "optimizers": ["fedavg", "debiased_fedavg"],
        "step_size": 0.02,
    },
    "expect": [
        "learning.fedavg.loss_of_tenth_1 > 1",
        "learning.fedavg.loss_of_group_rarely > 1",
        "learning.fedavg.loss_of_worst_tenth > 0",
    ],
}


def test_a_scenario_can_expect_it_and_its_page_shows_it(tmp_path: Path) -> None:
    """FedAvg leaves the losses to those that take part rarely; debiasing shares them."""
    result = simulate(Scenario.model_validate(SCENARIO))
    metrics = result.metrics
    assert metrics["learning.fedavg.loss_of_group_rarely"] > 2 * metrics["learning.fedavg.loss_of_group_often"]
    even = metrics["learning.debiased_fedavg.loss_of_group_rarely"]
    assert even < metrics["learning.fedavg.loss_of_group_rarely"]
    assert even < 1.5 * metrics["learning.debiased_fedavg.loss_of_group_often"]
    assert [each.status for each in result.verdict] == ["pass"] * 3
    section = result.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Loss, group rarely" in section
    assert f"{metrics['learning.fedavg.loss_of_group_rarely']:.3g}" in section


def test_an_unknown_group_is_told() -> None:
    wrong = {**SCENARIO, "expect": ["learning.fedavg.loss_of_group_nobody > 1"]}
    with pytest.raises(ScenarioError, match="no group is called 'nobody'"):
        simulate(Scenario.model_validate(wrong))
