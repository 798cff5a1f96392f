"""The two engines write identical tables: random scenarios over every feature, and cases that are easily missed."""

import json
import os
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.availability import MODELS, Intervals, Place
from fedsim.availability.population import strata
from fedsim.common.errors import StalledError
from fedsim.common.keyed import Stream
from fedsim.log import GAUGE_COUNTS, fingerprint
from fedsim.measure.frequencies import clients_table
from fedsim.measure.metrics import count_of, measure
from fedsim.population import build_population
from fedsim.run.evaluate import setting_of
from fedsim.run.federation import PreparedFederation
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log
from fedsim.simulation.arrays import precomputed
from fedsim.simulation.arrays.roster import ArrayRoster
from fedsim.simulation.engine import FEW_DEVICES, engine_of
from fedsim.simulation.processes.roster import Roster
from tests.scenarios import buffered_scenarios, scenarios

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"]
# Around changes of the clocks, and in a week without any.
STARTS = ["2026-01-05T00:00:00Z", "2026-03-28T20:30:00Z", "2026-10-24T17:00:00Z", "2026-04-04T06:00:00.25Z"]

MANY = int(os.environ.get("FEDSIM_MANY", "20"))
"""Examples of a test that compares the engines: `FEDSIM_MANY=450 pytest tests/simulation -m long` has more of them."""


