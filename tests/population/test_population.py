"""Per-client numbers from every source, and what they cannot be."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedsim.availability.habits.persons import Draw, draw_index
from fedsim.common.errors import ScenarioError
from fedsim.common.keyed import Purpose, stream
from fedsim.population import Population, build_population, check_feasible, residence
from fedsim.population.sources import PROPENSITY, propensity
from fedsim.scenario import Scenario
from tests.conftest import Write


def population(write: Write, group: str, *overrides: str) -> Population:
    path = write(f"stop: {{rounds: 5}}\npopulation:\n  - {{{group}}}\nserver: {{cohort: 1}}\n")
    return build_population(Scenario.load(path, overrides))


def complaint(write: Write, group: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        population(write, group)
    return str(caught.value).partition("error: ")[2]


def test_weights_are_normalised_over_all_groups(write: Write) -> None:
    path = write(
        """\
        stop: {rounds: 5}
        population:
          - {name: a, devices: 2, weight: 3}
          - {name: b, devices: 1, weight: 2, separation: 1, cooldown: 5s}
        server: {cohort: 1}
        """
    )
    made = build_population(Scenario.load(path))
    np.testing.assert_allclose(made.weight, [3 / 8, 3 / 8, 2 / 8])
    assert (made.group_names, made.group.tolist()) == (("a", "b"), [0, 0, 1])
    assert (made.separation.tolist(), made.cooldown_s.tolist()) == ([0, 0, 1], [0.0, 0.0, 5.0])
    assert made.common_separation is None


def test_zipf_with_shared_ranks(write: Write) -> None:
    made = population(write, "devices: 7, weight: {kind: zipf, exponent: 1.5, per_rank: 3}")
    expected = np.repeat([1.0, 2.0, 3.0], [3, 3, 1]) ** -1.5
    np.testing.assert_allclose(made.weight, expected / expected.sum())


def test_drawn_values_depend_on_the_client_and_the_seed_alone(write: Write) -> None:
    source = "weight: {kind: lognormal, sigma: 1}, separation: {kind: uniform, low: 2, high: 4}"
    few, many = population(write, f"devices: 50, {source}"), population(write, f"devices: 90, {source}")
    np.testing.assert_allclose(few.weight / few.weight[0], many.weight[:50] / many.weight[0])
    assert few.separation.tolist() == many.separation[:50].tolist()
    assert set(many.separation.tolist()) == {2, 3, 4}
    assert population(write, f"devices: 50, {source}", "seed=1").weight.tolist() != few.weight.tolist()


def test_uniform_weights_lie_between_their_bounds(write: Write) -> None:
    made = population(write, "devices: 1000, weight: {kind: uniform, low: 1, high: 3}")
    assert 1 < made.weight.max() / made.weight.min() <= 3


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_of_files(write: Write, tmp_path: Path, kind: str) -> None:
    table = pl.DataFrame({"p": [1.0, 2.0, 5.0], "wait": [0, 4, 2], "word": ["a", "b", "c"], "part": [0.5, 1.5, 2.0]})
    file = tmp_path / f"clients.{kind}"
    table.write_csv(file) if kind == "csv" else table.write_parquet(file)
    source = f"{{kind: column, file: clients.{kind}, column: "
    made = population(write, f"devices: 3, weight: {source}p}}, separation: {source}wait}}")
    np.testing.assert_allclose(made.weight, [1 / 8, 2 / 8, 5 / 8])
    assert made.separation.tolist() == [0, 4, 2]
    assert "has no column 'q'; it has p, wait, word, part" in complaint(write, f"devices: 3, weight: {source}q}}")
    assert "holds something that is not a number" in complaint(write, f"devices: 3, weight: {source}word}}")
    of = f"of 'clients.{kind}'"
    part = f"separation: column 'part' {of}: must be a whole number from 0 to 10^9, but value 0 is 0.5"
    assert f"population[0].{part}" in complaint(write, f"devices: 3, separation: {source}part}}")
    wait = f"weight: column 'wait' {of}: must be above 0 and finite, but value 0 is 0"
    assert f"population[0].{wait}" in complaint(write, f"devices: 3, weight: {source}wait}}")
    assert "has 3 values for 4 devices" in complaint(write, f"devices: 4, weight: {source}p}}")


def test_files_that_cannot_be_read(write: Write, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_text("not Parquet")
    assert "is not a readable Parquet file" in complaint(
        write, "devices: 3, weight: {kind: column, file: bad.parquet, column: p}"
    )
    assert "there is no file" in complaint(write, "devices: 3, weight: {kind: column, file: none.csv, column: p}")


def test_lists_must_fit(write: Write) -> None:
    assert complaint(write, "devices: 3, weight: [1, 2]") == "population[0].weight: has 2 values for 3 devices"
    message = complaint(write, "devices: 3, weight: [1, 1.0e+300, 1.0e-300]")
    assert message == "population: weights span too many orders of magnitude: client 2 would have none"


def feasibility(write: Write, population: str, server: str, stop: str = "{rounds: 50}") -> list[str]:
    path = write(f"stop: {stop}\npopulation:\n  - {{{population}}}\nserver: {{{server}}}\n")
    scenario = Scenario.load(path)
    found = check_feasible(scenario, build_population(scenario))
    return [str(mistake).replace(str(path), "FILE") for mistake in found]


@pytest.mark.parametrize("law", ["midzuno", "groups", "cyclic"])
@pytest.mark.parametrize(("devices", "cohort"), [(100, 5), (7, 1), (12, 12)])
def test_the_largest_separation_that_works(write: Write, law: str, devices: int, cohort: int) -> None:
    largest = devices // cohort - 1
    server = f"cohort: {cohort}, selection: {law}"
    assert feasibility(write, f"devices: {devices}, separation: {largest}", server) == []
    found = feasibility(write, f"devices: {devices}, separation: {largest + 1}", server)
    assert len(found) == 1
    assert found[0].startswith(
        f"FILE:3:{len(f'  - {{devices: {devices}, separation: ') + 1}: error: population[0].separation: "
    )
    assert found[0].endswith(f"the largest that works is {largest}")


def test_a_separation_too_large_is_no_mistake_where_rounds_go_on(write: Write) -> None:
    assert feasibility(write, "devices: 10, separation: 9", "cohort: 5, shortage: skip") == []
    assert feasibility(write, "devices: 10, separation: 1", "cohort: 5, shortage: proceed") == []
    assert feasibility(write, "devices: 10, separation: 9", "cohort: 5, selection: poisson") == []


def test_a_separation_with_which_nobody_is_left_is_a_mistake_where_rounds_proceed_with_fewer(write: Write) -> None:
    (found,) = feasibility(write, "devices: 9, separation: 2", "cohort: 5, shortage: proceed")
    assert found.endswith("nobody would be left after 2 rounds; the largest that works is 1")


@pytest.mark.parametrize(
    ("population", "server", "stop"),
    [
        ("devices: 20, separation: 10", "cohort: 4", "{rounds: 5}"),  # each client once
        ("devices: 20, separation: 10", "mode: buffered, concurrency: 4, buffer: 4", "{rounds: 5}"),
        (
            "devices: 20, separation: [1000, 1000, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]",
            "cohort: 4",
            "{rounds: 5}",
        ),
        ("devices: 12, separation: 3", "cohort: 2, over_select: 2, cooldown_from: reported", "{rounds: 90}"),
        ("devices: 12, separation: 50", "cohort: 2, selection: bernoulli", "{rounds: 7}"),
        ("devices: 12, separation: 50", "cohort: 2", "{rounds: 50, duration: 5m}"),  # four rounds of 90 s
        ("devices: 12, separation: 50, availability: habits", "cohort: 2", "{duration: 5d}"),
    ],
)
def test_what_may_work_is_no_mistake(write: Write, population: str, server: str, stop: str) -> None:
    assert feasibility(write, population, server, stop) == []


@pytest.mark.parametrize(
    ("population", "server", "stop", "words"),
    [
        ("devices: 20, separation: 10", "cohort: 4", "{rounds: 6}", "nobody would be left after 5 rounds"),
        (
            "devices: 12, separation: 5",
            "cohort: 2, over_select: 2, cooldown_from: reported",
            "{rounds: 90}",
            "only 2 would",
        ),
        ("devices: 12, separation: 50", "cohort: 2", "{duration: 1h}", "nobody would be left after 6 rounds"),
        ("devices: 12, separation: 50", "cohort: 2, selection: bernoulli", "{rounds: 900}", "left after 6 rounds"),
    ],
)
def test_what_fails_for_certain_is_a_mistake(write: Write, population: str, server: str, stop: str, words: str) -> None:
    (found,) = feasibility(write, population, server, stop)
    assert words in found


def test_a_population_too_small(write: Write) -> None:
    assert feasibility(write, "devices: 10", "cohort: 11") == [
        "FILE:4:18: error: server.cohort: a round wants 11 clients, but the population has 10"
    ]
    assert (
        "wants 13 (cohort 10, over-selected) clients"
        in feasibility(write, "devices: 12", "cohort: 10, over_select: 1.3")[0]
    )


def test_separations_that_cannot_be_kept_together(write: Write) -> None:
    found = feasibility(write, "devices: 4, separation: [0, 1, 3, 3]", "cohort: 3")
    assert found[0].endswith(
        "the clients can take part 5 times in all, with their caps and separations, and 2 rounds need 6; the most "
        "rounds that work are 1"
    )
    assert feasibility(write, "devices: 4, separation: [0, 1, 3, 3]", "cohort: 2") == []


def test_selection_groups_must_fit(write: Write) -> None:
    assert (
        "leaves 1; make the population a multiple"
        in feasibility(write, "devices: 10", "cohort: 3, selection: groups")[0]
    )
    found = feasibility(write, "devices: 4, separation: [1, 1, 0, 1]", "cohort: 2, selection: groups")
    assert "members of selection group 1 have different separations" in found[0]


def drawn(write: Write, source: str, devices: int = 20_000) -> NDArray[np.float64]:
    """Return speeds, which are not normalised, of many devices."""
    return population(write, f"devices: {devices}, session: {{speed: {source}}}").speed


@pytest.mark.parametrize(
    ("source", "law"),
    [
        ("{kind: uniform, low: 1, high: 3}", stats.uniform(1, 2)),
        ("{kind: lognormal, sigma: 0.5, median: 2}", stats.lognorm(0.5, scale=2)),
        ("{kind: pareto, shape: 1.5, minimum: 2}", stats.pareto(1.5, scale=2)),
        ("{kind: dirichlet, concentration: 0.3}", stats.gamma(0.3)),
        ("{kind: dirichlet, concentration: 40}", stats.gamma(40)),
        ("{kind: lognormal, sigma: 0.5, correlation: {to: availability, rho: -0.9}}", stats.lognorm(0.5)),
        ("{kind: pareto, shape: 3, correlation: {to: order, rho: 0.5}}", stats.pareto(3)),
    ],
)
def test_laws(write: Write, source: str, law: Any) -> None:
    """Kolmogorov-Smirnov on 20,000 devices; false alarm 1e-3 each. A correlation leaves the law as it is."""
    assert stats.kstest(drawn(write, source), law.cdf).pvalue > 1e-3


def test_a_mixture_draws_each_part_by_its_share(write: Write) -> None:
    parts = "[{share: 1, source: 5}, {share: 3, source: {kind: uniform, low: 1, high: 2}}]"
    values = drawn(write, f"{{kind: mixture, parts: {parts}}}")
    assert stats.binomtest(int((values == 5).sum()), len(values), 0.25).pvalue > 1e-3
    assert ((values == 5) | ((values > 1) & (values < 2))).all()


@pytest.mark.parametrize("rho", [-1.0, -0.7, 0.0, 0.7, 1.0])
@pytest.mark.parametrize("to", ["availability", "order"])
def test_quantities_go_with_other_properties(write: Write, to: str, rho: float) -> None:
    """Spearman's correlation of a Gaussian copula is (6 / pi) asin(rho / 2); on 20,000 devices within 0.03."""
    values = drawn(write, f"{{kind: pareto, shape: 2, correlation: {{to: {to}, rho: {rho}}}}}")
    other = propensity(np.arange(len(values)), stream(0, 0, Purpose.AVAILABILITY)) if to == "availability" else None
    found = stats.spearmanr(values, np.arange(len(values)) if other is None else other).statistic
    assert found == pytest.approx(6 / np.pi * np.arcsin(rho / 2), abs=0.03)


