"""The habits of one person told once more, in plain Python: every session, outing, use and failure as an interval.

It shares with the package the draws' bits, and what the documentation says; not the loops, the tables' look-up, the
clocks or the way in which conditions are put together.
"""

import bisect
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fedsim.availability import Place
from fedsim.availability.habits.days import quantile_table
from fedsim.availability.habits.persons import Draw, draw_index, individual_chance
from fedsim.common.keyed import Stream
from fedsim.population.distributions import distribution
from fedsim.population.sources import propensity
from fedsim.scenario.habits import Habits
from fedsim.scenario.strict import Model

MS = timedelta(milliseconds=1)
HOUR = 3_600_000
DAY = 24 * HOUR
Spans = list[tuple[int, int]]


class Law:
    """A law by its table, looked up by bisection over the ends of all bins."""

    def __init__(self, table: NDArray[np.int32]) -> None:
        main, lower, upper, first, last = table.reshape(5, 1025).tolist()
        tail, end, whole = 2**26, 2**20, 2**32
        parts = [
            *((place * end // 1024, value) for place, value in enumerate(first[:-1])),
            *((place * tail // 1024, value) for place, value in enumerate(lower[:-1]) if place >= 16),
            *((place * whole // 1024, value) for place, value in enumerate(main[:-1]) if 16 <= place < 1008),
            *((whole - tail + place * tail // 1024, value) for place, value in enumerate(upper[:-1]) if place < 1008),
            *((whole - end + place * end // 1024, value) for place, value in enumerate(last)),
        ]
        self._at: list[int] = [at for at, _ in parts]
        self._values: list[int] = [value for _, value in parts]

    def of(self, bits: int) -> int:
        place = bisect.bisect_right(self._at, bits) - 1
        low, high = self._values[place], self._values[place + 1]
        return low + (high - low) * (bits - self._at[place]) // (self._at[place + 1] - self._at[place])


def _normal(deviation_s: float) -> Law:
    return Law(quantile_table(lambda p: deviation_s * np.clip(ndtri(p), -3, 3), np.inf))


def _length(source: Model, most_s: float) -> Law:
    return Law(quantile_table(distribution(source).quantile, most_s))


class Life:
    """What one person does from one date to another."""

    def __init__(self, habits: Habits, client: int, place: Place, draws: Stream, first: date, last: date) -> None:
        self.habits, self.client, self.place, self.draws = habits, client, place, draws
        self.score = propensity(np.array([client]), draws)
        self.days = [date.fromordinal(each) for each in range(first.toordinal() - 5, last.toordinal() + 5)]

    def _bits(self, what: Draw, count: int = 0, number: int = 0) -> tuple[int, int]:
        (bits,) = self.draws.bits(self.client, int(draw_index(what, count, number))).tolist()
        return bits >> 32, bits & 0xFFFFFFFF

    def _own(self, what: Draw, standard_s: float) -> int:
        (own,) = np.clip(self.draws.normals(self.client, int(draw_index(what))), -3, 3)
        return round(float(np.rint(1000 * standard_s * own)))

    def _happens(self, bits: int, likely: float) -> bool:
        return bits >> 2 < round(likely * 2**30)

    def _instant(self, day: date, after: int) -> int:
        clock = datetime.combine(day, datetime.min.time()) + after * MS
        moment = clock.replace(tzinfo=self.place.zone).astimezone(UTC)
        return round((moment - self.place.start.astimezone(UTC)) / MS)

    def charging(self) -> Spans:
        night, top_up = self.habits.charging.night, self.habits.charging.top_up
        spread, spans = self.habits.charging.spread, Spans()
        later = self._own(Draw.NIGHT_TIME_OF_PERSON, night.between_persons)
        longer = self._own(Draw.NIGHT_LENGTH_OF_PERSON, night.length_between_persons)
        start_law, length_law = _normal(night.between_days), _normal(night.length_between_days)
        hours = np.concatenate([[0.0], np.cumsum(top_up.by_hour)]) / sum(top_up.by_hour)
        of_hours = Law(quantile_table(lambda p: np.interp(p, hours, np.arange(25) * 3600.0), 86_400.0))
        lengths = _length(top_up.length, 8 * 3600.0)
        for day in self.days:
            number = day.toordinal()
            free = (number + 1) % 7 in {6, 0}  # whether the next day is a Saturday or Sunday
            takes, upper = self._bits(Draw.NIGHT, number)
            if self._happens(takes, individual_chance(night.chance, spread, self.score)[0]):
                usual = night.plug_in_weekend if free else night.plug_in
                after = round(1000 * usual) + (DAY if usual < 43_200 else 0) + later + start_law.of(upper)
                lasts = round(1000 * (night.length_weekend if free else night.length)) + longer
                lasts += length_law.of(self._bits(Draw.NIGHT_LENGTH, number)[0])
                start = self._instant(day, after)
                spans.append((start, start + min(max(lasts, 0), 16 * HOUR)))
            per_day = top_up.per_day_weekend if day.weekday() >= 5 else top_up.per_day
            likely = individual_chance(per_day / 4, spread, self.score)[0]
            for each in range(4):
                if self._happens(self._bits(Draw.TOP_UP, number, each // 2)[each % 2], likely):
                    at, lasting = self._bits(Draw.TOP_UP_TIME, number, each)
                    start = self._instant(day, of_hours.of(at))
                    spans.append((start, start + lengths.of(lasting)))
        return spans

    def network(self) -> tuple[bool, Spans, Spans]:
        """Whether there is one at home, when the person is away from home, and when on one at work."""
        network, away, work = self.habits.network, Spans(), Spans()
        has_home, has_work = (
            self.draws.uniforms(self.client, int(draw_index(what)))[0]
            < individual_chance(share, network.spread, self.score)[0]
            for what, share in ((Draw.HOME, network.home), (Draw.WORK, network.work))
        )
        leaves = self._own(Draw.LEAVE_OF_PERSON, network.between_persons)
        returns = self._own(Draw.BACK_OF_PERSON, network.between_persons)
        times, commute = _normal(network.between_days), round(1000 * network.commute)
        for day in self.days:
            number, weekend = day.toordinal(), day.weekday() >= 5
            usual = network.weekend if weekend else network.weekday
            takes, at = self._bits(Draw.OUTING, number)
            if not self._happens(takes, usual.chance):
                continue
            leave = min(max(round(1000 * usual.leave) + leaves + times.of(at), 0), DAY)
            back = round(1000 * usual.back) + returns + times.of(self._bits(Draw.BACK, number)[0])
            back = max(min(back, DAY), leave)
            away.append((self._instant(day, leave), self._instant(day, back)))
            if has_work and not weekend:
                until = max(back - commute, leave)
                work.append((self._instant(day, min(leave + commute, until)), self._instant(day, until)))
        return has_home, away, work

    def short(self, *, uses: bool) -> Spans:
        """Screen uses with the time after them, or failures of the network."""
        idle, drop_outs, spans = self.habits.idle, self.habits.network.drop_outs, Spans()
        per_day = idle.uses_per_day * np.exp(-idle.spread * self.score[0] - idle.spread**2 / 2)
        shares = np.array(idle.by_hour) / sum(idle.by_hour)
        law = _length(idle.use if uses else drop_outs.length, 3600.0)
        after = round(1000 * idle.settle) if uses else 0
        utc = datetime.combine(self.days[3], datetime.min.time(), UTC)
        while utc.date() < self.days[-2]:
            slot = utc.toordinal() * 288 + (utc.hour * 60 + utc.minute) // 5
            local = utc.astimezone(self.place.zone)
            likely = per_day * shares[local.hour] / 12 if uses else drop_outs.per_hour / 12
            if self._bits(Draw.EVENT, slot)[0 if uses else 1] / 2**32 < -np.expm1(-likely):
                at, lasting = self._bits(Draw.USE if uses else Draw.FAILURE, slot)
                start = round((utc - self.place.start.astimezone(UTC)) / MS) + at * 300_000 // 2**32
                spans.append((start, start + law.of(lasting) + after))
            utc += timedelta(minutes=5)
        return spans

    def available(self, require: list[str], since: int, until: int) -> Spans:
        """When all required conditions hold within [since, until), in whole intervals."""
        good: list[tuple[Spans, ...]] = []  # conditions, each of them holds within any of its sets
        bad: list[Spans] = []
        if "charging" in require:
            good.append((self.charging(),))
        home, away, work = self.network() if "network" in require else (True, Spans(), Spans())
        if "network" in require:
            bad.append(self.short(uses=False))
        if "idle" in require:
            bad.append(self.short(uses=True))
        sets = [*(each for sets in good for each in sets), away, work, *bad]
        edges = sorted({since, until, *(edge for spans in sets for span in spans for edge in span)})
        found: Spans = []
        for start, end in pairwise(edges):
            if not since <= start < until:
                continue
            holds = all(any(_in(start, spans) for spans in sets) for sets in good)
            holds = holds and ((home and not _in(start, away)) or _in(start, work))
            if holds and not any(_in(start, spans) for spans in bad):
                found.append((found.pop()[0] if found and found[-1][1] == start else start, end))
        return found


def _in(instant: int, spans: Spans) -> bool:
    return any(start <= instant < end for start, end in spans)
