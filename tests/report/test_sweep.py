"""The report of a sweep: what its charts show, and what it says."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedsim.common.errors import RunError
from fedsim.report import write_report
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.sweep_lines import L1, L1_THEORY, axis_of, line_data
from fedsim.report.charts.sweep_maps import map_data
from fedsim.report.charts.trade_off import PACE
from fedsim.report.finished_sweep import FinishedSweep, estimates, paired, read_sweep
from fedsim.report.page import document_of
from fedsim.report.sweep_report import difference_table, headlines, point_table, sweep_answer, sweep_charts

from .sweeps import COHORT, COHORTS, SEEDS, SEPARATION, SEPARATIONS, l1, per_day, write_sweep
from .test_page import HOSTILE, check, contents


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sweep(tmp_path_factory.mktemp("sweeps") / "trade")


@pytest.fixture(scope="module")
def sweep(directory: Path) -> FinishedSweep:
    return read_sweep(directory)


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{MINUS SIGN}", "-")


def test_estimates_are_means_with_student_s_interval(sweep: FinishedSweep) -> None:
    values = [l1(0, 5, seed) for seed in SEEDS]
    found = estimates(sweep, L1)
    assert found.mean[0] == pytest.approx(np.mean(values))
    half = stats.t.ppf(0.975, 2) * np.std(values, ddof=1) / np.sqrt(3)
    assert found.half[0] == pytest.approx(half)


def test_differences_are_paired_so_what_worlds_share_cancels(sweep: FinishedSweep) -> None:
    apart = paired(sweep, L1)
    assert np.isnan(apart.mean[0])
    np.testing.assert_allclose(apart.mean[1:3], [l1(0, 10, 1) - l1(0, 5, 1), l1(4, 5, 1) - l1(0, 5, 1)])
    np.testing.assert_allclose(apart.half[1:], 0, atol=1e-12)


def test_lines_run_along_the_separation_one_for_each_cohort(sweep: FinishedSweep) -> None:
    assert axis_of(sweep) == SEPARATION
    data = line_data(sweep, L1, "L1", L1_THEORY)
    assert data is not None
    assert [plain(line.name) for line in data.lines] == [f"cohort = {cohort}" for cohort in COHORTS]
    for line, cohort in zip(data.lines, COHORTS, strict=True):
        np.testing.assert_array_equal(line.x, SEPARATIONS)
        np.testing.assert_allclose(line.mean, [l1(r, cohort, 2) for r in SEPARATIONS])
        assert line.theory is not None
        np.testing.assert_allclose(line.theory, line.mean)
    assert line_data(sweep, "rounds.shortage_share") is None


def test_the_trade_off_has_a_point_for_each_separation(sweep: FinishedSweep) -> None:
    data = line_data(sweep, L1, beside=PACE)
    assert data is not None
    assert (data.along, data.omitted) == (SEPARATION, 0)
    first = data.lines[0]
    assert [data.at(x) for x in first.x] == ["0", "4", "8"]
    assert first.beside is not None
    np.testing.assert_allclose(first.beside.mean, [per_day(r, 5) for r in SEPARATIONS])
    np.testing.assert_allclose(first.mean, [l1(r, 5, 2) for r in SEPARATIONS])


def test_maps_have_a_cell_for_each_pair(sweep: FinishedSweep) -> None:
    data = map_data(sweep, PACE)
    assert data is not None
    assert (data.across, data.up) == (SEPARATION, COHORT)
    assert (data.columns, data.rows) == (("0", "4", "8"), ("5", "10"))
    np.testing.assert_allclose(data.mean, [[per_day(r, c) for r in SEPARATIONS] for c in COHORTS])


def test_what_moves_is_shown(sweep: FinishedSweep) -> None:
    """Coverage is 1 everywhere and shortages have no value: neither deserves a chart."""
    assert headlines(sweep) == (L1, PACE)
    charts = sweep_charts(sweep, headlines(sweep))
    names = [chart.name for section in charts.values() for chart in section]
    assert names == [
        "distance",
        "trade-off",
        "trend-rounds-per_day",
        "map-participation-l1_uniform",
        "map-rounds-per_day",
    ]
    assert all(isinstance(chart, Chart) for section in charts.values() for chart in section)


def test_the_answer_tells_the_way_from_end_to_end(sweep: FinishedSweep) -> None:
    text = plain(" ".join(sentence.text for sentence in sweep_answer(sweep)))
    assert text.startswith(
        "6 points with 3 seeds each: 18 runs. From R = 0 to R = 8, the L1 distance from uniform goes"
    )
    assert "from 1.052 to 0.385 (-0.667 ± " in text
    assert "the number of rounds per simulated day goes from 850 to 530 (-320 ± 0)" in text


def test_tables_have_every_point(sweep: FinishedSweep) -> None:
    points = point_table(sweep, headlines(sweep))
    assert points.header == ("R", "cohort", L1, PACE)
    assert points.rows[0][:2] == ("0", "5")
    assert points.rows[0][2].startswith("1.052 ± 0.0025")
    differences = difference_table(sweep, headlines(sweep))
    assert differences is not None
    assert differences.rows[0][2:] == ("first", "first")
    assert plain(differences.rows[4][3]) == "-320 ± 0"


def test_the_page_of_a_sweep(directory: Path) -> None:
    page = write_report(directory)
    shown = check(page.read_text(encoding="utf-8"))
    names = [figure["id"] for figure in shown.find("figure")]
    assert names.pop(0) == "what-if-curve"  # what a script draws
    assert names[:2] == ["distance", "trade-off"]
    assert "fedsim sweep trade.fedsim.yaml" in shown.inside("pre")
    assert sorted(path.stem for path in (directory / "figures").glob("*.png")) == sorted(names)
    before = contents(directory)
    write_report(directory)
    assert contents(directory) == before


def test_crashes_and_hostile_names_are_shown_as_they_are(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "sweep", name=HOSTILE, crash=True)
    shown = check(write_report(directory).read_text(encoding="utf-8"))
    assert shown.inside("h1") == [HOSTILE]
    assert any("1 of 18 runs did not complete" in text for text in shown.inside("strong"))
    assert "p5s3" in shown.inside("td")


def test_a_sweep_of_one_parameter_has_no_map(tmp_path: Path) -> None:
    sweep = read_sweep(write_sweep(tmp_path / "sweep", cohorts=(5,)))
    assert sweep_charts(sweep, headlines(sweep))["maps"] == ()
    assert [line.name for line in line_data(sweep, L1).lines] == [""]  # type: ignore[union-attr]


def test_a_sweep_in_which_all_crashed(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "sweep", cohorts=(5,))
    for path in (directory / "runs").glob("*.parquet"):
        path.unlink()
    document = document_of(directory)
    assert any(sentence.warns for sentence in sweep_answer(read_sweep(directory)))
    assert all(isinstance(chart, Absent) for chart in document.charts["bias"])
    check(write_report(directory).read_text(encoding="utf-8"))


def test_a_sweep_file_that_no_sweep_wrote(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "sweep")
    (directory / "sweep.json").write_text("[]")
    with pytest.raises(RunError, match=r"sweep\.json"):
        write_report(directory)
