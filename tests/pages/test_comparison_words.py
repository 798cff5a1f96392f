"""What a comparison says: its title, and every sentence with data in which it would be false."""

from collections.abc import Sequence

import numpy as np
import pytest

from fedsim.pages.answer import Grade
from fedsim.pages.comparison import checks_of_comparison, comparison_answer, judged, what_differs
from fedsim.run.files import ABSENT, Change
from fedsim.trials.compare import Comparison, Missed
from fedsim.trials.contrasts import Standing, differences, paired
from fedsim.trials.trials import Trials

from .sweeps import BASE
from .test_sweep import plain

L1, PACE = "participation.l1_uniform", "updates.per_day"
COHORT: Change = ("server.cohort", 5, 6)
SEED: Change = ("seed", 1, 2)

DISTANCE = "Distance of participation from uniform (TV)"


def comparison(
    figures: Sequence[tuple[str, float, float, float | None]] = (),
    changes: Sequence[Change] = (COHORT,),
    missed: tuple[tuple[Missed, ...], tuple[Missed, ...]] = ((), ()),
    notes: Sequence[str] = (),
) -> Comparison:
    """Compare figures (metric, A, B, half of the interval or None for one run); of a metric once for each setting."""
    unit = float(paired(np.array([-1.0, 0.0, 1.0]), np.zeros(3)).half)
    places = [[name for name, *_ in figures[:index]].count(name) for index, (name, *_) in enumerate(figures)]
    count = max(places, default=0) + 1
    runs: dict[tuple[int, int], dict[str, float | None]] = {(k, 0): {} for k in range(2 * count)}
    for place, (metric, first, second, half) in zip(places, figures, strict=True):
        for seed in range(1 if half is None else 3):
            runs.setdefault((place, seed), {})[metric] = first
            runs.setdefault((place + count, seed), {})[metric] = second + (half or 0.0) * (seed - 1) / unit
    trials = Trials.in_memory("t", {"scenario": BASE | {"name": "t", "seed": 1}}, runs)
    pairs = [(place, place + count) for place in range(count)]
    return Comparison(list(changes), trials, pairs, differences(trials, pairs), list(notes), missed)


def said(found: Comparison) -> list[str]:
    answer = comparison_answer(found)
    return [plain(text) for text in [each.text for each in answer.sentences] + [each.text for each in answer.checks]]


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


def test_bias_model_and_pace_come_first_with_their_intervals() -> None:
    text = said(
        comparison(
            [
                (PACE, 900.0, 700.0, 10.0),
                (L1, 0.8, 0.4, 0.02),
                ("learning.fedavg.loss", 0.5, 0.25, 0.1),
                ("learning.fedavg.excess_loss", 0.3, 0.1, 0.25),
            ]
        )
    )
    assert f"{DISTANCE}: 40.0 % in A and 20.0 % in B (-20.0 ± 1.0 points, significant)." in text
    assert (
        "Loss of “fedavg” above the one under uniform participation: 0.300 in A and 0.100 in B "
        "(-0.200 ± 0.250, not significant)."
    ) in text
    pace = "900 updates per day in A and 700 updates per day in B (-200 ± 10 updates per day, significant)."
    assert f"Pace: {pace}" in text
    assert any("with Holm's correction for 3 differences" in each for each in text)


def test_what_is_the_same_is_not_said_to_move() -> None:
    text = said(comparison([(L1, 0.8, 0.8, 0.0), ("learning.fedavg.loss", 0.5, 0.5, None)]))
    assert f"{DISTANCE}: the same in A and B." in text
    assert "Loss of “fedavg”: the same in A and B." in text


def test_of_single_runs_the_standard_errors_tell_chance_where_they_are_known() -> None:
    errors = (f"{L1}_se", 0.03, 0.04, None)
    close, far = (said(comparison([(L1, 0.8, second, None), errors, (PACE, 9.0, 8.0, None)])) for second in (0.75, 0.4))
    assert close[0] == (f"{DISTANCE}: 40.0 % in A and 37.5 % in B (-2.5 ± 5.4 points, not significant).")
    assert far[0].endswith("in B (-20.0 ± 5.4 points, significant).")
    assert "Pace: 9 updates per day in A and 8 updates per day in B (-1 updates per day, not tested)." in far
    assert "Each side is one run: a difference without ± is not tested." in far