@MODELS.register("every_few_minutes")
class EveryFewMinutes:
    """Somebody's own model, on whole minutes; a third of its devices leave for good."""

    def intervals(self, client: int, place: Place, draws: Stream) -> Intervals:  # noqa: ARG002
        for lap in range(40 if client % 3 == 0 else 100_000):
            on, off = (int(60 * (1 + 6 * draws.uniforms(client, 2 * lap + each)[0] // 1)) for each in (0, 1))
            start = lap * 840.0 + off
            yield start, start + on
            yield start + on, start + on + 60.0 * (lap % 2)  # a piece that touches, or an empty one


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recorded trace of 40 devices over nine days, some of them never or always available."""
    folder = tmp_path_factory.mktemp("traces")
    rng = np.random.default_rng(7)
    rows: list[tuple[str, float, float]] = []
    for device in range(40):
        now = 0.0
        while now < 9 * 86_400 and device > 1:
            start = now + rng.integers(60, 20_000)
            now = float(start + rng.integers(30, 20_000))
            rows.append((f"d{device}", float(start), now))
    rows.append(("d1", 0.0, 9 * 86_400.0))
    pl.DataFrame(rows, schema=["device", "start_s", "end_s"], orient="row").write_csv(folder / "trace.csv")
    minutes = []
    for device in range(30):
        steps = np.cumsum(rng.integers(1, 25, 60)) * 60.0
        minutes += [(f"d{device}", start, end) for start, end in steps.reshape(-1, 2).tolist()]
    pl.DataFrame(minutes, schema=["device", "start_s", "end_s"], orient="row").write_csv(folder / "minutes.csv")
    return folder


@st.composite
def lengths(draw: st.DrawFn) -> Any:
    """Lengths of a renewal process: long ones, and laws whose shortest lengths are too short for the clock."""
    mean = draw(st.sampled_from(["20s", "5m", "2h"]))
    kind = draw(st.sampled_from(["exponential", "weibull", "pareto", "lognormal"]))
    return {
        "exponential": mean,
        "weibull": {"kind": "weibull", "mean": mean, "shape": 0.1},
        "pareto": {"kind": "pareto", "mean": mean, "shape": 1.2},
        "lognormal": {"kind": "lognormal", "median": mean, "sigma": 2},
    }[kind]


@st.composite
def availabilities(draw: st.DrawFn) -> Any:
    """Every kind of availability, with settings that make coincidences likely."""
    match draw(st.sampled_from(["always", "renewal", "habits", "habits", "trace", "own"])):
        case "always":
            return "always"
        case "renewal":
            return {"kind": "renewal", "on": draw(lengths()), "off": draw(lengths())}
        case "habits":
            required = draw(st.lists(st.sampled_from(["charging", "network", "idle"]), min_size=1, unique=True))
            use = draw(st.sampled_from(["0s", "30s", {"kind": "lognormal", "median": "40s", "sigma": 1.5}]))
            idle = {"uses_per_day": draw(st.sampled_from([0, 57, 200])), "use": use}
            idle["settle"] = draw(st.sampled_from(["0s", "17m"]))
            drop_outs = {"per_hour": draw(st.sampled_from([0, 0.1, 10]))}
            return {"kind": "habits", "require": required, "idle": idle, "network": {"drop_outs": drop_outs}}
        case "own":
            return {"kind": "every_few_minutes"}
    return {
        "kind": "trace",
        "file": "trace.csv",
        "base": draw(st.sampled_from(["2026-01-05T00:00:00Z", "2025-10-24T00:00:00+02:00"])),
        "repeat": draw(st.sampled_from(["week", "day", "none"])),
        "time_zone": draw(st.sampled_from([None, "Europe/Berlin"])),
        "assign": draw(st.sampled_from(["with_replacement", "without_replacement", "in_order"])),
        "without_intervals": draw(st.sampled_from(["drop", "keep"])),
    }


def time_zones(devices: int) -> st.SearchStrategy[Any]:
    """One time zone for all devices of a group, one for each, or a mixture."""
    one = st.sampled_from(ZONES)
    mixture = st.lists(one, min_size=2, max_size=4).map(
        lambda names: {"kind": "mixture", "parts": [{"share": 1 + len(name), "source": name} for name in names]}
    )
    return st.one_of(one, mixture, st.lists(one, min_size=devices, max_size=devices))


def rests(devices: int) -> st.SearchStrategy[Any]:
    """Cool-downs that differ from client to client."""
    sources: list[Any] = [
        {"kind": "lognormal", "median": "2m", "sigma": 1.5},
        {"kind": "mixture", "parts": [{"share": 1, "source": "0s"}, {"share": 1, "source": "40s"}]},
        {"kind": "zipf", "largest": "5m", "exponent": 1},
        ["50s"] * devices,
    ]
    return st.sampled_from(sources)


CHECK_INS = [
    None,
    None,
    {"every": "10m", "window": "1m"},
    {"every": "3m", "window": "3m"},
    {"every": "7s", "window": "2s"},
    {"wanted": 4, "window": "2m"},
    {"wanted": 20, "window": "13m"},
]
churn = st.sampled_from(
    [
        *([{}] * 4),
        {"joins": "3m"},
        {"joins": {"kind": "uniform", "low": "0s", "high": "20m"}, "leaves": "5h"},
        {"leaves": {"kind": "exponential", "mean": "40m"}},
        {"leaves": {"kind": "mixture", "parts": [{"share": 1, "source": "10m"}, {"share": 1, "source": "1000d"}]}},
    ]
)
"""Devices that join and leave, some of them on whole minutes."""


def shocks() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Shocks of every kind, so frequent that short runs meet them, and some that end on whole minutes."""
    minutes = {"begin": "2026-01-05T00:05:00Z", "end": "2026-01-05T00:09:00Z"}
    kinds: list[dict[str, Any]] = [
        {"of": "zone", "share": 0.5, "every": "4m", "length": {"kind": "lognormal", "median": "2m", "sigma": 1.5}},
        {"of": "group", "down": 0.3, "correlation": 0.4, "length": {"kind": "exponential", "mean": "90s"}},
        {"of": "server", "every": "5m", "length": "40s"},
        {"of": "server", "windows": [minutes]},
        {"windows": [minutes, {"begin": "2026-01-05T02:00", "end": "2026-01-05T03:00"}], "share": 0.7},
        {"days": ["2026-01-05", "2026-03-29"], "share": 0.2},
        {"windows": [{"begin": "2026-01-05T00:04:00Z"}], "share": 0.3, "groups": ["first"]},
        {"windows": [{"begin": "2026-01-05T00:03:00Z"}], "recovery": {"kind": "exponential", "mean": "3m"}},
    ]
    return st.lists(st.sampled_from(kinds), max_size=3, unique_by=str)


@st.composite
def worlds(draw: st.DrawFn, of: st.SearchStrategy[Scenario] | None = None) -> dict[str, Any]:
    """Scenarios of `tests.scenarios` in which the devices live by every kind of availability, all over the world."""
    data: dict[str, Any] = draw(scenarios() if of is None else of).model_dump(mode="json")
    data["start"] = draw(st.sampled_from(STARTS))
    data["shocks"] = draw(st.one_of(st.just([]), shocks()))
    if data["server"]["selection"]["kind"] != "groups":
        data["server"]["check_ins"] = draw(st.sampled_from(CHECK_INS))
    for group in data["population"]:
        group["time_zone"] = draw(time_zones(group["devices"]))
        if draw(st.integers(0, 3)):
            group["availability"] = draw(availabilities())
        # The trace has 38 devices that are sometimes available; more clients than that cannot have one each.
        if isinstance(group["availability"], dict) and sum(each["devices"] for each in data["population"]) > 38:
            group["availability"] |= {"assign": "with_replacement"} if "assign" in group["availability"] else {}
        if draw(st.booleans()):
            group["cooldown"] = draw(rests(group["devices"]))
        if not draw(st.integers(0, 5)):
            group["cooldown"] = "2h"  # longer than a waiting server looks ahead at first
        if not draw(st.integers(0, 3)):
            group["participations"] = {"most": draw(st.sampled_from([2, {"kind": "uniform", "low": 1, "high": 6}]))}
        group.update(draw(churn))
        if "model" in group["session"]:
            group["session"]["needs"] = draw(st.sampled_from([None, None, "2GB"]))
        elif draw(st.booleans()):
            group["session"]["speed"] = {"kind": "uniform", "low": 0.5, "high": 2}
    if any(
        group["availability"]["kind"] != "renewal"
        for group in data["population"]
        if isinstance(group["availability"], dict)
    ):
        data["stop"] = draw(st.sampled_from([{"rounds": 25}, {"rounds": 25, "duration": "3h"}, {"duration": "20h"}]))
        if data["server"]["mode"] == "sync":
            data["server"]["pause"] = draw(st.sampled_from(["7s", "30m", "2h"]))
        data["records"] = {
            "gauges": draw(st.sampled_from(["1h", "47m", None])),
            "gauge_sample": draw(st.sampled_from([None, 3, 50_000])),
            "eligible": draw(st.booleans()),
        }
    elif any(group["availability"] != "always" for group in data["population"]):
        data["stop"]["duration"] = data["stop"]["duration"] or "2d"  # of minutes at which devices are counted
    # It may end the run while sessions still run.
    data["server"]["patience"] = draw(st.sampled_from([data["server"]["patience"], "20s", "5m", "1h"]))
    return data


def outcome(data: dict[str, Any], folder: Path, engine: str) -> dict[str, Any]:
    """Return the fingerprints of all tables and the metrics, and what the error says that ended the run."""
    folder.joinpath("case.fedsim.yaml").write_text(json.dumps({**data, "engine": engine}))
    scenario = Scenario.load(folder / "case.fedsim.yaml")
    population = build_population(scenario)
    message = ""
    try:
        log = simulate_log(scenario, population)
    except StalledError as error:
        message, log = str(error), error.log
    setting = setting_of(PreparedFederation(scenario, population, strata(scenario, population)))
    counted = count_of(log, setting)
    clients = clients_table(population, counted, None, None)
    metrics = measure(log, clients, setting, counted)
    tables = {"rounds": log.rounds, "participations": log.participations, "clients": clients, "gauges": log.gauges}
    return {
        **{name: fingerprint(table) for name, table in tables.items()},
        "ended_s": log.ended_s,
        "metrics": repr(metrics),
        "error": message,
    }


def check(data: dict[str, Any], folder: Path) -> None:
    """Compare the engines; by turns the vectorized one looks devices up one by one, as among very many."""
    with pytest.MonkeyPatch.context() as patch:
        if data.get("seed", 0) % 2:
            patch.setattr(precomputed, "_MOST", 0)
        vectorized = outcome(data, folder, "vectorized")
    assert vectorized == outcome(data, folder, "process")


@settings(max_examples=8 + MANY)
@given(data=worlds())
def test_both_engines_write_the_same_tables(data: dict[str, Any], traces: Path) -> None:
    check(data, traces)


@settings(max_examples=8)
@given(scenario=scenarios(), patience=st.sampled_from(["30s", "1h"]))  # what waits longest takes longest
def test_both_engines_agree_where_much_happens_at_one_instant(scenario: Scenario, patience: str, traces: Path) -> None:
    """Constant session lengths, so that ends, cool-downs, deadlines, gauges and the stop fall on one instant."""
    data = scenario.model_dump(mode="json")
    data["server"]["patience"] = patience
    check(data, traces)


@settings(max_examples=10 + MANY // 2)
@given(scenario=st.one_of(scenarios(), buffered_scenarios()), befall=shocks())
def test_both_engines_have_the_same_shocks(scenario: Scenario, befall: list[dict[str, Any]], traces: Path) -> None:
    """What takes devices and the server out comes at the same instants in both engines, and is over there too."""
    data = scenario.model_dump(mode="json") | {"shocks": befall}
    data["server"]["patience"] = "1h"
    check(data, traces)


@settings(max_examples=5)
@given(data=worlds(buffered_scenarios()))
def test_both_engines_write_the_same_tables_of_a_buffered_server(data: dict[str, Any], traces: Path) -> None:
    check(data, traces)


@pytest.mark.long
@settings(max_examples=8)
@given(scenario=buffered_scenarios())
def test_both_engines_agree_at_one_instant_of_a_buffered_server(scenario: Scenario, traces: Path) -> None:
    check(scenario.model_dump(mode="json"), traces)


@pytest.mark.campaign
@settings(max_examples=MANY)
@given(
    data=st.one_of(worlds(buffered_scenarios()), buffered_scenarios().map(lambda case: case.model_dump(mode="json")))
)
def test_both_engines_write_the_same_tables_of_a_buffered_server_many_times(data: dict[str, Any], traces: Path) -> None:
    check(data, traces)


@pytest.mark.long
@settings(max_examples=MANY)
@given(scenario=scenarios())
def test_both_engines_agree_at_one_instant_after_any_wait(scenario: Scenario, traces: Path) -> None:
    check(scenario.model_dump(mode="json"), traces)


@st.composite
def minutes(draw: st.DrawFn) -> dict[str, Any]:
    """Scenarios in which everything lasts whole minutes, so that most instants have several events."""
    of = st.sampled_from
    groups = []
    for number in range(draw(st.integers(1, 3))):
        trace = {"kind": "trace", "file": "minutes.csv", "base": "2026-01-05T00:00:00Z", "assign": "with_replacement"}
        group = {
            "name": ["first", "second", "third"][number],
            "devices": draw(st.integers(6, 12)),
            "availability": draw(
                of(["always", {"kind": "every_few_minutes"}, {**trace, "repeat": draw(of(["day", "none"]))}])
            ),
            "separation": draw(st.integers(0, 2)),
            "cooldown": draw(of(["0s", "1m", "3m", "20m"])),
            "session": {
                "download": draw(of(["0s", "1m", "2m"])),
                "train": draw(of(["1m", "2m", "4m"])),  # so that rounds take time
                "upload": draw(of(["0s", "1m"])),
            },
        }
        group |= {"participations": {"most": draw(st.integers(1, 9))}} if draw(st.booleans()) else {}
        groups.append(group)
    cooldown_from, patience = draw(of(["selected", "reported"])), draw(of(["2m", "30m", "5h"]))
    if draw(st.booleans()):
        server: dict[str, Any] = {
            "cohort": draw(st.integers(1, 4)),
            "over_select": draw(of([1, 1.5])),
            "deadline": draw(of([None, "2m", "3m", "5m"])),
            "minimum_reports": draw(of([0, 1])),
            "pause": draw(of(["1m", "2m", "10m"])),
            "selection": draw(of(["midzuno", "uniform", "cyclic", "bernoulli"])),
            "shortage": draw(of(["wait", "proceed", "skip"])),
        }
        if server["over_select"] > 1 and server["cohort"] > 1 and server["selection"] != "bernoulli":
            server["grace"] = draw(of(["0s", "1m", "2m"]))
        if server["deadline"] and server["minimum_reports"]:
            server["overtime"] = draw(of(["0s", "1m", "3m"]))
    else:
        server = {
            "mode": "buffered",
            "concurrency": draw(st.integers(1, 6)),
            "buffer": draw(st.integers(1, 3)),
            "deadline": draw(of([None, "3m", "5m"])),
            "max_staleness": draw(of([None, 1, 3])),
        }
    return {
        "seed": draw(st.integers(0, 2**32)),
        "stop": draw(of([{"rounds": 30}, {"rounds": 60, "duration": "3h"}, {"duration": "5h"}])),
        "population": groups,
        "server": {**server, "cooldown_from": cooldown_from, "patience": patience},
        "shocks": draw(st.one_of(st.just([]), shocks())),
        "records": {"gauges": draw(of(["1m", "7m"])), "gauge_sample": draw(of([None, 7])), "eligible": True},
    }


@pytest.mark.long
@settings(max_examples=25 + MANY)
@given(data=minutes())
def test_everything_on_whole_minutes(data: dict[str, Any], traces: Path) -> None:
    """Device transitions, session ends, cool-downs, deadlines, gauges and the stop fall on one instant."""
    check(data, traces)


def reasons_seen(data: dict[str, Any], folder: Path, engine: str) -> list[tuple[int, list[int]]]:
    """Return the masks of all clients at all instants of the gauges, as far as the run goes."""
    seen: list[tuple[int, list[int]]] = []

    def look(roster: Any, count: Any, among: Any) -> Any:
        everyone = np.arange(sum(each["devices"] for each in data["population"]))
        masks = roster.masks if isinstance(roster, Roster) else roster.reasons(everyone)
        seen.append((roster._clock.now, masks.tolist()))
        return count(roster, among)

    with pytest.MonkeyPatch.context() as patch:
        for kind in (Roster, ArrayRoster):
            patch.setattr(kind, "counts", partialmethod(look, kind.counts))
        outcome(data, folder, engine)
    return seen


@pytest.mark.long
@settings(max_examples=12)
@given(
    data=st.one_of(worlds(), worlds(buffered_scenarios()), minutes()),
    every=st.one_of(st.just("1m"), st.integers(20_000, 3_000_000).map(lambda ms: f"{ms}ms")),
)
def test_both_engines_tell_the_same_reasons(data: dict[str, Any], every: str, traces: Path) -> None:
    """Of each client, whatever its kind of availability: on whole minutes and at odd instants."""
    data["stop"] = {"rounds": 25, "duration": "5h"}
    data["records"] = {"gauges": every}
    assert reasons_seen(data, traces, "process") == reasons_seen(data, traces, "vectorized")


def test_every_reason_is_counted(traces: Path) -> None:
    """Each column of the gauges counts somebody, and a shortage is explained by reasons, each client once."""
    trace = {"kind": "trace", "file": "minutes.csv", "base": "2026-01-05T00:00:00Z", "assign": "with_replacement"}
    session = {"train": "10m"}
    data = {
        "stop": {"duration": "2d"},
        "population": [
            {"name": "phones", "devices": 40, "availability": "habits", "session": session},
            {"name": "recorded", "devices": 10, "availability": trace, "session": session, "separation": 2},
            {"name": "there", "devices": 10, "cooldown": "2h", "participations": {"most": 9}, "session": session},
        ],
        "server": {"cohort": 4, "pause": "5m"},
        "shocks": [{"every": "6h", "length": "2h", "share": 0.5}],
        "records": {"gauges": "10m"},
    }
    check(data, traces)
    scenario = Scenario.load(traces / "case.fedsim.yaml")
    gauges = simulate_log(scenario, build_population(scenario)).gauges
    assert all(gauges[name].sum() > 0 for name in GAUGE_COUNTS)
    data["server"] = {"cohort": 60, "patience": "1m", "pause": "3h"}
    message = outcome(data, traces, "process")["error"]
    assert message == outcome(data, traces, "vectorized")["error"]
    parts = message.split("of 60 clients: ")[1].split(". What helps")[0].split(", ")
    assert sum(int(part.split()[0]) for part in parts) == 60
    assert {"on no charger", "in use"} & {part.split(" ", 1)[1] for part in parts}


LAWS = ["midzuno", "uniform", "successive", "groups", "cyclic", "bernoulli"]


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
def test_thousands_of_devices_that_are_seldom_available(law: str, traces: Path) -> None:
    """So few of many are eligible that proposals run out, and that rounds wait."""
    data = {
        "stop": {"rounds": 12},
        "population": [
            {
                "devices": 3000,
                "weight": {"kind": "zipf", "exponent": 1.2},
                "separation": 2,
                "cooldown": "10m",
                "availability": {"kind": "renewal", "on": "1m", "off": "30m" if law != "groups" else "2m"},
            }
        ],
        "server": {"cohort": 40 if law != "groups" else 4, "selection": law, "patience": "20h"},
    }
    check(data, traces)


def test_everyone_rests_longer_than_the_engine_looks_ahead_at_first(traces: Path) -> None:
    """For some time nobody can become eligible, whatever the devices do."""
    renewal = {"kind": "renewal", "on": "30m", "off": "3m"}
    data = {
        "stop": {"rounds": 9},
        "population": [{"devices": 6, "cooldown": "2h", "availability": renewal}],
        "server": {"cohort": 3},
    }
    check(data, traces)


def test_everyone_leaves_for_good(traces: Path) -> None:
    """A trace that is not repeated: both engines say so as soon as too few are left."""
    trace = {"kind": "trace", "file": "trace.csv", "base": "2026-01-05T00:00:00Z", "repeat": "none"}
    data = {
        "stop": {"rounds": 5000},
        "population": [{"devices": 30, "availability": trace}],
        "server": {"cohort": 3, "pause": "4h"},
    }
    assert "never available again" in str(outcome(data, traces, "vectorized"))
    check(data, traces)


@pytest.mark.parametrize(
    ("availability", "server", "cut"),
    [
        ({"kind": "renewal", "on": "2h", "off": "1h"}, {"cohort": 1, "patience": "1h"}, "aborted"),
        ("always", {"cohort": 2, "deadline": "1m", "patience": "10m"}, "late"),
    ],
)
def test_patience_ends_sessions_that_still_run(availability: Any, server: Any, cut: str, traces: Path) -> None:
    """Those of the open round are aborted, those of earlier ones are late, in both engines: nothing ends afterwards."""
    group = {"devices": 3, "availability": availability, "session": {"train": "10h"}}
    data = {"stop": {"rounds": 5}, "population": [group], "server": server}
    check(data, traces)
    scenario = Scenario.load(traces / "case.fedsim.yaml")
    with pytest.raises(StalledError, match="which is the server's patience") as stalled:
        simulate_log(scenario, build_population(scenario))
    ended = stalled.value.log.participations.select("ended_s", "outcome").unique()
    assert ended.rows() == [(stalled.value.ended_s, cut)]


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_patience_ends_at_the_very_instant(engine: str) -> None:
    """The instant at which patience ends is opened_s + patience, whatever their difference is in floating point."""
    data = {
        "engine": engine,
        "stop": {"rounds": 3},
        "population": [{"devices": 2, "cooldown": "30d", "session": {"train": {"kind": "exponential", "mean": "77s"}}}],
        "server": {"cohort": 2, "patience": "1h"},
    }
    scenario = Scenario.model_validate(data)
    with pytest.raises(StalledError, match="has waited 1h, which is the server's patience; of 2 clients: 2 in their"):
        simulate_log(scenario, build_population(scenario))


def test_auto_goes_by_the_number_of_devices() -> None:
    data = {"stop": {"rounds": 1}, "population": [{"devices": FEW_DEVICES}], "server": {"cohort": 1}}
    assert engine_of(Scenario.model_validate(data)) == "process"
    data["population"] = [{"devices": FEW_DEVICES + 1}]
    assert engine_of(Scenario.model_validate(data)) == "vectorized"
    assert engine_of(Scenario.model_validate({**data, "engine": "process"})) == "process"
