"""Shocks: what takes devices out together, against their specified rates, and against a plain way to find them."""

import math
from datetime import datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.availability import between
from fedsim.availability.model import condition_pieces
from fedsim.availability.population import PopulationAvailability, strata
from fedsim.availability.shocks import ShockedAvailability, availability_of, outages_of, server_shocks, up_again
from fedsim.common.errors import ScenarioError, StalledError
from fedsim.common.instants import DAY, DAY_S, FOREVER, HOUR, HOUR_S, to_seconds
from fedsim.common.keyed import Purpose, stream
from fedsim.common.reasons import REASON_OF
from fedsim.pages.playground import write_playground
from fedsim.population import build_population
from fedsim.run.preflight import notes_of, preflight
from fedsim.scenario import Scenario
from fedsim.scenario.shocks import Shock, rates
from fedsim.simulation import simulate_log, transitions_table
from tests.availability.cases import instants
from tests.command import fedsim
from tests.conftest import Write
from tests.simulation.test_engines_agree import shocks

ALARM = 4.9
"""Standard errors that are allowed: normal draws exceed them once in 10^6 (two-sided), so these tests do not alarm
falsely more than once in 10^5 of their seeds."""


def scenario(befall: list[dict[str, Any]], **changes: Any) -> Scenario:
    data = {
        "seed": 5,
        "stop": {"duration": "400d"},
        "population": [{"name": "a", "devices": 20}, {"name": "b", "devices": 12}],
        "server": {"cohort": 1, "pause": "10h", "patience": "900d"},
        "records": {"gauges": "3h"},
        "shocks": befall,
    }
    return Scenario.model_validate({**data, **changes})


def of(case: Scenario, replicate: int = 0) -> ShockedAvailability:
    found = availability_of(case, strata(case, build_population(case)), replicate)
    assert isinstance(found, ShockedAvailability)
    return found


@pytest.mark.parametrize(
    ("engine", "length", "seed"),
    [
        pytest.param("process", {"kind": "exponential", "mean": "8m"}, 1, marks=pytest.mark.long),
        ("vectorized", "12m", 2),
        pytest.param("vectorized", {"kind": "lognormal", "median": "5m", "sigma": 0.6}, 3, marks=pytest.mark.long),
    ],
)
def test_the_correlation_of_two_devices_is_the_one_specified(engine: str, length: Any, seed: int) -> None:
    """As the gauges count them: 400 days, every 3 hours, long after what ran at the last count is over."""
    down, correlation = 0.2, 0.35
    befall = {"of": "group", "down": down, "correlation": correlation, "length": length}
    case = scenario([befall], engine=engine, seed=seed)
    gauges = simulate_log(case, build_population(case)).gauges
    out = {name: size - gauges.filter(group=name)["available"].to_numpy() for name, size in (("a", 20), ("b", 12))}
    covariance = correlation * down * (1 - down)

    def near(each: Any, expected: float) -> None:
        assert len(each) > 3_000
        assert abs(each.mean() - expected) < ALARM * each.std(ddof=1) / math.sqrt(len(each))

    for name, size in (("a", 20), ("b", 12)):
        near(out[name] / size, down)
        near(out[name] * (out[name] - 1) / (size * (size - 1)), covariance + down**2)
    near(out["a"] * out["b"] / (20 * 12), down**2)  # each group has shocks of its own


def test_the_same_shock_for_all_groups_makes_them_correlated() -> None:
    case = scenario([{"every": "2h", "length": "30m", "share": 0.5}])
    gauges = simulate_log(case, build_population(case)).gauges
    first, second = (gauges.filter(group=name)["available"].to_numpy() / size for name, size in (("a", 20), ("b", 12)))
    found = rates(case.shocks[0], 1_800.0)
    assert found.down == pytest.approx(1 - math.exp(-0.25 * 0.5))
    # Of different devices in two groups, as of two in one.
    both = np.array((1 - first) * (1 - second))
    expected = found.correlation * found.down * (1 - found.down) + found.down**2
    assert abs(both.mean() - expected) < ALARM * both.std(ddof=1) / math.sqrt(len(both))


