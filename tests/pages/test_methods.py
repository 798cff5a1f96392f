"""What is said of the optimizers: only what the losses, with their noise, bear out."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim import Scenario, simulate
from fedsim.common.formatting import NO_VALUE, number
from fedsim.measure.verdict import Look
from fedsim.pages.bias import Seen, bias_of
from fedsim.pages.charts.learning import loss_charts, noise_chart
from fedsim.pages.checks import checks_of
from fedsim.pages.methods import compare_losses
from fedsim.pages.run import run_answer, setup_of
from fedsim.pages.tables import learning_table
from fedsim.pages.words import (
    by_group_of_data,
    by_steps,
    favoured,
    kept,
    losses,
    measured,
    nearer,
    noise_cost,
    share,
    swing,
)
from fedsim.run.check import Grade
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario.learning import OptimizerChoice
from fedsim.scenario.privacy import Privacy
from tests.conftest import Write
from tests.pages.runs import changed


@pytest.fixture(scope="session")
def run(written: Path) -> Run:
    return load_one(written)


def trained(
    run: Run, ends: Mapping[str, float], noise: float = 0.01, every: int = 2, seed: int = 7, memory: float = 0.0
) -> Run:
    """Train optimizers that fall from 9 to these losses at once, and then only waver, as slowly as they remember."""
    generator = np.random.default_rng(seed)
    rounds = np.append(-1, np.arange(every - 1, 400, every))
    parts, metrics = [], {name: value for name, value in run.metrics.items() if not name.startswith("learning.")}
    for name, end in ends.items():
        away = generator.standard_normal(len(rounds))
        for place in range(1, len(rounds)):
            away[place] = memory * away[place - 1] + np.sqrt(1 - memory**2) * away[place]
        loss = np.where(rounds < 0, 9.0, end + noise * away)
        parts.append(pl.DataFrame({"round": rounds, "closed_s": 60.0 * (rounds + 1), "optimizer": name, "loss": loss}))
        metrics[f"learning.{name}.loss"] = float(loss[2 * (rounds + 1) > 400].mean())
    return changed(run, learning=pl.concat(parts), metrics=metrics)


def words(run: Run) -> str:
    said = losses(run)
    assert said is not None
    return said.text.replace("\N{NARROW NO-BREAK SPACE}", " ")


def test_the_interval_holds_the_difference(run: Run) -> None:
    """A hundred evaluations whose differences waver by 0.014: about 0.003 either way."""
    look = compare_losses(trained(run, {"a": 5.2, "b": 5.0}), ["a"], "b")["a"]
    assert isinstance(look, Look)
    assert 0.001 < look.value - look.low < 0.006
    assert look.low < 0.2 < look.high
    assert look.significant


def test_losses_are_compared_over_own_halves(run: Run) -> None:
    """A third optimizer of a log three times as long leaves the other two their rounds to compare."""
    given = trained(run, {"a": 5.2, "b": 5.0, "c": 5.0})
    assert given.learning is not None
    late = pl.when(pl.col("optimizer") == "c").then(3 * pl.col("round")).otherwise(pl.col("round"))
    longer = changed(given, learning=given.learning.with_columns(round=late))
    look = compare_losses(longer, ["a"], "b")["a"]
    assert isinstance(look, Look)
    assert look.significant


def test_methods_of_the_same_loss_are_seldom_told_apart(run: Run) -> None:
    """Of 100 runs with three methods alike, at most 5 tell one of them apart (Holm); all do where one is off."""
    wrong = 0
    for seed in range(100):
        given = trained(run, {"a": 5.0, "b": 5.0, "c": 5.0, "a_uniform": 5.0}, seed=seed)
        looks = compare_losses(given, ["a", "b", "c"], "a_uniform").values()
        wrong += any(isinstance(each, Look) and each.significant for each in looks)
    assert wrong <= 10
    assert words(trained(run, {"a": 5.4, "a_uniform": 5.0})).startswith("“a” stays biased: it ends 0.")


@pytest.mark.parametrize("memory", [0.6, 0.9, 0.98])
def test_losses_that_change_slowly_are_seldom_told_apart(run: Run, memory: float) -> None:
    """Of 100 runs with two methods alike at most 10 (a true 5 % exceeds that once in a hundred)."""
    told = 0
    for seed in range(100):
        given = trained(run, {"a": 5.0, "a_uniform": 5.0}, seed=seed, memory=memory)
        look = compare_losses(given, ["a"], "a_uniform")["a"]
        told += isinstance(look, Look) and look.significant
    assert told <= 10


def test_losses_that_change_too_slowly_are_not_tested(run: Run) -> None:
    """The page asks for a longer run, and does not say that every loss has converged."""
    slow = trained(run, {"a": 5.1, "a_uniform": 5.0}, memory=0.995)
    assert re.fullmatch(
        r"Whether “a” stays biased cannot be said yet, since the difference changes too slowly: it ends so far "
        r"0\.\d+ above unbiased training \(its loss is 4\.998\)\.",
        words(slow),
    )
    (check,) = (each for each in checks_of(slow) if each.name == "compared")
    values = compare_losses(slow, ["a"], "a_uniform")["a"]
    assert isinstance(values, float)
    assert (check.state, check.remedy) == (Grade.CAUTION, f"Run {np.ceil(8 / values) + 1:.0f} times as long.")
    assert check.text == (
        "Too short to compare the loss of “a” with that of “a_uniform”: the last half of the run holds about "
        f"{int(values)} independent values of the difference, and a test needs 8."
    )


def test_what_has_not_converged_is_not_tested(run: Run) -> None:
    """The same losses, of which one is said not to have converged: no word of a test, and no advice to run for one."""
    given = trained(run, {"a": 5.4, "a_uniform": 5.0})
    assert words(given).startswith("“a” stays biased: it ends 0.")
    for name in ("a", "a_uniform"):
        moving = changed(given, metrics={**given.metrics, f"learning.{name}.converged": 0.0})
        assert words(moving).startswith("Whether “a” stays biased cannot be said yet, since a loss has not converged: ")
    slow = trained(run, {"a": 5.1, "a_uniform": 5.0}, memory=0.995)
    moving = changed(slow, metrics={**slow.metrics, "learning.a.converged": 0.0})
    assert [each.name for each in checks_of(moving) if each.name in {"converged", "compared"}] == ["converged"]


@pytest.mark.long
@pytest.mark.timeout(0)  # a campaign takes as long as it takes
@pytest.mark.parametrize(("seeds", "most"), [(2, 4), pytest.param(30, 24, marks=pytest.mark.campaign)])
def test_a_method_is_seldom_told_apart_from_its_twin(write: Write, seeds: int, most: int) -> None:
    """Clients weigh the same, so both have one law: of 300 runs with steps large and small at most 24 differ."""
    told = 0
    for seed, (step, steps) in enumerate(seeds * [*product((0.005, 0.01, 0.02, 0.05, 0.1), (1, 5))]):
        learning = "{problem: quadratic, optimizers: [fedavg], reference: uniform, step_size: %s, local_steps: %s}"
        text = f"seed: {seed}\nstop: {{rounds: 1000}}\npopulation: [{{devices: 20}}]\nserver: {{cohort: 4}}\n"
        text += "engine: vectorized\nrecords: {gauges: null}\n"
        given = simulate(Scenario.load(write(f"{text}learning: {learning % (step, steps)}\n")))
        look = compare_losses(given, ["fedavg"], "fedavg_uniform").get("fedavg")
        told += isinstance(look, Look) and look.significant
    assert told <= most


@pytest.mark.parametrize(
    ("ends", "pattern"),
    [
        (
            {"a": 5.0, "b": 5.0},
            r"“[ab]” and “[ab]” show no significant bias: they end .* unbiased training, "
            r"or [^,]* % of what training gained \(one seed\)\.",
        ),
        (
            {"a": 5.4, "b": 5.0, "c": 4.6},
            r"Only “a” stays biased: it ends 0\.[34]\d* above unbiased training; “b” and “c” "
            r"do not end significantly above it \(one seed\)\.",
        ),
        (
            {"a": 4.6},
            r"“a” shows no significant bias: it ends 0\.[34]\d* below unbiased training \(its loss is [\d.]+\)\.",
        ),
        (dict.fromkeys("abcd", 5.4), r"4 methods stay biased: they end 0\.[34]\d*( to 0\.[34]\d*)? above .*\."),
    ],
)
def test_which_methods_stay_biased(run: Run, ends: Mapping[str, float], pattern: str) -> None:
    """Those above unbiased training by a test; a lower loss is no bias."""
    assert re.fullmatch(pattern, words(trained(run, {**ends, "a_uniform": 5.0})))


def test_the_table_says_on_which_side_a_significant_difference_lies(run: Run) -> None:
    """Below unbiased training it is no bias; below another method there is no such side."""
    for reference, cells in {"a_uniform": {"yes", "no", "no, below"}, "c": {"yes", "no"}}.items():
        given = trained(run, {"a": 5.4, "b": 4.6 if reference == "a_uniform" else 5.3, "d": 5.0, reference: 5.0})
        table = learning_table(given)
        assert table is not None
        at = table.header.index("Stays biased" if reference == "a_uniform" else "Significant in this run")
        assert cells - {"no"} <= {row[at] for row in table.rows} <= cells | {NO_VALUE}


@pytest.mark.parametrize(("end", "names"), [(5.02, ["loss", "loss-whole"]), (5.5, ["loss"]), (5.0, ["loss"])])
def test_losses_that_lie_on_each_other_are_shown_above_the_reference(run: Run, end: float, names: list[str]) -> None:
    """Not where they are the same: a line at 0 shows nothing."""
    given = trained(run, {"a": end, "a_uniform": 5.0}, noise=0.01 if end > 5 else 0)
    charts = [chart for chart in loss_charts(given) if chart is not None]
    assert [chart.name for chart in charts] == names
    assert [chart.aside for chart in charts] == [False, True][: len(names)]
    assert (charts[0].title == "Loss above unbiased training") == (len(names) > 1)


def test_a_headline_that_asks_for_a_group_speaks_of_that_group_alone(run: Run) -> None:
    parts = bias_of(run).parts
    same = next(each for each in parts if each.key and each.tested and not each.significant)
    most = next(each for each in parts if each.key and each.significant)
    text, plain = measured(run, same.key), measured(run, most.key)
    assert text is not None
    assert plain is not None
    assert text.text == share(same).text
    assert plain.text == share(most).text


@pytest.mark.parametrize("wave", [0.4, 0.0])
def test_a_loss_that_swings_with_the_hour_is_said_to(run: Run, wave: float) -> None:
    """Two methods alike, of which one swings about the mean of both: over whole days they do not differ."""
    given = trained(run, {"a": 5.0, "a_uniform": 5.0}, noise=0.05)
    assert given.learning is not None
    at = (pl.col("round") + 1) * 1_800.0  # a row an hour, over eight days
    swung = pl.col("loss") + pl.when(optimizer="a").then(wave * (math.tau * at / 86_400).sin()).otherwise(0.0)
    scenario = given.scenario.with_values({"population.*.availability": "habits"})
    given = changed(given, learning=given.learning.with_columns(closed_s=at, loss=swung), scenario=scenario)
    said = swing(given)
    assert (said is not None) == (wave > 0)
    assert said is None or re.search(
        r"“a” swings .* from 4\.[56]\d? at 1[789]:00 to 5\.4\d? at 0[567]:00 UTC", said.text
    )
    look = compare_losses(given, ["a"], "a_uniform")["a"]
    assert not isinstance(look, Look) or not look.significant


@pytest.mark.parametrize(
    ("ends", "far", "advice"),
    [
        ({"a": 5.4, "b": 5.0}, (), r"; “a” ends 0\.[34]\d* above it, significantly"),
        ({"a": 5.4, "b": 5.0}, (0.3, 0.1), r"; “a” ends 0\.[34]\d* above it, significantly"),
        ({"a": 5.4, "b": 5.0}, (0.1, 0.3), ", or “a”, whose mean model is nearest the optimum"),
        (
            {"a": 5.0003, "b": 5.0, "c": 5.4},
            (),
            r", or “[ab]”, not significantly higher; “c” ends 0\.[34]\d* above it, .*",
        ),
    ],
)
def test_without_a_reference_the_lowest_loss_is_advised(
    run: Run, ends: Mapping[str, float], far: tuple[float, ...], advice: str
) -> None:
    """With those that are not significantly higher, and the one whose mean model is nearer, as far as that is known."""
    given = trained(run, ends)
    known = {f"learning.{name}.bias": each for name, each in zip(ends, far, strict=False)}
    text = words(changed(given, metrics={**given.metrics, **known}))
    assert re.fullmatch(rf"By this run, use “[ab]”, which has the lowest loss \([\d.]+\){advice} \(one seed\)\.", text)
    moving = changed(given, metrics={**given.metrics, "learning.a.converged": 0.0})
    cannot = "Cannot tell yet which method has the lowest loss, since a loss has not converged: “"
    assert words(moving).startswith(cannot)


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ((0.1, 0.3), "“fedavg” (0.100) is best, then “b” (0.300)"),
        ((0.3, 0.1), "“fedavg” (0.300) is behind the others, of which “b” (0.100) is best"),
        ((0.3, 0.1, 0.5), "“fedavg” (0.300) is ahead of “c” (0.500), but “b” (0.100) is best"),
        ((3e-14, 3e-11), "“fedavg” (about 0) is best, then “b” (about 0)"),
        ((0.1, 0.1), "“fedavg” (0.100) and “b” (0.100) are best"),
        ((0.1, 0.3, 0.9), "“fedavg” (0.100) is best, then “b” (0.300); “c” (0.900) is last"),
        ((0.1, 0.9, 0.92), "“fedavg” (0.100) is best, then “b” (0.900); “c” (0.920) is last"),
    ],
)
def test_a_figure_beside_those_of_others_begins_with_the_verdict(
    run: Run, figures: tuple[float, ...], says: str
) -> None:
    given, forgets = trained(run, dict(zip(("fedavg", "b", "c"), (5.4, 5.0, 5.2), strict=True))), {"forgetting": 0.01}
    choices = [{"kind": "fedavg"}, {"kind": "debiased_fedavg", "name": "b", **forgets}]
    choices += [{"kind": "fedavg", "name": "c", "server": {"kind": "adam"}}]
    given = changed(given, scenario=given.scenario.with_values({"learning.optimizers": choices}))
    known = {f"learning.{name}.bias": each for name, each in zip(("fedavg", "b", "c"), figures, strict=False)}
    open_ = f"; 1 of {len(figures)} losses have not converged"
    for more, flag in (({}, ""), ({"learning.b.converged": 0.0}, open_)):
        said = measured(changed(given, metrics={**given.metrics, **known, **more}), "learning.fedavg.bias")
        by = f", by the distance of the mean model of each from the optimum{flag}."
        assert said is not None
        assert said.text == f"In this one seed {says}{by}"
    assert "“b” is debiased_fedavg with forgetting = 0.01" in setup_of(given)
    assert not any("“fedavg” is" in each for each in setup_of(given))


def by_group(run: Run, kind: Mapping[str, object], losses: Sequence[float], known: Mapping[str, float]) -> Run:
    """Return a run in which the mean model of an optimizer has these losses on the data of two groups."""
    given = trained(run, {"a": 5.0})
    every = dict.fromkeys(run.clients["group"].unique(maintain_order=True), sum(losses) / 2)
    every |= {"group 0": losses[0], "group 1": losses[1]}
    metrics = {f"learning.a.loss_of_group_{name}": each for name, each in every.items()}
    given = changed(given, metrics={**given.metrics, **metrics, **known})
    return changed(given, scenario=given.scenario.with_values({"learning.optimizers": [{"name": "a", **kind}]}))


STALE = {"group.group 0.staleness.mean": 8.3, "group.group 1.staleness.mean": 1.4}
STEPS = {"group.group 0.sessions.steps_mean": 3.7, "group.group 1.sessions.steps_mean": 9.95}


@pytest.mark.parametrize(
    ("kind", "losses", "known", "why"),
    [
        (
            {"kind": "fedbuff"},
            (10.3, 6.5),
            STALE,
            ", whose reports it discounts more: they are 8.3 versions old, not 1.4.",
        ),
        ({"kind": "fedbuff", "exponent": 0}, (10.3, 6.5), STALE, "."),
        ({"kind": "fedbuff"}, (6.5, 10.3), STALE, "."),  # the group with the stale reports is favoured
        ({"kind": "fedavg"}, (11.0, 6.3), STEPS, ", whose reports hold fewer local steps."),
        ({"kind": "debiased_fedavg", "counts": "steps"}, (11.0, 6.3), STEPS, "."),
        ({"kind": "fednova"}, (11.0, 6.3), STEPS, "."),
        ({"kind": "fedavg"}, (8.1, 8.0), STEPS, None),
    ],
)
def test_which_group_a_model_favours_and_why(
    run: Run, kind: Mapping[str, object], losses: tuple[float, float], known: Mapping[str, float], why: str | None
) -> None:
    """A cause is said where the method weighs what differs between the groups, and a run without it is advised."""
    given = by_group(run, kind, losses, known)
    said = by_group_of_data(given)
    checks = [each for each in checks_of(given) if each.name == "favours"]
    if why is None:
        assert (said, checks) == (None, [])
        return
    best, worst = sorted(zip(losses, ("group 0", "group 1"), strict=True))
    assert said is not None
    assert said.text == (
        f"The mean model of “a” fits the data of “{best[1]}” (loss {best[0]:g}) better than those of “{worst[1]}” "
        f"({worst[0]:g}){why}"
    )
    assert [each.remedy.partition(" (")[0] for each in checks] == (
        ["Sweep how much “a” discounts stale reports"] if "discounts" in why else []
    )


@pytest.mark.parametrize(
    ("kind", "other", "first", "counts", "cancels"),
    [
        ({"kind": "debiased_fedavg"}, "fedavg", 20, True, True),
        ({"kind": "debiased_fedavg"}, "fedavg", 20, True, False),  # the whole run is significantly uneven
        ({"kind": "debiased_fedavg"}, "fedvarp", 20, True, True),
        ({"kind": "debiased_fedavg", "forgetting": 0.01}, "fedavg", 20, False, True),
        ({"kind": "fedavg"}, "fedavg", 20, False, True),
        ({"kind": "debiased_fedavg"}, "fedavg", 200, False, True),  # it comes as often throughout
    ],
)
def test_counts_of_the_start_weigh_for_those_who_came_less_at_first(
    run: Run, kind: Mapping[str, object], other: str, first: int, counts: bool, cancels: bool
) -> None:
    """What counts nothing fits both groups where these change sides within the run."""
    given = by_group(run, kind, (26.5, 11.4), {})
    both = {f"learning.b.loss_of_group_{name}": 18.0 for name in run.clients["group"].unique()}
    given = changed(trained(given, {"a": 5.0, "b": 4.0}), metrics=given.metrics | both)
    choices = {"learning.optimizers": [{"name": "a", **kind}, {"name": "b", "kind": other}]}
    given = changed(given, scenario=run.scenario.with_values(choices))
    at_first = (pl.col("span") <= pl.col("span").max() // 2) & (pl.col("group") == "group 1")
    reports = run.series["reports"].with_columns(len=pl.when(at_first).then(first).otherwise(200))
    tested = pl.when(kind="group", look="group 1")
    looks = {"significant": tested.then(not cancels).otherwise("significant"), "visible": tested.then(0.1).otherwise(1)}
    shares = run.series["shares"].with_columns(**looks)
    given = replace(given, series={**given.series, "reports": reports, "shares": shares})
    said = by_group_of_data(given)
    assert said is not None
    far = {"learning.a.bias": 1.0, "learning.b.bias": 2.0}
    asked = given.scenario.model_copy(update={"headline": "learning.b.bias"})
    for of, figure in ((given, "loss"), (changed(given, scenario=asked, metrics=given.metrics | far), "bias")):
        assert (gap := favoured(of)) is not None
        assert gap.settings.get("headline", "") == f"learning.a.{figure}" * counts  # by what methods are ranked by
    assert (", since counts of the start still weigh: “group 1” gave 0." in said.text) == counts
    assert ("“b” weighs nobody up" in said.text) == (counts and cancels and other == "fedavg")


@pytest.mark.parametrize(
    ("noise", "begins"), [(0.08, "Privacy costs 2.0 % of what training gains: the noise "), (-0.01, "The noise ")]
)
def test_what_privacy_costs_is_a_share_of_what_training_gains(run: Run, noise: float, begins: str) -> None:
    """From 9 to 5 it gains 4; chance may make noise seem to help, which is no share."""
    given = trained(run, {"a": 5.0}, noise=0.0)
    known = {"privacy.epsilon": 8.0, "learning.a.privacy_noise_loss": noise}
    said = noise_cost(changed(given, metrics={**given.metrics, **known}))
    assert said is not None
    assert said.text.replace("\N{NARROW NO-BREAK SPACE}", " ").startswith(begins)
    assert noise_chart(changed(given, metrics={**given.metrics, **known})) is None  # the optimum is not known
    chart = noise_chart(changed(given, metrics={**given.metrics, **known, "learning.a.above_optimum": 0.5}))
    assert chart is not None
    assert chart.table is not None
    assert chart.table.rows == (("a", "0.5", number(0.5 - noise)),)


def test_privacy_noise_is_no_bias(run: Run) -> None:
    """The uniform twin has neither clipping nor noise: its loss is no reference for training that has them."""
    given = trained(run, {"a": 774.0, "a_uniform": 5.0})
    privacy = Privacy(noise_multiplier=1, delta=1e-6, clip=1, training="noise")
    noisy = changed(given, scenario=given.scenario.model_copy(update={"privacy": privacy}))
    assert words(noisy) == "The loss of “a” ends at 774."


def test_too_few_evaluations_are_not_tested(run: Run) -> None:
    text = words(trained(run, {"a": 5.4, "a_uniform": 5.0}, noise=0.0, every=20))
    assert text == (
        "Whether “a” stays biased cannot be said yet, since there are too few evaluations: it ends so far 0.4 above "
        "unbiased training (its loss is 5)."
    )


@pytest.mark.parametrize(
    ("kinds", "ends", "debias"),
    [
        (("fedavg",), {"fedavg": 5.4, "fedavg_uniform": 5.0}, True),
        (("fedavg",), {"fedavg": 5.4}, True),  # nothing tells whether it is harmed
        (("fedavg",), {"fedavg": 4.6, "fedavg_uniform": 5.0}, False),
        (("fedavg",), {"fedavg": 5.0, "fedavg_uniform": 5.0}, False),
        (("fedavg", "debiased_fedavg"), {"fedavg": 5.4, "debiased_fedavg": 5.5, "fedavg_uniform": 5.0}, False),
        (("mifa",), {"mifa": 5.4, "mifa_uniform": 5.0}, False),
        ((), {}, False),  # nothing is trained
    ],
)
def test_debiasing_is_advised_only_where_it_may_help(
    run: Run, kinds: tuple[str, ...], ends: Mapping[str, float], debias: bool
) -> None:
    given = trained(run, ends) if ends else changed(run, learning=None, convergence=None)
    assert run.scenario.learning is not None
    choices = [OptimizerChoice(kind=kind) for kind in kinds]
    learning = run.scenario.learning.model_copy(update={"optimizers": choices}) if kinds else None
    given = changed(given, scenario=given.scenario.model_copy(update={"learning": learning}))
    (check,) = (each for each in checks_of(given) if each.name == "even" and each.state is Grade.NONE)
    assert ("debiased_fedavg" in check.remedy) == debias == ("optimizers" in check.turns)
    assert check.remedy.startswith("Sweep the separation")
    assert check.text not in [each.text for each in run_answer(given).alarms]  # a finding, and no reason against trust


@pytest.mark.parametrize(
    ("above", "far", "says"),
    [
        (0.4, (0.06, 0.16), "Yet the mean model of “a” lies 0.06 from the optimum, nearer than that of “b” (0.16)"),
        (0.4, (0.16, 0.0), None),  # the nearer one does not stay biased
        (0.4, (0.15, 0.16), None),
        (0.0, (0.06, 0.16), None),
        (-0.4, (0.06, 0.16), None),
    ],
)
def test_a_loss_that_stays_biased_may_have_the_nearer_mean_model(
    run: Run, above: float, far: tuple[float, float], says: str | None
) -> None:
    given = trained(run, {"a": 5.0 + above, "b": 4.9, "a_uniform": 5.0})
    known = dict(zip(("learning.a.bias", "learning.b.bias"), far, strict=True))
    said = nearer(changed(given, metrics={**given.metrics, **known}))
    assert (said and said.text) == (says and f"{says} (one seed).")
    assert nearer(given) is None


@pytest.mark.parametrize(
    ("far", "batch_size", "says"), [(0.0, None, True), (3e-11, None, True), (0.01, None, False), (0.0, 8, False)]
)
def test_a_model_at_rest_owes_it_to_exact_gradients(run: Run, far: float, batch_size: int | None, says: bool) -> None:
    given = trained(run, {"fedavg": 5.0})
    assert given.scenario.learning is not None
    learning = given.scenario.learning.model_copy(update={"batch_size": batch_size})
    scenario = given.scenario.model_copy(update={"learning": learning})
    given = changed(given, scenario=scenario, metrics={**given.metrics, "learning.fedavg.bias": far})
    texts = [each.text for each in run_answer(given).trust]
    assert any(each.startswith("Local gradients are exact") for each in texts) == says
    table = learning_table(given)
    assert table is not None
    assert ("about 0" in table.rows[0]) == (far < 1e-9)


@pytest.mark.parametrize(
    ("seen", "steps", "begins"),
    [
        (Seen.NONE, STEPS, "Participation is even, work is not: a report of “group 0” holds 3.7 local steps on "),
        (Seen.BIAS, STEPS, "A report of “group 0” holds 3.7 local steps on "),
        (Seen.NONE, {**STEPS, "group.group 1.sessions.steps_mean": 3.9}, None),
        (Seen.NONE, {}, None),
    ],
)
def test_even_participation_may_be_uneven_work(
    run: Run, seen: Seen, steps: Mapping[str, float], begins: str | None
) -> None:
    given = by_group(run, {"kind": "fedavg"}, (8.1, 8.0), steps)
    said = by_steps(given, replace(bias_of(given), seen=seen))
    assert (said and said.text) == (begins and f"{begins}average, and one of “group 1” 9.95.")


_SAME = "All methods cost devices the same: they send as much, and keep nothing there"
_KEEPS = "On each device “b” keeps 40 B (1 model) between participations; the others keep nothing there."


@pytest.mark.parametrize(
    ("kind", "size", "sent", "text"),
    [
        ("feddyn", 4e-5, 1.0, _KEEPS),
        ("fednova", 0.0, 1.0, f"{_SAME}."),
        ("mifa", 0.0, 1.0, f"{_SAME}; of each client the server keeps a model for “b”."),
        ("fednova", 0.0, 2.0, None),
    ],
)
def test_what_methods_keep_is_a_cost(run: Run, kind: str, size: float, sent: float, text: str | None) -> None:
    given = trained(run, {"fedavg": 5.4, "b": 5.0})
    choices = {
        "learning.optimizers": ["fedavg", {"kind": kind, "name": "b", **({"mu": 1} if kind == "feddyn" else {})}]
    }
    known = {"learning.fedavg.client_mb": 0.0, "learning.b.client_mb": size}
    known |= {"learning.fedavg.sent_mb": 1.0, "learning.b.sent_mb": sent}
    said = kept(changed(given, metrics={**given.metrics, **known}, scenario=given.scenario.with_values(choices)))
    assert (said and said.text.replace("\N{NARROW NO-BREAK SPACE}", " ")) == text
