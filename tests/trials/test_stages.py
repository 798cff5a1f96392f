"""A decision answers in stages: facts of a part, carried on to the whole; then coarsely; then in full."""

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from fedsim.common.errors import TimeIsOverError
from fedsim.pages.trial_tables import privacy_table
from fedsim.pages.trials import stage_in_words, trials_answer
from fedsim.scenario import Scenario
from fedsim.trials.decide import decide
from fedsim.trials.decision import aim_of, judge_settings, open_settings
from fedsim.trials.executors import Backend
from fedsim.trials.stages import by_facts, coarsely, in_full
from fedsim.trials.store import read_sweep, write_run_results
from fedsim.trials.trials import Trials
from fedsim.trials.worker import RunOutcome, Task
from tests.conftest import Write

THREAD = Backend("threads", lambda: ThreadPoolExecutor(1), lambda _: 1)
LARGE = """\
stop: {rounds: 1200, duration: 21d}
population:
  - {name: a, devices: 2000000, separation: 50}
  - {name: b, devices: 1000000, separation: 50}
server: {cohort: 3000, over_select: 1.3, pause: 20m}
learning:
  problem: {kind: quadratic, dimension: 2000}
  optimizers: [fedavg]
  step_size: 0.05
choose: {"population.*.separation": [0, 10, 20, 50], server.cohort: [2000, 3000, 8000]}
decide: {minimize: learning.fedavg.loss, subject_to: [sessions.count <= 4e6, participation.never_share <= 0.1]}
"""
SMALL = """\
stop: {rounds: 5}
population: [{devices: 40, separation: 0}]
server: {cohort: 2}
learning: {problem: {kind: quadratic, dimension: 2}, optimizers: [fedavg], step_size: 0.1}
choose: {"population.*.separation": [0, 1, 2]}
decide: {minimize: learning.fedavg.loss, subject_to: [sessions.device_hours <= 10]}
"""
HOURS = (9.5, 10.5, 12.0)  # of the settings of SMALL: kept, not surely missed, surely missed


def facts_of(task: Task) -> dict[str, float]:
    """The facts of a server that closes a round every half an hour, whatever the size."""
    scenario = task.scenario
    rounds = min(scenario.stop.most_rounds, scenario.stop.most_s / 1800)
    setting = int(scenario.population[0].separation.value)
    facts = {
        "rounds.count": rounds,
        "rounds.per_day": 48.0,
        "updates.per_day": 48.0,
        "sessions.count": rounds * scenario.server.wanted,
    }
    facts |= {"privacy.rounds": scenario.stop.most_rounds, "privacy.epsilon": 6.0}
    facts |= {"sessions.device_hours": HOURS[min(setting, 2)], "participation.never_share": 0.5}
    for each in scenario.learning.optimizers if scenario.learning is not None else ():
        noise = np.random.default_rng([scenario.seed, setting]).normal()
        loss = 1.0 + 0.1 * setting + 0.01 * noise
        facts |= {f"learning.{each.label}.{of}": loss for of in ("loss", "above_optimum", "excess_loss")}
    return facts


def job(task: Task) -> RunOutcome:
    write_run_results(Path(task.folder), task.run_id, task.scenario.seed, facts_of(task))
    return RunOutcome()


def ended(words: str, large: Scenario, directory: Path) -> Trials:
    """Decide until a stage with these words begins, for which the time is over."""

    def report(what: str, _share: float, _beside: str = "", /) -> None:
        if what.startswith(words):
            raise TimeIsOverError("over")

    done = decide(large, directory, THREAD, do=job, progress=report)
    assert done.whole == (words == "never")
    return Trials.read(directory)


def test_facts_of_a_part_are_those_of_the_whole(write: Write, tmp_path: Path) -> None:
    """1,008 rounds in 21 days at 48 a day; of 8,000 x 1.3 clients each, more than 4 million sessions."""
    large = Scenario.load(write(LARGE))
    trials = ended("tuning", large, tmp_path / "d")
    part = trials.meta["part"]
    assert trials.stage == "facts"
    assert part["scale"] == 100
    assert part["short"]["days"] < 21
    cohorts = trials.settings["server.cohort"].to_numpy()
    assert cohorts.tolist() == [2000, 3000, 8000] * 4  # as they are written
    np.testing.assert_allclose(trials.samples("rounds.count"), 1008)
    np.testing.assert_allclose(trials.samples("sessions.count")[:, 0], 1008 * 1.3 * cohorts)
    np.testing.assert_allclose(trials.samples("rounds.per_day"), 48)
    # Whoever never took part in some days may in more: that is not surely missed.
    assert not judge_settings(trials).kept.any()
    assert open_settings(trials).tolist() == [True, True, False] * 4
    assert "2,000,000" not in stage_in_words(trials)
    answer, days = trials_answer(trials), part["short"]["days"]
    table = privacy_table(trials)  # what is promised is of the whole, and what was observed of the days that were run
    assert table is not None
    columns = dict(zip(table.header, table.rows[0], strict=True))
    assert columns["n promised"] == "1,200"
    assert columns[f"n observed in {days} days"] == str(48 * days)
    yet = "Cannot tell yet: loss of “fedavg” is not known before training"
    assert answer.headline.startswith(f"{yet}; 4 of 12 settings surely miss a condition; of the others ")
    (missed,) = (each.text for each in answer.checks if each.name == "missed")
    assert "4 settings surely miss `sessions.count <= 4e6`" in missed.replace("\N{NO-BREAK SPACE}", " ")
    assert "may miss `participation.never_share <= 0.1`" in missed