@given(down=st.floats(0.001, 0.99), correlation=st.floats(0.02, 1))
def test_rates_give_what_was_asked_for(down: float, correlation: float) -> None:
    found = rates(Shock(down=down, correlation=correlation, length="1h"), HOUR_S)  # type: ignore[arg-type]
    assert found.down == pytest.approx(down)
    assert found.correlation == pytest.approx(correlation)


@pytest.mark.long
@settings(max_examples=40)
@given(befall=shocks(), seed=st.integers(0, 10**6), since=st.integers(0, 3 * HOUR), length=st.integers(1, HOUR))
def test_all_that_is_asked_has_one_answer(befall: list[dict[str, Any]], seed: int, since: int, length: int) -> None:
    """Spells, the mask and the reasons at an instant, and the end of an available time, each as the others say."""
    population = [
        {"name": "first", "devices": 9, "availability": {"kind": "renewal", "on": "20m", "off": "5m"}},
        {"name": "second", "devices": 7, "time_zone": ["Asia/Kolkata", "UTC", "UTC", "UTC", "UTC", "UTC", "UTC"]},
    ]
    case = scenario(befall, seed=seed, population=population, start="2026-01-05T00:00:00Z")
    devices = strata(case, build_population(case))
    if not any(case.shocks):
        assert isinstance(availability_of(case, devices, 0), PopulationAvailability)
        return
    everyone, until = np.arange(16), since + length
    who, starts, ends = of(case).spells(everyone, since, until)
    assert (starts < ends).all()
    order = np.lexsort((starts, who))
    same = who[order][1:] == who[order][:-1]
    assert (starts[order][1:][same] > ends[order][:-1][same]).all()  # whole, and disjoint
    asked, calendar = of(case), outages_of(case, devices, 0)
    assert calendar is not None
    grid = np.linspace(since, until - 1, 17).astype(np.int64)
    for instant in np.sort(np.concatenate([grid, starts, ends - 1])).tolist():
        expected = np.zeros(16, dtype=np.bool_)
        expected[who[(starts <= instant) & (instant < ends)]] = True
        found = asked.at(everyone, instant)
        assert (found == expected).all()
        reasons = asked.reasons(everyone, instant)
        assert ((reasons == 0) == found).all()
        assert ((reasons & REASON_OF["reachable"] > 0) == calendar.at(everyone, instant)).all()
        there = np.flatnonzero(found)
        told = asked.ends(there, instant, np.full(len(there), until - 1))
        for client, end in zip(there.tolist(), told.tolist(), strict=True):
            own = ends[(who == client) & (starts <= instant) & (instant < ends)]
            assert end == (own[0] if own[0] < until else FOREVER)


@settings(max_examples=30)
@given(befall=shocks(), seed=st.integers(0, 10**6), since=instants(60 * DAY), client=st.integers(0, 11))
def test_when_no_shock_has_a_client_out(befall: list[dict[str, Any]], seed: int, since: int, client: int) -> None:
    """The intervals are in order, as long as can be, and what is asked at their edges and elsewhere agrees."""
    zones = ["Asia/Kolkata", *["UTC"] * 5]
    population = [{"name": "first", "devices": 6}, {"name": "second", "devices": 6, "time_zone": zones}]
    case = scenario(befall, seed=seed, population=population, start="2026-01-05T00:00:00Z")
    outages = outages_of(case, strata(case, build_population(case)), 0)
    if outages is None:
        return
    known = since + 40 * DAY
    found = between(outages.reachable(client, since), since, known)
    assert all(since <= start < end <= known for start, end in found)
    assert all(before[1] < after[0] for before, after in pairwise(found))
    edges = [round(edge) + step for pair in found[:50] for edge in pair for step in (-1, 0, 1)]
    for instant in [*np.linspace(since, known - 1, 40).astype(np.int64).tolist(), *edges]:
        if since <= instant < known:
            expected = not any(start <= instant < end for start, end in found)
            assert outages.at(np.array([client]), instant).tolist() == [expected]
    gone = outages.for_good(np.array([client]), FOREVER - 1)[0]
    assert all(end <= gone for _, end in found)


