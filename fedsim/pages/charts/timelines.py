"""Timelines of the examples that a run keeps: the sessions of one round, and the week of one device."""

from dataclasses import replace

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.formatting import count, duration, number, percent
from fedsim.common.instants import DAY_S, time_unit
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.pages.charts import Chart, marks
from fedsim.pages.charts.plot import AxisLook, Rule, Series, line_plot
from fedsim.pages.tables import thinned
from fedsim.run.examples import COOL_DOWN, SESSION
from fedsim.run.run import Run

_SEEN_S = 600.0  # shorter breaks cannot be seen in a week


def _bars(name: str, start: Floats, end: Floats, y: Floats | float, color: str) -> Series:
    """Make bars from start to end, each at its height."""
    x = np.stack([start, end, np.full(len(start), np.nan)], axis=1).ravel()
    return Series(name, x, np.repeat(np.broadcast_to(y, len(start)), 3).astype(np.float64), color, "spans")


def round_chart(run: Run) -> Chart | None:
    """Draw the sessions of a round of median length, from its opening; None where all were at the same time."""
    table = run.series.get("round")
    if table is None or table.select("selected_s", "ended_s").n_unique() < 2:
        return None
    (of,) = run.rounds.filter(round=int(table["round"][0])).iter_rows(named=True)
    took = of["closed_s"] - of["opened_s"]
    size, unit = time_unit(took)
    start, end = ((table[name] - of["opened_s"]).to_numpy() / size for name in ("selected_s", "ended_s"))
    place, ended = np.arange(len(table), 0.0, -1.0), table["outcome"].to_numpy()
    bars = [
        _bars(outcome, start[of_outcome], end[of_outcome], place[of_outcome], marks.series_color(at))
        for at, outcome in enumerate(SESSION_OUTCOMES)
        if (of_outcome := ended == outcome).any()
    ]
    which = f"Round {of['round']}, of median length" if len(run.rounds) > 1 else "The only round"
    text = f"{which} ({duration(took)})"
    text += f": {of['reported']:,} of {count(of['selected'], 'session')} reported."
    look = AxisLook(f"time since the round opened ({unit})"), AxisLook("sessions, in the order of their ends", ticks={})
    notes = [f"{len(table)} of the sessions, evenly spaced."] if len(table) < of["selected"] else []
    rules = [Rule("round closed", took / size, "x")]
    chart = line_plot("one-round", "One round, session by session", bars, *look, rules, notes, text)
    columns = table["client"], map(number, start), map(number, end), ended
    rows = [tuple(map(str, row)) for row in zip(*columns, strict=True)]
    data = thinned(chart.title, ("Client", f"Began ({unit})", f"Ended ({unit})", "Session"), rows, place.tolist())
    return replace(chart, description=text, table=replace(data, along="y"), aside=True)


def week_chart(run: Run) -> Chart | None:
    """Draw when each condition of the median device held, its sessions and cool-downs; None where there is none."""
    table = run.series.get("week")
    if table is None or table["what"].n_unique() < 2:  # a row alone shows nothing
        return None
    parts = {str(what): held.sort("start_s") for (what,), held in table.group_by("what", maintain_order=True)}
    bars, rows = list[Series](), list[tuple[float, str, float]]()
    height = {name: len(parts) - k for k, name in enumerate(parts)}
    for name, held in parts.items():
        start, end = held["start_s"].to_numpy(), held["end_s"].to_numpy()
        long = start[1:] - np.maximum.accumulate(end)[:-1] > (0 if name == SESSION else _SEEN_S)
        start, end = start[np.append(True, long)], np.maximum.accumulate(end)[np.append(long, True)]
        bar = _bars("", start / DAY_S, end / DAY_S, float(height[name]), marks.series_color(height[name]))
        bars.append(replace(bar, look="ticks") if name == SESSION else bar)
        rows += [(at, name, until) for at, until in zip(start.tolist(), end.tolist(), strict=True)]
    whole_s = min(run.simulated_s, 7 * DAY_S)
    shares = {name: percent(float((held["end_s"] - held["start_s"]).sum()) / whole_s) for name, held in parts.items()}
    ways = [f"{name} {share}" for name, share in shares.items() if name not in {SESSION, COOL_DOWN}]
    text = f"Client {table['client'][0]}, whose available time is the median"
    text += f": of the time {', '.join(ways)}; {count(len(parts.get(SESSION, ())), 'session')}."
    look = AxisLook("days since the start"), AxisLook("", ticks={float(at): name for name, at in height.items()})
    notes = [f"Breaks of under {duration(_SEEN_S)} are not drawn."]
    chart = line_plot("week", "One device's week", bars, *look, notes=notes, finding=text)
    rows.sort()
    cells = [(name, number(at / DAY_S), number(until / DAY_S)) for at, name, until in rows]
    data = thinned(chart.title, ("What", "From (day)", "To (day)"), cells, [at / DAY_S for at, *_ in rows])
    return replace(chart, description=text, table=data, aside=len(run.clients) > 1)
