"""The report of a comparison: what was set and what came out differently."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedsim.common.errors import RunError
from fedsim.pages.answer import Answer
from fedsim.pages.charts.learning import curves
from fedsim.pages.tables import Table
from fedsim.run.load import load_one
from fedsim.trials.decision import L1

from .runs import SCENARIO, comparison_of, report_comparison, write_manifest, write_run
from .sweeps import SEPARATION, write_points, write_sweep
from .test_page import HOSTILE, check
from .test_sweep import plain


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    first, second = write_run(tmp_path / "a", rounds=60), write_run(tmp_path / "b", rounds=90)
    scenario = json.loads((first / "manifest.json").read_text(encoding="utf-8"))["scenario"]
    write_manifest(second, scenario=scenario | {"seed": 2, "server": scenario["server"] | {"cohort": 6}}, seed=2)
    return first, second


def tables_of(document: Answer) -> list[Table | None]:
    """Return the settings that differ, and all figures."""
    tables = {section.name: section.tables[0] for section in document.sections if section.tables}
    return [tables["settings"], tables["metrics"]]


def test_settings_and_figures_that_differ_stand_side_by_side(pair: tuple[Path, Path]) -> None:
    document = comparison_of(*pair)
    settings, figures = tables_of(document)
    assert settings is not None
    assert figures is not None
    assert settings.rows == (("seed", "1", "2"), ("server.cohort", "5", "6"))
    rows = {row[0]: row[1:] for row in figures.rows}
    assert [plain(cell) for cell in rows["rounds.count"]] == ["60", "90", "+30"]


def test_curves_are_those_of_each_run(pair: tuple[Path, Path]) -> None:
    runs = [load_one(path) for path in pair]
    frequencies, losses, *_ = comparison_of(*pair).charts
    for number, run in enumerate(runs):
        axes = Figure().subplots()
        frequencies.draw(axes)
        shown = np.asarray(axes.get_lines()[number].get_ydata())
        np.testing.assert_allclose(shown[1:], run.clients["frequency"].sort().cum_sum())
    assert losses.table is not None
    own = [each.name for each in curves(runs[0]) if each.look == "line"]
    assert losses.table.header[1:] == tuple(f"{letter}: {name}" for letter in "AB" for name in own)


@pytest.mark.long
def test_the_page_of_a_comparison(pair: tuple[Path, Path], tmp_path: Path) -> None:
    write_manifest(pair[0], scenario=SCENARIO | {"name": HOSTILE})
    page = report_comparison(*pair, tmp_path / "out")
    shown = check(page.read_text(encoding="utf-8"))
    (head,) = shown.inside("h1")
    assert plain(head).startswith(
        "By theory both are 22.9 % from uniform (TV); measured, they are 1.1 ± 1.5 points apart"
    )
    assert "26.7 % at cohort = 5 (A) and 25.6 % at cohort = 6 (B)" in plain(page.read_text(encoding="utf-8"))
    assert any(HOSTILE in text for text in shown.inside("p"))
    assert [figure["id"] for figure in shown.find("figure")] == [
        "distance",
        "losses",
        "frequencies",
    ]  # its curves look like one
    alone = report_comparison(*pair, tmp_path / "alone.html")
    assert alone.read_bytes() == page.read_bytes()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]


def test_a_run_compared_with_itself(pair: tuple[Path, Path]) -> None:
    document = comparison_of(pair[0], pair[0])
    settings, figures = tables_of(document)
    assert settings is None
    assert figures is not None
    assert {row[-1][:1] for row in figures.rows} == {"0"}
    assert " is the same at A and B: " in document.headline


def test_sweeps_and_their_points_are_compared_too(tmp_path: Path) -> None:
    first, second = write_sweep(tmp_path / "a"), write_sweep(tmp_path / "b")
    whole = comparison_of(first, second)
    (chart,) = (each for each in whole.charts if each.name == "trade-off")
    assert chart.table is not None
    assert {row[0][:1] for row in chart.table.rows} == {"A", "B"}
    points = comparison_of(Path(f"{first}@0"), Path(f"{first}@4"))
    _, figures = tables_of(points)
    assert figures is not None
    assert figures.header == ("Metric", "A", "B", "B minus A")
    assert plain(points.tiles[-1].detail).endswith("R = 0 (A) minus R = 8 (B)")
    check(report_comparison(Path(f"{first}@0"), Path(f"{first}@4"), tmp_path / "x.html").read_text(encoding="utf-8"))


def test_points_of_a_sweep_that_trained_are_checked_as_runs_are(tmp_path: Path) -> None:
    def measure(index: int, seed: int) -> dict[str, float]:
        trained = {"loss": 1.0 + 0.1 * index + 0.01 * seed, "converged": 1.0 - index, "diverged": 0.0}
        return {L1: 0.5, **{f"learning.fedavg.{name}": value for name, value in trained.items()}}

    sweep = write_points(tmp_path / "s", [{SEPARATION: r} for r in (0, 4)], measure)
    text = " ".join(each.text for each in comparison_of(Path(f"{sweep}@0"), Path(f"{sweep}@1")).alarms)
    assert "The loss of “fedavg” has not converged at R = 4 (B)" in plain(text)


def test_what_is_no_run_is_said(pair: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="nowhere"):
        report_comparison(pair[0], tmp_path / "nowhere", tmp_path / "out")
