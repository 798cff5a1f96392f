"""Convert FedScale's capacities of devices to speeds of sessions.

``python fedscale_capacities.py IN.pickle OUT.csv [--samples 400] [--megabytes 5]`` writes a row for each device and
prints the `session` to put into a scenario, whose column source reads OUT.csv.

Capacities are a pickle of ``{id: {"computation": ..., "communication": ...}}``: how many milliseconds a sample takes,
and how many kilobits go through in a second. A session of s samples on a model of b kilobits takes
3 s computation / 1000 + 2 b / communication seconds: training costs three times as much as inference, and the model
goes both ways (Lai et al., *FedScale*, ICML 2022, and its simulator). A device's speed is the median of these times
over its own, so that a session as long as the median has speed 1.
"""

import argparse
import csv
import math
import sys
from pathlib import Path
from statistics import median
from typing import Any

from plain_pickle import plain_pickle

TRAINING = 3.0  # how much more a sample costs in training than in inference
SHAPE = 'capacities are a pickle of {id: {"computation": ms a sample, "communication": kbit/s}}'


def session_seconds(found: Any, samples: float, megabytes: float) -> dict[str, float]:
    """Return how long a session takes on each device; infinite where a capacity is not above 0 and finite.

    Raises
    ------
    ValueError
        If the pickle has another shape, or no device can take part.
    """
    if not isinstance(found, dict) or not found:
        raise ValueError(SHAPE)
    seconds = {}
    for name, device in found.items():
        values = [device.get(key) if isinstance(device, dict) else None for key in ("computation", "communication")]
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        if not isinstance(name, str | int) or not numbers:
            raise ValueError(f"device {str(name)[:40]!r} has no two numbers; {SHAPE}")
        seconds[str(name)] = math.inf
        if all(0 < value < 1e300 for value in values):
            computation, communication = values
            seconds[str(name)] = TRAINING * samples * computation / 1e3 + 2 * 8e3 * megabytes / communication
    if not any(map(math.isfinite, seconds.values())):
        raise ValueError(f"no device has capacities above 0; {SHAPE}")
    return seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="FedScale's device capacities as speeds of sessions.")
    parser.add_argument("source", metavar="IN", type=Path, help="the capacities, a pickle")
    parser.add_argument("out", metavar="OUT", type=Path, help="the table to write: *.csv")
    parser.add_argument("--samples", type=float, default=400, help="samples that a session trains on, over all steps")
    parser.add_argument("--megabytes", type=float, default=5.0, help="size of the model, 10^6 bytes, down and up")
    asked = parser.parse_args()
    if asked.out.suffix != ".csv":
        parser.error(f"OUT must be *.csv, not {asked.out.name!r}")
    if asked.samples < 1 or asked.megabytes < 0.001:
        parser.error("--samples must be at least 1, and --megabytes at least 0.001")
    try:
        every = session_seconds(plain_pickle(asked.source), asked.samples, asked.megabytes)
    except ValueError as error:
        raise SystemExit(f"{asked.source}: {error}") from None
    kept = {name: seconds for name, seconds in every.items() if math.isfinite(seconds)}
    middle = median(kept.values())
    with asked.out.open("w", encoding="utf-8", newline="") as file:
        table = ((name, middle / seconds, seconds) for name, seconds in kept.items())
        csv.writer(file).writerows([("device", "speed", "seconds"), *table])
    if left_out := len(every) - len(kept):
        print(f"{asked.source}: left out {left_out:,} with a capacity that is not above 0 and finite", file=sys.stderr)
    speed = f"speed: {{kind: column, file: {asked.out.name}, column: speed}}"
    print(f"session: {{download: 0s, train: {middle:.4g}s, upload: 0s, {speed}}}")