@pytest.mark.parametrize("begin", ["2026-01-05T00:00:00Z", "2026-02-05T00:00:00Z"])
@pytest.mark.parametrize("end", [None, "2026-03-05T00:00:00Z"])
def test_a_long_shock_is_known_from_its_middle_on(begin: str, end: str | None) -> None:
    case = scenario([{"windows": [{"begin": begin, "end": end}]}])
    outages = outages_of(case, strata(case, build_population(case)), 0)
    assert outages is not None
    over = [] if end is None else [(59 * DAY, FOREVER)]
    assert between(outages.reachable(0, 45 * DAY), 0, FOREVER) == over
    assert between(outages.reachable(0, 80 * DAY), 0, FOREVER) == ([] if end is None else [(80 * DAY, FOREVER)])
    before = [] if begin < "2026-02" else [(0, 31 * DAY)]
    assert between(outages.reachable(0, 0), 0, FOREVER) == before + over


def test_who_is_always_out_is_searched_for_no_further_than_some_days() -> None:
    case = scenario([{"every": "1m", "length": "90m"}])
    outages = outages_of(case, strata(case, build_population(case)), 0)
    assert outages is not None
    reached = list(islice(outages.reachable(3, 0), 4))
    assert all(before[1] <= start == end for before, (start, end) in pairwise(reached))
    assert reached[0][1] < 8 * DAY


def test_all_reasons_that_are_held_at_once_are_told(tmp_path: Path) -> None:
    """Each bit is set exactly where its condition does not hold, whatever the others do."""
    rng = np.random.default_rng(2)
    rows = ["device,start_s,end_s,condition"]
    for device in range(6):
        for condition in ("charging", "network", "idle"):
            times = np.cumsum(rng.uniform(1, 90_000, 16)).reshape(-1, 2)
            rows += [f"d{device},{start:.4f},{end:.4f},{condition}" for start, end in times.tolist()]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    trace = {"kind": "trace", "file": str(tmp_path / "t.csv"), "base": "2025-12-30T00:00:00Z", "repeat": "none"}
    population = [
        {"name": "a", "devices": 20, "availability": {**trace, "without_intervals": "keep"}},
        {"name": "b", "devices": 12, "availability": {"kind": "renewal", "on": "5h", "off": "3h"}},
    ]
    befall: list[dict[str, Any]] = [
        {"every": "9h", "length": "4h", "share": 0.6},
        {"days": ["2026-01-07"], "groups": ["b"]},
    ]
    case = scenario(befall, population=population)
    devices, draws, asked = strata(case, build_population(case)), stream(5, 0, Purpose.AVAILABILITY), of(case)
    seen = set[int]()
    for instant in np.sort(rng.integers(0, 9 * DAY, 25)).tolist():
        reasons = asked.reasons(np.arange(32), instant).tolist()
        for client, cell in enumerate(devices.of_client.tolist()):
            model, where = devices.models[cell], devices.places[cell]
            held = {**condition_pieces(model, client, where, draws, instant)}
            held["reachable"] = asked.outages.reachable(client, instant)
            lacking = [name for name, found in held.items() if not between(found, instant, instant + 1)]
            assert reasons[client] == sum(REASON_OF[name] for name in lacking)
        seen |= set(reasons)
    assert len(seen) > 12


def test_local_days_and_windows_go_by_the_clock_of_each_device() -> None:
    zones = ["Asia/Kolkata", "America/New_York"]
    case = scenario(
        [{"days": ["2026-01-07"]}, {"windows": [{"begin": "2026-01-08T18:00", "end": "2026-01-08T20:00"}]}],
        population=[{"devices": 2, "time_zone": zones}],
    )
    who, starts, ends = of(case).outages.spells(np.arange(2), 0, 90 * DAY)
    for client, zone in enumerate(zones):
        expected = [
            (datetime(2026, 1, day, hour, tzinfo=ZoneInfo(zone)) - case.start) // timedelta(milliseconds=1)
            for day, hour in ((7, 0), (8, 0), (8, 18), (8, 20))
        ]
        own = who == client
        assert sorted([*starts[own], *ends[own]]) == expected


