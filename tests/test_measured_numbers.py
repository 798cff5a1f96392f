"""The numbers of the documentation are those that were measured, and what writes them writes them right."""

import copy
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the script that writes the numbers; its neighbours are imported by their bare names."""
    monkeypatch.syspath_prepend("reports")
    return import_module("claims")


@pytest.fixture
def kept(claims: ModuleType) -> Any:
    """Return what was measured."""
    return claims.load()


def test_pages_say_what_was_measured(claims: ModuleType, kept: Any) -> None:
    for page in claims.PAGES:
        text = Path(page).read_text(encoding="utf-8")
        assert claims.written(text, kept) == text, f"{page} is stale, run: python reports/claims.py"


def test_every_region_is_in_a_page_and_ends(claims: ModuleType) -> None:
    text = "".join(Path(page).read_text(encoding="utf-8") for page in claims.PAGES)
    assert sorted(name for _, name, _ in claims.REGION.findall(text)) == sorted(claims.REGIONS)
    assert len(re.findall("<!-- measured:", text)) == len(re.findall("<!-- end -->", text)) == len(claims.REGIONS)


@pytest.mark.parametrize(
    ("store", "where", "region"),
    [
        ("measured", ("debiased-synthetic", "metrics", "4", "learning.fedavg.excess_loss"), "readme"),
        ("measured", ("fedavg-synthetic", "metrics", "19", "learning.fedavg.average_excess_loss"), "claims"),
        ("measured", ("quadratic-bias", "metrics", "8", "learning.fedavg.bias"), "predicted"),
        ("two-speeds", ("lemma_3", "8", "400"), "claims"),
        ("two-speeds", ("running_l1", "50", "100"), "claims"),
        ("draws", ("digits-draws", "records", 5, "average_loss"), "draws"),
        ("draws", ("digits-draws", "records", 5, "average_loss"), "claims"),
        ("draws", ("digits-step-0.05", "records", 2, "average_loss"), "steps"),
        ("draws", ("digits-participations", "records", 2, "rounds_within", "0.01"), "speed"),
        ("networks", ("weights-r0", "records", 0, "loss"), "weights"),
        ("networks", ("weights-r0", "largest_weights", 0), "largest-weights"),
        ("networks", ("methods-r8", "records", 0, "loss"), "network"),
    ],
)
def test_another_measurement_makes_another_text(
    claims: ModuleType, kept: Any, store: str, where: tuple[Any, ...], region: str
) -> None:
    other = copy.deepcopy(kept)
    place = other[store]
    for key in where[:-1]:
        place = place[key]
    assert place[where[-1]] is not None
    place[where[-1]] += 10_000
    assert claims.REGIONS[region](other) != claims.REGIONS[region](kept)


def test_spreads_are_written_as_they_are(claims: ModuleType) -> None:
    """Intervals by Student's t, medians between two values, runs that never got there, minus signs, no minus zero."""
    measurements = sys.modules["measurements"]
    assert measurements.with_interval(np.array([1.0, 2.0, 3.0]), 2) == "2.00 ± 2.48"
    assert measurements.with_range(np.array([-2.0, 1.0, 4.0]), 1) == "1.0 (\N{MINUS SIGN}2.0 to 4.0)"
    assert measurements.signed(-0.001, 2) == "0.00"
    assert measurements.rounds([10, 40, 20, 30]) == "25 (10\N{EN DASH}40)"
    assert measurements.rounds([None, 40, 20]) == "40 (from 20; never in 1 of 3)"
    assert measurements.rounds([None, 40, None]) == "never (from 40; never in 2 of 3)"
    assert measurements.rounds([None, None]) == "never"


def test_excess_is_taken_from_the_uniform_run_of_the_same_draw(claims: ModuleType) -> None:
    records = [
        {"draw": draw, "separation": separation, "optimizer": name, "average_loss": loss}
        for draw, separation, name, loss in [
            (1, None, "fedavg_uniform", 0.5),
            (2, None, "fedavg_uniform", 0.7),
            (1, 0, "fedavg", 0.6),
            (2, 0, "fedavg", 0.9),
            (2, 8, "fedavg", 5.0),
        ]
    ]
    np.testing.assert_allclose(claims.excess(records, "fedavg", 0), [0.1, 0.2])


def test_a_network_decides_nothing_before_it_has_settled(claims: ModuleType, kept: Any) -> None:
    other = copy.deepcopy(kept)
    records = other["networks"]["methods-r8"]["records"]
    for each in records:
        each["converged"] = False
    assert claims._network_verdict(other) == "not decided: 0 of 30 runs have settled"
    for each in records:
        each["converged"] = True
        each["average_loss"] = {"fedavg": 2.0, "debiased_fedavg": 1.0}.get(each["optimizer"], 0.5)
    assert claims._network_verdict(other) == "FedAvg lies above Debiased FedAvg in 10 of 10 participations"


@pytest.mark.long
def test_a_study_measures_every_separation_and_optimizer(claims: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short one over two draws; the uniform run is its own goal, and loss falls on the way."""
    draws = import_module("draws")
    monkeypatch.setattr(draws, "LONG", 60)
    found = draws.study("synthetic", "long-draws", count=2, overrides=["stop.rounds=60"])["records"]
    assert len(found) == 2 * (1 + 2 * len(draws.OPTIMIZERS))
    assert {each["draw"] for each in found} == {1, 2}
    assert all(each["average_loss"] < each["initial"] for each in found)
    for name in draws.OPTIMIZERS:
        assert len(claims.excess(found, name, 8)) == 2
        for each in claims.of(found, name, 0):
            near = [each["rounds_within"][share] or 99 for share in ("0.05", "0.02", "0.01")]
            assert near == sorted(near)
