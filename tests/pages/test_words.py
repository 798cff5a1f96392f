"""Sentences of a run: every number in them is that of a fact, or of a series, that they name."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim import Scenario, simulate
from fedsim.common.errors import ScenarioError
from fedsim.common.formatting import number
from fedsim.pages.answer import BIAS
from fedsim.pages.bias import bias_of, of_a_month, pace_of
from fedsim.pages.checks import checks_of
from fedsim.pages.run import run_answer, tiles
from fedsim.pages.words import by_group_of_data, headline, how_often_each, long_run, measured, sentences, wasted
from fedsim.run.load import load_one
from fedsim.run.run import Run, with_manifest
from fedsim.scenario.habits import Habits
from fedsim.scenario.studies import ConvergenceStudy
from tests.conftest import Load
from tests.pages.runs import changed
from tests.pages.test_checks import known
from tests.pages.test_methods import trained

NUMBER = re.compile(
    r"(?<![\w.“])(\N{MINUS SIGN}?\d[\d,]*(?:\.\d+)?(?:e\N{MINUS SIGN}?\d+)?)\s?(%|ms\b|s\b|min\b|h\b|d\b|w\b)?"
)
UNITS = {"%": 0.01, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def values(run: Run, keys: Sequence[str]) -> Iterator[float]:
    """Yield the values, ends and references of facts, and all that stands in the series, of these names."""
    for key in keys:
        if key == "clients":  # counts of the table, and how long the run was
            counts = run.clients["reported"].to_numpy()
            none = [float((run.clients[name].to_numpy() == 0).mean()) for name in ("reported", "participations")]
            yield from (len(counts), counts.sum(), counts.mean(), counts.min(), counts.max(), *none)
            yield from (run.simulated_s, run.scenario.stop.duration or 0.0, 1)
            yield from run.clients["weight"] / run.clients["weight"].min()
            groups = run.clients.group_by("group").agg(pl.len().alias("devices"), pl.col("reported").sum())
            yield from (
                share for name in ("devices", "reported") for share in groups[name] / max(groups[name].sum(), 1)
            )
            continue
        table = run.learning if key == "learning" else run.series.get(key)
        if table is None:
            fact = run.fact(key)
            assert fact is not None, key
            yield from (fact[name] for name in ("value", "low", "high", "reference") if fact[name] is not None)
            continue
        for row in table.rows():
            yield from (float(cell) for cell in row if isinstance(cell, int | float))
            yield from (
                float(found[1].replace(",", ""))
                for cell in row
                if isinstance(cell, str)
                for found in NUMBER.finditer(cell)
            )


def wrong(run: Run, text: str, keys: Sequence[str]) -> list[str]:
    """Return the numbers of a sentence that none of its facts has; L1 distances may be written as TV, half of them."""
    known = list(values(run, keys))
    pairs = [*product(known, repeat=2)] if any(key.endswith(".loss") for key in keys) else []
    known += [away for a, b in pairs for away in (abs(a - b), abs(a / b - 1) if b else 0.0)]
    known += [1 + row for row in run.series["shares"]["visible"].drop_nulls() if "shares" in keys]
    hours = [key for key in keys if ".utc." in key]  # of which some have hardly any device
    known += [len(hours), sum(run.known[key] < 0.02 for key in hours)]
    known += [value / 2 for key, value in ((key, run.metrics.get(key, 0.0)) for key in keys) if "l1" in key]
    missing = []
    for found in NUMBER.finditer(re.sub(r"“[^”]*”|`[^`]*`", "", text)):
        digits = found[1].replace(",", "").replace("\N{MINUS SIGN}", "-")
        scale = UNITS.get(found[2] or "", 1.0)
        places = len(digits.partition(".")[2].partition("e")[0])
        slack = 0.51 * 10.0**-places * scale * 10.0 ** int(digits.partition("e")[2] or 0)
        shown = float(digits) * scale
        near = ((value, 0.006 * abs(value) if abs(value) >= 1000 else 0.0) for value in known)  # three digits of them
        if not any(abs(shown - value) <= max(slack, rounded) for value, rounded in near):
            missing.append(found[0].strip())
    return missing


BASE = """\
stop: {rounds: 260}
population:
- {name: a 1, devices: 30}
- {name: b, devices: 10, weight: 4}
server: {cohort: 4}
"""
CASES = {
    "plain": [],
    "separation": ["population.*.separation=3"],
    "drops": [
        "population.0.session={train: {kind: exponential, mean: 5m}}",
        "server.deadline=6m",
        "server.over_select=1.5",
    ],
    "buffered": ["server={mode: buffered, concurrency: 8, buffer: 4}"],
    "poisson": ["server={cohort: 4, selection: poisson}"],
    "trained": [
        "learning={problem: quadratic, optimizers: [fedavg, debiased_fedavg], step_size: 0.1, reference: uniform}"
    ],
    "private": [
        "privacy={mechanism: banded, noise_multiplier: 2.0, delta: 1e-5, clip: 1.0}",
        "population.*.separation=2",
    ],
    "worse": ["learning={problem: quadratic, optimizers: [fedavg], step_size: 5}"],
    "short": ["stop={rounds: 4}"],
    "days": ["stop={duration: 2d}", "population.*.availability=habits"],
}


def test_a_number_of_no_fact_is_found(written: Path) -> None:
    run = load_one(written)
    assert wrong(run, "All clients took part in 400 rounds.", ("rounds.count",)) == []
    assert wrong(run, "In 401 rounds 3.2 % of “group 4” did.", ("rounds.count",)) == ["401", "3.2 %"]


@pytest.mark.parametrize("case", CASES)
def test_every_number_is_that_of_a_fact(tmp_path: Path, case: str) -> None:
    file = tmp_path / "case.fedsim.yaml"
    file.write_text(BASE, encoding="utf-8")
    run = with_manifest(simulate(Scenario.load(file, CASES[case])))
    said = [*sentences(run), *([first] if (first := headline(run)) else [])]
    faults = [(each.text, wrong(run, each.text, each.facts)) for each in said]
    checks = [each for each in checks_of(run) if each.name not in {"expectations", "separation", "shocks"}]
    faults += [(each.text, wrong(run, each.text, each.facts)) for each in checks]
    assert [fault for fault in faults if fault[1]] == []
    for each in said:
        assert each.text.endswith(".")
        assert not re.search(r"\b(nan|None|inf)\b|\( | ,|\.\.", each.text), each.text


@pytest.mark.parametrize(
    ("key", "begins"),
    [
        ("group.group-3.reported_ratio", "“group 3” gave "),
        ("participation.l1_uniform", "Participation is "),
        ("participation.coverage", "Clients that took part at least once: 100"),
        ("learning.fedavg.loss", "Only “fedavg” stays biased: it ends 0.48\N{NARROW NO-BREAK SPACE}% above "),
        ("rounds.duration.p95", "95th percentile of lengths of rounds: 89.5"),
    ],
)
def test_a_headline_is_the_fact_that_the_scenario_names(written: Path, key: str, begins: str) -> None:
    run = load_one(written)
    asked = run.scenario.model_copy(update={"headline": key})
    object.__setattr__(run, "scenario", asked)
    said = headline(run)
    assert said is not None
    assert said == measured(run, key)
    assert said.text.startswith(begins)
    assert (" times its fair share of the reports" in said.text) == (said.about == BIAS)
    assert run_answer(run).headline == said.text


def test_the_question_decides_nothing(written: Path) -> None:
    run = load_one(written)
    said = {run_answer(run).headline}
    for question in ("How uneven is it?", "Which R?", "What happens to the loss?", "How fast is the start forgotten?"):
        object.__setattr__(run, "scenario", run.scenario.model_copy(update={"question": question}))
        answer = run_answer(run)
        said.add(answer.headline)
        assert answer.question == question
    assert len(said) == 1


def test_a_headline_that_is_no_metric_is_a_mistake_with_its_place(small: Load) -> None:
    with pytest.raises(
        ScenarioError, match=r"headline: unknown metric 'rounds.per_dy'; did you mean 'rounds.per_day'\?"
    ):
        simulate(small("headline=rounds.per_dy"))


@pytest.mark.parametrize("waited", [0.0, 0.2])
def test_of_no_waiting_nothing_is_said(small: Load, waited: float) -> None:
    run = simulate(small())
    value = pl.when(pl.col("key") == "rounds.waiting_share").then(waited).otherwise("value")
    texts = [each.text for each in sentences(replace(run, facts=run.facts.with_columns(value=value)))]
    assert any("wait for clients" in text for text in texts) == (waited > 0)


def test_what_the_headline_says_is_not_said_again(small: Load) -> None:
    run = simulate(small("stop.rounds=400", "population=[{devices: 24}]"))
    first = headline(run)
    assert first is not None
    assert first.text.startswith("No bias found")
    assert first.text not in [each.text for each in run_answer(run).sentences]


@pytest.mark.parametrize(
    ("stop", "said"), [("{rounds: 100}", True), ("{rounds: 1400}", False), ("{duration: 2d}", False)]
)
def test_of_a_run_that_ended_by_its_rounds_a_month_is_said(small: Load, stop: str, said: bool) -> None:
    """It is extrapolated, which a check says, with the run that need not; of more than a month nothing is."""
    few = ("population=[{devices: 6, separation: 1}]", "server.cohort=2", "server.pause=30m")
    run = simulate(small(f"stop={stop}", *few))
    text, counts = how_often_each(run, bias_of(run)).text, run.clients["reported"].to_numpy()
    assert (" in 30 days, from " in text) == said
    assert (" times a day" in text) != said
    if said:
        often, *ends = (
            number(each * 30 * 86_400 / run.simulated_s, 3) for each in (counts.mean(), counts.min(), counts.max())
        )
        who = [" and ".join(map(str, np.flatnonzero(counts == each))) for each in (counts.min(), counts.max())]
        named = [f"{end} (device{'s' * (' and ' in some)} {some})" for end, some in zip(ends, who, strict=True)]
        assert f"about {often} times in 30 days, from {' to '.join(named)}, if it goes on as in " in text
    given = replace(run, manifest={**run.manifest, "command": "fedsim run made.fedsim.yaml"})
    again = ["fedsim run made.fedsim.yaml --set stop.rounds=null --set stop.duration=30d"]
    assert [each.command for each in checks_of(given) if each.name == "month"] == again * said


@pytest.mark.parametrize("ends", [3.3, 4.0, 4.9])
def test_a_month_is_extrapolated_from_whole_days(small: Load, ends: float) -> None:
    """Devices are there in the first quarter of a day: so is a run that ends in its idle rest, or in the next one."""
    run = simulate(small("stop={rounds: 400}", "population=[{devices: 6, separation: 1}]", "server.cohort=2"))
    habits = run.scenario.population[0].model_copy(update={"availability": Habits(kind="habits")})
    given = replace(run, simulated_s=ends * 86_400, scenario=run.scenario.model_copy(update={"population": [habits]}))
    days = np.repeat(np.arange(4), 100)[: len(run.rounds)]
    closed = pl.Series("closed_s", 86_400.0 * days + np.linspace(0, 1, len(days)))
    given = replace(given, rounds=run.rounds.with_columns(closed))
    counts = run.clients["reported"]
    assert pace_of(given) == (int(ends), 0.25)
    assert pace_of(replace(given, scenario=run.scenario)) == (ends, 1 / ends)
    assert of_a_month(given)
    text = how_often_each(given, bias_of(run)).text
    assert f"about {number(7.5 * float(counts.mean()), 3)} times in 30 days" in text  # type: ignore[arg-type]
    assert f"if it goes on as in the first {int(ends)} days" in text


def test_what_was_wasted_is_said_by_its_causes(small: Load) -> None:
    """Each a share of all sessions; that rounds select more than they take is said only where they do."""
    run = known(simulate(small()), sessions__wasted_share=0.3, sessions__aborted_share=0.2, sessions__dropped_share=0.1)
    server = run.scenario.server.model_copy(update={"over_select": 2.0})
    more = changed(run, scenario=run.scenario.model_copy(update={"server": server}))
    for given, selects in ((run, False), (more, True)):
        said = wasted(given)
        assert said is not None
        assert (
            ": of all sessions, in 10.0\N{NARROW NO-BREAK SPACE}% the device became unavailable or failed and in 20.0"
            in said.text
        )
        assert ("rounds select more clients than they take" in said.text) == selects


@pytest.mark.parametrize(
    ("plain", "other", "says"),
    [
        ((4.0, 2.0), (2.5, 2.0), " of “a” fits the data of “y” (loss 2) better than those of “x” (4)."),
        ((2.0, 4.0), (2.0, 3.9), " of “a” fits the data of “x” (loss 2) better than those of “y” (4)."),
        ((2.0, 2.1), (2.0, 2.0), None),  # too little to speak of
    ],
)
def test_losses_that_differ_by_group_are_said(
    written: Path, plain: tuple[float, float], other: tuple[float, float], says: str | None
) -> None:
    """Those of the model with the widest gap."""
    run = trained(load_one(written), {"a": 5.0, "b": 4.0})
    group = pl.when(pl.col("client") < 50).then(pl.lit("x")).otherwise(pl.lit("y"))
    ends = {
        f"learning.{name}.loss_of_group_{g}": v
        for name, each in (("a", plain), ("b", other))
        for g, v in zip("xy", each, strict=True)
    }
    given = changed(run, metrics={**run.metrics, **ends}, clients=run.clients.with_columns(group=group))
    said = by_group_of_data(given)
    assert (said and said.text) == (says and f"The mean model{says}")


@pytest.mark.parametrize(
    ("far", "floor", "says"),
    [
        ((0.5, 0.2, 0.1), 0.0, "after more than 3 rounds at"),
        ((0.5, 0.2, 0.025), 0.02, "after more than 2 rounds (sampling noise hides when) at"),
        ((0.025, 0.025, 0.025), 0.02, "after some rounds (sampling noise hides when) at"),
        ((0.5, 0.2, 0.001), 0.0, "after 3 rounds at"),
    ],
)
def test_when_the_start_is_forgotten_has_a_bound(
    written: Path, far: tuple[float, ...], floor: float, says: str
) -> None:
    """Noise adds its floor at most: what is further than that from the long run is so without noise too."""
    run = load_one(written)
    study = pl.DataFrame({"separation": 3, "round": [0, 1, 2], "tv": far, "noise_floor": floor})
    theory = run.scenario.theory.model_copy(update={"convergence": ConvergenceStudy(separations=[3])})
    given = changed(run, convergence=study, scenario=run.scenario.model_copy(update={"theory": theory}))
    said = long_run(given)
    assert said is not None
    assert says in said.text
    plain = given.scenario.model_copy(update={"headline": None, "learning": None})
    first = next(tiles(changed(given, scenario=plain), bias_of(given)))
    assert f"after {first.value} at {first.detail}" in said.text
    sooner = [study.with_columns(separation=r, tv=pl.Series(tv)) for r, tv in ((1, [0.0] * 3), (2, [0.5, 0.0, 0.0]))]
    several = long_run(changed(given, convergence=pl.concat([*sooner, study])))
    assert several is not None
    assert "after 1 round at R = 1, 2 rounds at R = 2, and " in several.text.replace("\N{NO-BREAK SPACE}", " ")
