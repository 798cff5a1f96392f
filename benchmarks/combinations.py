"""What weights, separations, cool-downs, time zones and laws cost in a large run, in turns with the plain one.

Run ``python benchmarks/combinations.py`` (an hour; ``--days 2 --only targets`` takes some minutes). 10^6 devices with
habits, cohort 1,000, 333 rounds a day; whole processes, with log, metrics and page. Printed are medians of processor
time, wall time and peak memory, and of the ratios of processor time to the plain run of the same turn:

1. The floor (`floor.py`), the plain run, and the combinations with a target of their own: the plain run at most 8 times
   the floor; weights and a separation, by `midzuno` and by `successive`, and Zipf weights with separations of their
   own, a cool-down of a day and three time zones, each at most 1.4 times the plain run.
2. A fleet in units with all of docs/questions/fleet.md, beside the plain run of as many rounds: at most 1.5 times.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median

from scale import Usage, usage

TEXT = """\
stop: {{rounds: {rounds}, duration: {days}d}}
population: [{{devices: {devices}, availability: habits{group}}}]
server: {{cohort: {cohort}, pause: 160s, selection: {law}}}
engine: vectorized
"""
ROUNDS_A_DAY = 333
FLEET = """\
stop: {{rounds: {rounds}, duration: {days}d}}
population:
  - devices: {devices}
    availability: habits
    joins:
      kind: mixture
      parts: [{{share: 4, source: 0s}}, {{share: 1, source: {{kind: uniform, low: 0s, high: 30d}}}}]
    leaves: {{kind: exponential, mean: 30d}}
    session:
      model: 5MB
      update: 1MB
      samples: {{kind: lognormal, median: 400, sigma: 0.5}}
      cost: 0.5
      device: {{snapdragon-888: 0.3, snapdragon-660: 0.5, snapdragon-410: 0.1, raspberry-pi-zero-2: 0.1}}
      link:
        down: {{kind: lognormal, median: 40Mbps, sigma: 0.8}}
        up: {{kind: lognormal, median: 10Mbps, sigma: 0.8}}
        work: {{share: 0.2, down: 100Mbps, up: 100Mbps}}
      needs: 1GB
server:
  cohort: {cohort}
  uplink: 2Gbps
  secure_aggregation: {{threshold: {threshold}, unmasking: 10s, drop_out: 0.02}}{pace}
prices: {{gigabyte: 0.05, kilowatt_hour: 0.30, device_hour: 0.01, carbon: 400g}}
engine: vectorized
"""
ZONES = (
    ", time_zone: {kind: mixture, parts: ["
    + ", ".join(f"{{share: 1, source: {zone}}}" for zone in ("Europe/Berlin", "America/New_York", "Asia/Kolkata"))
    + "]}"
)


def simulate(options: argparse.Namespace, folder: Path, days: int, text: str = TEXT, **keys: object) -> Usage:
    file = folder / "bench.fedsim.yaml"
    rounds = min(10_000, ROUNDS_A_DAY * days)
    sizes = {"rounds": rounds, "days": days, "devices": options.devices, "cohort": options.cohort}
    file.write_text(text.format(**sizes, **{"group": "", "law": "midzuno"} | keys), encoding="utf-8")
    return usage(sys.executable, "-m", "fedsim", "run", str(file), "--out", str(folder / "run"))


def show(what: str, runs: list[Usage], beside: list[Usage], of: str) -> None:
    wall, user, peak = (median(each) for each in zip(*runs, strict=True))
    ratio = median(run[1] / other[1] for run, other in zip(runs, beside, strict=True))
    print(
        f"  {what:<44}{user:>8.2f} s of processor{wall:>8.2f} s wall{peak:>8,.0f} MiB{ratio:>7.2f} times {of}"
        f"  load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def targets(options: argparse.Namespace, folder: Path) -> None:
    days = options.days
    print(f"1. {options.devices:,} devices, {days} days (targets: 8 times the floor; 1.4 times plain)")
    lognormal = ", weight: {kind: lognormal, sigma: 1}, separation: 200"
    zipf = ", weight: {kind: zipf, exponent: 1.1}, separation: {kind: uniform, low: 0, high: 400}, cooldown: 1d"
    cases = {
        "plain": ("", "midzuno"),
        "lognormal, R = 200, midzuno": (lognormal, "midzuno"),
        "lognormal, R = 200, successive": (lognormal, "successive"),
        "Zipf, R to 400, 1 day, 3 zones, midzuno": (zipf + ZONES, "midzuno"),
    }
    floors: list[Usage] = []
    runs: dict[str, list[Usage]] = {name: [] for name in cases}
    floor = Path(__file__).with_name("floor.py")
    sizes = (
        str(min(10_000, ROUNDS_A_DAY * days)),
        str(options.cohort),
        str(options.devices),
        str(folder / "floor.parquet"),
    )
    for _ in range(options.repeat):
        floors.append(usage(sys.executable, str(floor), *sizes))
        for name, case in cases.items():
            runs[name].append(simulate(options, folder, days, group=case[0], law=case[1]))
    show("floor", floors, floors, "itself")
    for name, each in runs.items():
        show(name, each, floors if name == "plain" else runs["plain"], "the floor" if name == "plain" else "plain")


def fleet(options: argparse.Namespace, folder: Path) -> None:
    print(f"2. a fleet in units, {options.days} days (target: 1.5 times plain)")
    steered = f"\n  check_ins: {{wanted: {3 * options.cohort}, window: 5m}}"
    paces = {"everything but check-ins": "", "everything": steered}
    plain: list[Usage] = []
    runs: dict[str, list[Usage]] = {name: [] for name in paces}
    for _ in range(options.repeat):
        plain.append(simulate(options, folder, options.days))
        for name, pace in paces.items():
            keys = {"pace": pace, "threshold": options.cohort * 7 // 10}
            runs[name].append(simulate(options, folder, options.days, FLEET, **keys))
    show("plain", plain, plain, "itself")
    for name, each in runs.items():
        show(name, each, plain, "plain")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--devices", type=int, default=1_000_000)
    parser.add_argument("--cohort", type=int, default=1_000)
    parser.add_argument("--only", choices=["targets", "fleet"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        simulate(options, folder, 1)  # compiles the loops
        for part in (targets, fleet):
            if options.only in {None, part.__name__}:
                part(options, folder)


if __name__ == "__main__":
    main()
