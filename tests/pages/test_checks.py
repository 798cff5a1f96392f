"""The checks of a run: each with its fault planted and without it, and what follows from their list alone."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fedsim import simulate
from fedsim.pages.answer import NEXT
from fedsim.pages.checks import CHECKS, checks_of
from fedsim.pages.html import MOST_CHECKS, strip
from fedsim.pages.run import run_answer
from fedsim.pages.terminal import spoken
from fedsim.pages.trial_checks import LONGER, LOWER_STEP
from fedsim.run.check import Check, Grade, exit_code
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario.component import Choice
from tests.conftest import Load
from tests.pages.runs import changed

MISSED = {"check": "rounds.count > 900", "status": "fail", "observed": 400.0, "limit": 900.0, "margin": -500.0}


@pytest.fixture(scope="session")
def run(written: Path) -> Run:
    return load_one(written)


def known(run: Run, **metrics: float) -> Run:
    """Return a run with other metrics; two underscores stand for a dot."""
    return changed(run, metrics={**run.metrics, **{name.replace("__", "."): value for name, value in metrics.items()}})


def scenario(run: Run, **changes: Any) -> Run:
    return changed(run, scenario=run.scenario.model_copy(update=changes))


def flat(run: Run, counts: pl.Expr) -> Run:
    """Make clients of one weight, drawn one by one without a rest, of so many participations."""
    clients = run.clients.with_columns(
        group=pl.lit("all"), weight=pl.lit(0.01), participations=counts, separation=pl.lit(0)
    )
    server = run.scenario.server.model_copy(update={"selection": Choice(kind="uniform")})
    share = clients["participations"] / clients["participations"].sum()
    metrics = {**run.metrics, "participation.l1_uniform": float((share - 0.01).abs().sum())}
    return changed(run, clients=clients, scenario=run.scenario.model_copy(update={"server": server}), metrics=metrics)


def manifest(run: Run, **changes: object) -> Run:
    return replace(run, manifest={**run.manifest, **changes})


FAULTS: dict[str, tuple[Callable[[Run], Run], str, Grade]] = {
    "stalled": (lambda run: manifest(run, stalled="round 9 wants 2 eligible clients"), "ended", Grade.BAD),
    "no rounds": (
        lambda run: known(changed(run, rounds=run.rounds.clear()), sessions__count=0.0, sessions__reported_share=0.0),
        "ended",
        Grade.BAD,
    ),
    "no report": (
        lambda run: known(run, sessions__count=9.0, sessions__reported_share=0.0, sessions__late_share=1.0),
        "reports",
        Grade.BAD,
    ),
    "missed": (lambda run: manifest(run, verdict=[MISSED]), "expectations", Grade.BAD),
    "warned": (lambda run: manifest(run, verdict=[{**MISSED, "status": "warn"}]), "expectations", Grade.CAUTION),
    "diverged": (
        lambda run: known(run, learning__fedavg__loss=math.nan, learning__fedavg__diverged_round=7.0),
        "trained",
        Grade.BAD,
    ),
    "not finite": (lambda run: known(run, learning__fedavg__dropped_updates=1.0), "trained", Grade.CAUTION),
    "did not move": (lambda run: known(run, learning__fedavg__moved=0.0), "trained", Grade.BAD),
    "worse": (lambda run: known(run, learning__fedavg__loss=99.0), "trained", Grade.BAD),
    "not converged": (lambda run: known(run, learning__fedavg__converged=0.0), "settled", Grade.CAUTION),
    "nobody twice": (lambda run: flat(run, (pl.col("client") < 40).cast(pl.Int64)), "enough", Grade.CAUTION),
    "once at most": (
        lambda run: changed(run, clients=run.clients.with_columns(separation=pl.lit(400))),
        "separation",
        Grade.CAUTION,
    ),
    "too much noise": (lambda run: known(run, privacy__rounds=4000.0), "budget", Grade.CAUTION),
    "far from theory": (lambda run: known(run, participation__l1_chain=0.2), "theory", Grade.CAUTION),
    "no theory": (
        lambda run: changed(
            run,
            metrics={
                name: value
                for name, value in run.metrics.items()
                if name not in {"participation.l1_chain", "participation.l1_uniform_theory", "participation.l1_noise"}
            },
        ),
        "theory",
        Grade.CAUTION,
    ),
    "failed rounds": (lambda run: known(run, rounds__failed_share=0.25), "cohorts", Grade.CAUTION),
    "short rounds": (lambda run: known(run, rounds__target_share=0.5), "cohorts", Grade.CAUTION),
}


CODES = {"stalled": 3, "no rounds": 3, "no report": 3, "missed": 1}
"""The exit codes of faults with which a run is no success; with any other, and without, it is 0."""


def states(run: Run, name: str) -> list[Grade]:
    return [each.state for each in checks_of(run) if each.name == name]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(run: Run, fault: str) -> None:
    plant, name, state = FAULTS[fault]
    assert state not in states(run, name)
    assert state in states(plant(run), name)


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_headline_strip_next_and_exit_code_follow_from_the_list(run: Run, fault: str | None) -> None:
    given = run if fault is None else FAULTS[fault][0](run)
    answer, checks = run_answer(given), checks_of(given)
    bad = [each.text for each in checks if each.state is Grade.BAD]
    assert answer.checks == checks
    assert exit_code(answer.checks) == CODES.get(fault or "", 0)
    if bad:
        assert answer.headline == bad[0]
    assert answer.headline not in [each.text for each in answer.sentences]
    shown = {chip.name: chip.state for chip in strip(answer)}
    assert len(shown) <= MOST_CHECKS
    assert {each.name for each in checks if each.state is Grade.BAD} <= {
        name for name, state in shown.items() if state is Grade.BAD
    }
    remedies = [each.text for each in answer.remedies]
    assert set(remedies) <= {each.remedy for each in checks}
    assert len(set(remedies)) == len(remedies)
    said = " ".join(spoken(answer))
    assert said.count(NEXT) == bool(remedies)
    assert all(text in said for text in [*remedies, *(each.text for each in answer.alarms)])
    assert bool(given.failure) == any(each.state is Grade.BAD for each in checks if each.name in {"ended", "reports"})


def test_one_remedy_is_about_the_step(run: Run) -> None:
    """What diverged is not asked to go on, and what is not settled not to step farther."""
    diverged = known(run, learning__fedavg__loss=math.nan, learning__fedavg__diverged_round=7.0)
    remedies = [each.text for each in run_answer(diverged).remedies]
    assert [each for each in remedies if "step" in each] == [LOWER_STEP]
    every = {f"learning.{name}.converged": 0.0 for name in ("fedavg", "debiased_fedavg", "fedavg_uniform")}
    remedies = [each.text for each in run_answer(changed(run, metrics={**run.metrics, **every})).remedies]
    assert LONGER in remedies
    assert not [each for each in remedies if "step" in each]


def test_no_theory_is_never_beside_a_theory(run: Run) -> None:
    for fault in (None, "no theory", "far from theory"):
        answer = run_answer(run if fault is None else FAULTS[fault][0](run))
        said = [each.text for each in answer.sentences if each.text.startswith("Theory says")]
        none = [each.text for each in answer.checks if each.text.startswith("No theory covers")]
        assert not (said and none)
        assert bool(none) == (fault == "no theory")


def test_shocks_and_settings_of_a_sweep_are_said(small: Load) -> None:
    plain = simulate(small())
    assert "shocks" not in {each.name for each in checks_of(plain)}
    assert "setting" not in {each.name for each in checks_of(plain)}
    shocks = "shocks=[{name: cut, of: everyone, every: 10m, length: 1m, share: 0.5}]"
    assert "shocks" in {each.name for each in checks_of(simulate(small(shocks)))}
    swept = simulate(small("sweep={grid: {server.cohort: [2, 3]}}"))
    assert "Run all settings." in [each.remedy for each in checks_of(swept)]


def test_a_check_of_ones_own_is_one_function(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Check("mine", Grade.BAD, "It is Monday.", remedy="Wait until Tuesday.")
    monkeypatch.setattr("fedsim.pages.checks.CHECKS", (lambda _: iter([own]), *CHECKS))
    answer = run_answer(run)
    assert answer.headline == "It is Monday."
    assert strip(answer)[0].name == "mine"
    assert next(iter(answer.remedies)).text == "Wait until Tuesday."