def test_a_part_has_nothing_to_train_and_keeps_what_is_promised(write: Write) -> None:
    large = Scenario.load(write(LARGE))
    stage = by_facts(large, 12)
    assert stage.scenario.learning is None
    assert stage.scenario.stop.rounds == 1200  # n
    assert min(stage.scenario.choose["server.cohort"]) == 20
    last = in_full(large)
    assert last.scale == 200
    assert last.scenario.decide == large.decide  # with the limits of the whole
    coarse = coarsely(large, 12, {"local_step_size": [0.1, 0.3, 1.0, 3.0, 10.0], "other": [7]})
    assert coarse is not None
    assert coarse.scenario.decide is not None
    assert coarse.scenario.decide.tune == {"local_step_size": [0.1, 1.0, 10.0]}


def test_what_is_quick_is_run_as_it_is_written(write: Write) -> None:
    small = Scenario.load(write(SMALL))
    assert by_facts(small, 3).scale == 1
    assert not by_facts(small, 3).short
    assert in_full(small).scenario is small
    assert coarsely(small, 3, {"local_step_size": [0.1, 0.2]}) is None


def test_what_surely_misses_a_condition_goes_before_it_is_trained(write: Write, tmp_path: Path) -> None:
    """12 hours of at most 10 do; 10.5 are not surely too many, and stay."""
    trials = ended("never", Scenario.load(write(SMALL)), tmp_path / "d")
    facts = Trials.read(tmp_path / "d" / "facts")
    assert open_settings(facts).tolist() == [True, True, False]
    assert trials.stage == "full"
    assert trials.settings["population.*.separation"].to_list() == [0, 1]
    assert stage_in_words(trials).endswith("1 setting surely misses a condition, and went before.")
    table = next(each for section in trials_answer(facts).sections for each in section.tables if each is not None)
    standing = [row[table.header.index("Standing")] for row in table.rows]
    assert standing == ["left", "uncertain", "goes"]
    assert "12.0, 20.0" in table.rows[2][-1] or "(12, 20.0" in table.rows[2][-1]


def test_where_nothing_is_left_the_facts_answer(write: Write, tmp_path: Path) -> None:
    trials = ended("never", Scenario.load(write(SMALL.replace("<= 10", "<= 2"))), tmp_path / "d")
    assert trials.stage == "facts"
    assert "No setting keeps every condition (" in trials_answer(trials).headline
    assert not (tmp_path / "d" / "final").exists()


@pytest.mark.parametrize("words", ["tuning 2", "comparing"])
def test_the_last_stage_that_is_whole_answers(write: Write, tmp_path: Path, words: str) -> None:
    small, out = Scenario.load(write(SMALL)), tmp_path / "d"
    assert ended(words, small, out).stage == "facts"
    assert ended("never", small, out).stage == "full"  # the same call goes on


def test_no_run_begins_when_the_time_is_over(write: Write, tmp_path: Path) -> None:
    small, said = Scenario.load(write(SMALL)), list[str]()
    done = decide(small, tmp_path / "d", THREAD, do=job, until=-math.inf, tell=said.append)
    assert not done.whole
    assert said == ["the time is over; the same command does the rest"]
    assert not [*tmp_path.rglob("*.parquet")]


def test_the_last_look_that_is_whole_answers(write: Write, tmp_path: Path) -> None:
    """Time is over while a further look at the settings is under way."""
    small, out = Scenario.load(write(SMALL.replace("<= 10", "<= 11"))), tmp_path / "d"

    def tied(task: Task) -> RunOutcome:
        facts = facts_of(task)
        drawn = np.random.default_rng([task.scenario.seed, int(task.scenario.population[0].separation.value)])
        facts |= {name: float(drawn.normal()) for name in facts if name.startswith("learning")}
        write_run_results(Path(task.folder), task.run_id, task.scenario.seed, facts)
        return RunOutcome()

    def report(what: str, _share: float, _beside: str = "", /) -> None:
        if what.endswith("on 5 seeds"):
            raise TimeIsOverError("over")

    done = decide(small, out, THREAD, do=tied, progress=report)
    assert not done.whole
    assert read_sweep(out / "final")["status"] == "complete"
    trials = Trials.read(out)
    assert trials.stage == "full"
    assert len(trials.seeds) == 3
    assert trials.failed.is_empty()


@pytest.mark.parametrize("asked", ["loss", "above_optimum", "excess_loss"])
def test_a_coarse_ranking_answers_between(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """It is by what was asked."""
    monkeypatch.setattr("fedsim.trials.stages._COARSE_WORK", 1.0)
    small, seen = Scenario.load(write(SMALL.replace("fedavg.loss", f"fedavg.{asked}"))), list[Trials]()
    decide(small, tmp_path / "d", THREAD, do=job, answered=seen.append)
    assert [aim_of(each).metric for each in seen[1:]] == [f"learning.fedavg.{asked}"] * 2
    assert [each.stage for each in seen] == ["facts", "coarse", "full"]
    coarse, full = seen[1:]
    assert len(coarse.seeds) == 3  # the fewest that tell anything apart
    assert coarse.facts["variant"].n_unique() < full.facts["variant"].n_unique()
    told = [stage_in_words(each) for each in seen]
    beginnings = ("These are facts of", "This is a coarse ranking", "All settings that were left")
    assert [each.startswith(text) for each, text in zip(told, beginnings, strict=True)] == [True] * 3
    for own, said in zip(seen, told, strict=True):
        assert said in [each.text for each in trials_answer(own).sentences]
