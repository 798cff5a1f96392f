"""Each check of trials, with its fault planted and without; and what follows from the list."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedsim.common.arrays import Floats
from fedsim.common.formatting import NO_VALUE
from fedsim.pages.answer import MODEL, Grade
from fedsim.pages.commands import command_of
from fedsim.pages.trial_checks import checks_of_trials, unsettled
from fedsim.pages.trial_tables import gained_nothing, marked, optimizer_table, settings_table
from fedsim.pages.trials import trials_answer
from fedsim.run.check import exit_code
from fedsim.trials.contrasts import Standing, seeds_needed
from fedsim.trials.decision import aim_of, judge_settings, worth
from fedsim.trials.optimizers import by_optimizer
from fedsim.trials.trials import CRASHED, NOT_RUN, Trials

from .made_trials import L1, LOSS, PACE, made_trials, noise, sound
from .sweeps import SEPARATION
from .test_sweep import plain

LOWER = "Try a lower step than 0.1 (`learning.step_size`): too large a step is a likely cause."
OVER = {"cohort": 10, "over_select": 1.3}
PRIVACY = {"delta": 1e-5, "noise_multiplier": 1.0, "clip": 1.0, "stands_for": 100}


def measured(**changed: object) -> Trials:
    """Return sound trials with other values of some facts: one value, or one for each setting."""

    def measure(row: int, seed: int) -> dict[str, float]:
        own = {name.replace("__", "."): value for name, value in changed.items()}
        return sound(row, seed) | {name: float(np.broadcast_to(value, 3)[row]) for name, value in own.items()}  # type: ignore[call-overload]

    return made_trials(measure)


def noisy(row: int, seed: int) -> dict[str, float]:
    return sound(row, seed) | {L1: 0.5 + 0.01 * row + 0.05 * noise(row, seed)}


def by_surplus(times: float) -> Callable[[int, int], dict[str, float]]:
    rates = {"rounds.per_day": 200.0, "reports.wanted": 10.0, "reports.per_day": 2000.0 * times}
    return lambda row, seed: sound(row, seed) | rates


def decide(metric: str, *conditions: str) -> dict[str, Any]:
    return {"decide": {"minimize": metric, "maximize": None, "subject_to": list(conditions)}}


def limit(check: str) -> dict[str, Any]:
    return {"expect": [{"check": check, "severity": "error", "why": "", "over": "every"}]}


FAULTS: dict[str, tuple[str, Grade, Trials, Trials]] = {
    "a run failed": ("failed", Grade.CAUTION, made_trials(), made_trials(failed={(1, 2): CRASHED})),
    "all runs failed": (
        *("failed", Grade.BAD, made_trials()),
        made_trials(failed={(row, seed): CRASHED for row in range(3) for seed in range(6)}),
    ),
    "a run is missing": ("missing", Grade.CAUTION, made_trials(), made_trials(failed={(1, 2): NOT_RUN})),
    "no value": ("comparable", Grade.BAD, made_trials(), made_trials(**decide("learning.fedavg.bias"))),
    "no setting keeps": (
        *("conditions", Grade.BAD, made_trials(**decide(L1, "updates.per_day >= 900"))),
        made_trials(**decide(L1, "updates.per_day >= 9000")),
    ),
    "not sure": (
        *("conditions", Grade.CAUTION, made_trials(**decide(L1, f"{L1} < 0.5"))),
        made_trials(**decide(L1, f"{L1} < 0.4001")),
    ),
    "a limit": ("expectations", Grade.CAUTION, made_trials(**limit(f"{L1} < 1")), made_trials(**limit(f"{L1} < 0.5"))),
    "diverged": ("diverged", Grade.CAUTION, made_trials(), measured(learning__fedavg__diverged=[0, 0, 1])),
    "all diverged": ("diverged", Grade.BAD, made_trials(), measured(learning__fedavg__diverged=1.0)),
    "not converged": ("converged", Grade.CAUTION, made_trials(), measured(learning__fedavg__converged=[1, 1, 0])),
    "the choice has not converged": (
        *("converged", Grade.CAUTION, made_trials(**decide(LOSS))),
        made_trials(lambda *each: sound(*each) | {"learning.fedavg.converged": 0.0}, **decide(LOSS)),
    ),
    "one seed": ("seeds", Grade.CAUTION, made_trials(), made_trials(seeds=1)),
    "few seeds": ("seeds", Grade.CAUTION, made_trials(), made_trials(noisy, seeds=2)),
    "ties": ("seeds", Grade.CAUTION, made_trials(), made_trials(noisy)),
    "chance": ("chance", Grade.CAUTION, made_trials(), measured(sessions__count=1000.0)),
    "the end of the grid": ("edge", Grade.CAUTION, made_trials(), measured(participation__l1_uniform=[0.8, 0.6, 0.4])),
    "more than wanted": (
        *("surplus", Grade.CAUTION, made_trials(by_surplus(1), server=OVER)),
        made_trials(by_surplus(1.3), server=OVER),
    ),
    "theory": ("theory", Grade.CAUTION, made_trials(), measured(participation__l1_chain=[0.01, 0.2, 0.01])),
    "a smaller copy": ("size", Grade.CAUTION, made_trials(), made_trials(privacy=PRIVACY)),
    "pace has no price": (*("price", Grade.CAUTION, made_trials()), measured(updates__per_day=[960.0, 900.0, 930.0])),
}


def test_limits_are_of_the_setting_of_the_file_where_a_sweep_has_it() -> None:
    """A limit that is written for one R was missed at all others."""
    grid = {"grid": {SEPARATION: [0, 4, 8]}, "seeds": 6}
    for check, state, note in (
        (f"{L1} > 0.7", Grade.OK, "Judged at R = 0 alone, the setting of the file."),
        (f"{L1} < 0.7", Grade.CAUTION, "missed at R = 0 (6 of 6 runs, worst 4"),
    ):
        made = made_trials(sweep=grid, **limit(check))
        trials = replace(made, meta={**made.meta, "points": [{"values": {SEPARATION: r}} for r in (0, 4, 8)]})
        (found,) = [each for each in checks_of_trials(trials) if each.name == "expectations"]
        assert found.state is state
        assert note in plain(found.text)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_check_says_so_where_its_fault_is_planted(fault: str) -> None:
    name, state, without, spoilt = FAULTS[fault]
    assert all(each.state in {Grade.OK, Grade.NONE} for each in checks_of_trials(without) if each.name == name)
    answer = trials_answer(spoilt)
    (found,) = [each for each in answer.checks if each.name == name]
    assert found.state is state
    assert found in answer.alarms
    assert (
        (answer.headline == next(each.text for each in answer.checks if each.state is Grade.BAD))
        if any(each.state is Grade.BAD for each in answer.checks)
        else (answer.headline not in {each.text for each in answer.checks})
    )
    if found.remedy:
        assert found.remedy in {each.text for each in answer.remedies}
    for of, flag in (("the end of", "the best may lie beyond"), ("chance", "chance"), ("the choice", "not converged")):
        assert answer.headline.endswith(f"{flag}).") == fault.startswith(of)


def test_exit_codes_follow_from_the_list() -> None:
    codes = {fault: exit_code(checks_of_trials(spoilt)) for fault, (*_, spoilt) in FAULTS.items()}
    assert {fault for fault, code in codes.items() if code == 3} == {"a run failed", "all runs failed"}
    assert {fault for fault, code in codes.items() if code == 1} == {"no value", "no setting keeps"}
    assert exit_code(checks_of_trials(made_trials())) == 0


def test_a_sound_sweep_has_no_alarm() -> None:
    assert trials_answer(made_trials()).alarms == []


@pytest.mark.parametrize(("falls", "axes"), [(2, ["R", "cohort", "pause"]), (0, ["R", "cohort"])])
def test_the_edge_of_a_decision_is_named_for_each_axis(falls: float, axes: list[str]) -> None:
    """Also for one of two values, but not where the next value inwards is as good."""
    grid = list(product((0, 4, 8), (5, 10, 20), ("10m", "20m")))

    def measure(row: int, seed: int) -> dict[str, float]:
        late = falls * (grid[row][2] == "10m")
        return sound(row, seed) | {LOSS: 50.0 - 5 * (row // 2) + late + 0.01 * noise(row, seed)}

    made = made_trials(measure, values=range(len(grid)), **decide(LOSS))
    parameters = (SEPARATION, "server.cohort", "server.pause")
    columns = [pl.Series(name, values) for name, values in zip(parameters, zip(*grid, strict=True), strict=True)]
    made = replace(made, parameters=parameters, settings=made.settings.select("setting").with_columns(columns))
    edges = [each for each in checks_of_trials(made) if each.name == "edge"]
    assert [each.text.partition("\N{NO-BREAK SPACE}")[0] for each in edges] == axes
    assert all("is the largest value that was tried" in each.text for each in edges)


def test_the_number_of_seeds_is_that_of_the_contrast() -> None:
    trials = made_trials(noisy)
    found = judge_settings(trials).contrast
    row = found.rows(Standing.TIED)[0]  # the rival: the next best
    matters = 0.05 * worth(found)
    assert abs(float(found.difference[row])) + float(found.half[row]) > matters
    needed = seeds_needed(max(matters, abs(float(found.difference[row]))), float(found.half[row]), 6, found.tests)
    (check,) = [each for each in checks_of_trials(trials) if each.name == "seeds"]
    assert f"--set sweep.seeds={needed}" in check.command
    assert check.remedy.startswith(f"Run about {needed} seeds to see whether {trials.names[row]} is worse by ")


@pytest.mark.parametrize(("worse", "state"), [(1, Grade.CAUTION), (2, Grade.NONE)])
def test_one_tie_is_a_finding_where_the_seeds_tell_most_others_apart(worse: int, state: Grade) -> None:
    """One of 66 differences was open, and the page of ten seeds said "too few seeds"."""
    far = lambda row, seed: sound(row, seed) | {L1: 0.5 + 0.4 * (row > 1) + 0.05 * noise(row, seed)}  # noqa: E731
    (check,) = [each for each in checks_of_trials(made_trials(far, values=range(2 + worse))) if each.name == "seeds"]
    assert check.state is state
    assert check.remedy.startswith("Run about ")


def test_training_that_stopped_at_its_target_need_not_settle() -> None:
    def measure(row: int, seed: int) -> dict[str, float]:
        return sound(row, seed) | {"learning.fedavg.converged": 0.0, "learning.fedavg.rounds_to_target": 7.0}

    learning = {"problem": "quadratic", "optimizers": ["fedavg"], "step_size": 0.1}
    target = learning | {"target_loss": 0.5, "stop_at_target": True}
    assert not unsettled(made_trials(measure, learning=target))["fedavg"].any()
    assert unsettled(made_trials(measure, learning=learning))["fedavg"].all()


def test_a_model_that_never_moved_or_diverged_is_no_slow_one() -> None:
    assert not unsettled(measured(learning__fedavg__converged=0.0, learning__fedavg__moved=0.0))["fedavg"].any()
    gone = measured(learning__fedavg__converged=0.0, learning__fedavg__loss=np.nan)
    assert not unsettled(gone).get("fedavg", np.zeros(1)).any()


@pytest.mark.parametrize(
    ("best", "values"), [([0.8, 0.6, 0.4], "8, 12, 16"), ([0.4, 0.6, 0.8], "1, 2"), ([0.8, 0.4, 0.6], "3, 4, 6")]
)
def test_values_beyond_the_end_or_between_neighbours_are_proposed(best: Floats, values: str) -> None:
    def measure(row: int, seed: int) -> dict[str, float]:
        return sound(row, seed) | {L1: best[row] + 0.001 * noise(row, seed)}

    grid = {"grid": {"population.*.separation": [2, 4, 8]}, "seeds": 6}
    trials = made_trials(measure, values=(2, 4, 8), sweep=grid)
    (check,) = [each for each in checks_of_trials(trials) if each.name == "edge"]
    assert check.state is (Grade.NONE if "4" in values else Grade.CAUTION)
    assert f"sweep.grid={{population.*.separation: [{values}]}}" in check.command
    assert not any(each.name == "edge" and each.state is Grade.CAUTION for each in checks_of_trials(made_trials()))


@pytest.mark.parametrize(("values", "tried"), [(["6h", "1d", "3d"], "[2d, 3d]"), (["1d", "2d", "3d"], "")])
def test_a_duration_between_the_best_two_is_proposed_where_they_are_far_apart(values: list[str], tried: str) -> None:
    def measure(row: int, seed: int) -> dict[str, float]:
        return sound(row, seed) | {L1: [0.8, 0.6, 0.4][row] + 0.001 * noise(row, seed), "rounds.shortage_share": 0.3}

    key = "population.*.cooldown"
    made = made_trials(measure, sweep={"grid": {key: values}, "seeds": 6})
    settings = made.settings.select("setting").with_columns(pl.Series(key, values))
    made = replace(made, parameters=(key,), settings=settings)
    (check,) = [each for each in checks_of_trials(made) if each.name == "edge"]
    assert (f"{{{key}: {tried}}}" in check.command) if tried else not check.remedy


def test_no_value_is_proposed_that_the_scenario_refuses() -> None:
    """Below 1 there is a separation of 0, and no cohort."""

    def measure(row: int, seed: int) -> dict[str, float]:
        return sound(row, seed) | {L1: [0.4, 0.6, 0.8][row] + 0.001 * noise(row, seed)}

    made = made_trials(measure, values=(1, 2, 4))
    name = made.parameters[0]
    cohorts = replace(made, parameters=("server.cohort",), settings=made.settings.rename({name: "server.cohort"}))
    assert [each.state for each in checks_of_trials(made) if each.name == "edge"] == [Grade.CAUTION]
    (found,) = [each for each in checks_of_trials(cohorts) if each.name == "edge"]
    assert (found.state, found.text) == (Grade.OK, "Beyond the choice there are no further values.")


@pytest.mark.parametrize(("key", "values", "less"), [("local_steps", [1, 2, 4], False), ("step_size", [1, 2, 4], True)])
def test_smaller_values_of_what_is_tuned_are_those_that_there_are(key: str, values: list[int], less: bool) -> None:
    path = f"learning.{key}"
    made = made_trials(decide={"minimize": L1, "tune": {path: values}})
    tuned = replace(made, settings=made.settings.with_columns(pl.Series(path, [1, 1, 1])), tuned=(path,))
    texts = [each.text for each in checks_of_trials(tuned) if each.name == "edge" and each.state is Grade.CAUTION]
    assert any(path in each for each in texts) == less


def test_the_metric_that_the_scenario_asks_for_is_the_headline() -> None:
    india = "group.india.ratio"
    trials = made_trials(lambda row, seed: sound(row, seed) | {india: 1.2 - 0.2 * row}, headline=india)
    assert trials_answer(trials).headline.startswith(
        "Participation in multiples of a fair share of group “india”: lowest at "
    )
    error, far = "learning.fedavg.bias_error", {"learning.fedavg.bias": 0.42}  # nobody chooses where theory errs least
    off = made_trials(lambda row, seed: sound(row, seed) | far | {error: 0.03 - 0.01 * row}, headline=error)
    text = (
        "Distance of “fedavg” from where theory puts it: lowest at R = 8 (0.010), highest at R = 0 (0.030); from the "
    )
    assert plain(trials_answer(off).headline) == f"{text}optimum it ends at most 0.42."
    answer = trials_answer(made_trials(headline=LOSS))  # the loss is the lowest where participation is least even
    assert plain(answer.headline) == "Loss of “fedavg” rises from 1 at R = 0 to 1.200 at R = 8."
    assert answer.tiles[0].label == "loss of “fedavg”"
    assert plain(answer.tiles[0].detail) == "at R = 0; 1.200 at R = 8"


def test_of_runs_of_several_lengths_the_loss_is_compared() -> None:
    """They are as even as each other but for noise."""
    made = made_trials()
    lengths = made.settings.rename({made.parameters[0]: "stop.rounds"})
    trials = replace(made, settings=lengths, parameters=("stop.rounds",))
    assert aim_of(trials).metric == LOSS
    assert aim_of(made).metric == L1


def test_conditions_of_a_decision_are_tiles() -> None:
    decide = {"minimize": L1, "subject_to": [f"{PACE} >= 900", f"{LOSS} <= 1.05"]}
    details = [tile.detail for tile in trials_answer(made_trials(decide=decide)).tiles]
    assert plain(details[0]) == "at R = 0 (equal chances: 0.6 %)"
    assert details[1:3] == ["met: pace of at least 900 updates per day", "met: loss of “fedavg” of at most 1.05"]


def test_theory_is_said_where_there_is_one() -> None:
    """Noise is known of any long run: it says nothing of a theory."""
    nan = np.nan
    for fact, said in {
        "participation__l1_uniform_theory": "No theory covers these settings.",
        "participation__l1_noise": "sampling noise was not estimated",
    }.items():
        figures = {fact: nan} | ({"participation__l1_chain": nan} if fact.endswith("theory") else {})
        (check,) = [each for each in checks_of_trials(measured(**figures)) if each.name == "theory"]
        assert (check.state, said in check.text) == (Grade.NONE, True)
    (check,) = [
        each for each in checks_of_trials(measured(participation__l1_chain=[0.01, nan, 0.01])) if each.name == "theory"
    ]
    assert check.state is Grade.OK
    assert "R\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}4" not in check.text


def test_a_command_leaves_the_page_that_it_stands_on() -> None:
    """More seeds go on with a sweep; all else is another sweep."""
    trials = made_trials(noisy, seeds=2)
    meta = {**trials.meta, "command": "fedsim sweep made.fedsim.yaml --out 'my sweep'"}
    for settings, folder in (
        ({"sweep.seeds": 9}, "my sweep"),
        ({"stop.rounds": 9, "sweep.seeds": 9}, "my sweep-2"),
        ({}, "my sweep"),
    ):
        words = shlex.split(command_of(meta, "", settings))
        assert words[words.index("--out") + 1] == folder


def test_smaller_steps_are_not_asked_for_where_they_were_tried() -> None:
    path = "learning.step_size"
    trials = measured(learning__fedavg__diverged=[0, 0, 1])
    swept = replace(trials, parameters=(path,), settings=trials.settings.rename({SEPARATION: path}))
    assert [each.remedy for each in checks_of_trials(swept) if each.name == "diverged"] == [""]
    assert [each.remedy for each in checks_of_trials(trials) if each.name == "diverged"] == [LOWER]


UNEVEN = [{"participation.l1_uniform": each, "updates.per_day": 960.0} for each in (0.8, 0.4, 0.2)]


def test_how_much_the_loss_is_off_uniform_participation_is_said_by_share() -> None:
    """A loss “above” it was negative, and whether 0.006 is much nobody could tell."""

    def measure(row: int, seed: int) -> dict[str, float]:
        excess = (0.2, 0.1, -0.05)[row]
        return {"learning.fedavg.excess_loss": excess, "learning.fedavg.loss": 2.0 + excess, **dict(UNEVEN[row])}

    def said(seeds: int, **scenario: Any) -> tuple[str, list[str]]:
        answer = trials_answer(made_trials(measure, seeds=seeds, headline="learning.fedavg.excess_loss", **scenario))
        return plain(answer.headline), [plain(each.text) for each in answer.sentences if each.about == MODEL]

    headline, model = said(1)
    assert ": 0.200 at R = 0, -0.050 at R = 8 (one seed, not tested)" in headline
    share = "Excess loss of “fedavg” as a share of the loss under uniform participation"
    assert model == [f"{share}: 10.0 % at R = 0 and -2.5 % at R = 8."]
    own = {"learning.fedavg.excess_loss": 0.001}
    lasts: dict[float, str] = {
        0.001: "0.200 at R = 0, about 0 at R = 8 (one",
        0.01: "0.200 at R = 0, 0.010 at R = 8 (one",
    }
    for last, way in lasts.items():

        def ending(row: int, seed: int, last: float = last) -> dict[str, float]:
            return measure(row, seed) | ({"learning.fedavg.excess_loss": last, LOSS: 2.0} if row == 2 else {})

        ends = made_trials(ending, seeds=1, headline="learning.fedavg.excess_loss")
        assert way in plain(trials_answer(ends).headline)
    small = made_trials(lambda *each: measure(*each) | own, seeds=1, headline="learning.fedavg.excess_loss")
    assert "is less than 0.1 % of the loss at every setting (one" in plain(trials_answer(small).headline)
    assert marked(made_trials(measure, seeds=1, headline="learning.fedavg.excess_loss")) is None
    assert marked(made_trials(measure, headline="learning.fedavg.excess_loss")) == 2


def test_a_time_to_target_is_said_to_be_the_first_where_it_is_shown() -> None:
    reached = {"learning.fedavg.time_to_target": 60.0}
    decide: dict[str, Any] = {"minimize": "learning.fedavg.loss", "maximize": None, "subject_to": []}

    def times(row: int, seed: int) -> dict[str, float]:
        return sound(row, seed) | {name: value + row for name, value in reached.items() if row or not seed}

    assert "(1 of 6)" in settings_table(made_trials(times, decide=decide)).rows[0][-1]
    assert "from which a loss may rise again" in settings_table(made_trials(times, decide=decide)).note
    assert "rise again" not in settings_table(made_trials(decide=decide)).note


@pytest.mark.parametrize("failed", [True, False])
def test_an_optimizer_that_did_not_train_has_no_rank(monkeypatch: pytest.MonkeyPatch, failed: bool) -> None:
    """It was called worse, and the best, 1.4 % below its start, was not said to be no better than that."""
    names, ends = ("fedavg", "scaffold"), ((1.1 if failed else 0.9), 0.8)

    def measure(row: int, seed: int) -> dict[str, float]:
        return {L1: 0.4, PACE: 960.0, f"learning.{names[row]}.loss": ends[row] + 0.01 * noise(row, seed)}

    def curves(_: Trials, row: int) -> pl.DataFrame:
        return pl.DataFrame(
            {"run_id": "a", "optimizer": names[row], "round": [-1, 4, 9], "loss": [1.0, 1.0, ends[row]]}
        )

    monkeypatch.setattr(Trials, "curves", curves)
    trials = made_trials(measure, values=(0, 1))
    settings = trials.settings.select("setting").with_columns(
        pl.Series("learning.optimizers", [f'["{each}"]' for each in names])
    )
    trials = replace(trials, parameters=("learning.optimizers",), settings=settings)
    optimizers = by_optimizer(trials)
    assert optimizers is not None
    answer = trials_answer(trials)
    table = optimizer_table(optimizers, gained_nothing(trials))
    assert [row[1] for row in table.rows] == ["best", "training failed" if failed else "worse"]
    assert (table.rows[1][2] == NO_VALUE) == failed
    assert (", no more than 20.0 % below its initial model" in plain(answer.headline)) == failed
    assert gained_nothing(trials) == ["fedavg"] * failed
