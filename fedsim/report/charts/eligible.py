"""How many clients could be selected over simulated time, and when that was too few for a round."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats
from fedsim.report.binning import Binned, binned, edges
from fedsim.report.charts import marks
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, fixed, percent
from fedsim.report.tables import Table, thinned

_RESOLUTION = 1_000  # shortages closer to each other than this part of the run are drawn as one


@dataclass(frozen=True)
class Eligible:
    """Clients over simulated time."""

    unit: str
    longest: float  # length of the run, in that unit
    available: Binned  # clients counted by the gauges
    eligible: Binned
    wanted: int | None  # clients that a round wants; None where the manifest does not say
    starts: Floats  # where shortages begin: a round waited, was skipped, or went on with fewer clients than it wanted
    ends: Floats
    rounds: int  # how many rounds that were
    share: float  # share of the simulated time spent so
    sampled: tuple[str, ...]  # a note that the gauges did not count everyone, or none
    size: float  # the unit, in seconds
    start: datetime
    clock: str  # whose time of day is shown: UTC, or the one zone that all devices live in


def clock_of(clients: pl.DataFrame) -> str:
    """Return whose time of day clients are shown by: the one zone that they live in, or UTC."""
    zones = clients["time_zone"].drop_nulls().unique()
    return str(zones[0]) if len(zones) == 1 else "UTC"


def shortages(run: FinishedRun) -> tuple[Floats, Floats, int]:
    """Find the spans of simulated time (seconds) in which rounds lacked clients, and how many rounds that were.

    Those of `lacking`; spans that touch, or nearly so, are one.
    """
    starts, ends = lacking(run)
    if not len(starts):
        return starts, ends, 0
    fresh = np.append(True, starts[1:] > np.maximum.accumulate(ends)[:-1] + run.simulated_s / _RESOLUTION)
    first = np.flatnonzero(fresh)
    return starts[first], np.maximum.reduceat(ends, first), len(starts)


def lacking(run: FinishedRun) -> tuple[Floats, Floats]:
    """Find from when to when (seconds) each round lacked clients that did.

    A round that waited lacked them from its opening until it selected; one that was skipped or went on with fewer
    than it wanted, from its opening to its close.
    """
    wanted = run.wanted or 0
    waited = pl.col("selected_s") > pl.col("opened_s")
    # These laws select more or fewer than wanted by their nature.
    random = not run.scenario.server.fixed_size
    went_on = pl.col("selected_s").is_not_null() & (pl.col("selected") < (0 if random else wanted))
    empty = pl.col("selected_s").is_null()
    end = pl.when(went_on | empty).then(pl.col("closed_s")).otherwise(pl.col("selected_s"))
    rounds = run.rounds.with_columns(pl.col("selected_s").fill_nan(None))
    short = rounds.filter(waited | went_on | empty).select(pl.col("opened_s").alias("start"), end.alias("end"))
    short = short.filter(pl.col("end").is_finite()).sort("start")
    return short["start"].to_numpy(), short["end"].to_numpy()


class EligibleChart:
    """How many clients could be selected over time, and when that was too few for a round."""

    title, section = "Enough clients, or a shortage", "devices"

    def prepare(self, run: FinishedRun) -> Eligible | str:
        if run.gauges is None or run.gauges["time_s"].n_unique() < 2:
            return "Clients were counted fewer than twice: records.gauges says how often to count them."
        total = run.gauges.group_by("time_s").agg(pl.col("available", "eligible").sum()).sort("time_s")
        size, unit = marks.time_scale(run.simulated_s)
        starts, ends, rounds = shortages(run)
        if not rounds and all(total[name][1:].n_unique() == 1 for name in ("available", "eligible")):
            available, ready = total["available"][-1], total["eligible"][-1]
            words = f"Whenever they were counted after the start, {count(available)} clients were available"
            return f"{words} and {count(ready)} eligible: never too few for a round."
        times = total["time_s"].to_numpy() / size
        cuts = edges(len(times))
        return Eligible(
            unit=unit,
            longest=run.simulated_s / size,
            available=binned(times, total["available"].to_numpy().astype(np.float64), cuts),
            eligible=binned(times, total["eligible"].to_numpy().astype(np.float64), cuts),
            wanted=run.wanted,
            starts=starts / size,
            ends=ends / size,
            rounds=rounds,
            share=float(np.subtract(*lacking(run)[::-1]).sum() / run.simulated_s) if run.simulated_s else 0.0,
            sampled=sampled(run),
            size=size,
            start=run.scenario.start,
            clock=clock_of(run.clients),
        )

    def finding(self, data: Eligible) -> str:
        least = count(data.eligible.low.min(), "client")
        if len(data.starts):
            return f"Rounds lacked clients {percent(data.share)} of the time"
        if data.wanted is None:
            return f"Never fewer than {least} eligible when counted"
        return f"Never a shortage: at least {least} eligible when counted, {count(data.wanted)} wanted"

    def notes(self, data: Eligible) -> Iterator[str]:
        yield "Eligible: available, cooled down, and not in a session."
        yield from data.sampled
        if len(data.starts):
            yield (
                f"Shaded: {count(data.rounds, 'round')} had to wait, were skipped or went on with fewer clients than "
                f"they wanted, which took {percent(data.share)} of the simulated time."
            )
        if (size := data.eligible.size) > 1:
            yield f"Lines are means of up to {count(size)} counts; bands go from least to greatest."

    def description(self, data: Eligible) -> str:
        least, most = data.eligible.low.min(), data.eligible.high.max()
        words = f"Eligible clients over {fixed(data.longest, 1)} {data.unit}: from {count(least)} to {count(most)}"
        if data.wanted is not None:
            words += f", where a round wants {count(data.wanted)}"
        return f"{words}. {count(data.rounds, 'round')} met a shortage."

    def table(self, data: Eligible) -> Table:
        columns = zip(data.eligible.first, data.available.mean, data.eligible.mean, strict=True)
        rows = [(fixed(time, 2), count(available), count(eligible)) for time, available, eligible in columns]
        return thinned("Clients over simulated time", (f"From ({data.unit})", "Available", "Eligible"), rows)

    def draw(self, data: Eligible, axes: Axes) -> None:
        """Draw both counts over time, the shortages shaded."""
        lines = ((data.available, marks.MUTED, "available"), (data.eligible, marks.SERIES[0], "eligible"))
        entries = [(marks.line(axes, counted, color), name) for counted, color, name in lines]
        top = 1.1 * max(float(data.available.high.max()), data.wanted or 0.0, 1.0)
        axes.set_ylim(0, top)
        if len(data.starts):
            # At least a hair wide, or the shortest shortages would not be seen at all.
            ends = np.maximum(data.ends, data.starts + data.longest / 400)
            entries.append((marks.spans(axes, data.starts, ends, (0, top), marks.SERIES[1], alpha=0.24), "shortage"))
        if data.wanted is not None:
            entries.append((marks.rule(axes, y=data.wanted), f"wanted by a round ({count(data.wanted)})"))
        marks.linear(axes, "y")
        along = marks.clock_axis(axes, data.start, data.clock, data.longest * data.size, data.size)
        marks.finish(axes, along or marks.time_axis(axes, data.unit, data.longest), "clients", entries)


def sampled(run: FinishedRun) -> tuple[str, ...]:
    """Say so where the gauges did not count everyone: a note, or none."""
    most = run.scenario.records.gauge_sample
    if most is None or len(run.clients) <= most:
        return ()
    return (f"Counted among {count(most)} evenly spaced clients, and scaled up to all.",)
