"""The shocks of a scenario, made ready to be asked, and what is wrong with them."""

from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from fedsim.availability.cells import Cells
from fedsim.availability.place import Place
from fedsim.availability.shocks.calendar import ByChance, Calendar, Known
from fedsim.availability.shocks.outages import Layer, Outages, ServerOutages, shock_key
from fedsim.common.errors import Mistake, PluginError
from fedsim.common.instants import FOREVER, SECOND, to_ms
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.common.progress import readable
from fedsim.population import Population
from fedsim.population.distributions import check_laws, distribution
from fedsim.scenario import Scenario
from fedsim.scenario.model import did_you_mean
from fedsim.scenario.shocks import Rates, Shock, rates

_DAY = timedelta(days=1)
_LONGEST_S = 1e12  # 30,000 years


def check_shocks(scenario: Scenario, population: Population) -> list[Mistake]:
    """Return what is wrong with a scenario's shocks: unknown groups and zones, laws that fail, too many at once."""
    mistakes = []
    for index, shock in enumerate(scenario.shocks):
        for key, asked, known in (
            ("groups", shock.groups, population.group_names),
            ("zones", shock.zones, population.zone_names),
        ):
            for place, name in enumerate(asked or ()):
                if name not in known:
                    message = f"no device {'is in the group' if key == 'groups' else 'lives in'} {name!r}"
                    message += did_you_mean(name, known)
                    mistakes.append(scenario.mistake(("shocks", index, key, place), message))
        wrong = [scenario.mistake(("shocks", index, *path), message) for path, message in check_laws(shock)]
        mistakes += wrong
        if shock.by_chance and not wrong:
            try:
                _rates_of(shock)
            except (ValueError, PluginError) as error:
                mistakes.append(scenario.mistake(("shocks", index), str(error)))
    return mistakes


def outages_of(scenario: Scenario, devices: Cells, replicate: int) -> Outages | None:
    """Return the shocks of the devices of a scenario without mistakes, in one replicate; None where it has none."""
    draws, hits, recoveries = (
        stream(scenario.seed, replicate, purpose)
        for purpose in (Purpose.SHOCK, Purpose.SHOCK_HIT, Purpose.SHOCK_RECOVERY)
    )
    layers = [layer for shock in scenario.shocks for layer in _layers(shock, devices, draws)]
    return Outages(layers, devices.of_client, hits, recoveries) if layers else None


def server_outages(scenario: Scenario, replicate: int) -> ServerOutages:
    """Return when a scenario's server is down."""
    draws = stream(scenario.seed, replicate, Purpose.SHOCK)
    place = Place(scenario.start, ZoneInfo("UTC"))
    return ServerOutages([_calendar(shock, "", place, draws) for shock in scenario.shocks if shock.of == "server"])


def describe(scenario: Scenario) -> Iterator[str]:
    """Yield a line for each shock that comes by chance: how often and how long, and what it does to two devices."""
    for shock in scenario.shocks:
        if not shock.by_chance:
            continue
        found, length = _rates_of(shock)
        where = {"zone": " in each time zone", "group": " in each group"}.get(shock.of, "")
        often = f"{shock.name}: about every {readable(length / found.running)}{where} for {readable(length)} on average"
        if shock.of == "server":
            yield f"{often}, nobody can reach the server: {found.down:.2%} of the time"
            continue
        yield (
            f"{often}, {found.share:.3g} of its devices {'are' if found.share != 1 else 'is'} out: {found.down:.2%} of "
            f"a device's time, with a correlation of {found.correlation:.3f} between two of them"
        )


def _rates_of(shock: Shock) -> tuple[Rates, float]:
    """Return the rates of a shock by chance, and the mean of its lengths in seconds."""
    law = distribution(shock.length)
    if not 0.0 < law.mean < _LONGEST_S:
        raise ValueError(f"the mean of length must be above 0 and finite, but is {law.mean:g} s")
    found = rates(shock, law.mean)
    if law.mean < found.running / SECOND:
        raise ValueError("these shocks must come less often than once in a millisecond, the step of simulated time")
    return found, law.mean


def _layers(shock: Shock, devices: Cells, draws: Stream) -> Iterator[Layer]:
    """Yield a layer for each place that shocks of one kind befall apart, or at other instants."""
    asked = [
        (shock.zones is None or zone in shock.zones) and (shock.groups is None or group in shock.groups)
        for group, zone in devices.names
    ]
    if shock.of == "zone" or not shock.by_chance:  # known times are read by each zone's clock
        places = [zone for _, zone in devices.names]
    else:
        places = [group if shock.of == "group" else "" for group, _ in devices.names]
    share = _rates_of(shock)[0].share if shock.by_chance else (shock.share or 1.0)
    recovery = None if shock.recovery is None else distribution(shock.recovery)
    ever = recovery is None and any(window.end is None for window in shock.windows or ())
    for place in dict.fromkeys(places):
        cells = np.array(asked) & np.array([each == place for each in places])
        if cells.any():
            calendar = _calendar(shock, place, devices.places[places.index(place)], draws)
            yield Layer(shock_key(shock.name), calendar, cells, share, recovery, ever)


def _calendar(shock: Shock, place: str, home: Place, draws: Stream) -> Calendar:
    if shock.by_chance:
        found, mean_s = _rates_of(shock)
        law = distribution(shock.length)
        return ByChance(draws, shock_key(shock.name, place), mean_s / found.running, law, found.running)
    windows: Sequence[tuple[datetime, datetime | None]] = [(each.begin, each.end) for each in shock.windows or ()]
    if shock.days is not None:
        midnights = [datetime.combine(day, time()) for day in shock.days]
        windows = [(midnight, midnight + _DAY) for midnight in midnights]
    starts = np.array([_instant(home, begin) for begin, _ in windows])
    never = FOREVER if shock.recovery is None else -FOREVER
    ends = np.array([never if end is None else _instant(home, end) for _, end in windows])
    return Known(starts, np.maximum(ends, starts))


def _instant(home: Place, moment: datetime) -> int:
    """Return the instant of simulated time, by the zone that is written or by the local clock."""
    return to_ms(home.seconds(moment) if moment.tzinfo is None else (moment - home.start).total_seconds())