def test_cooldowns_per_client(write: Write, tmp_path: Path) -> None:
    pl.DataFrame({"rest": [60, 0, 3600]}).write_csv(tmp_path / "c.csv")
    assert population(write, "devices: 3, cooldown: [1h, 0s, 90s]").cooldown_s.tolist() == [3600, 0, 90]
    made = population(write, "devices: 3, cooldown: {kind: column, file: c.csv, column: rest}")
    assert made.cooldown_s.tolist() == [60, 0, 3600]
    some = population(write, "devices: 500, cooldown: {kind: uniform, low: 1h, high: 2h}").cooldown_s
    assert 3600 <= some.min() < some.max() <= 7200
    assert complaint(write, "devices: 2, cooldown: [1h]") == "population[0].cooldown: has 1 values for 2 devices"
    assert "cooldown: low is 7200s, above high, 3600s" in complaint(
        write, "devices: 2, cooldown: {kind: uniform, low: 2h, high: 1h}"
    )


def test_habits_and_quantities_go_by_the_same_score() -> None:
    assert int(draw_index(Draw.PROPENSITY)) == PROPENSITY


@pytest.mark.parametrize(
    ("source", "median"),
    [
        ("{kind: lognormal, median: 8h, sigma: 0.5}", 8 * 3600.0),
        ("{kind: exponential, mean: 8h}", 8 * 3600.0 * np.log(2)),
        ("{kind: pareto, minimum: 1h, shape: 2}", 3600.0 * np.sqrt(2)),
        ("{kind: uniform, low: 1h, high: 3h}", 2 * 3600.0),
        (
            "{kind: mixture, parts: [{share: 3, source: 90s}, {share: 1, source: {kind: uniform, low: 1h, high: 3h}}]}",
            90,
        ),
        ("{kind: mixture, parts: [{share: 3, source: 0s}, {share: 1, source: {kind: exponential, mean: 8h}}]}", 0),
    ],
)
def test_laws_of_cooldowns(write: Write, source: str, median: float) -> None:
    """The sample median of 20,000 lies within 3 % but for one in 10^4 seeds: its standard error is below 0.8 %."""
    made = population(write, f"devices: 20000, cooldown: {source}").cooldown_s
    assert np.median(made) == pytest.approx(median, rel=0.03)
    few = population(write, f"devices: 100, cooldown: {source}").cooldown_s
    assert few.tolist() == made[:100].tolist()


