"""Logs as a production writes them, by a generator of its own: phones that charge at night, in rounds of a server.

Nothing of fedsim is used, so that what is read from these logs can be compared with what was planted.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import NormalDist
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

HOUR, DAY = 3600.0, 86_400.0
START = datetime(2026, 1, 5, tzinfo=UTC)
CLASSES = {"phone": (90, 120.0, 0.5), "tablet": (60, 240.0, 0.4), "old": (50, 400.0, 0.6)}
"""Clients, median and sigma of the seconds of a session."""
ZONES = ("Europe/Berlin", "Asia/Kolkata", "America/New_York")
SESSIONS = ["device", "begin", "end", "status", "model", "zone", "examples", "round"]


@dataclass
class Production:
    """What a production does; times in seconds."""

    seed: int = 0
    days: int = 6
    classes: dict[str, tuple[int, float, float]] = field(default_factory=lambda: dict(CLASSES))
    zones: tuple[str, ...] = ZONES
    cohort: int = 8
    wanted: int = 10
    deadline: float = 900.0
    pause: float = 120.0
    fails_per_hour: float = 0.5
    night: tuple[float, float] = (7 * HOUR, 0.8 * HOUR)  # mean and deviation of the time on the charger
    plug_in: float = 22.5 * HOUR
    chance: tuple[float, float] = (0.8, 0.0)  # of a night on the charger: mean, and spread between persons
    slower_by_night: float = 1.0  # how much longer sessions take from midnight to six, local time
    slower_from: tuple[float, float] = (np.inf, 1.0)  # an instant, and how much longer sessions take from then on
    fails_from: tuple[float, float] = (np.inf, 0.5)  # an instant, and failures in an hour from then on
    leave: tuple[float, str] = (np.inf, "")  # an instant, and a class of which no device comes from then on
    missing: float = 0.0  # share of the check-ins that nobody wrote down
    twice: float = 0.0  # share of the sessions that are written twice

    def __post_init__(self) -> None:
        draws = self.draws = np.random.default_rng(self.seed)
        sizes = [size for size, *_ in self.classes.values()]
        self.kind = np.repeat(np.arange(len(sizes)), sizes)
        self.zone = np.arange(len(self.kind)) % len(self.zones)
        offsets = np.array(
            [(START.astimezone(ZoneInfo(zone)).utcoffset() or timedelta()).total_seconds() for zone in self.zones]
        )
        self.offset = offsets[self.zone]
        self.examples = np.rint(np.exp(draws.normal(5, 0.5, len(self.kind)))).astype(int)
        mean, spread = self.chance
        score = normal_quantile(mean) * np.sqrt(1 + spread**2) + spread * draws.normal(size=len(self.kind))
        often, days = normal_probability(score), np.arange(-2, self.days + 1)
        usual = self.plug_in + draws.normal(0, HOUR, len(self.kind))
        begin = days * DAY + (usual - self.offset)[:, None] + draws.normal(0, 0.5 * HOUR, (len(self.kind), len(days)))
        length = np.clip(draws.normal(*self.night, begin.shape), HOUR, 40 * HOUR)
        there = draws.random(begin.shape) < often[:, None]
        who = np.repeat(np.arange(len(self.kind)), len(days)).reshape(begin.shape)[there]
        begins, ends = np.clip(begin[there], 0, self.days * DAY), np.clip((begin + length)[there], 0, self.days * DAY)
        gone_s, gone = self.leave
        left = np.array([name == gone for name in self.classes])[self.kind[who]]
        begins, ends = (np.where(left, np.minimum(each, gone_s), each) for each in (begins, ends))
        kept = begins < ends
        self.spans = who[kept], begins[kept], ends[kept]

    def sessions(self) -> pl.DataFrame:
        """Return the sessions of all rounds."""
        who, begins, ends = self.spans
        medians, sigmas = np.array([law for _, *law in self.classes.values()]).T
        now, number, rows = 0.0, 0, []
        busy = np.zeros(len(self.kind))
        while now < self.days * DAY:
            there = np.flatnonzero((begins <= now) & (ends > now) & (busy[who] <= now))
            if len(there) < self.wanted:
                now = float(min([self.days * DAY, *begins[begins > now], *busy[busy > now]]))
                continue
            chosen = self.draws.choice(there, self.wanted, replace=False)
            own, until = who[chosen], ends[chosen]
            night = (now + self.offset[own]) % DAY < 6 * HOUR
            slower = np.where(night, self.slower_by_night, 1.0) * (
                self.slower_from[1] if now >= self.slower_from[0] else 1
            )
            took = medians[self.kind[own]] * np.exp(sigmas[self.kind[own]] * self.draws.normal(size=len(own))) * slower
            rate = self.fails_from[1] if now >= self.fails_from[0] else self.fails_per_hour
            fails = self.draws.exponential(HOUR / max(rate, 1e-9), len(own))
            over, gone = now + took, np.minimum(now + fails, until)
            dropped = gone <= over
            reports = np.sort(over[~dropped])
            limit = now + self.deadline
            full = reports[self.cohort - 1] if len(reports) >= self.cohort else np.inf
            close = min(full, limit, max(np.minimum(over, gone)))
            end = np.minimum(over, gone)
            status = np.where(dropped, "interrupted", "ok").astype(object)
            if close == full:
                status[end > close], end = "closed", np.minimum(end, close)
            else:
                status[(end > close) & ~dropped] = "late"
            busy[own] = end
            names = [*self.classes]
            rows += [
                (f"d{c}", now, e, s, names[self.kind[c]], self.zones[self.zone[c]], int(self.examples[c]), number)
                for c, e, s in zip(own.tolist(), end.tolist(), status.tolist(), strict=True)
            ]
            now, number = close + self.pause, number + 1
        return pl.DataFrame(rows, schema=SESSIONS, orient="row")

    def check_ins(self) -> pl.DataFrame:
        """Return when devices were there, as far as it was written down."""
        there = np.random.default_rng(self.seed).random(len(self.spans[0])) >= self.missing
        who, begins, ends = (each[there] for each in self.spans)
        return pl.DataFrame({"device": [f"d{c}" for c in who.tolist()], "start_s": begins, "end_s": ends})


def stamped(table: pl.DataFrame, form: str = "%Y-%m-%dT%H:%M:%S%.6fZ") -> pl.DataFrame:
    """Return sessions with dates in place of their seconds."""
    times = (pl.col("begin", "end") * 1e6).round().cast(pl.Int64).cast(pl.Duration("us"))
    return table.with_columns((times + START.replace(tzinfo=None)).dt.to_string(form))


COLUMNS = "client=device,selected=begin,ended=end,outcome=status,class=model,time_zone=zone,weight=examples"
OUTCOMES = "reported=ok,dropped=interrupted,cut=closed"


def named(text: str) -> dict[str, str]:
    """Return what an option such as `COLUMNS` says."""
    return dict(each.split("=") for each in text.split(","))


def written(folder: Path, production: Production) -> pl.DataFrame:
    """Write ``log.csv`` with milliseconds since 1970, some rows twice, and ``there.csv``; return the sessions."""
    table, epoch = production.sessions(), START.timestamp()
    often = 1 + (production.draws.random(len(table)) < production.twice)
    in_ms = table.with_columns(((pl.col("begin", "end") + epoch) * 1e3).round().cast(pl.Int64))
    in_ms[np.repeat(np.arange(len(table)), often)].write_csv(folder / "log.csv")
    production.check_ins().with_columns(pl.col("start_s", "end_s").round(3)).write_csv(folder / "there.csv")
    return table


def log_in(folder: Path, table: pl.DataFrame) -> Path:
    """Write sessions as CSV with dates."""
    stamped(table).write_csv(folder / "log.csv")
    return folder / "log.csv"


def normal_probability(score: np.ndarray) -> np.ndarray:
    return np.asarray(np.vectorize(NormalDist().cdf)(score))


def normal_quantile(share: float) -> float:
    return NormalDist().inv_cdf(share)
