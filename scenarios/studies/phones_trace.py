"""Make phones.parquet, the trace of trace-replay.fedsim.yaml: two weeks of 200 phones that never existed.

Run it with fedsim installed: python phones_trace.py. Every number is keyed by phone and day, so the same file comes
out every time. The phones charge at night and now and then by day, and lose their home network when their owners go
out; every tenth owner has none. Faults of the kinds that real recordings have come with it: sessions that overlap,
intervals of no length, and three phones that were never seen.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from fedsim.common.files import write_table
from fedsim.common.keyed import Purpose, stream

PHONES, DAYS = 200, 14  # the first day is Monday 3 February 2020
HOUR, DAY = 3600.0, 86_400.0
DRAWS = stream(2020, 0, Purpose.AVAILABILITY)


def charging(phone: int) -> Iterator[tuple[float, float]]:
    """A night session on most evenings, later before a Saturday or Sunday, and up to two top-ups a day."""
    often, evening, length = DRAWS.normals(phone, np.arange(3)).tolist()
    for day in range(-1, DAYS):
        u, v = (
            DRAWS.uniforms(phone, 100 + day * 20 + np.arange(20)),
            DRAWS.normals(phone, 900 + day * 20 + np.arange(9)),
        )
        if u[0] < 0.75 + 0.15 * np.tanh(often):
            late = 0.7 if day % 7 in {4, 5} else 0.0
            start = day * DAY + HOUR * (22.7 + late + 0.9 * evening + 0.6 * v[0])
            yield start, start + HOUR * max(1.0, 7.6 + 0.8 * length + 0.7 * v[1])
        for number in (2, 4):
            if u[number] < 0.5:
                start = day * DAY + HOUR * (7 + 15 * u[number + 1])
                yield start, start + HOUR * 0.85 * float(np.exp(0.8 * v[number]))


def network(phone: int) -> Iterator[tuple[float, float]]:
    """At home whenever not out: on three of four working days, and on two of three days at the weekend."""
    if DRAWS.uniforms(phone, 4)[0] < 0.1:
        return
    edges = [-DAY]
    for day in range(DAYS):
        u, v = DRAWS.uniforms(phone, 2000 + day * 4 + np.arange(4)), DRAWS.normals(phone, 3000 + day * 4 + np.arange(4))
        leave, back, chance = (11.0, 16.5, 0.67) if day % 7 >= 5 else (8.0, 17.7, 0.75)
        if u[0] < chance:
            edges += [day * DAY + HOUR * (leave + 0.8 * np.clip(v[0], -3, 3))]
            edges += [day * DAY + HOUR * (back + 0.8 * np.clip(v[1], -2, 3))]
        failure = day * DAY + HOUR * (20 + 4 * u[1])
        edges += [failure, failure + 300 * u[2] + 1]
    yield from list(pairwise([*edges, DAYS * DAY + DAY]))[::2]


def phones() -> pl.DataFrame:
    """Return the trace: device, start_s, end_s, condition; times to the second."""
    rows: list[tuple[str, float | None, float | None, str]] = []
    for phone in range(PHONES):
        for condition, made in (("charging", charging(phone)), ("network", network(phone))):
            for written in made:
                start, end = (float(round(np.clip(time, 0, DAYS * DAY))) for time in written)
                if start < end:
                    rows.append((f"phone-{phone:03}", start, end, condition))
                if len(rows) % 97 == 0:
                    rows.append((f"phone-{phone:03}", end, end, condition))
    rows += [(f"phone-{PHONES + number:03}", None, None, "charging") for number in range(3)]
    schema = {"device": pl.String, "start_s": pl.Float64, "end_s": pl.Float64, "condition": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


if __name__ == "__main__":
    write_table(Path(__file__).with_name("phones.parquet"), phones())
