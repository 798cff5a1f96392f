"""The parts of the loss on the page of a sweep, what was tuned, and what is promised to privacy: with data for each."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.pages import write_report
from fedsim.pages.charts import Chart
from fedsim.pages.charts.sweeps import parts_chart
from fedsim.pages.trial_tables import loss_parts, parts_table, privacy_table, settings_table
from fedsim.pages.trials import trials_answer
from fedsim.trials.trials import Trials

from .sweeps import COHORT, SEPARATION, write_points
from .test_page import check
from .test_sweep import plain

Parts = list[tuple[float, float, float]]
TUNED = "server.pause"
HIGH_LOW_HIGH: Parts = [(0.3, 0.1, 0.6), (0.1, 0.04, 0.01), (0.05, 0.2, 0.0)]


def sweep_of(tmp_path: Path, settings: Parts, noise: float = 0.001, seeds: tuple[int, ...] = (1, 2, 3)) -> Trials:
    """Write a sweep over R = 0, 10, ... with these parts of the loss; noise differs from setting to setting."""
    points: list[dict[str, Any]] = [{SEPARATION: 10 * r, TUNED: f"{r + 1}m"} for r in range(len(settings))]

    def measure(index: int, seed: int) -> dict[str, float]:
        bias, chance, privacy = settings[index]
        bias += noise * ((seed * (index % 2 + 1)) % 3 - 1)
        parts = {"bias_loss": bias, "participation_noise_loss": chance, "privacy_noise_loss": privacy}
        figures = {"above_optimum": bias + chance + privacy, **parts}
        own = {f"learning.fedavg.{name}": value for name, value in figures.items()}
        promised = {"privacy.rounds": 500, "privacy.separation": 10 * index + 1, "privacy.most": 50 - index}
        seen = {"rounds.count": 490 + seed, "participation.most": 7 + seed, "participation.separation.least": 40 - seed}
        noisy = {"privacy.sensitivity": 3.5, "privacy.noise_multiplier": 0.75, "privacy.epsilon": 8.0}
        return own | promised | seen | noisy

    scenario = {
        "sweep": {"zip": {path: [point[path] for point in points] for path in (SEPARATION, TUNED)}, "tuned": [TUNED]},
        "decide": {"minimize": "learning.fedavg.above_optimum", "maximize": None, "subject_to": []},
    }
    return Trials.read(write_points(tmp_path / "s", points, measure, scenario=scenario, seeds=seeds))


def said(sweep: Trials) -> str:
    return plain(" ".join(each.text for each in trials_answer(sweep).sentences if "fedavg" in each.text))


def test_the_best_setting_is_named_with_its_margin_and_its_largest_part(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, HIGH_LOW_HIGH)
    assert plain(trials_answer(sweep).headline) == (
        "Choose R = 10: it has the lowest loss of “fedavg” above the optimum (0.150 ± 0.002), significantly."
    )
    made_of = "0.100 bias, 0.040 participation noise and 0.010 privacy noise"
    assert said(sweep).startswith(f"The loss of “fedavg” at R = 10 lies 0.150 above the optimum: {made_of}.")
    [(name, parts)] = loss_parts(sweep).items()
    chart = parts_chart(sweep, name, parts)
    assert chart is not None
    assert chart.title == "Loss of “fedavg” and its parts"
    assert chart.finding.startswith("Not drawn where it is below ")
    assert chart.table is not None
    assert chart.table.header[1:3] == ("whole loss", "bias")
    assert [row[0] for row in chart.table.rows] == ["0", "10", "20"]


@pytest.mark.parametrize(("apart", "says"), [(0.0, True), (0.05, False)])
def test_two_methods_may_tie_and_the_second_is_folded_away(tmp_path: Path, apart: float, says: bool) -> None:
    def measure(index: int, seed: int) -> dict[str, float]:
        whole = {"a": 0.1 * (1 + index) + 0.001 * seed, "b": 0.1 * (1 + index) + 0.001 * (7 * seed % 5) + apart}
        parts = dict.fromkeys(("bias_loss", "participation_noise_loss", "privacy_noise_loss"), 0.03)
        of = {name: {"above_optimum": each, **parts} for name, each in whole.items()}
        return {f"learning.{name}.{figure}": each for name, every in of.items() for figure, each in every.items()}

    scenario: dict[str, Any] = {"decide": {"minimize": "learning.a.above_optimum", "maximize": None, "subject_to": []}}
    points = [{SEPARATION: r} for r in (0, 10, 20)]
    answer = trials_answer(
        Trials.read(write_points(tmp_path / "s", points, measure, scenario=scenario, seeds=range(5)))
    )
    assert any(each.text.startswith("The two tie: they are 0.0") for each in answer.sentences) == says
    charts = {each.name: each.aside for of in answer.sections for each in of.charts if isinstance(each, Chart)}
    assert (charts["parts-a"], charts["parts-b"]) == (False, True)


def test_diverged_settings_are_left_out(tmp_path: Path) -> None:
    assert "R = 20" not in said(sweep_of(tmp_path, [(0.3, -0.1, 0.1), (0.5, 0.1, 0.1), (np.nan, np.nan, np.nan)]))


def test_tables_show_parts_times_promises_and_what_was_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = sweep_of(tmp_path, HIGH_LOW_HIGH)
    [table] = [parts_table(sweep, *each) for each in loss_parts(sweep).items()]
    assert table.header == ("R", "Whole loss", "Bias", "Participation noise", "Privacy noise")
    assert [row[0] for row in table.rows] == ["0", "10", "20"]
    assert plain(table.rows[1][2]) == "0.100 ± 0.002"
    privacy = privacy_table(sweep)
    assert privacy is not None
    assert privacy.rows[1] == ("10", "500", "493", "11", "37", "49", "10", "3.5", "0.75", "8")
    assert "nor tuning them by these losses is in it" not in privacy.note
    noise = {"noise_multiplier": 1, "delta": 1e-6, "clip": 1, "training": "noise"}
    scenario = sweep.scenario.with_values({"privacy": noise})
    with monkeypatch.context() as patch:
        patch.setattr(Trials, "scenario", property(lambda _: scenario))
        noisy = privacy_table(sweep)
    assert noisy is not None
    assert "neither choosing among settings nor tuning them by these losses is in it" in noisy.note
    tuned = settings_table(sweep)
    assert {row[0]: row[tuned.header.index("pause (tuned)")] for row in tuned.rows} == {
        "0": "1m",
        "10": "2m",
        "20": "3m",
    }
    monkeypatch.setattr("fedsim.pages.trial_tables.SETTINGS", 2)
    assert len(parts_table(sweep, *next(iter(loss_parts(sweep).items()))).rows) == 2


def test_what_was_tuned_names_no_setting(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, HIGH_LOW_HIGH)
    assert [plain(name) for name in sweep.setting_names()] == ["R = 0", "R = 10", "R = 20"]
    along = sweep.axis
    assert along is not None
    assert (along.name, along.x.tolist()) == ("R", [0.0, 10.0, 20.0])


def test_a_page_has_the_sections_where_there_is_something_to_show(tmp_path: Path) -> None:
    sweep_of(tmp_path, HIGH_LOW_HIGH)
    page = write_report(tmp_path / "s").read_text(encoding="utf-8")
    check(page)
    for section in ("parts", "privacy"):
        assert f'<section id="{section}"' in page
    write_points(tmp_path / "plain", [{COHORT: 1}, {COHORT: 2}], lambda *_: {"updates.per_day": 5.0})
    without = write_report(tmp_path / "plain").read_text(encoding="utf-8")
    assert 'id="parts"' not in without
    assert 'id="privacy"' not in without
