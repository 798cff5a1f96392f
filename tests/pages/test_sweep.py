"""The report of a sweep: what its charts show, and what it says."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedsim.cli.sweep import with_settings
from fedsim.common.errors import RunError
from fedsim.common.formatting import NO_VALUE
from fedsim.pages import write_report
from fedsim.pages.answer import Answer
from fedsim.pages.charts import Chart
from fedsim.pages.charts.sweeps import line_chart, lines_of, trade_off_chart
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.page import answer_of
from fedsim.pages.trial_tables import headlines, settings_table
from fedsim.pages.trials import trials_answer
from fedsim.trials.contrasts import interval
from fedsim.trials.decision import L1, UPDATES, judge_settings, trade_off
from fedsim.trials.trials import Trials

from .sweeps import COHORTS, COOLDOWN, SEPARATION, SEPARATIONS, l1, per_day, write_points, write_sweep
from .test_page import HOSTILE, check, contents


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sweep(tmp_path_factory.mktemp("sweeps") / "trade")


@pytest.fixture(scope="module")
def sweep(directory: Path) -> Trials:
    return Trials.read(directory)


def plain(text: str) -> str:
    flat = text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")
    return flat.replace("\N{MINUS SIGN}", "-")


def words(answer: Answer) -> str:
    """Return all that an answer says below its headline."""
    checks = (text for each in answer.checks for text in (each.text, each.remedy))
    return plain(" ".join([*(each.text for each in answer.sentences), *checks]))


def said(sweep: Trials) -> str:
    return words(trials_answer(sweep))


def test_differences_are_paired_so_what_worlds_share_cancels(sweep: Trials) -> None:
    apart = 50 * (l1(8, 10, 1) - l1(8, 5, 1))
    assert plain(settings_table(sweep).rows[1][3]) == f"+{apart:.1f} ± 0 points"
    halves = ((297.19, 1.34, "297 ± 1"), (452.1, 0.2, "452 ± 1"), (70.81, 3.5, "70.8 ± 3.5"), (0.02, 0.3, "0.02 ± 0.3"))
    assert [wording_of(UPDATES).cell(*each) for *each, _ in halves] == [cell for *_, cell in halves]


def test_lines_run_along_the_separation_one_for_each_cohort(sweep: Trials) -> None:
    lines = list(lines_of(sweep, L1))
    assert sweep.axis is not None
    assert sweep.axis.parameters == (SEPARATION,)
    assert [plain(line.name) for line in lines] == [f"cohort = {cohort}" for cohort in COHORTS]
    for line, cohort in zip(lines, COHORTS, strict=True):
        np.testing.assert_array_equal(line.x, SEPARATIONS)
        np.testing.assert_allclose(line.mean, [l1(r, cohort, 2) for r in SEPARATIONS])
    assert list(lines_of(sweep, "rounds.shortage_share")) == []
    assert line_chart(sweep, "rounds.shortage_share", "none", "None") is None


def test_the_trade_off_has_a_mark_for_each_setting(sweep: Trials) -> None:
    ends, pairs = trade_off(sweep), [(r, c) for r in SEPARATIONS for c in COHORTS]
    chart = trade_off_chart(sweep)
    assert isinstance(chart, Chart)
    assert chart.table is not None
    assert ends is not None
    pace, bias = (np.array([float(row[column]) for row in chart.table.rows]) for column in (2, 4))
    np.testing.assert_allclose(pace, [per_day(*pair) for pair in pairs], rtol=1e-3)
    np.testing.assert_allclose(bias, [50 * l1(*pair, 2) for pair in pairs], rtol=1e-3)
    assert [plain(sweep.names[row]) for row in ends] == [f"R = {r}, cohort = 5" for r in SEPARATIONS]
    assert chart.finding.startswith("No other setting is both faster and more even than R")
    assert plain(sweep.names[judge_settings(sweep).choice or 0]) == "R = 8, cohort = 5"


def test_the_question_of_a_sweep_is_shown(tmp_path: Path) -> None:
    asked = {"question": "Which one?"}
    write_points(tmp_path / "asked", [{"a": 1}, {"a": 2}], lambda point, _: {"x": point}, scenario=asked)
    assert trials_answer(Trials.read(tmp_path / "asked")).question == "Which one?"


def names_of_charts(sweep: Trials) -> list[str]:
    return [chart.name for chart in trials_answer(sweep).charts]


def test_what_moves_is_shown_once(sweep: Trials) -> None:
    """Coverage is 1 everywhere and shortages have no value: neither deserves a chart."""
    assert headlines(sweep) == (L1, UPDATES)
    assert names_of_charts(sweep) == ["distance", "trade-off"]


def test_where_the_pace_is_the_same_bias_is_drawn_along_the_sweep(tmp_path: Path) -> None:
    points = [{SEPARATION: r} for r in (0, 4)]
    same = Trials.read(write_points(tmp_path / "s", points, lambda index, _: {L1: 0.5 - index / 10, UPDATES: 960.0}))
    assert names_of_charts(same) == ["distance"]
    chart = trials_answer(same).charts[0]
    what = "distance of participation from uniform (TV, %)"
    assert chart.description == f"By separation R (rounds), {what}: “measured” from 25 to 20."


def test_settings_without_an_order_are_not_joined(tmp_path: Path) -> None:
    def chart(path: str, values: Sequence[object]) -> Chart:
        points = [{path: value} for value in values]
        made = write_points(
            tmp_path / path, points, lambda index, seed: {L1: 0.5 - index / 10 + seed / 99, UPDATES: 9.0}
        )
        (found,) = trials_answer(Trials.read(made)).charts[:1]
        return found

    for path, values, joined in (
        ("server.selection", ["uniform", "oort", "refl"], False),
        ("server.pause", ["10s", "1m", "2m"], True),
        ("learning.optimizers", [["fedavg"], [{"kind": "fedprox", "mu": 0.1}]], False),
    ):
        axes = Figure().subplots()
        chart(path, values).draw(axes)
        assert (axes.get_lines()[0].get_linestyle() != "None") == joined


def test_numbers_of_settings_are_in_the_json(sweep: Trials) -> None:
    said = with_settings(trials_answer(sweep), sweep)
    assert [each["setting"] for each in said["means"]] == list(sweep.names)
    found = interval(sweep.samples(UPDATES))
    np.testing.assert_array_equal([each[UPDATES]["mean"] for each in said["means"]], found.mean)
    np.testing.assert_array_equal([each[UPDATES]["half"] for each in said["means"]], found.half)


def test_a_decision_is_reported_by_its_own_folder(tmp_path: Path) -> None:
    write_sweep(tmp_path / "decisions" / "final")
    assert answer_of(tmp_path / "decisions").headline == answer_of(tmp_path / "decisions" / "final").headline


def test_what_differs_by_chance_alone_has_no_chart(tmp_path: Path) -> None:
    points = [{SEPARATION: r} for r in (0, 4)]
    noise = {(0, 1): 0.1, (0, 2): 0.2, (0, 3): 0.3, (1, 1): 0.3, (1, 2): 0.1, (1, 3): 0.25}

    def measure(index: int, seed: int) -> dict[str, float]:
        return {L1: 0.5 - 0.1 * index, "participation.gini": noise[index, seed]}

    assert headlines(Trials.read(write_points(tmp_path / "s", points, measure))) == (L1,)


def test_where_nothing_moves_nothing_but_bias_is_drawn(tmp_path: Path) -> None:
    points = [{SEPARATION: r} for r in (0, 4)]
    flat = Trials.read(
        write_points(tmp_path / "s", points, lambda *_: {L1: 0.5, UPDATES: 960.0, "participation.gini": 0.3})
    )
    assert headlines(flat) == (L1, UPDATES)
    assert names_of_charts(flat) == ["distance"]
    one = Trials.read(write_points(tmp_path / "one", points[:1], lambda *_: {L1: 0.5, UPDATES: 960.0}))
    assert names_of_charts(one) == []


def test_the_bytes_of_a_large_fleet_are_no_divergence(tmp_path: Path) -> None:
    """Over 10^12 of anything had no value, which was meant for models that diverged: 2.6 TB were shown as none."""
    metrics = {"fleet.bytes_down": 2.6e12, "learning.fedavg.loss": 2.6e12}
    found = Trials.read(write_points(tmp_path / "s", [{SEPARATION: 0}], lambda *_: {L1: 0.5, **metrics}))
    assert (found.samples("fleet.bytes_down") == 2.6e12).all()
    assert np.isnan(found.samples("learning.fedavg.loss")).all()


def zipped(tmp_path: Path, separations: Sequence[int], cooldowns: Sequence[str]) -> Trials:
    points = [{SEPARATION: r, COOLDOWN: c} for r, c in zip(separations, cooldowns, strict=True)]
    key = {"zip": {SEPARATION: list(separations), COOLDOWN: list(cooldowns)}}
    return Trials.read(
        write_points(tmp_path / "s", points, lambda index, _: {L1: 1 - 0.1 * index}, scenario={"sweep": key})
    )


def test_in_a_zip_every_setting_that_is_named_was_run(tmp_path: Path) -> None:
    sweep = zipped(tmp_path, [0, 0, 0, 2000], ["3d", "6h", "1d", "0s"])
    assert sweep.axis is not None
    assert [plain(tick) for tick in sweep.axis.ticks] == [
        "R = 2,000, cooldown = 0s",
        "R = 0, cooldown = 6h",
        "R = 0, cooldown = 1d",
        "R = 0, cooldown = 3d",
    ]
    assert len(list(lines_of(sweep, L1))) == 1
    assert "35.0 % of the participations at R = 2,000, cooldown = 0s would have to come from" in said(sweep)


def test_of_a_zip_the_axis_is_what_varies_and_durations_go_by_their_length(tmp_path: Path) -> None:
    sweep = zipped(tmp_path, [0, 0, 0], ["3d", "6h", "1d"])
    assert sweep.axis is not None
    assert (sweep.axis.name, sweep.axis.ticks) == ("cooldown", ("6h", "1d", "3d"))
    [line] = lines_of(sweep, L1)
    np.testing.assert_allclose(line.mean, [0.9, 0.8, 1.0])


def test_words_stay_in_the_order_in_which_they_are_swept(tmp_path: Path) -> None:
    points = [{"server.selection": kind} for kind in ("uniform", "midzuno", "cyclic")]
    sweep = Trials.read(write_points(tmp_path / "s", points, lambda index, _: {L1: index + 1.0}))
    assert sweep.axis is not None
    assert sweep.axis.ticks == ("uniform", "midzuno", "cyclic")


def test_parameters_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    paths = ("population[0].separation", "population[1].separation")
    points = [dict(zip(paths, pair, strict=True)) for pair in [(0, 0), (0, 4), (4, 0)]]
    names = Trials.read(write_points(tmp_path / "s", points, lambda *_: {L1: 1.0})).setting_names()
    assert plain(names[1]) == "population[0].separation = 0, population[1].separation = 4"


def test_what_an_interrupted_sweep_lacks_is_counted_against_its_plan(tmp_path: Path) -> None:
    points = [{SEPARATION: r} for r in (0, 4, 8)]
    folder = write_points(
        tmp_path / "s", points, lambda index, _: {L1: 1.0 - index}, missing={(1, 3), (2, 1), (2, 2), (2, 3)}
    )
    text = said(Trials.read(folder))
    assert "4 of 9 runs were not run: R = 4 with seed 3 and R = 8 with seeds 1, 2 and 3. Means are over" in text
    assert "it does the 4 missing runs" in text
    assert "completed" not in text
    shown = check(write_report(folder).read_text(encoding="utf-8"))
    assert any("4 of 9 runs were not run" in text for _, text in shown.texts)


def test_seeds_that_differ_are_not_called_the_same(tmp_path: Path) -> None:
    points = [{SEPARATION: r} for r in (0, 4)]
    folder = write_points(tmp_path / "s", points, lambda *_: {L1: 1.0}, crashed={(0, 1), (1, 2)})
    text = said(Trials.read(folder))
    assert "2 of 6 runs failed: R = 0 with seed 1 and R = 4 with seed 2." in text
    assert "differences over those that both have" in text


def test_one_seed_that_is_left_gives_no_interval(tmp_path: Path) -> None:
    points = [{SEPARATION: r} for r in (0, 4)]
    missing = {(index, seed) for index in (0, 1) for seed in (2, 3)}
    sweep = Trials.read(write_points(tmp_path / "s", points, lambda index, _: {L1: 1.0 - index / 2}, missing=missing))
    assert "With one seed no difference is tested." in said(sweep)
    assert "+25.0 points" in settings_table(sweep).rows[1]


def test_tables_have_every_point(sweep: Trials) -> None:
    table = settings_table(sweep)
    assert table.header == ("R", "cohort", "Standing", "From the best", "From uniform (TV, %)", "Updates per day")
    assert len(table.rows) == 6
    assert [plain(cell) for cell in table.rows[0]] == [*("8", "5", "most even", NO_VALUE, "19.3 ± 0.1", "530")]


def test_the_page_of_a_sweep(directory: Path) -> None:
    page = write_report(directory)
    shown = check(page.read_text(encoding="utf-8"))
    names = [figure["id"] for figure in shown.find("figure")]
    assert names == ["distance", "trade-off"]
    assert any("18 runs completed." in text for _, text in shown.texts)
    (head,) = shown.inside("h1")
    assert plain(head) == (
        "R = 8, cohort = 5 is the most even and R = 0, cohort = 5 the fastest: 33.3 points nearer to uniform for 37.6 "
        "% less pace (the best may lie beyond)."
    )
    assert "fedsim sweep trade.fedsim.yaml" in shown.inside("pre")
    before = contents(directory)
    write_report(directory)
    assert contents(directory) == before


def test_crashes_and_hostile_names_are_shown_as_they_are(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "sweep", name=HOSTILE, crash=True)
    shown = check(write_report(directory).read_text(encoding="utf-8"))
    assert any(HOSTILE in text for text in shown.inside("p"))
    assert any("1 of 18 runs failed" in text for _, text in shown.texts)


def test_a_sweep_of_one_parameter_compares_no_parameters(tmp_path: Path) -> None:
    sweep = Trials.read(write_sweep(tmp_path / "sweep", cohorts=(5,)))
    assert names_of_charts(sweep) == ["distance", "trade-off"]
    assert [line.name for line in lines_of(sweep, L1)] == [""]


def test_a_sweep_in_which_all_crashed(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "sweep", cohorts=(5,))
    for path in (directory / "runs").glob("*.parquet"):
        path.unlink()
    document = answer_of(directory)
    assert document.alarms
    assert document.headline.startswith("9 of 9 runs were not run")
    assert document.charts == []
    check(write_report(directory).read_text(encoding="utf-8"))


def test_a_scenario_of_a_sweep_that_this_version_does_not_know(tmp_path: Path) -> None:
    folder = write_points(tmp_path / "s", [{SEPARATION: 0}], lambda *_: {L1: 0.5}, scenario={"later": 1})
    with pytest.raises(RunError, match=r"sweep\.json: its scenario cannot be read: .*later: unknown key"):
        Trials.read(folder)