def test_of_sweeps_the_settings_are_counted() -> None:
    text = said(comparison([(L1, 0.8, 0.4, 0.1), (L1, 0.8, 0.9, 0.05), (L1, 0.8, 0.79, 0.1)]))
    assert text[0] == (
        f"{DISTANCE}: of 3 settings in B significantly lower at 1, significantly higher at 1 and without a "
        "significant difference at 1."
    )


def test_limits_that_one_side_misses_are_said() -> None:
    hard = Missed("updates.per_day  >= 40", "error", 1, 1, 8.5)
    soft = Missed("participation.coverage >= 90%", "warn", 2, 3, 0.82)
    nothing = Missed("rounds.wait.p95 < 5s", "error", 1, 1, None)
    found = comparison(missed=((hard, nothing), (soft,)))
    limits = [each for each in checks_of_comparison(found, judged(found)) if each.name == "limits"]
    assert {each.state for each in limits} == {Grade.CAUTION}
    assert [plain(each.text) for each in limits] == [
        "A misses 2 expectations: pace of at least 40 updates per day (8.5 updates per day) and 95th percentile of "
        "waits for clients below 5 s (no value).",
        "B misses 1 expectation: clients that took part at least once of at least 90.0 % in 2 of 3 runs (worst 82.0 %, "
        "a warning).",
    ]
    assert not any("misses" in text for text in said(comparison()))


def test_a_model_that_diverged_was_trained() -> None:
    diverged = said(comparison([("learning.fedavg.diverged", 1.0, 0.0, None)]))
    assert "Training diverged: “fedavg” in 1 of 2 runs at “A”." in diverged
    assert "No model was trained." not in diverged
    assert "No model was trained." in said(comparison())


def test_notes_are_warnings() -> None:
    assert "Only the 2 seeds that both have are compared." in said(
        comparison(notes=["only the 2 seeds that both have are compared"])
    )


@pytest.mark.parametrize(
    ("figures", "title"),
    [
        (
            [(L1, 0.8, 0.4, 0.02), (PACE, 900.0, 700.0, 10.0)],
            f"{DISTANCE}: 40.0 % in A and 20.0 % in B (-20.0 ± 1.0 points, significant); pace: 900 updates "
            "per day in A and 700 updates per day in B (-200 ± 10 updates per day, significant).",
        ),
        (
            [(L1, 0.4, 0.8, 0.02), (PACE, 9.0, 9.0, 0.0)],
            f"{DISTANCE}: 20.0 % in A and 40.0 % in B (+20.0 ± 1.0 points, significant); pace: the same in A and B.",
        ),
        ([(L1, 0.8, 0.79, 0.2)], f"{DISTANCE}: 40.0 % in A and 39.5 % in B (-0.5 ± 10.0 points, not significant)."),
        ([(L1, 0.8, 0.4, None)], f"{DISTANCE}: 40.0 % in A and 20.0 % in B (-20.0 points, not tested)."),
        ([(L1, 0.8, 0.8, None)], f"{DISTANCE}: the same in A and B."),
        (
            [(L1, 0.2, 0.2, 0.0), ("participation.reported_l1_uniform", 0.8, 0.4, 0.02)],
            "Distance of reports from uniform (TV): 40.0 % in A and 20.0 % in B (-20.0 ± 1.0 points, significant).",
        ),
        ([], "Nothing to compare: the two have no figure of bias, model or pace in common."),
    ],
)
def test_the_title_is_the_answer(figures: list[tuple[str, float, float, float | None]], title: str) -> None:
    assert plain(comparison_answer(comparison(figures)).headline) == title


def test_several_looks_are_corrected_for() -> None:
    """Each interval excludes 0 alone (p = 0.04 with three seeds); not one of five is told together."""
    figures = [(f"learning.m{k}.loss", 0.5, 0.5 - 0.21, 0.2) for k in range(3)]
    looks = judged(comparison([(L1, 0.8, 0.38, 0.4), *figures, (PACE, 9.0, 6.9, 2.0)]))
    assert len(looks) == 5
    assert not any(each.differs.any() for own in looks.values() for each in own)
    assert judged(comparison([(L1, 0.8, 0.38, 0.4)]))[L1][0].states[1] is Standing.DIFFERS
    found = comparison([(L1, 0.8, 0.38, 0.4), *figures, (PACE, 9.0, 6.9, 2.0)])
    answer = comparison_answer(found)
    verdicts = {each.text.rpartition(", ")[2] for each in answer.sentences if each.text.endswith(").")}
    assert verdicts <= {"not significant).", "too few seeds to test)."}
