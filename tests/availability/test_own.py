"""People's own availability models and laws: one method each, the same bytes in both engines, mistakes with a place."""

from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.availability import MODELS, Intervals, Place, available_at, between, conditions, intervals
from fedsim.availability.model import pieces
from fedsim.availability.population import population_availability, strata
from fedsim.common.errors import PluginError, ScenarioError
from fedsim.common.instants import FOREVER
from fedsim.common.keyed import Stream
from fedsim.common.reasons import Reason
from fedsim.population import build_population
from fedsim.population.distributions import DISTRIBUTIONS
from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario
from fedsim.scenario.stop import Stop
from fedsim.simulation import simulate_log, transitions_table
from fedsim.theory.prediction import theory_or_why_not
from tests.availability.cases import DAY, DRAWS, model_of, place
from tests.availability.test_batches import KINDS, PLACES, compare

MODULE = """
import math
from typing import Annotated
import numpy as np
from pydantic import Field
from fedsim.scenario.units import PositiveDuration

class EvenDays:
    def __init__(self, chance: Annotated[float, Field(gt=0, le=1)] = 1.0):
        self.chance = chance

    def intervals(self, client, place, draws):
        for day in place.days():
            if day.date.day % 2 == 0 and draws.uniforms(client, day.date.toordinal())[0] < self.chance:
                yield day.start, day.end

class Says:
    def __init__(self, pieces: list):
        self.pieces = pieces

    def intervals(self, client, place, draws):
        yield from ((float(start), float(end)) for start, end in self.pieces)

class Fails:
    def intervals(self, client, place, draws):
        yield 0.0, 1.0
        raise RuntimeError("out of order")

class Stands:
    def intervals(self, client, place, draws):
        while True:
            yield 5.0, 5.0

class Bimodal:
    def __init__(self, short: PositiveDuration, long: PositiveDuration, share: float = 0.5):
        self.short, self.long, self.share = short, long, share

    def quantile(self, p):
        return np.where(p < self.share, self.short * (1 + p), self.long * (1 + p))

class Numbers:
    def __init__(self, at: float):
        self.at = at

    def quantile(self, p):
        return self.at + p

class Wrong:
    def quantile(self, p):
        return -p

class Zero:
    def quantile(self, p):
        return 0 * p

class Nothing:
    pass
"""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_world.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "my_world", raising=False)


def scenario(engine: str = "auto", server: dict[str, Any] | None = None, **group: Any) -> Scenario:
    zones = ["Europe/Berlin", "America/New_York", "Asia/Kolkata"] * 20
    return Scenario.model_validate(
        {
            "seed": 4,
            "start": "2026-03-27T09:30:00Z",
            "stop": {"duration": "4d"},
            "engine": engine,
            "population": [
                {"devices": 60, "time_zone": zones, **group},
                {"devices": 20, "availability": "habits", "session": HOURS},
            ],
            "server": server or {"cohort": 12, "pause": "2h", "shortage": "wait", "deadline": "1h"},
        }
    )


BUFFERED = {"mode": "buffered", "buffer": 5, "concurrency": 10}
HOURS = {"download": "20m", "train": "1h"}
OWN: list[dict[str, Any]] = [
    {"availability": "my_world:EvenDays", "session": HOURS},
    {"availability": {"kind": "my_world:EvenDays", "chance": 0.7}, "session": {"train": "3h"}},
    {
        "availability": {
            "kind": "renewal",
            "on": {"kind": "my_world:Bimodal", "short": "30m", "long": "9h"},
            "off": "2h",
        },
        "session": HOURS,
    },
    {
        "weight": {"kind": "my_world:Numbers", "at": 0.5, "correlation": {"to": "order", "rho": 0.9}},
        "separation": {"kind": "my_world:Numbers", "at": 1.0},
        "cooldown": {"kind": "my_world:Bimodal", "short": "1h", "long": "9h", "share": 0.8},
        "session": {
            "train": {"kind": "my_world:Bimodal", "short": "20m", "long": "2h"},
            "speed": {"kind": "mixture", "parts": [{"share": 1, "source": {"kind": "my_world:Numbers", "at": 2.0}}]},
        },
    },
]


@pytest.mark.long
@pytest.mark.parametrize("server", [None, BUFFERED], ids=["rounds", "buffer"])
@pytest.mark.parametrize("own", OWN, ids=range(len(OWN)))
def test_both_engines_give_the_same_tables(own: dict[str, Any], server: dict[str, Any] | None) -> None:
    """Over four days in which Berlin's clocks are changed."""
    logs = []
    for engine in ("process", "vectorized"):
        one = scenario(engine, server, **own)
        population = preflight(one).population
        logs.append(simulate_log(one, population))
        assert isinstance(theory_or_why_not(one, population), str)
    for name in ("rounds", "participations", "gauges"):
        assert getattr(logs[0], name).equals(getattr(logs[1], name)), name
    assert len(logs[0].participations) > 20