def test_a_rollout_takes_devices_out_until_each_has_updated() -> None:
    """At once, and back by the law of the recovery; the others are left alone, and who never updates is gone."""
    week = {"windows": [{"begin": "2026-01-06T00:00:00Z"}], "groups": ["a"]}
    population = [{"name": "a", "devices": 4_000}, {"name": "b", "devices": 10}]
    updated = scenario([{**week, "recovery": {"kind": "exponential", "mean": "2d"}}], population=population)
    found, everyone = of(updated), np.arange(4_010)
    assert found.at(everyone, DAY - 1).all()
    assert not found.at(everyone, DAY)[:4_000].any()
    for days in (1, 3):
        back = found.at(everyone, (1 + days) * DAY)
        assert back[4_000:].all()
        expected = 1 - math.exp(-days / 2)
        assert abs(back[:4_000].mean() - expected) < ALARM * math.sqrt(expected * (1 - expected) / 4_000)
    assert (found.leaves(everyone, 0, 900 * DAY) == FOREVER).all()
    assert not found.may_leave.any()
    ever = of(scenario([{**week, "share": 0.25}], population=population))
    assert ever.may_leave.tolist() == [True] * 4_000 + [False] * 10
    gone = ever.leaves(everyone, 0, 2 * DAY)
    assert set(np.unique(gone)) == {DAY, FOREVER}
    assert abs((gone == DAY)[:4_000].mean() - 0.25) < ALARM * math.sqrt(0.25 * 0.75 / 4_000)
    assert (ever.leaves(everyone, 0, DAY - 1) == FOREVER).all()


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_server_waits_in_vain_for_devices_that_a_rollout_has_taken_out(engine: str) -> None:
    befall = {"windows": [{"begin": "2026-01-06T00:00:00Z"}]}
    case = scenario([befall], engine=engine, stop={"rounds": 900})
    with pytest.raises(StalledError, match="at most 0 can become eligible"):
        simulate_log(case, build_population(case))
    lasting = scenario([befall], engine=engine)
    log = simulate_log(lasting, build_population(lasting))
    assert (log.ended_s, log.rounds["outcome"].to_list()[-1]) == (400 * 24 * HOUR_S, "stopped")


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_server_that_is_down_opens_no_round_and_takes_no_report(engine: str) -> None:
    down = [(9 * HOUR_S, 12 * HOUR_S), (12 * HOUR_S, 13 * HOUR_S)]
    windows = [
        {"begin": f"2026-01-05T{int(begin / HOUR_S):02}:00:00Z", "end": f"2026-01-05T{int(end / HOUR_S):02}:00:00Z"}
        for begin, end in down
    ]
    case = scenario(
        [{"of": "server", "windows": windows}],
        engine=engine,
        stop={"duration": "1d"},
        population=[{"devices": 10, "session": {"train": "25m"}}],
        server={"cohort": 10, "pause": "7m", "shortage": "skip"},
    )
    log = simulate_log(case, build_population(case))
    opened, closed = log.rounds["opened_s"].to_numpy(), log.rounds["closed_s"].to_numpy()
    assert not ((opened >= 9 * HOUR_S) & (opened < 13 * HOUR_S)).any()
    assert 13 * HOUR_S in opened
    (cut,) = log.rounds.filter(opened_s=float(opened[opened < 9 * HOUR_S].max()))["outcome"].to_list()
    assert cut == "exhausted"
    assert 9 * HOUR_S in closed
    assert (log.gauges.filter(time_s=12 * HOUR_S)["available"] == 0).all()
    assert up_again(server_shocks(case, 0), 10 * HOUR) == 13 * HOUR
    assert up_again(server_shocks(case, 0), 13 * HOUR) == 13 * HOUR


def test_transitions_tell_when_no_shock_has_a_device_out() -> None:
    case = scenario([{"of": "zone", "every": "1d", "length": "5h", "share": 0.6}], records={"gauges": "3h"})
    population = build_population(case)
    table = transitions_table(case, population, [0, 3], 40 * DAY_S)
    assert set(table["condition"]) == {"available", "reachable"}
    asked = of(case)
    for instant in range(0, 40 * DAY, 5_000_000):
        past = table.filter((table["time_s"] <= to_seconds(instant)) & (table["condition"] == "reachable"))
        told = [past.filter(client=client)["on"].to_list()[-1:] == [True] for client in (0, 3)]
        assert told == asked.at(np.array([0, 3]), instant).tolist()


