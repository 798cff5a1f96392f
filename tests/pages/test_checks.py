"""The checks of a run: each with its fault planted and without it, and what follows from their list alone."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim import simulate
from fedsim.pages.answer import NEXT, TRUST, Answer
from fedsim.pages.bias import bias_of
from fedsim.pages.checks import CHECKS, checks_of, hidden_by_noise
from fedsim.pages.html import MOST_CHIPS, strip
from fedsim.pages.run import run_answer
from fedsim.pages.tables import learning_table, who_pays_table
from fedsim.pages.terminal import spoken
from fedsim.pages.trial_checks import LONGER, LOWER_STEP
from fedsim.run.check import SEEDS, Check, Grade, agreeing, exit_code
from fedsim.run.load import load_one
from fedsim.run.run import Run, with_manifest
from fedsim.scenario.component import Choice
from fedsim.scenario.learning import ConstantSchedule
from fedsim.scenario.privacy import Privacy
from fedsim.scenario.studies import ConvergenceStudy, Theory
from fedsim.scenario.trace import Trace
from fedsim.scenario.work import Prices
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


def losses(run: Run, **late: float) -> Run:
    """Return a run in which optimizers have these losses in all rounds but the first half."""
    assert run.learning is not None
    last = 2 * pl.col("round") > run.learning["round"].max()
    table = run.learning.with_columns(
        loss=pl.when(last).then(pl.col("optimizer").replace_strict(late, default=pl.col("loss"))).otherwise("loss")
    )
    known = {f"learning.{name}.loss": value for name, value in late.items()}
    return changed(run, learning=table, metrics={**run.metrics, **known})


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
    "worse": (lambda run: losses(run, fedavg=99.0), "trained", Grade.BAD),
    "not converged": (lambda run: known(run, learning__fedavg__converged=0.0), "converged", Grade.CAUTION),
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
                if name not in {"participation.l1_chain", "participation.l1_uniform_theory"}
            },
        ),
        "theory",
        Grade.CAUTION,
    ),
    "failed rounds": (lambda run: known(run, rounds__failed_share=0.25), "cohorts", Grade.CAUTION),
    "more than wanted": (
        lambda run: manifest(
            known(run, reports__per_day=400.0, rounds__per_day=100.0, reports__wanted=2.0),
            scenario=run.manifest["scenario"] | {"server": {"cohort": 2, "over_select": 2.0}},
        ),
        "surplus",
        Grade.CAUTION,
    ),
    "short rounds": (lambda run: known(run, rounds__target_share=0.5), "cohorts", Grade.CAUTION),
}


CODES = {"stalled": 3, "no rounds": 3, "no report": 3, "missed": 1}
"""The exit codes of faults with which a run is no success; with any other, and without, it is 0."""


def by_hand(run: Run) -> str:
    """Return the remedy of steps that are too large, with the step that the run has."""
    assert run.scenario.learning is not None
    step = run.scenario.learning.step_size
    assert isinstance(step, ConstantSchedule)
    return f"{LOWER_STEP.removesuffix('.')}, which is {step.initial:g}."


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
    assert answer.checks == agreeing(checks)
    assert exit_code(answer.checks) == CODES.get(fault or "", 0)
    if bad:
        assert answer.headline == bad[0]
    assert answer.headline not in [each.text for each in answer.sentences]
    shown = {chip.name: chip.state for chip in strip(answer)}
    assert len(shown) <= MOST_CHIPS
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


def test_a_stall_is_a_short_headline_and_says_why_below(run: Run) -> None:
    answer = run_answer(FAULTS["stalled"][0](run))
    assert answer.headline == f"The run stalled in round {len(run.rounds) - 1} and ended there."
    assert answer.alarms[1].text[0].isupper()
    assert len(list(answer.remedies)) == 1


def test_all_trainings_that_diverged_are_one_fault(run: Run) -> None:
    names = [f"learning__{name}__diverged_round" for name in ("fedavg", "debiased_fedavg", "fedavg_uniform")]
    for rounds, text in {
        (18.0, 18.0, 18.0): "All 2 trainings, and unbiased training, diverged at round 18.",
        (18.0, 21.0, 20.0): "All 2 trainings, and unbiased training, diverged between rounds 18 and 21.",
        (18.0, 21.0): "Training with “fedavg” and “debiased_fedavg” diverged between rounds 18 and 21.",
    }.items():
        answer = run_answer(known(run, **dict(zip(names, rounds, strict=False))))
        assert answer.headline == text
        assert sum("diverged" in each.text for each in answer.checks) == 1


def test_one_remedy_is_about_the_step(run: Run) -> None:
    """What diverged is not asked to go on, and what is not settled not to step farther."""
    diverged = known(run, learning__fedavg__loss=math.nan, learning__fedavg__diverged_round=7.0)
    remedies = [each.text for each in run_answer(diverged).remedies]
    assert [each for each in remedies if "step" in each] == [by_hand(run)]
    for descent in (0.01, 0.4):  # what only swings does not settle
        every = {"converged": 0.0, "late_descent": descent}
        names = ("fedavg", "debiased_fedavg", "fedavg_uniform")
        more = {f"learning.{name}.{figure}": value for name in names for figure, value in every.items()}
        remedies = [each.text for each in run_answer(changed(run, metrics={**run.metrics, **more})).remedies]
        assert (LONGER in remedies) == (descent > 0.1)
        assert not [each for each in remedies if "step" in each]


def test_what_is_worse_has_the_remedy_of_its_cause(run: Run) -> None:
    """The step, if unbiased training is worse too; else who takes part; no step for a run that stalled."""
    worse = losses(run, fedavg=99.0)
    both = losses(run, fedavg=99.0, fedavg_uniform=99.0)
    stalled = manifest(both, stalled="round 9 wants 2 eligible clients")
    for each, (word, step) in {
        worse: ("separation", False),
        both: ("step", True),
        stalled: ("separation", False),
    }.items():
        (remedy,) = run_answer(each).remedies
        assert word in remedy.text
        assert (remedy.text == by_hand(run)) == step
    assert run.learning is not None
    start = float(run.learning.filter(optimizer="fedavg", round=-1)["loss"][0])
    fine = known(run, learning__fedavg__loss=1.01 * start)  # a mean that is above, of losses that are not all
    assert Grade.BAD not in states(fine, "trained")


@pytest.mark.parametrize(
    ("floor", "far", "asked"),
    [
        (0.02, 0.0, "Follow 1,600 replicas"),
        (0.001, 0.0, ""),
        (0.001, 0.05, "Follow 800 rounds: at R = 4 participation is farther than 1.0 % from the long run."),
        (0.02, 0.05, "Follow 800 rounds and 1,600 replicas: at R = 4 participation is farther than 1.0 % from the "),
    ],
)
def test_a_study_that_noise_hides_asks_for_replicas(run: Run, floor: float, far: float, asked: str) -> None:
    """One cut short asks for rounds, and one that it does not hide for nothing: longer separations forget more slowly.

    What the noise hides is said on the page.
    """
    assert run.convergence is not None
    theory = Theory(convergence=ConvergenceStudy(separations=[4], replicas=100))
    given = changed(
        run, convergence=run.convergence.with_columns(noise_floor=pl.lit(floor), tv=pl.lit(far), separation=4)
    )
    given = scenario(given, learning=None, theory=theory)
    (check,) = (each for each in checks_of(given) if each.name == "even" and each.state is Grade.NONE)
    assert check.remedy.replace("\N{NARROW NO-BREAK SPACE}", " ").replace("\N{NO-BREAK SPACE}", " ").startswith(asked)
    assert bool(check.remedy) == bool(asked)
    hides = [each.text for each in run_answer(given).trust if each.text.startswith("Sampling noise of the replicas")]
    assert bool(hides) == (floor > 0.01)


def test_the_noise_of_a_study_is_said_of_each_separation(run: Run) -> None:
    """It was one figure for all of those that it hides, beside one for each."""
    study = run.convergence
    assert study is not None
    floors = pl.when(pl.col("separation") == 8).then(0.023).otherwise(0.012)
    theory = Theory(convergence=ConvergenceStudy(separations=[2, 8], replicas=100))
    given = scenario(changed(run, convergence=study.with_columns(noise_floor=floors)), learning=None, theory=theory)
    (check,) = (each for each in checks_of(given) if each.name == "even" and each.state is Grade.NONE)
    plain = [each.translate({0x202F: " ", 0xA0: " "}) for each in hidden_by_noise(given)]
    assert plain == ["1.2 % at R = 2", "2.3 % at R = 8"]
    assert f"sampling noise hides less than {' and '.join(hidden_by_noise(given))}." in check.remedy


@pytest.mark.parametrize(
    ("off", "state", "says"),
    [
        (1, Grade.OK, "outside the interval of 1 (FIRST); chance alone does that in at most 5.0 % of runs."),
        (
            2,
            Grade.CAUTION,
            "outside the interval of 2 (FIRST and SECOND); chance alone does that in at most 2.5 % of runs.",
        ),
        (0, Grade.OK, "agree within sampling noise."),
    ],
)
def test_shares_off_theory_are_a_caution_where_chance_seldom_does_that(
    run: Run, off: int, state: Grade, says: str
) -> None:
    far, theory = pl.int_range(pl.len()).over("kind") < off, pl.col("theory")
    ends = {"low": theory + pl.when(far).then(0.01).otherwise(-0.1), "high": theory + 0.1, "level": pl.lit(0.0025)}
    series = {**run.series, "shares": run.series["shares"].with_columns(**ends)}
    (check,) = (each for each in checks_of(replace(run, series=series)) if each.name in {"theory", "off_theory"})
    assert check.state is state
    first, second = (f"“{name}”" for name in run.series["shares"]["name"][:2])
    says = says.replace("FIRST", first).replace("SECOND", second)
    assert says in check.text.replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert ("agree" in check.text) == (state is Grade.OK)


@pytest.mark.parametrize(
    ("figures", "prices", "name", "remedy"),
    [
        ({"rounds__waiting_share": 0.3}, {}, "waits", "Sweep smaller cohorts, with which rounds wait less."),
        ({"rounds__waiting_share": 0.05}, {}, "waits", None),
        ({"sessions__aborted_share": 0.3}, {}, "wasted", None),  # the server selects no more than it wants
        (
            {"rounds__waiting_share": 0.3, "population__available_share__utc__03": 0.0},
            {},
            "waits",
            "Add devices that are available in the other hours, as of other time zones: rounds wait there.",
        ),
        (
            {"fleet__cost": 3.0, "fleet__bytes_down": 2e9, "fleet__bytes_up": 1e9},
            {"gigabyte": 1},
            "spends",
            "Try a model of half the size: 66.7 % of the cost is for bytes that devices downloaded.",
        ),
        (
            {"fleet__cost": 4.0, "fleet__bytes_down": 1e9, "sessions__device_hours": 3.0},
            {"gigabyte": 1, "device_hour": 1},
            "spends",
            "Try fewer samples in a session (`session.samples`), or fewer clients in a round: "
            "75.0 % of the cost is for device-hours.",
        ),
        (
            {"rounds__target_share": 0.5, "rounds__shortage_share": 0.4},
            {},
            "cohorts",
            "Sweep smaller cohorts, which fill more often.",
        ),
        ({"rounds__target_share": 0.5, "rounds__shortage_share": 0.0}, {}, "cohorts", ""),
    ],
)
def test_what_costs_most_is_what_is_advised_on(
    run: Run, figures: dict[str, float], prices: dict[str, float], name: str, remedy: str | None
) -> None:
    """Of waiting, of cost and of cohorts that do not fill: by the facts, and nothing where they are small."""
    given = known(scenario(run, prices=Prices(**prices) if prices else None), **figures)
    advice = [each.remedy.replace("\N{NARROW NO-BREAK SPACE}", " ") for each in checks_of(given) if each.name == name]
    assert advice == ([] if remedy is None else [remedy])


@pytest.mark.parametrize(
    ("training", "epsilon", "asked"), [("noise", 2.0, True), ("none", 2.0, False), ("noise", None, False)]
)
def test_a_private_training_is_asked_for_other_epsilons(
    run: Run, training: str, epsilon: float | None, asked: bool
) -> None:
    promise: dict[str, Any] = {"delta": 1e-6, "clip": 1, "training": training}
    promise |= {"noise_multiplier": 1} if epsilon is None else {"epsilon": epsilon}
    given = manifest(scenario(run, privacy=Privacy(**promise)), command="fedsim run made.fedsim.yaml")
    commands = [each.command for each in checks_of(given) if each.name == "epsilons"]
    assert commands == ["fedsim sweep made.fedsim.yaml --set 'sweep.grid={privacy.epsilon: [0.5, 1, 2, 4]}'"] * asked


def test_the_step_that_is_lowered_is_the_optimizers_own(run: Run) -> None:
    learning = run.scenario.learning
    assert learning is not None
    own = learning.optimizers[0].model_copy(update={"local_step_size": learning.step_size})
    changed_ = learning.model_copy(update={"optimizers": [own, *learning.optimizers[1:]]})
    (remedy,) = run_answer(FAULTS["diverged"][0](scenario(run, learning=changed_))).remedies
    assert "`learning.optimizers.0.local_step_size`" in remedy.text


@given(st.lists(st.tuples(st.sampled_from(list(Grade)), st.sampled_from(["", "x", "xy", "y", "yz"])), max_size=9))
def test_remedies_of_one_answer_agree(drawn: list[tuple[Grade, str]]) -> None:
    checks = [
        Check(str(at), state, "so", remedy=f"Do {keys}.", turns=(*keys,)) for at, (state, keys) in enumerate(drawn)
    ]
    answer = Answer("run", "made", "so", checks=checks)
    kept = {each.remedy: each for each in reversed(answer.checks) if each.remedy}
    turned = [key for each in answer.remedies for key in kept[each.text].turns]
    assert len(turned) == len(set(turned))
    assert bool(kept) == bool(checks)
    if any(each.state is Grade.BAD for each in checks):
        assert [*kept] == [next(each.remedy for each in checks if each.state is Grade.BAD)]
    assert [replace(each, remedy="") for each in answer.checks] == [replace(each, remedy="") for each in checks]


def test_a_check_of_one_run_names_no_setting(run: Run) -> None:
    """There is none to name: it said "at the one setting", which no reader has seen."""
    (check,) = (each for each in checks_of(known(run, participation__l1_chain=0.2)) if each.name == "theory")
    assert check.text.startswith("Theory does not describe selections: they are 10.0")
    assert check.of == ""


def test_no_theory_is_never_beside_a_theory(run: Run) -> None:
    for fault in (None, "no theory", "far from theory"):
        given = run if fault is None else FAULTS[fault][0](run)
        short = changed(
            given, metrics={key: each for key, each in given.metrics.items() if key != "participation.l1_noise"}
        )
        for each in (given, short):
            answer = run_answer(each)
            said = [each.text for each in answer.sentences if each.text.startswith("In the long run, theory says")]
            none = [each.text for each in answer.checks if each.text.startswith("No theory covers")]
            assert bool(said) != bool(none)
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
    assert [chip.name for chip in strip(answer)][:2] == ["mine", "seeds"]
    assert next(iter(answer.remedies)).text == "Wait until Tuesday."


def test_devices_of_a_trace_are_recorded_and_not_added(small: Load) -> None:
    """Where hours are empty no cohort is small enough."""
    empty = {"rounds__waiting_share": 0.3, "population__available_share__utc__03": 0.0}
    given = known(simulate(small()), **empty)
    recorded = given.scenario.population[0].model_copy(
        update={"availability": Trace(kind="trace", file="a.csv", base=given.scenario.start)}
    )
    for each, begins in ((given, "Add devices"), (scenario(given, population=[recorded]), "Record devices")):
        (check,) = (check for check in checks_of(each) if check.name == "waits")
        assert check.remedy.startswith(begins)


@pytest.mark.parametrize(("aborted", "asked"), [(0.3, True), (0.05, False)])
def test_where_sessions_are_aborted_fewer_are_proposed(small: Load, aborted: float, asked: bool) -> None:
    run = with_manifest(simulate(small("server.over_select=1.5", "population.*.separation=0")))
    given = manifest(known(run, sessions__aborted_share=aborted), command="fedsim run made.fedsim.yaml")
    commands = [each.command for each in checks_of(given) if each.name == "wasted"]
    assert commands == ["fedsim sweep made.fedsim.yaml --set 'sweep.grid={server.over_select: [1, 1.25, 1.5]}'"] * asked


@pytest.mark.parametrize(("headline", "first"), [("rounds.count", False), (None, True)])
def test_other_seeds_are_the_last_of_what_is_advised(run: Run, headline: str | None, first: bool) -> None:
    """They come after what a finding asks for, unless the headline ranks methods; the page folds all but the first."""
    asked = scenario(known(run, rounds__waiting_share=0.3), headline=headline)
    remedies = [each.command for each in run_answer(manifest(asked, command="fedsim run made.fedsim.yaml")).remedies]
    assert len(remedies) > 1
    others = [False] * (len(remedies) - 1)
    assert ["seeds" in each for each in remedies] == ([True, *others] if first else [*others, True])


@pytest.mark.parametrize(("low", "high", "first"), [(0.8, 1.3, True), (0.98, 1.03, False), (1.1, 1.3, False)])
def test_other_seeds_come_first_where_the_headline_cannot_tell(run: Run, low: float, high: float, first: bool) -> None:
    """Of a share whose interval is wide and holds 1; not where it is close to 1, or significant."""
    key = next(part.key for part in bias_of(run).parts if part.key and part.tested)
    here, bounds = pl.col("key") == key, {"value": (low + high) / 2, "low": low, "high": high, "significant": low > 1}
    shares = run.series["shares"].with_columns(
        pl.when(here).then(pl.lit(value)).otherwise(name).alias(name) for name, value in bounds.items()
    )
    given = manifest(scenario(run, headline=key), command="fedsim run made.fedsim.yaml")
    answer = run_answer(replace(given, series={**given.series, "shares": shares}))
    assert answer.headline.startswith("Cannot tell yet") == first
    step = next(iter(answer.remedies))
    assert ("seeds" in step.command) == first
    assert ("is significant four times in five" in step.text) == first


@pytest.mark.parametrize(("check", "since"), [("learning.fedavg.loss < 1", "steps"), ("rounds.count > 900", "")])
def test_of_losses_that_jump_no_figure_is_shown_and_one_chip(run: Run, check: str, since: str) -> None:
    """What is expected of them misses since steps are too large; what is expected of rounds does not."""
    assert run.learning is not None
    odd = pl.col("round").rank("dense").over("optimizer") % 2 == 1
    jumping = run.learning.with_columns(
        loss=pl.when(pl.col("round") < 0).then(9.0).otherwise(pl.when(odd).then(2.0).otherwise(8.0))
    )
    known = {f"learning.{name}.loss": 5.0 for name in run.learning["optimizer"].unique()}
    given = changed(run, learning=jumping, metrics={**run.metrics, **known})
    given = manifest(given, verdict=[{**MISSED, "check": check}])
    (outcome,) = (each for each in checks_of(given) if each.name == "expectations")
    assert (outcome.state, outcome.since) == (Grade.BAD, since)
    assert ("it is" in outcome.text) == (not since)
    assert (outcome.text == "Expected: loss of “fedavg” below 1, which cannot be measured since losses jump.") == bool(
        since
    )
    answer = run_answer(given)
    assert answer.headline.startswith("Cannot tell where “fedavg” ends: its steps are too large")
    assert [chip.name for chip in strip(answer)].count("expectations") == (not since)
    table = learning_table(given)
    assert table is not None
    assert {row[table.header.index("Loss")] for row in table.rows} == {"2 to 8"}
    assert not any(head.startswith("Above ") for head in table.header)
    assert who_pays_table(given) is None


@pytest.mark.parametrize(("fault", "said"), [(None, True), ("no theory", False), ("far from theory", False)])
def test_what_to_trust_is_said_also_where_all_checks_hold(run: Run, fault: str | None, said: bool) -> None:
    answer = run_answer(run if fault is None else FAULTS[fault][0](run))
    text = " ".join(each.text for each in answer.trust)
    assert ("Measurement and theory agree" in text) == said
    alone = run_answer(scenario(run, learning=None)) if fault is None else answer
    assert all(each.about == TRUST for each in alone.trust)
    ranked = [each for each in alone.checks if each.turns == SEEDS and each.state is Grade.CAUTION]
    assert any(each.text == "All figures are of one run, with one seed." for each in alone.trust) == (not ranked)


def test_of_one_device_more_are_simulated(small: Load) -> None:
    alone = simulate(small("population=[{devices: 1}]", "server.cohort=1"))
    given = manifest(alone, command="fedsim run made.fedsim.yaml")
    commands = [each.command for each in checks_of(given) if each.name == "enough"]
    assert commands == ["fedsim run made.fedsim.yaml --set 'population.*.devices=100'"]
    assert "enough" in {each.name for each in checks_of(simulate(small()))}


@pytest.mark.parametrize(("law", "others"), [("uniform", 1), ("groups", 0)])
def test_of_cohorts_that_never_fill_the_answer_comes_first(small: Load, law: str, others: int) -> None:
    """With the cohort that fills, and rounds that go on with fewer, which a law by groups does not do."""
    few = "population=[{devices: 60, availability: {kind: renewal, on: {kind: exponential, mean: 1h}, off: 3h}}]"
    server = f"server={{cohort: 30, pause: 1h, shortage: skip, selection: {law}}}"
    run = manifest(simulate(small(few, server, "stop={duration: 2d}")), command="fedsim run made.fedsim.yaml")
    (check,) = (each for each in checks_of(run) if each.name == "reports")
    assert check.text.startswith("No round took 30 reports: each of the 48 wants 30 eligible clients, and at most ")
    assert ("`shortage: proceed`" in check.remedy) == bool(others)
    more = "fedsim run made.fedsim.yaml --set server.shortage=proceed --out proceed"
    cohort, *rest = check.command.splitlines()
    assert cohort.startswith("fedsim run made.fedsim.yaml --set server.cohort=")
    assert rest == [more] * others
    assert "theory" not in {each.name for each in checks_of(run)}