def test_even_days_are_even_days() -> None:
    one = scenario(availability="my_world:EvenDays")
    population = build_population(one)
    log = simulate_log(one, population)
    own = log.participations.filter(pl.col("client") < 60)
    assert len(own) > 20
    for client, at in own.select("client", "selected_s").iter_rows():
        zone = ZoneInfo(population.zone_names[population.zone[client]])
        assert (one.start + timedelta(seconds=at)).astimezone(zone).day % 2 == 0
    table = transitions_table(one, population, [0, 1], 4 * DAY)
    assert set(table["condition"]) == {"available"}
    assert not one.always_available


@pytest.mark.long
@given(st.datetimes(datetime(1971, 1, 1), datetime(2037, 1, 1)), st.sampled_from(["Europe/Berlin", "Pacific/Apia"]))
def test_days_are_those_of_the_calendar(start: datetime, zone: str) -> None:
    """Against the standard library, day by day over two years, whatever the clocks do."""
    where = Place(start.replace(tzinfo=ZoneInfo("UTC")), ZoneInfo(zone))
    local = where.start.astimezone(where.zone).date()
    for day, _ in zip(where.days(), range(800), strict=False):
        if day.date != local:  # the day that Apia skipped
            assert (zone, local) == ("Pacific/Apia", date(2011, 12, 30))
            local += timedelta(days=1)
        assert day.date == local
        local += timedelta(days=1)
        begin, end = (datetime.combine(each, time()) for each in (day.date, local))
        assert day.start == pytest.approx(where.seconds(begin), abs=6e-4)
        assert day.end == pytest.approx(where.seconds(end), abs=6e-4)