def test_cooldowns_and_separations_by_rank(write: Write) -> None:
    made = population(
        write,
        "devices: 5, cooldown: {kind: zipf, largest: 1h, exponent: 1}, "
        "separation: {kind: zipf, largest: 9, exponent: 1, per_rank: 2}",
    )
    np.testing.assert_allclose(made.cooldown_s, 3600 / np.arange(1, 6))
    assert made.separation.tolist() == [9, 9, 4, 4, 3]


def test_laws_of_separations_are_rounded(write: Write) -> None:
    source = "separation: {kind: lognormal, median: 20, sigma: 1}"
    made = population(write, f"devices: 4000, {source}").separation
    assert np.median(made) == pytest.approx(20, rel=0.1)
    parts = "{kind: mixture, parts: [{share: 1, source: 0}, {share: 1, source: {kind: pareto, minimum: 4, shape: 3}}]}"
    some = population(write, f"devices: 4000, separation: {parts}").separation
    assert set(some.tolist()) > {0, 4, 5}
    assert 0.45 < (some == 0).mean() < 0.55  # 6 standard errors
    assert "must be a whole number from 0 to 10^9" in complaint(
        write, "devices: 100, separation: {kind: pareto, minimum: 4, shape: 0.01}"
    )


def test_quantities_of_every_kind_go_with_availability(write: Write) -> None:
    """With rho 1 all of them are in the order of the devices' propensity."""
    with_it = "correlation: {to: availability, rho: 1}"
    made = population(
        write,
        f"devices: 300, weight: {{kind: zipf, exponent: 1, {with_it}}}, "
        f"separation: {{kind: uniform, low: 0, high: 50, {with_it}}}, "
        f"cooldown: {{kind: lognormal, median: 1h, sigma: 1, {with_it}}}, "
        f"time_zone: {{kind: mixture, {with_it}, parts: [{{share: 1, source: UTC}}, {{share: 2, source: Japan}}]}}, "
        f"session: {{speed: {{kind: mixture, {with_it}, parts: [{{share: 1, source: 1}}, {{share: 1, source: 3}}]}}}}",
    )
    order = np.argsort(propensity(np.arange(300), stream(0, 0, Purpose.AVAILABILITY)))
    for values in (made.weight, made.separation, made.cooldown_s, made.speed, made.zone):
        assert (np.diff(values[order]) >= 0).all()
        assert values[order[0]] < values[order[-1]]


