"""What weights, separations, cool-downs, time zones and laws cost in a large run, in turns with the plain one.

Run ``python benchmarks/combinations.py`` (an hour; ``--days 2 --only targets`` takes some minutes). 10^6 devices with
habits, cohort 1,000, 333 rounds a day; whole processes, with log, metrics and page. Printed are medians of processor
time, wall time and peak memory, and of the ratios of processor time to the plain run of the same turn:

1. The floor (`floor.py`), the plain run, and the combinations with a target of their own: the plain run at most 8 times
   the floor; weights and a separation at most 1.3 times the plain run by `midzuno`, 1.6 times by `successive`; Zipf
   weights, separations of their own, a cool-down of a day and three time zones at most 1.6 times.
2. Every law with every kind of weight and of cool-down, over two days, beside the plain run of two days.
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
WEIGHTS = {
    "equal": "",
    "lognormal": ", weight: {kind: lognormal, sigma: 1}",
    "Zipf 1.1": ", weight: {kind: zipf, exponent: 1.1}",
}
COOLDOWNS = {
    "none": "",
    "R = 200": ", separation: 200",
    "R to 400, 1 day": ", separation: {kind: uniform, low: 0, high: 400}, cooldown: 1d",
}
ZONES = (
    ", time_zone: {kind: mixture, parts: ["
    + ", ".join(f"{{share: 1, source: {zone}}}" for zone in ("Europe/Berlin", "America/New_York", "Asia/Kolkata"))
    + "]}"
)
LAWS = ("midzuno", "uniform", "successive")


def simulate(options: argparse.Namespace, folder: Path, days: int, group: str, law: str) -> Usage:
    file = folder / "bench.fedsim.yaml"
    rounds = min(10_000, ROUNDS_A_DAY * days)
    text = TEXT.format(rounds=rounds, days=days, group=group, law=law, devices=options.devices, cohort=options.cohort)
    file.write_text(text, encoding="utf-8")
    return usage(sys.executable, "-m", "fedsim", "run", str(file), "--out", str(folder / "run"))


def show(what: str, found: list[Usage], beside: list[Usage], of: str) -> None:
    wall, user, peak = (median(each) for each in zip(*found, strict=True))
    ratio = median(own[1] / other[1] for own, other in zip(found, beside, strict=True))
    print(
        f"  {what:<44}{user:>8.2f} s of processor{wall:>8.2f} s wall{peak:>8,.0f} MiB{ratio:>7.2f} times {of}"
        f"  load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def targets(options: argparse.Namespace, folder: Path) -> None:
    days = options.days
    print(f"1. {options.devices:,} devices, {days} days (targets: 8 times the floor; 1.3, 1.6 and 1.6 times plain)")
    lognormal = WEIGHTS["lognormal"] + COOLDOWNS["R = 200"]
    cases = {
        "plain": ("", "midzuno"),
        "lognormal, R = 200, midzuno": (lognormal, "midzuno"),
        "lognormal, R = 200, successive": (lognormal, "successive"),
        "Zipf, R to 400, 1 day, 3 zones, midzuno": (
            WEIGHTS["Zipf 1.1"] + COOLDOWNS["R to 400, 1 day"] + ZONES,
            "midzuno",
        ),
    }
    floors: list[Usage] = []
    found: dict[str, list[Usage]] = {name: [] for name in cases}
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
            found[name].append(simulate(options, folder, days, *case))
    show("floor", floors, floors, "itself")
    for name, each in found.items():
        show(name, each, floors if name == "plain" else found["plain"], "the floor" if name == "plain" else "plain")


def combinations(options: argparse.Namespace, folder: Path) -> None:
    print(f"2. every combination, 2 days, in {options.repeat} turns of three of them and a plain run")
    for law in LAWS:
        for weight, weights in WEIGHTS.items():
            plain: list[Usage] = []
            found: dict[str, list[Usage]] = {cooldown: [] for cooldown in COOLDOWNS}
            for _ in range(options.repeat):
                plain.append(simulate(options, folder, 2, "", "midzuno"))
                for cooldown, rests in COOLDOWNS.items():
                    found[cooldown].append(simulate(options, folder, 2, weights + rests, law))
            for cooldown, own in found.items():
                show(f"{law}, {weight}, {cooldown}", own, plain, "plain")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--devices", type=int, default=1_000_000)
    parser.add_argument("--cohort", type=int, default=1_000)
    parser.add_argument("--only", choices=["targets", "combinations"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        simulate(options, folder, 1, "", "midzuno")  # compiles the loops
        if options.only != "combinations":
            targets(options, folder)
        if options.only != "targets":
            combinations(options, folder)


if __name__ == "__main__":
    main()
