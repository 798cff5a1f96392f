"""The verdict on a run, in its title and for each part, against naive counts and simulated chance."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim import simulate
from fedsim.common.formatting import percent
from fedsim.measure.noise import by_chance
from fedsim.pages.bias import Bias, ClientShare, Seen, bias_of
from fedsim.pages.run import tiles
from fedsim.pages.words import by_group, contrast, how_even, how_uneven, share, trend, who_takes_part
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario.component import Choice
from tests.conftest import Load
from tests.pages.runs import changed


@pytest.fixture(scope="session")
def run(written: Path) -> Run:
    return load_one(written)


def plain(run: Run) -> str:
    said = who_takes_part(run, bias_of(run))
    assert said is not None
    return said.text.replace("\N{NARROW NO-BREAK SPACE}", " ")


def flat(run: Run, counts: pl.Expr) -> Run:
    """Make clients of one group and weight, drawn one by one without a rest, of so many participations."""
    clients = run.clients.with_columns(
        group=pl.lit("all"), weight=pl.lit(0.01), participations=counts, separation=pl.lit(0)
    )
    server = run.scenario.server.model_copy(update={"selection": Choice(kind="uniform")})
    taken = clients["participations"].sum()
    metrics = {**run.metrics, "participation.l1_uniform": float((clients["participations"] / taken - 0.01).abs().sum())}
    scenario = run.scenario.model_copy(update={"server": server})
    return changed(run, clients=clients, scenario=scenario, metrics=metrics)


CLIENT = pl.col("client")


@pytest.mark.parametrize(
    ("counts", "seen", "words"),
    [
        (pl.lit(20), Seen.EVEN, "Participation is as even as can be: each client gave 20 reports."),
        (pl.when(CLIENT < 40).then(21).otherwise(20), Seen.EVEN, "each client gave 20 or 21 reports"),
        (pl.when(CLIENT < 40).then(1).otherwise(0), Seen.ONCE, "nobody took part twice, and some did not at all"),
        (
            pl.when(CLIENT < 50).then(190).otherwise(210) + CLIENT % 5 * 5 - 10,
            Seen.NONE,
            "No bias found; a distance of 1.7 % from uniform beyond chance would show.",
        ),
        (pl.when(CLIENT < 50).then(1997).otherwise(2001), Seen.NONE, "more even than equal chances would give"),
        (pl.when(CLIENT < 50).then(180).otherwise(220), Seen.BIAS, "significantly"),
        (pl.when(CLIENT < 20).then(0).otherwise(25), Seen.BIAS, "significantly"),
        (pl.when(CLIENT < 50).then(1).otherwise(3), Seen.NONE, "more even than equal chances would give"),
    ],
)
def test_what_there_is_to_be_seen(run: Run, counts: pl.Expr, seen: Seen, words: str) -> None:
    given = flat(run, counts)
    assert bias_of(given).seen is seen
    assert words in plain(given)
    assert ("No bias found" in plain(given)) == (seen is Seen.NONE and not bias_of(given).more_even)


def test_a_distance_of_twice_that_of_chance_is_no_chance(run: Run) -> None:
    """The error was a factor: 2.14 times what a fair lottery gives, which none of 20,000 lotteries does."""
    draws = np.random.default_rng(2).multinomial(20_000, np.full(100, 0.01), size=20_000)
    fair = np.abs(draws / 20_000 - 0.01).sum(axis=1)
    uneven = flat(run, pl.when(CLIENT < 50).then(183).otherwise(217))
    assert uneven.metrics["participation.l1_uniform"] > fair.max()
    assert uneven.metrics["participation.l1_uniform"] < 2.14 * fair.mean()
    assert bias_of(uneven).whole


@pytest.mark.parametrize("together", [1, 5])
def test_equal_chances_are_seldom_taken_for_a_bias(run: Run, together: int) -> None:
    """At most 5 % of fair runs of five groups, drawn one by one or by fives; 11 of 120 have a chance of 3 %."""
    generator, wrong = np.random.default_rng(5), 0
    groups = run.clients.with_columns(group=(CLIENT // 20).cast(pl.String))
    for _ in range(120):
        rounds = generator.permuted(np.tile(np.arange(100 // together), (400, 1)), axis=1)[:, : 5 // together]
        counts = np.repeat(np.bincount(rounds.ravel(), minlength=100 // together), together)
        given = flat(run, pl.lit(pl.Series(counts)))
        given = changed(given, clients=given.clients.with_columns(group=groups["group"]))
        if together > 1:
            given = changed(given, scenario=run.scenario)
        wrong += bias_of(given).seen is Seen.BIAS
    assert wrong <= 11


def test_groups_that_differ_are_told_with_their_interval(run: Run) -> None:
    """The first fifth is drawn 1.3 times as often: in 40 runs every one is told, and 95 % of intervals hold 1.226."""
    generator, chance = np.random.default_rng(6), np.where(np.arange(100) < 20, 1.3, 1.0)
    within = []
    for _ in range(40):
        given = flat(run, pl.lit(pl.Series(generator.multinomial(20_000, chance / chance.sum()))))
        halves = pl.when(CLIENT < 20).then(pl.lit("a")).otherwise(pl.lit("b"))
        bias = bias_of(changed(given, clients=given.clients.with_columns(group=halves)))
        first, second = bias.of("group")
        assert first.significant
        assert second.significant
        within.append(first.low < 1.3 / 1.06 < first.high)
    assert np.mean(within) > 0.9


def test_parts_are_said_with_what_the_test_says() -> None:
    more = ClientShare("group", "a b", 0.5, 300, 1.96, low=1.8, high=2.1, visible=0.1, significant=True)
    assert share(more).text == "“a b” gave 1.96 times its fair share of the reports (1.8 to 2.1, significant)."
    never = replace(more, taken=0, times=0.0, low=0.0, high=0.1)
    assert share(never).text == "“a b” gave 0 times its fair share of the reports (0 to 0.1, significant)."
    same = share(replace(more, times=1.01, low=0.94, high=1.08, significant=False)).text
    assert same.startswith("“a b” gave 1.01 times its fair share of the reports (0.94 to 1.08, not significantly ")
    wide = share(replace(more, times=1.19, low=0.96, high=1.44, significant=False)).text
    assert wide.startswith("Cannot tell yet: “a b” gave 1.19 times its fair share of the reports (0.96 to 1.44, ")
    untested = share(ClientShare("weight", "heaviest tenth", 0.1, 3, 1.5)).text
    assert untested == "The heaviest tenth gave 1.5 times its fair share of the reports (not tested)."


def test_who_never_reported_is_said_to_have_never(run: Run) -> None:
    counts = pl.when(CLIENT < 50).then(0).otherwise(400)
    halves = pl.when(CLIENT < 50).then(pl.lit("a")).otherwise(pl.lit("b"))
    given = flat(run, counts)
    bias = bias_of(changed(given, clients=given.clients.with_columns(group=halves)))
    (ends,) = bias.contrasts
    assert contrast(ends).text == "“a” never reported, and “b” gave 2 times its fair share of the reports."
    for of, never in ((given, ["50.0\N{NARROW NO-BREAK SPACE}%"]), (run, [])):
        assert [each.value for each in tiles(of, bias_of(of)) if each.label == "of the clients never reported"] == never


@pytest.mark.parametrize(("few", "significant", "said"), [(540, True, True), (540, False, False), (100, True, False)])
def test_a_few_devices_that_give_many_reports_are_said_with_both_shares(
    run: Run, few: int, significant: bool, said: bool
) -> None:
    sizes = {"boards": (0.06, few), "phones": (0.94, 1000 - few)}
    parts = [
        ClientShare("group", name, of, n, n / 1000 / of, 0.1, 9, 0.1, significant) for name, (of, n) in sizes.items()
    ]
    clients = run.clients.with_columns(group=pl.when(CLIENT < 6).then(pl.lit("boards")).otherwise(pl.lit("phones")))
    text = by_group(changed(run, clients=clients), Bias(Seen.BIAS, parts=tuple(parts)))
    assert text is not None
    shares = f"“boards” has {percent(0.06)} of the devices and gave {percent(few / 1000)} of the reports."
    assert text.text.endswith(shares) == said


def test_only_parts_that_differ_significantly_are_a_contrast(run: Run) -> None:
    """The extremes of many parts are those of chance: who is within it is not named."""
    parts = [ClientShare("group", f"g{each}", 0.1, 9, 0.5 + each / 10, 0.1, 3.0, 0.5) for each in range(10)]
    given = Bias(Seen.BIAS, parts=tuple(parts))
    assert given.contrasts == []
    low = replace(parts[1], high=0.9, significant=True)
    (ends,) = replace(given, parts=(parts[0], low, *parts[2:])).contrasts
    assert contrast(ends).text == "“g1” gave 0.6 times its fair share of the reports (0.1 to 0.9, significant)."
    high = replace(parts[8], low=1.1, significant=True)
    (ends,) = replace(given, parts=(parts[0], low, *parts[2:8], high, parts[9])).contrasts
    text = "“g8” gave 1.3 times its fair share of the reports, and “g1” 0.6 times: both significant."
    assert contrast(ends).text == text


@pytest.mark.parametrize(("tilt", "least", "most"), [(0.0, 0, 4), (0.02, 45, 60)])
def test_a_trend_over_tenths_is_found(run: Run, tilt: float, least: int, most: int) -> None:
    """Of 60 runs with equal chances at most 4 have one (a true 1.25 % exceeds that once in a thousand)."""
    generator, chance, found_in = np.random.default_rng(9), 1 + tilt * (np.arange(100) // 10 - 4.5), 0
    for _ in range(60):
        counts = generator.multinomial(5_000, chance / 100)
        given, tenths = flat(run, pl.lit(pl.Series(counts))), counts.reshape(10, 10).mean(axis=1) / 50
        metrics = {f"participation.{of}by_speed.{k + 1}": v for of in ("", "reported_") for k, v in enumerate(tenths)}
        bias = bias_of(changed(given, metrics={**given.metrics, **metrics}))
        found_in += bias.trend == "speed"
        said = trend(bias)
        assert (said is not None) == (bias.trend is not None)
        assert said is None or "The faster clients are, the more often" in said.text or not tilt
        if bias.trend and (far := how_uneven(given, replace(bias, whole=True))) is not None:
            assert re.search(r"\(TV; .* by equal chances\), significantly: the (most|fast).* tenth gave ", far.text)
        assert how_uneven(given, replace(bias, whole=False)) is None
    assert least <= found_in <= most


@pytest.mark.parametrize("rest", [{"separation": pl.lit(5)}, {"cooldown_s": pl.lit(60.0)}])
def test_clients_that_rest_are_not_more_even_than_chance(run: Run, rest: dict[str, pl.Expr]) -> None:
    """A separation makes counts regular, whoever is left out: independent draws are not what it is compared with."""
    counts = pl.when(CLIENT < 13).then(0).otherwise(3)
    for given in (flat(run, counts), flat(run, pl.lit(20) + CLIENT % 4)):
        still = changed(given, clients=given.clients.with_columns(**rest))
        assert not bias_of(still).more_even
        assert "more even than" not in plain(still)
    assert bias_of(given).more_even


def test_chance_under_a_separation_is_less_than_that_of_independent_draws(small: Load) -> None:
    """Equal clients of which 6 of 12 always rest: distances are those of the run's own noise, a few times smaller."""
    run = simulate(small("population.*.separation=2", "stop.rounds=800", "population.*.weight=1"))
    bias, drawn = bias_of(run), by_chance(int(run.clients["reported"].sum()), 12) / 2
    assert bias.seen is not Seen.BIAS
    assert not bias.more_even
    assert bias.fair is not None
    assert bias.fair < drawn / 2