def test_time_zones_per_client(write: Write, tmp_path: Path) -> None:
    names = ["Asia/Tokyo", "UTC", "Asia/Tokyo"]
    made = population(write, f"devices: 3, time_zone: [{', '.join(names)}]")
    assert [made.zone_names[code] for code in made.zone] == names
    pl.DataFrame({"tz": names}).write_csv(tmp_path / "c.csv")
    pl.DataFrame({"tz": names}, schema={"tz": pl.Categorical}).write_parquet(tmp_path / "c.parquet")
    for file in ("c.csv", "c.parquet"):
        read = population(write, f"devices: 3, time_zone: {{kind: column, file: {file}, column: tz}}")
        assert [read.zone_names[code] for code in read.zone] == names
    assert population(write, "devices: 2").zone_names == ("UTC",)


def test_a_mixture_of_time_zones(write: Write) -> None:
    mixture = "{kind: mixture, parts: [{share: 3, source: Europe/Berlin}, {share: 1, source: Asia/Kolkata}]}"
    made = population(write, f"devices: 4000, time_zone: {mixture}")
    assert made.zone_names == ("Europe/Berlin", "Asia/Kolkata")
    assert (made.zone == 1).mean() == pytest.approx(0.25, abs=0.04)  # 6 standard errors
    few = population(write, f"devices: 100, time_zone: {mixture}")
    assert few.zone.tolist() == made.zone[:100].tolist()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["UTC", "Europe/Berln"], "value 1: unknown time zone 'Europe/Berln'; did you mean 'Europe/Berlin'?"),
        (["UTC", None], "is empty in row 1"),
        (["UTC"], "has 1 values for 2 devices"),
        ([1, 2], "holds something that is not text"),
    ],
)
def test_columns_of_time_zones_that_are_wrong(write: Write, tmp_path: Path, rows: list[Any], message: str) -> None:
    pl.DataFrame({"other": range(len(rows)), "tz": rows}).write_csv(tmp_path / "c.csv")
    found = complaint(write, "devices: 2, time_zone: {kind: column, file: c.csv, column: tz}")
    assert found.startswith("population[0].time_zone: ")
    assert message in found


