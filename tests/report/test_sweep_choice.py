"""What the page of a sweep says to choose, of which settings, and which limits they keep; with data that say else."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedsim.common.errors import RunError
from fedsim.findings.choice import choice_of, choice_title
from fedsim.findings.expectations import sweep_verdict
from fedsim.findings.finding import LONGEST, NEXT, Certainty
from fedsim.findings.finished_sweep import FinishedSweep, read_finished_sweep
from fedsim.findings.metric_wording import L1, PACE
from fedsim.findings.sweep import sweep_answer, what_was_simulated
from fedsim.report import write_report
from fedsim.report.sweep_tables import choice_table, group_ratio_table

from .sweeps import COHORT, COOLDOWN, SEPARATION, write_points
from .test_page import check
from .test_sweep import plain

Figures = list[tuple[float, float]]
ORDINARY: Figures = [(0.8, 900), (0.4, 700), (0.6, 800), (0.7, 600)]


def sweep_of(
    tmp_path: Path,
    figures: Figures,
    scenario: dict[str, Any] | None = None,
    noise: float = 0.001,
    seeds: tuple[int, ...] = (1, 2, 3),
    more: dict[str, float] | None = None,
) -> FinishedSweep:
    """Write a sweep over R = 0, 1, ... with these biases and paces, and another metric that is the same everywhere."""
    points = [{SEPARATION: r} for r in range(len(figures))]

    def measure(index: int, seed: int) -> dict[str, float]:
        bias, pace = figures[index]
        return {L1: bias + noise * ((seed * (index % 2 + 1)) % 3 - 1), PACE: pace} | (more or {})

    return read_finished_sweep(write_points(tmp_path / "s", points, measure, scenario=scenario, seeds=seeds))


def decide(metric: str, *conditions: str, way: str = "minimize") -> dict[str, Any]:
    objective = {"minimize": None, "maximize": None} | {way: metric}
    return {"decide": {**objective, "subject_to": list(conditions)}}


def said(sweep: FinishedSweep) -> tuple[str, str]:
    found = choice_of(sweep)
    return plain(choice_title(found)), plain(" ".join(each.text for each in sweep_answer(sweep, found)))


def test_without_an_objective_bias_is_set_against_pace(tmp_path: Path) -> None:
    title, text = said(sweep_of(tmp_path, ORDINARY))
    assert title == "R = 1 is the most even (20.0 % from uniform) and 22.2 % slower than R = 0"
    for fact in (
        "At R = 1, participation is 20.0 ± 0.1 % away from uniform (TV); the least even, R = 0, 40.0 %.",
        "The pace at R = 1 is 700 rounds per day, 22.2 % less than the fastest (900 at R = 0).",
        "Between the fastest and the most even lies R = 2 (30.0 % at 800 rounds per day).",
        "1 setting is worse than another in bias or pace, and better in neither.",
        "`decide: {minimize: participation.l1_uniform, subject_to: [rounds.per_day >= 810]}` chooses R = 0 (40.0 %).",
        "Try values of R around 1, from 0 to 2.",
        "No model was trained.",
    ):
        assert fact in text


def test_lines_of_the_first_screen_fit_whatever_settings_are_called(tmp_path: Path) -> None:
    """Two axes with long names: the lines of cost and loss leave the names out."""
    habits = [{"kind": "always"}, {"kind": "habits", "nights_per_week": 5, "hours": 7, "starts_at": "22:30"}]
    points = [{"population.*.availability": each, "server.pause": pause} for each in habits for pause in ("0s", "1m")]

    def measure(index: int, seed: int) -> dict[str, float]:
        own = {L1: 0.4 - 0.1 * index, PACE: 900.0 - 100 * index, "learning.fedvarp.final_loss": 4.991}
        return {name: value + 1e-7 * seed for name, value in own.items()}

    sweep = read_finished_sweep(write_points(tmp_path / "s", points, measure, seeds=(1, 2, 3)))
    found = choice_of(sweep)
    lines = {each.name: each.line for each in sweep_answer(sweep, found) if each.line != each.text}
    assert plain(lines["cost.pace"]) == "Pace: 600 rounds per day, 33.3 % less than the fastest."
    assert all(len(line) <= LONGEST and "…" not in line for line in lines.values()), lines


def test_models_that_diverged_were_trained(tmp_path: Path) -> None:
    diverged = {"learning.fedavg.diverged": 1.0, "learning.fedavg.diverged_round": 3.0}
    text = said(sweep_of(tmp_path, ORDINARY, more=diverged))[1]
    assert "Training diverged, so no loss can be compared" in text
    assert "No model" not in text


def test_what_no_slower_setting_betters_beyond_chance_is_the_choice(tmp_path: Path) -> None:
    title, text = said(sweep_of(tmp_path, [(0.4001, 900), (0.4, 700)], noise=0.05))
    assert title == "R = 0 is the fastest, and no setting is more even beyond chance"
    assert "The pace at R = 0 is 900 rounds per day, and none is faster." in text


def test_at_the_same_pace_the_most_even_is_the_best(tmp_path: Path) -> None:
    title, text = said(sweep_of(tmp_path, [(0.8, 960), (0.4, 960), (0.6, 960)]))
    assert title == "R = 1 has the most even participation (20.0 % from uniform), at the same pace as all others"
    assert "is better than R = 2, the next best with 30.0 %, by 10.0 ± " in text


@pytest.mark.parametrize(
    ("hours", "tail"),
    [
        ((10, 20), "; R = 1 spends twice the device-hours per round of the cheapest setting"),
        ((20, 10), "; R = 1 spends the fewest device-hours per round"),
        ((10, 10), ""),
    ],
)
def test_what_evenness_costs_in_time_of_devices_is_told(tmp_path: Path, hours: tuple[int, int], tail: str) -> None:
    def measure(index: int, _: int) -> dict[str, float]:
        return {L1: 0.8 - 0.4 * index, PACE: 960, "sessions.device_hours": hours[index], "rounds.count": 100}

    _, text = said(read_finished_sweep(write_points(tmp_path / "s", [{SEPARATION: r} for r in (0, 1)], measure)))
    assert f"Every setting runs 960 rounds per day{tail}." in text


def test_one_that_is_best_in_both_is_not_said_to_be_as_slow_as_the_others(tmp_path: Path) -> None:
    title, _ = said(sweep_of(tmp_path, [(0.8, 900), (0.4, 960)]))
    assert title == "R = 1 has the most even participation (20.0 % from uniform), and none is faster"


def test_reports_lead_where_not_every_selection_is_one(tmp_path: Path) -> None:
    def measure(index: int, seed: int) -> dict[str, float]:
        return {L1: 0.2, "participation.reported_l1_uniform": 0.8 - 0.4 * index + 0.001 * seed, PACE: 960}

    sweep = read_finished_sweep(write_points(tmp_path / "s", [{SEPARATION: r} for r in (0, 1)], measure))
    title, text = said(sweep)
    assert title.startswith("R = 1 has the most even participation (20.1 % from uniform)")
    assert "At R = 1, reports are 20.1 ± " in text
    assert "Of selections, the distance from uniform is 10.0 %." in text


def test_ties_are_called_ties_with_what_would_have_been_seen(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, [(0.4, 960), (0.4001, 960), (0.8, 960)], noise=0.01)
    title, text = said(sweep)
    ways = [(0, 1), (1, 0)]
    assert title in {f"R = {a} and R = {b} tie for the most even participation (20.0 % from uniform)" for a, b in ways}
    assert re.search(r"these seeds do not tell them apart; they would have seen \d\.\d points\.", text)
    assert "Next best is R = 2 with 40.0 %" in text
    assert re.search(r"(About [\d,]+ seeds would|Not even 1,000 seeds would) tell R = ", text)
    (tie,) = [each for each in sweep_answer(sweep, choice_of(sweep)) if each.certainty is Certainty.NOT_TOLD]
    assert tie.visible is not None
    assert tie.value is not None
    assert tie.visible > abs(tie.value)


def test_a_tie_says_that_an_interval_of_its_own_would_not_be_one(tmp_path: Path) -> None:
    """+0.024 ± 0.018 was called a tie by seeds that "do not tell them apart": five are tested together."""
    spread = (-0.0136, -0.0045, 0.0045, 0.0136)  # with four seeds, 0.02 is told from 0 at 4 %

    def measure(index: int, seed: int) -> dict[str, float]:
        return {L1: 0.4 + (index > 0) * (0.02 + spread[(seed + index) % 4]), PACE: 960}

    points = [{SEPARATION: r} for r in range(6)]
    _, text = said(read_finished_sweep(write_points(tmp_path / "s", points, measure, seeds=(0, 1, 2, 3))))
    assert "these seeds do not tell them apart once corrected for 5 differences (Holm)" in text


def test_runs_that_stalled_are_not_said_to_be_done_by_another_call(tmp_path: Path) -> None:
    points, runs = [{SEPARATION: r} for r in (0, 1)], {(1, 1), (1, 2), (1, 3)}
    _, failed = said(read_finished_sweep(write_points(tmp_path / "a", points, lambda *_: {L1: 0.5}, crashed=runs)))
    assert "why 3 runs failed" in failed
    assert "tries anew those that did not stall" in failed
    assert "that are missing" not in failed
    _, missing = said(read_finished_sweep(write_points(tmp_path / "b", points, lambda *_: {L1: 0.5}, missing=runs)))
    assert "it does the 3 runs that are missing" in missing
    assert "failed" not in missing


def test_chance_is_told_beside_distances_of_other_numbers_of_reports(tmp_path: Path) -> None:
    """Cohorts of 10 were called less even than cohorts of 50, most of which was chance."""

    def measure(index: int, _: int) -> dict[str, float]:
        return {L1: (1.0, 0.6)[index], PACE: 960, "sessions.count": (100, 2000)[index]}

    cohorts = [{"server.cohort": cohort} for cohort in (10, 50)]
    _, text = said(read_finished_sweep(write_points(tmp_path / "s", cohorts, measure)))
    assert re.search(r"the least even, .*, 50\.0 %\. Equal chances alone would give [\d.]+ % and [\d.]+ %\.", text)


def test_one_seed_is_not_a_verdict(tmp_path: Path) -> None:
    title, text = said(sweep_of(tmp_path, [(0.4, 960), (0.4001, 960)], noise=0, seeds=(5,)))
    assert title.endswith("at the same pace as all others (one seed, not tested)")
    assert "Next best is R = 1 with 20.0 % (+0.005 points)." in text
    assert "±" not in text
    assert "Sweep several seeds" in text


def test_the_scenario_s_objective_chooses_among_what_keeps_its_conditions(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, ORDINARY, decide(L1, "rounds.per_day >= 750"))
    title, text = said(sweep)
    assert title == (
        "R = 2 has the most even participation (30.0 % from uniform) of 2 settings that keep the conditions"
    )
    assert "is better than R = 0, the next best with 40.0 %, by 10.0 ± " in text
    assert "Without the conditions (`rounds.per_day >= 750`) it would be R = 1 with 20.0 %." in text
    assert "not sure" not in text
    table = choice_table(sweep, choice_of(sweep))
    assert table is not None
    assert [row[:2] for row in table.rows] == [
        ("2", "best"),
        ("0", ""),
        ("1", "misses a condition"),
        ("3", "misses a condition"),
    ]


def test_the_best_may_be_what_has_most(tmp_path: Path) -> None:
    title, text = said(sweep_of(tmp_path, ORDINARY, decide(PACE, f"{L1} < 0.65", way="maximize")))
    assert title == "R = 2 has the highest pace (800 rounds per day) of 2 settings that keep the conditions"
    assert "is better than R = 1, the next best with 700 rounds per day, by 100 ± 0 (paired" in text


def test_a_condition_that_chance_may_undo_is_told(tmp_path: Path) -> None:
    _, text = said(
        sweep_of(tmp_path, [(0.4, 900), (0.8, 900)], decide(PACE, f"{L1} < 0.41", way="maximize"), noise=0.1)
    )
    assert "Whether R = 0 keeps `participation.l1_uniform < 0.41` is not sure" in text


def test_where_nothing_keeps_the_conditions_nothing_is_chosen(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, ORDINARY, decide(L1, "rounds.per_day >= 2000"))
    title, text = said(sweep)
    assert title == "No setting keeps every condition"
    assert "No setting keeps `rounds.per_day >= 2000`: there is nothing to choose from." in text
    assert "Without the conditions (`rounds.per_day >= 2000`) it would be R = 1 with 20.0 %." in text
    assert choice_table(sweep, choice_of(sweep)) is None


def test_an_objective_without_a_value_is_said(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, ORDINARY, decide("learning.fedavg.loss"))
    assert said(sweep)[0] == "Nothing to choose by: no run has a value of learning.fedavg.loss"
    check(write_report(tmp_path / "s").read_text(encoding="utf-8"))


def test_one_setting_leaves_nothing_to_choose(tmp_path: Path) -> None:
    title, text = said(sweep_of(tmp_path, [(0.4, 960)]))
    assert title == "The distance of participation from uniform (TV) is 20.0 %"
    assert "Next best" not in text
    check(write_report(tmp_path / "s").read_text(encoding="utf-8"))


def test_an_objective_that_nobody_wrote_there_is_an_error(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, ORDINARY, {"decide": {"minimize": L1, "subject_to": ["rounds.per_day"]}})
    with pytest.raises(RunError, match=r"sweep\.json: its scenario's `decide` cannot be read"):
        choice_of(sweep)


@pytest.mark.parametrize("bias", [0.4, 0.6])
def test_of_sweeps_in_which_nothing_differs_few_are_given_a_verdict(tmp_path: Path, bias: float) -> None:
    """60 sweeps of 12 equal settings, 4 seeds: at 5 % false verdicts, more than 9 come about 2 times in 1,000."""
    draws, wrong = np.random.default_rng(round(10 * bias)).normal(0, 0.02, (60, 12, 4)), 0
    folder = write_points(tmp_path / "s", [{SEPARATION: r} for r in range(12)], lambda *_: {L1: bias, PACE: 960})
    sweep = read_finished_sweep(folder)
    for each in draws:
        rows = [(f"p{p}s{s}", p, s + 1, "complete", L1, bias + each[p, s]) for p in range(12) for s in range(3)]
        found = choice_of(replace(sweep, results=pl.DataFrame(rows, schema=sweep.results.schema, orient="row")))
        wrong += not found.ranking.tied.any()
        assert "tie" in choice_title(found)
    assert wrong == 0


def test_settings_may_have_names_and_blocks_are_numbered(tmp_path: Path) -> None:
    points = [{"name": "one server", "server": {"cohort": 5}}, {"name": "another", "server": {"cohort": 6}}]
    zipped = {"sweep": {"zip": {path: [point[path] for point in points] for path in ("name", "server")}}}
    sweep = read_finished_sweep(write_points(tmp_path / "a", points, lambda i, _: {L1: i}, scenario=zipped))
    assert sweep.names == ("“one server”", "“another”")
    blocks = [{"server": each["server"]} for each in points]
    unnamed = read_finished_sweep(write_points(tmp_path / "b", blocks, lambda i, _: {L1: i}))
    assert [plain(name) for name in unnamed.names] == ["server = no. 1", "server = no. 2"]


WEIGHT = {"kind": "lognormal", "sigma": 1.0, "median": 1.0}
BASE = {"population": [{"name": "phones", "devices": 200, "weight": WEIGHT}]}


def simulated(sweep: FinishedSweep) -> str:
    return plain(" ".join(each.text for each in what_was_simulated(sweep)))


def test_the_first_screen_names_devices_rounds_and_weights(tmp_path: Path) -> None:
    text = simulated(sweep_of(tmp_path, ORDINARY, BASE))
    assert text == (
        "4 settings with 3 seeds each, 12 runs: R (0, 1, 2 or 3). "
        "Every run simulates 200 devices over 400 rounds in cohorts of 5."
    )


def test_what_is_swept_is_not_told_of_every_run(tmp_path: Path) -> None:
    points = [{COHORT: c, "population.*.devices": n, COOLDOWN: t} for c, n, t in [(5, 100, "1d"), (10, 200, "6h")]]
    text = simulated(read_finished_sweep(write_points(tmp_path / "s", points, lambda *_: {L1: 0.5}, scenario=BASE)))
    assert text == (
        "2 settings of 8 combinations with 3 seeds each, 6 runs: cohort (5 or 10), devices (100 or 200) and "
        "cooldown (6h or 1d)."
    )


def test_groups_and_durations_are_told(tmp_path: Path) -> None:
    groups = [{"name": name, "devices": 50, "weight": 1.0} for name in ("india", "europe")]
    text = simulated(sweep_of(tmp_path, ORDINARY, {"population": groups, "stop": {"duration": "6d"}}))
    assert "Every run simulates 100 devices (50 “india” and 50 “europe”) over 6 d in cohorts of 5." in text


def test_short_runs_are_told_from_bias(tmp_path: Path) -> None:
    texts = []
    for turns in (400.0, 40000.0):
        sweep = sweep_of(tmp_path / str(turns), ORDINARY, BASE, more={"sessions.count": turns})
        texts.append(plain(" ".join(each.text for each in sweep_answer(sweep, choice_of(sweep)))))
    short, long = texts
    few = "Equal chances alone would give 27.0 % from uniform in so short a run at R = 1 (measured: 20.0 %)"
    assert f"{few}: no bias can be seen there." in short
    assert "Equal chances alone" not in long
    sweep = sweep_of(tmp_path / "brief", ORDINARY, BASE, more={"sessions.count": 1200.0})
    said = [plain(each.line) for each in sweep_answer(sweep, choice_of(sweep))]
    assert "Runs are short: of the 20.0 % at R = 1, chance alone would give 16.0 %." in said  # of the choice
    assert sum("at R = 1 (chance alone: 16.0 %)" in each for each in said) == 1
    (longer,) = (each for each in sweep_answer(sweep, choice_of(sweep)) if each.text.startswith("Run 10 times"))
    assert longer.about == NEXT


LIMITS = {
    "expect": [
        {"check": "rounds.per_day >= 650", "severity": "error", "why": "we are in a hurry", "over": "every"},
        {"check": "participation.l1_uniform < 2", "severity": "error", "why": "", "over": "every"},
        {"check": "participation.l1_uniform < 0.5", "severity": "warn", "why": "", "over": "every"},
        {"check": "participation.l1_uniform < 0.1", "severity": "error", "why": "", "over": "mean"},
    ]
}


def test_limits_are_judged_at_every_setting(tmp_path: Path) -> None:
    verdict = sweep_verdict(sweep_of(tmp_path, ORDINARY, LIMITS))
    assert verdict is not None
    assert (verdict.status, verdict.headline) == ("fail", "1 of 4 settings keeps every limit in every run.")
    assert [(each.status, each.check) for each in (*verdict.attention, *verdict.met)] == [
        ("fail", "rounds.per_day >= 650"),
        ("warn", "participation.l1_uniform < 0.5"),
        ("unjudged", "participation.l1_uniform < 0.1"),
        ("pass", "participation.l1_uniform < 2"),
    ]
    assert plain(verdict.attention[0].note) == "missed at R = 3 (3 of 3 runs, worst 600 rounds per day)"


def test_limits_that_all_keep_are_said_to_be_kept(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, ORDINARY, {"expect": [LIMITS["expect"][1]]})
    verdict = sweep_verdict(sweep)
    assert verdict is not None
    headline = "All 4 settings keep the limit in every run: distance of participation from uniform (TV) below 100 %."
    assert plain(verdict.headline) == headline


def test_a_limit_on_what_has_no_value_is_missed_and_one_without_runs_is_not_judged(tmp_path: Path) -> None:
    missing = {(1, seed) for seed in (1, 2, 3)}
    points = [{SEPARATION: r} for r in (0, 4)]
    entry = {"check": "rounds.wait.p95 < 5s", "severity": "error", "why": "", "over": "every"}
    folder = write_points(tmp_path / "s", points, lambda *_: {L1: 0.5}, missing=missing, scenario={"expect": [entry]})
    sweep = read_finished_sweep(folder)
    verdict = sweep_verdict(sweep)
    assert verdict is not None
    assert verdict.headline == "No setting keeps the limit in every run; 1 without a result."


def test_groups_are_shown_where_settings_differ_in_them(tmp_path: Path) -> None:
    points = [{SEPARATION: r} for r in (0, 4)]

    def measure(index: int, _: int) -> dict[str, float]:
        shares = {"group.india.ratio": 1.2 - 0.1 * index, "group.europe.ratio": 0.8 + 0.1 * index}
        return {L1: 0.5, "group.india.participation.ratio": 7.0 + index} | shares

    table = group_ratio_table(read_finished_sweep(write_points(tmp_path / "s", points, measure)))
    assert table is not None
    assert table.header == ("R", "europe", "india")
    assert table.rows == (("0", "0.8 ± 0", "1.2 ± 0"), ("4", "0.9 ± 0", "1.1 ± 0"))
    same = write_points(tmp_path / "t", points, lambda *_: {L1: 0.5, "group.india.ratio": 1.1})
    assert group_ratio_table(read_finished_sweep(same)) is None


def test_a_difference_and_both_its_ends_are_of_the_seeds_that_both_have(tmp_path: Path) -> None:
    """R = 0 has seed 3 alone: 80 % there, and not 60 %, which is the mean of R = 1 over three seeds."""

    def measure(index: int, seed: int) -> dict[str, float]:
        l1 = {1: 0.8, 2: 1.2, 3: 1.6}[seed] if index else 2.0 if seed == 3 else np.nan
        return {L1: l1, PACE: 900.0}

    sweep = read_finished_sweep(
        write_points(tmp_path / "s", [{SEPARATION: r} for r in range(2)], measure, seeds=(1, 2, 3))
    )
    text = said(sweep)[1]
    assert "goes from 100 % to 80.0 % (-20.0 points over 1 seed that both have)." in text
    assert "Next best is R = 0 with 100 % (+20.0 points over 1 seed that both have)." in text
