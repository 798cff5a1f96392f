"""What a comparison says beyond what all trials say: each sentence with data in which it would be false."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from fedsim.pages.answer import BIAS, MODEL, Answer, Grade
from fedsim.pages.comparison import comparison_answer, what_differs
from fedsim.run.files import ABSENT, Change
from fedsim.trials.compare import Comparison
from fedsim.trials.contrasts import differences
from fedsim.trials.trials import SIDE, Trials

from .sweeps import BASE
from .test_sweep import plain

L1, PACE = "participation.l1_uniform", "updates.per_day"
COHORT: Change = ("server.cohort", 5, 6)
SEED: Change = ("seed", 1, 2)


def comparison(
    figures: Mapping[str, Sequence[float]] | None = None,
    changes: Sequence[Change] = (COHORT,),
    *,
    expect: Sequence[Any] = (),
    notes: Sequence[str] = (),
    seeds: int = 1,
) -> Comparison:
    """Compare figures, each of A and B, the same for all seeds; `expect` are limits of A."""
    every = figures or {L1: (0.8, 0.4)}
    runs = {(k, seed): {name: own[k] for name, own in every.items()} for k in range(2) for seed in range(seeds)}
    learning = {"problem": {"kind": "quadratic"}, "optimizers": ["fedavg"], "step_size": 0.1, "reference": "uniform"}
    meta = {"scenario": BASE | {"name": "t", "seed": 1, "learning": learning}}
    made = Trials.in_memory("t", meta, runs)
    made = replace(made, parameters=(SIDE,), settings=made.settings.with_columns(side=pl.Series(["A", "B"])))
    one, other = (
        replace(made, settings=made.settings.filter(side=letter), facts=made.facts.filter(setting=k))
        for k, letter in enumerate("AB")
    )
    one = replace(one, meta={"scenario": meta["scenario"] | {"expect": list(expect)}})
    metrics = differences(made, [(0, 1)]).drop(SIDE)
    return Comparison(list(changes), made, (one, other), metrics, list(notes))


def said(answer: Answer) -> list[str]:
    said = [*(each.text for each in answer.sentences), *(each.text for each in answer.checks)]
    return [plain(each) for each in (answer.headline, *said)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("population[0].separation.value", 4, 12)], "R = 4 (A) against R = 12 (B)"),
        (
            [("population[0].separation.value", 4, 12), ("population[1].separation.value", 4, 12)],
            "R = 4 (A) against R = 12 (B)",
        ),
        (
            [("population[0].separation.value", 4, 12), ("population[1].separation.value", 0, 12)],
            "population[0].separation = 4, population[1].separation = 0 (A) against population[0].separation = 12, "
            "population[1].separation = 12 (B)",
        ),
        (
            [("population[0].cooldown.value", "6h", "1d"), COHORT, SEED, ("name", "a", "b")],
            "cooldown = 6h, cohort = 5 (A) against cooldown = 1d, cohort = 6 (B)",
        ),
        (
            [
                ("population[0].weight.kind", "constant", "lognormal"),
                ("population[0].weight.value", 1, ABSENT),
                ("population[0].weight.sigma", ABSENT, 1),
            ],
            "weight = constant (A) against weight = lognormal (B)",
        ),
        (
            [("learning", None, ABSENT), ("learning.step_size", ABSENT, 0.1)],
            "learning = none (A) against learning = some (B)",
        ),
        (
            [(f"server.key{index}", index, index + 1) for index in range(5)],
            "key0 = 0, key1 = 1, key2 = 2 (A) against key0 = 1, key1 = 2, key2 = 3 (B), and 2 more differences",
        ),
        ([SEED], "The same scenario with seed 1 (A) against seed 2 (B)"),
        ([("name", "a", "b"), ("population[0].name", "a", "b"), ("population[0].description", "a", "b")], ""),
        ([], ""),
    ],
)
def test_the_title_names_what_differs(changes: list[Change], words: str) -> None:
    assert plain(what_differs(comparison(changes=changes))) == words


def test_a_and_b_are_spoken_of_as_settings_of_a_sweep_are() -> None:
    text = said(comparison_answer(comparison({L1: (0.8, 0.4), PACE: (900.0, 700.0)}, seeds=3)))
    assert text[0] == (
        "Cohort = 6 (B) is more even and cohort = 5 (A) faster: 20.0 points nearer to uniform for 22.2 % less pace."
    )
    assert "Distance of participation from uniform (TV): 40.0 % at cohort = 5 (A) and 20.0 % at cohort = 6 (B)." in text
    assert not [each for each in text[1:] if text[0] in each]


def test_one_distance_is_compared_without_noise_where_both_runs_have_it() -> None:
    """They were compared with noise too, 29.9 against 23.0 %, and nothing said which to use."""
    text = said(comparison_answer(comparison({L1: (0.598, 0.46), f"{L1}_corrected": (0.556, 0.372)}, seeds=3)))
    sides = "27.8 % at cohort = 5 (A) and 18.6 % at cohort = 6 (B)"
    assert text[0].startswith("Cohort = 6 (B) has the most even participation (18.6 % from uniform, noise removed)")
    distances = [each for each in text if " (A) and " in each and "(TV)" in each]
    assert distances == [f"Distance of participation from uniform without noise (TV): {sides}."]
    one = said(comparison_answer(comparison({L1: (0.598, 0.46), f"{L1}_corrected": (0.556, math.nan)}, seeds=3)))
    assert one[0].startswith("Cohort = 6 (B) has the most even participation (23.0 % from uniform)")


@pytest.mark.parametrize(("seeds", "converged"), [(1, 0.0), (1, 1.0), (3, 1.0)])
def test_losses_of_both_sides_are_said_once_they_have_converged(seeds: int, converged: float) -> None:
    """Before, an excess below 0 was said, which says nothing of bias then."""
    figures = {L1: (0.6, 0.5), "learning.fedavg.loss": (0.34, 0.43), "learning.fedavg.converged": (1.0, converged)}
    answer = comparison_answer(comparison(figures, seeds=seeds))
    (line,) = [plain(each.text) for each in answer.sentences if each.about == MODEL]
    losses = "Loss of “fedavg”: 0.340 at cohort = 5 (A) and 0.430 at cohort = 6 (B)."
    open_ = "What participation does to the loss of “fedavg” cannot be said yet: it has not converged."
    assert line == f"{losses}{' One run each is no test.' * (seeds == 1)}" if converged else open_
    first = next(each.name for each in answer.checks if each.remedy or each.name == "converged")
    assert first == (
        "seeds" if seeds == 1 else "converged"
    )  # participation is compared, and seeds cure a doubt of that


def test_sides_that_tie_are_drawn_with_their_own_errors_and_none_is_the_best() -> None:
    for second, tie in ((0.75, True), (0.4, False)):
        answer = comparison_answer(comparison({L1: (0.8, second), f"{L1}_se": (0.03, 0.04)}))
        picture = answer.first_picture
        assert picture is not None
        assert picture.name == "distance"
        assert picture.table is not None
        assert "Interval" in picture.table.header
        (table,) = [each for part in answer.sections for each in part.tables if each and "From uniform" in str(each)]
        assert ("Standing" not in table.header) == tie == ("From the other" in table.header)


@pytest.mark.parametrize("gone", [(1.0, 1.0), (0.0, 1.0), (0.0, 0.0)])
def test_the_line_on_the_model_is_never_that_of_unbiased_training(gone: tuple[float, float]) -> None:
    """Where both models had diverged, it said that the loss of “fedavg_uniform” is the same in both."""
    figures: dict[str, tuple[float, ...]] = {
        L1: (0.8, 0.4),
        "learning.fedavg_uniform.loss": (9.773, 9.773),
        "learning.fedavg.diverged": gone,
    }
    figures["learning.fedavg.diverged_round"] = tuple(7.0 if each else math.nan for each in gone)
    figures["learning.fedavg.loss"] = tuple(math.nan if each else 9.9 for each in gone)
    text = " ".join(said(comparison_answer(comparison(figures))))
    assert "fedavg_uniform" not in text
    assert ("training diverged, so no loss can be compared." in text) == (gone == (1.0, 1.0))
    assert ("Loss of “fedavg”: 9.9" in text) == (gone != (1.0, 1.0))


def test_that_single_runs_are_not_tested_is_said_once_for_all() -> None:
    answer = comparison_answer(comparison({L1: (0.8, 0.4)}))
    assert "With one seed no difference is tested." in said(answer)
    assert said(answer)[0].endswith("20.0 % at cohort = 6 (B); one run each is no test.")
    rows = [row for section in answer.sections for table in section.tables if table is not None for row in table.rows]
    assert not any("not tested" in cell for row in rows for cell in row)


def test_single_runs_that_state_their_errors_are_tested() -> None:
    errors = {f"{L1}_se": (0.03, 0.04)}
    close, far = (said(comparison_answer(comparison({L1: (0.8, second), **errors}))) for second in (0.75, 0.4))
    both = "40.0 % at cohort = 5 (A) and 37.5 % at cohort = 6 (B)"
    assert close[0].startswith(
        f"No significant difference in how even participation is (TV from uniform): {both}, no more than about "
        "7.9 points apart."  # 2.5, and 2.18 (12 degrees of freedom) standard errors of 2.5
    )
    assert (
        far[0]
        == "Cohort = 6 (B) has the most even participation (20.0 % from uniform); the other is significantly worse."
    )
    assert "With one seed each, differences are judged by the intervals that the runs state." in close


@pytest.mark.parametrize(
    ("theory", "first", "advice"),
    [
        (0.77, "cohort = 5 (A) is 1.5 points further from uniform than cohort = 6 (B), 40.0 % for 38.5 %", "24 seeds"),
        (0.87, "cohort = 6 (B) is 3.5 points further from uniform than cohort = 5 (A), 43.5 % for 40.0 %", "7 seeds"),
        (0.79, "cohort = 5 (A) is 0.5 points further from uniform than cohort = 6 (B), 40.0 % for 39.5 %", "100 seeds"),
        (0.8, "both are 40.0 % from uniform", "Not worth separating: theory gives no difference."),
        (math.nan, "", "Run about 10 seeds: four times"),
    ],
)
def test_theory_comes_first_where_runs_leave_a_difference_open(theory: float, first: str, advice: str) -> None:
    """Five seeds were proposed, whatever the difference and its interval; and losses that fall came last."""
    figures = {L1: (0.8, 0.75), f"{L1}_se": (0.03, 0.04), "participation.l1_uniform_theory": (0.8, theory)}
    answer = comparison_answer(comparison(figures))
    (check,) = [each for each in answer.checks if each.name == "seeds"]
    assert advice in f"{check.text} {check.remedy}"
    seen = "(TV); measured, they are 2.5 ± 5.4 points apart, not significantly."
    assert plain(answer.headline).startswith(f"By theory {first} {seen}" if first else "No significant difference in ")
    texts = [plain(each.text) for each in answer.sentences if each.about == BIAS]
    assert [each.partition(":")[0] for each in texts] == ["Distance of participation from uniform (TV)"]
    falling = {"learning.a.loss": (0.5, 0.4), "learning.a.converged": (0.0, 0.0), "learning.a.late_descent": (0.5, 0.5)}
    names = [each.name for each in comparison_answer(comparison({**figures, **falling})).alarms]
    assert names == (
        ["converged"] if theory in {0.79, 0.8} else ["converged", "seeds"] if first else ["seeds", "converged"]
    )


def test_limits_are_those_of_each_side_s_own_scenario() -> None:
    hard, soft = f"{PACE} >= 40", {"check": "participation.coverage >= 90%", "severity": "warn"}
    figures = {PACE: (8.5, 8.5), "participation.coverage": (0.82, 0.82)}
    answer = comparison_answer(comparison(figures, expect=[hard, soft]))
    (limits,) = (each for each in answer.checks if each.name == "expectations")
    assert limits.state is Grade.CAUTION
    assert plain(limits.text) == (
        "Of 2 expectations, 1 missed and 1 missed with a warning. Pace of at least 40 updates per day: missed at A "
        "(1 of 1 run, worst 8.5 updates per day). Clients that took part at least once of at least 90.0 %: missed "
        "at A (1 of 1 run, worst 82.0 %)."
    )
    assert "expectations" not in {each.name for each in comparison_answer(comparison(figures)).checks}


def test_notes_are_warnings_and_runs_that_took_no_report_are_the_headline() -> None:
    note = "only the 2 seeds that both have are compared"
    found = comparison(notes=[note])
    alarms = {each.name: each.state for each in comparison_answer(found).alarms}
    assert alarms["paired"] is Grade.CAUTION
    nothing = comparison_answer(replace(found, nothing=("a: no report was taken in 3 rounds",)))
    assert nothing.headline == "A: no report was taken in 3 rounds."
    assert "paired" not in {each.name for each in comparison_answer(comparison()).alarms}
