"""Shocks, events that take many devices out at once: their mistakes, their outages, and what is left available."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from fedsim.availability.batch import Reasons, Spells
from fedsim.availability.civil import Place
from fedsim.availability.population import PopulationAvailability, Strata, population_availability
from fedsim.availability.shocks.outages import (
    Layer,
    Outages,
    RandomShocks,
    ScheduledShocks,
    ServerOutages,
    ShockTimes,
    shock_key,
    subtract,
)
from fedsim.common.arrays import Bools, Ints
from fedsim.common.errors import Mistake, PluginError
from fedsim.common.hints import did_you_mean
from fedsim.common.instants import FOREVER, SECOND, readable_time, to_ms
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.common.reasons import Reason
from fedsim.population import Population
from fedsim.population.distributions import check_laws, distribution
from fedsim.scenario import Scenario
from fedsim.scenario.shocks import Rates, Shock, rates

_DAY = timedelta(days=1)
_LONGEST_S = 1e12  # 30,000 years


def check_shocks(scenario: Scenario, population: Population) -> list[Mistake]:
    """Return the mistakes in a scenario's shocks: unknown groups and zones, laws that fail, too many at once."""
    mistakes = []
    for index, shock in enumerate(scenario.shocks):
        for key, asked, known in (
            ("groups", shock.groups, population.group_names),
            ("zones", shock.zones, population.zone_names),
        ):
            for position, name in enumerate(asked or ()):
                if name not in known:
                    message = f"no device {'is in the group' if key == 'groups' else 'lives in'} {name!r}"
                    message += did_you_mean(name, known, or_known=True)
                    mistakes.append(scenario.mistake(("shocks", index, key, position), message))
        wrong = [scenario.mistake(("shocks", index, *path), message) for path, message in check_laws(shock)]
        mistakes += wrong
        if shock.by_chance and not wrong:
            try:
                _rates_of(shock)
            except (ValueError, PluginError) as error:
                mistakes.append(scenario.mistake(("shocks", index), str(error)))
    return mistakes


def outages_of(scenario: Scenario, devices: Strata, replicate: int) -> Outages | None:
    """Return the outages of a valid scenario's devices in one replicate; None without shocks."""
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
    return ServerOutages([_times(shock, "", place, draws) for shock in scenario.shocks if shock.of == "server"])


def describe_shocks(scenario: Scenario) -> Iterator[str]:
    """Yield a line for each shock that comes by chance: how often and how long, and what it does to two devices."""
    for shock in scenario.shocks:
        if not shock.by_chance:
            continue
        found, length = _rates_of(shock)
        where = {"zone": " in each time zone", "group": " in each group"}.get(shock.of, "")
        apart, lasts = readable_time(length / found.running), readable_time(length)
        often = f"{shock.name}: about every {apart}{where} for {lasts} on average"
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


def _layers(shock: Shock, devices: Strata, draws: Stream) -> Iterator[Layer]:
    """Yield a layer for each scope (everywhere, a group or a zone) in which a shock happens at times of its own."""
    asked = [
        (shock.zones is None or zone in shock.zones) and (shock.groups is None or group in shock.groups)
        for group, zone in devices.names
    ]
    if shock.of == "zone" or not shock.by_chance:  # known times are read by each zone's clock
        scopes = [zone for _, zone in devices.names]
    else:
        scopes = [group if shock.of == "group" else "" for group, _ in devices.names]
    share = _rates_of(shock)[0].share if shock.by_chance else (shock.share or 1.0)
    recovery = None if shock.recovery is None else distribution(shock.recovery)
    endless = recovery is None and any(window.end is None for window in shock.windows or ())
    for scope in dict.fromkeys(scopes):
        concerned = np.array(asked) & np.array([each == scope for each in scopes])
        if concerned.any():
            times = _times(shock, scope, devices.places[scopes.index(scope)], draws)
            yield Layer(shock_key(shock.name), times, concerned, share, recovery, endless)


def _times(shock: Shock, scope: str, home: Place, draws: Stream) -> ShockTimes:
    if shock.by_chance:
        found, mean_s = _rates_of(shock)
        law = distribution(shock.length)
        return RandomShocks(draws, shock_key(shock.name, scope), mean_s / found.running, law, found.running)
    windows: Sequence[tuple[datetime, datetime | None]] = [(each.begin, each.end) for each in shock.windows or ()]
    if shock.days is not None:
        midnights = [datetime.combine(day, time()) for day in shock.days]
        windows = [(midnight, midnight + _DAY) for midnight in midnights]
    starts = np.array([_instant(home, begin) for begin, _ in windows])
    never = FOREVER if shock.recovery is None else -FOREVER
    ends = np.array([never if end is None else _instant(home, end) for _, end in windows])
    return ScheduledShocks(starts, np.maximum(ends, starts))


def _instant(home: Place, moment: datetime) -> int:
    """Return the instant of simulated time, by the zone that is written or by the local clock."""
    return to_ms(home.seconds(moment) if moment.tzinfo is None else (moment - home.start).total_seconds())


@dataclass(eq=False)
class ShockedAvailability(PopulationAvailability):
    """The availability of all devices less the outages by shocks; the batches are those without shocks."""

    outages: Outages

    @property
    def may_leave(self) -> Bools:
        return super().may_leave | self.outages.may_be_endless

    def at(self, clients: Ints, instant: int) -> Bools:
        answer = super().at(clients, instant)
        answer[answer] = ~self.outages.at(clients[answer], instant)
        return answer

    def reasons(self, clients: Ints, instant: int) -> Reasons:
        found = super().reasons(clients, instant)
        found[self.outages.at(clients, instant)] |= int(Reason.SHOCK)
        return found

    def ends(self, clients: Ints, instant: int, until: Ints) -> Ints:
        found = super().ends(clients, instant, until)
        if len(clients):
            who, starts, _ = self.outages.spells(clients, instant, int(until.max()) + 1)
            in_time = starts <= until[who]
            np.minimum.at(found, who[in_time], starts[in_time])
        return found

    def spells(self, clients: Ints, since: int, until: int) -> Spells:
        found, out = super().spells(clients, since, until), self.outages.spells(clients, since, until)
        return subtract(found, out, len(clients)) if len(out.who) else found

    def leaves(self, clients: Ints, since: int, until: int) -> Ints:
        """Return from when each client is never available again; `FOREVER` if after `until`.

        It counts from its own last end or an endless shock, even if another shock has it out before.
        """
        for_good = self.outages.for_good(clients, until)
        return np.minimum(super().leaves(clients, since, until), np.maximum(for_good, since))


def availability_of(scenario: Scenario, devices: Strata, replicate: int) -> PopulationAvailability:
    """Return when all devices of a scenario without mistakes are available in one replicate."""
    draws = stream(scenario.seed, replicate, Purpose.AVAILABILITY)
    own = population_availability(devices.models, devices.places, devices.of_client, draws)
    outages = outages_of(scenario, devices, replicate)
    if outages is None:
        return own
    return ShockedAvailability(own.batches, own.batch_of_stratum, own.stratum, outages)