def test_many_groups_of_equal_chances_stay_within_their_band(run: Run) -> None:
    """A hundred groups: a band for all holds all in 95 % of fair runs; of 40, more than 6 miss it once in a hundred."""
    generator, outside = np.random.default_rng(8), 0
    groups = run.clients.with_columns(group=CLIENT.cast(pl.String))["group"]
    for _ in range(40):
        given = flat(run, pl.lit(pl.Series(generator.multinomial(500, np.full(100, 0.01)))))
        shares = changed(given, clients=given.clients.with_columns(group=groups)).series["shares"].filter(kind="group")
        outside += bool(((shares["value"] - 1).abs() > shares["chance"]).any())
    assert outside <= 6


def test_what_was_not_found_is_said_with_what_would_have_been(run: Run) -> None:
    even = flat(run, pl.when(CLIENT < 50).then(190).otherwise(210) + CLIENT % 5 * 5 - 10)
    bias = bias_of(changed(even, clients=even.clients.with_columns(group=(CLIENT // 10).cast(pl.String))))
    worst = max(part.visible for part in bias.parts)
    assert bias.could_see == f"; a group with {percent(worst)} more or less than its fair share would stand out"
    assert replace(bias, parts=(replace(bias.parts[0], visible=1.2),)).could_see == (
        "; a group with 2.2 times its fair share would stand out"
    )
    assert replace(bias, visible=1.0).could_see == ", and the run is too short to find one"
    assert not replace(bias, seen=Seen.BIAS).could_see
    for whole in (True, False):
        said = how_even(even, replace(bias, seen=Seen.BIAS, whole=whole))
        assert said is not None
        assert (
            said.text.endswith("would have to come from other clients.")
            == whole
            == ("not significantly" not in said.text)
        )


def test_the_contrast_is_between_parts_that_are_significant_themselves() -> None:
    """The widest parts may be the smallest, of which chance says nothing."""
    part = ClientShare("group", "a", 0.1, 30, 1.62, low=0.6, high=3.4, visible=2.0)
    few = replace(part, name="b", times=0.51, low=0.1, high=1.5)
    less = replace(part, name="c", times=0.54, low=0.3, high=0.99, significant=True)
    more = replace(part, name="d", times=1.4, low=1.1, high=1.8, significant=True)
    assert Bias(Seen.BIAS, parts=(part, few, less)).contrasts == [(less, less)]
    assert Bias(Seen.BIAS, parts=(part, few, less, more)).contrasts == [(more, less)]