def test_shocks_are_drawn_by_their_name_and_place_alone() -> None:
    """Another shock, another group or another order leaves the shocks of a group as they are."""
    cut = {"name": "cut", "of": "group", "every": "1d", "length": "1h", "share": 0.5}
    more = {"name": "more", "every": "2d", "length": "1h"}
    alone = of(scenario([cut])).outages.spells(np.arange(20), 0, 90 * DAY)
    case = scenario([more, cut], population=[{"name": "a", "devices": 20}])
    outages = of(case).outages
    beside = type(outages)(outages.layers[1:], outages.stratum, outages.hits, outages.recoveries)
    found = beside.spells(np.arange(20), 0, 90 * DAY)
    assert all((one == other).all() for one, other in zip(alone, found, strict=True))
    other = of(scenario([cut]), replicate=1).outages.spells(np.arange(20), 0, 90 * DAY)
    assert len(other.who) != len(alone.who) or (other.starts != alone.starts).any()


BASE = "stop: {rounds: 5}\npopulation: [{name: a, devices: 4}]\nserver: {cohort: 1}\nshocks:\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  - {share: 0.5}\n", "needs one of every, down, windows and days, to say when it happens"),
        ("  - {every: 1d, days: [2026-01-01]}\n", "not every and days"),
        ("  - {every: 1d}\n", "every needs length"),
        ("  - {down: 0.1, length: 1h}\n", "down needs either share or correlation"),
        ("  - {days: [2026-01-01T12:00]}\n", "must be a date such as 2026-12-25"),
        ("  - {windows: [{begin: tomorrow}]}\n", "or a local time such as 2026-01-05T18:00"),
        ("  - {windows: [{begin: 2026-01-05, end: 2026-01-05}]}\n", "ends at 2026-01-05T00:00:00, not after it begins"),
        ("  - {every: 1d, length: 0s}\n", "must be longer than 0s"),
        ("  - {of: server, days: [2026-01-01]}\n", "of: server has no local time"),
        ("  - {of: server, windows: [{begin: 2026-01-05T00:00:00Z}]}\n", "needs an end"),
        ("  - {groups: [b], every: 1d, length: 1h}\n", "shocks[0].groups[0]: no device is in the group 'b'"),
        ("  - {zones: [Europe/Berlin], every: 1d, length: 1h}\n", "no device lives in 'Europe/Berlin'"),
        ("  - {every: 1s, length: 1d}\n", "of these shocks would run at once"),
        ("  - {down: 0.5, share: 0.01, length: 2ms}\n", "must come less often than once in a millisecond"),
        ("  - {name: x, days: [2026-01-01]}\n  - {name: x, days: [2026-01-02]}\n", "two shocks are called 'x'"),
    ],
)
def test_mistakes_are_told_with_their_place(write: Write, text: str, words: str) -> None:
    with pytest.raises(ScenarioError) as error:
        preflight(Scenario.load(write(BASE + text)))
    assert words in str(error.value)
    assert ":4:" in str(error.value) or ":5:" in str(error.value) or ":6:" in str(error.value)


def test_what_is_to_be_known_is_said_before_the_run_and_by_theory(write: Write) -> None:
    cut = "  - {name: power cut, of: zone, every: 10d, length: 2h, share: 0.5}\n"
    file = write(BASE + cut)
    case = Scenario.load(file)
    notes = notes_of(preflight(case))
    assert (
        "note: power cut: about every 10 d in each time zone for 2 h on average, 0.5 of its devices are out: 0.42% of "
        "a device's time, with a correlation of 0.499 between two of them" in notes
    )
    assert any("take devices out together" in note for note in notes)
    done = fedsim("chain", file)
    assert "the scenario's shocks are left out" in done.stderr
    assert "shocks" not in fedsim("chain", write(BASE.replace("shocks:\n", ""), "plain.fedsim.yaml")).stderr
    assert Scenario.model_validate(case.model_dump(mode="json")) == case


def test_pages_say_that_no_theory_covers_shocks(write: Write) -> None:
    """A run's page and the playground; without shocks neither says so."""
    cut = "  - {name: power cut, every: 10m, length: 1m}\n"
    for text, said in ((BASE + cut, True), (BASE.replace("shocks:\n", ""), False)):
        file = write(text, f"{said}.fedsim.yaml")
        assert fedsim("run", file, "--out", file.parent / str(said)).returncode == 0
        page = (file.parent / str(said) / "report.html").read_text("utf-8")
        assert ("Shocks take devices out together" in page) == said
        notes = write_playground(file.parent / "play.html", Scenario.load(file), file)
        assert ("the scenario's shocks are left out: in the page every client is always there" in notes) == said