def test_lists_of_time_zones_that_are_wrong(write: Write) -> None:
    found = complaint(write, "devices: 2, time_zone: [UTC, Berlin]")
    assert found == "population[0].time_zone[1]: unknown time zone 'Berlin'; did you mean 'Europe/Berlin'?"
    assert "time_zone: has 1 values for 2 devices" in complaint(write, "devices: 2, time_zone: [UTC]")
    assert "did you mean 'Asia/Tokyo'?" in complaint(
        write, "devices: 2, time_zone: {kind: mixture, parts: [{share: 1, source: Asia/Tokio}]}"
    )


def test_who_lives_where(write: Write) -> None:
    path = write(
        """\
        stop: {rounds: 5}
        population:
          - {name: a, devices: 3, time_zone: [UTC, Asia/Tokyo, UTC]}
          - {name: b, devices: 2, time_zone: Asia/Tokyo}
        server: {cohort: 1}
        """
    )
    found = residence(build_population(Scenario.load(path)))
    assert list(zip(found.group.tolist(), found.zone.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 1)]
    assert found.of_client.tolist() == [0, 1, 0, 2, 2]


def test_numbers_may_become_fractions_far_down_a_file(write: Write, tmp_path: Path) -> None:
    pl.DataFrame({"p": ["1"] * 500 + ["2.5"]}).write_csv(tmp_path / "c.csv")
    made = population(write, "devices: 501, weight: {kind: column, file: c.csv, column: p}")
    assert made.weight[-1] == pytest.approx(2.5 * made.weight[0])


def test_every_quantity_that_is_wrong_is_told(write: Write) -> None:
    with pytest.raises(ScenarioError) as caught:
        population(write, "devices: 3, weight: [1, 2], cooldown: [1h], time_zone: [UTC, UTC]")
    assert [mistake.path[-1] for mistake in caught.value.mistakes] == ["weight", "cooldown", "time_zone"]