class Only:
    """A model of which no more is known than the intervals of another."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def intervals(self, client: int, place: Place, draws: Stream) -> Intervals:
        yield from self.model.intervals(client, place, draws)


@pytest.mark.parametrize("name", [*KINDS])
@pytest.mark.parametrize("where", ["forward", "a day is skipped"])
def test_what_is_not_said_is_worked_out(name: str, where: str) -> None:
    """The defaults of a batch and of a lookup, by the very comparison that the built-in ones must pass."""
    start, zone = PLACES[where]
    there, only = Place(datetime.fromisoformat(start), ZoneInfo(zone)), Only(model_of(KINDS[name]))
    compare(only, there, days=4.0)
    some = np.arange(20)
    for instant in (0.0, 1e5, 2.3e5):
        expected = available_at(only.model, some, instant, there, DRAWS)
        assert (available_at(only, some, instant, there, DRAWS) == expected).all()
    assert list(conditions(only, 0, there, DRAWS)) == ["available"]


def test_who_leaves_for_good() -> None:
    model = model_of({"kind": "my_world:Says", "pieces": [[-5, 3], [3, 8], [10, 20]]})
    devices = population_availability([model], [place()], np.zeros(2, dtype=np.int64), DRAWS)
    some = np.arange(2)
    assert devices.may_leave.all()
    assert devices.leaves(some, 0, 19_999).tolist() == [FOREVER, FOREVER]
    assert devices.leaves(some, 0, 20_000).tolist() == [20_000, 20_000]
    assert devices.at(some, 7_999).tolist() == [True, True]
    assert devices.at(some, 8_000).tolist() == [False, False]
    assert devices.reasons(some, 8_000).tolist() == [Reason.UNAVAILABLE] * 2
    assert devices.leaves(some, 30_000, 40_000).tolist() == [30_000, 30_000]
    assert between(intervals(model, 0, place(), DRAWS), 0.0, 15.0) == [(0.0, 8.0), (10.0, 15.0)]
    stalled = scenario(availability={"kind": "my_world:Says", "pieces": [[0, 60]]})
    assert len(simulate_log(stalled, build_population(stalled)).rounds) > 1  # the others go on


def test_times_are_rounded_to_milliseconds() -> None:
    """Each by itself, so that what is disjoint stays so; a gap, or an interval, of less than one may be gone."""
    pairs = [[0.0104, 1.0004], [1.0004, 2.00049], [2.0006, 3], [4.0001, 4.0004], [7, 1e300]]
    model = model_of({"kind": "my_world:Says", "pieces": pairs})
    expected = [(10, 2_000), (2_001, 3_000), (7_000, FOREVER)]
    assert between(pieces(model, 0, place(), DRAWS), 0, FOREVER) == expected
    devices = population_availability([model], [place()], np.zeros(1, dtype=np.int64), DRAWS)
    _, starts, ends = devices.spells(np.arange(1), 0, FOREVER)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == expected
    assert between(intervals(model, 0, place(), DRAWS), 0.0, 2.5) == [(0.01, 2.0), (2.001, 2.5)]


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (
            {"kind": "my_world:Says", "pieces": [[0, 5], [4, 6]]},
            "(4, 6) after one that ends at 5: intervals must be di",
        ),
        ({"kind": "my_world:Says", "pieces": [[3, 2]]}, "the interval (3, 2): it ends before it starts"),
        ({"kind": "my_world:Says", "pieces": [[0, "nan"]]}, "its times must be numbers"),
        ({"kind": "my_world:Says", "pieces": [["-inf", 7]]}, "only an end may be infinite"),
        ({"kind": "my_world:Says", "pieces": [[1, "inf"], ["inf", "inf"]]}, None),
        ({"kind": "my_world:Says", "pieces": [[1, 2, 3]]}, "fails: ValueError: too many values to unpack"),
        ("my_world:Fails", "fails: RuntimeError: out of order"),
        ("my_world:Stands", "yields empty intervals at 5 s for ever"),
    ],
)
@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_what_cannot_be_is_refused(kind: Any, complaint: str | None, engine: str) -> None:
    one = scenario(engine, availability=kind)
    population = preflight(one).population
    if complaint is None:
        simulate_log(one, population)
        return
    with pytest.raises(PluginError) as caught:
        simulate_log(one, population)
    name = kind if isinstance(kind, str) else kind["kind"]
    assert str(caught.value).startswith(f"availability model '{name}', client ")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("group", "path", "complaint"),
    [
        ({"availability": "my_world:Nothing"}, "availability.kind", "it lacks the methods intervals"),
        ({"availability": "my_wrld:EvenDays"}, "availability.kind", "cannot import 'my_wrld'"),
        (
            {"availability": {"kind": "my_world:EvenDays", "chance": 2}},
            "availability.chance",
            "less than or equal to 1",
        ),
        ({"availability": {"kind": "my_world:EvenDays", "chnce": 1}}, "availability.chnce", "did you mean 'chance'"),
        (
            {
                "availability": {
                    "kind": "renewal",
                    "on": {"kind": "my_world:Bimodal", "short": 3, "long": "1h"},
                    "off": "1h",
                }
            },
            "availability.on.short",
            "needs a unit",
        ),
        (
            {"availability": {"kind": "renewal", "on": "1h", "off": {"kind": "my_world:Zero"}}},
            "availability.off",
            "a mean",
        ),
        ({"weight": {"kind": "my_world:Zero"}}, "weight", "must be above 0 and finite, but value 0 is 0"),
        ({"weight": {"kind": "my_world:Nothing"}}, "weight.kind", "it lacks the methods quantile"),
        (
            {"weight": {"kind": "my_world:Wrong"}},
            "weight.kind",
            "law 'my_world:Wrong': ValueError: quantile must be at lea",
        ),
        ({"session": {"train": {"kind": "my_world:Bimodal", "long": "1h"}}}, "session.train.short", "missing"),
        (
            {"cooldown": {"kind": "mixture", "parts": [{"share": 1, "source": {"kind": "my_world:Numbers"}}]}},
            "cooldown.parts[0].source.at",
            "missing",
        ),
        (
            {"availability": {"kind": "renewal", "on": {"kind": "my_world:Wrong"}, "off": "1h"}},
            "availability.on.kind",
            "law 'my_world:Wrong'",
        ),
    ],
)
def test_mistakes_are_found_before_the_run(group: dict[str, Any], path: str, complaint: str) -> None:
    one = scenario(**group)
    with pytest.raises(ScenarioError) as caught:
        preflight(one.model_copy(update={"stop": Stop(rounds=5)}))
    (mistake,) = caught.value.mistakes
    assert f"population[0].{path}: " in str(mistake)
    assert complaint in mistake.message


def test_registered_names_do_as_well() -> None:
    @MODELS.register("mornings_of_mine")
    class Mornings:
        def intervals(self, client: int, place: Place, draws: Stream) -> Intervals:  # noqa: ARG002
            yield from ((day.start, day.start + DAY / 2) for day in place.days() if day.date.day > client % 2)

    @DISTRIBUTIONS.register("halves_of_mine")
    class Halves:
        def quantile(self, p: Any) -> Any:
            return np.ceil(2 * p) / 2

    one = scenario(availability="mornings_of_mine", weight={"kind": "halves_of_mine"})
    population = preflight(one).population
    assert isinstance(strata(one, population).models[0], Mornings)
    assert len(np.unique(population.weight[:60])) == 2
    assert len(simulate_log(one, population).rounds) > 1
    assert {*MODELS} >= {"always", "habits", "renewal", "trace", "mornings_of_mine"}
    written = one.model_dump(mode="json")
    assert Scenario.model_validate(written).population == one.population
