"""How large a federation fits into how much time and memory: whole processes, with log and report.

Run ``python benchmarks/scale.py`` (some minutes; ``--quick`` leaves out the largest). Printed are wall time, processor
time and peak memory of ``fedsim run`` as the operating system accounts for them, medians of ``--repeat`` runs:

1. 10^6 devices with habits, cohort 1,000, 10,000 rounds in 30 days. Target: 30 s, 1.5 GiB.
2. 10^7 devices, cohort 1,000, one day. Target: 8 GiB.
3. Cost of a round at cohort 100 from 10^4 to 10^6 devices, from the difference between runs of two lengths. Target: at
   10^6 within 1.5 times that at 10^4.
4. Start-up: ``fedsim --help`` (target 0.3 s), and 1,000 rounds of 100 clients as a whole process (target 2 s).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

LARGE = """\
stop: {{rounds: {rounds}, duration: 30d}}
population: [{{devices: {devices}, availability: habits}}]
server: {{cohort: {cohort}, pause: 160s}}
engine: vectorized
"""
SMALL = """\
stop: {rounds: 1000}
population: [{devices: 100, separation: 4}]
server: {cohort: 5}
"""
Usage = tuple[float, float, float]


def usage(*command: str) -> Usage:
    """Wall seconds, processor seconds and peak MiB of a command."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {process.returncode}")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024.0


def simulate(text: str, folder: Path) -> Usage:
    """Run a scenario into a fresh directory."""
    file = folder / "bench.fedsim.yaml"
    file.write_text(text, encoding="utf-8")
    return usage(sys.executable, "-m", "fedsim", "run", str(file), "--out", str(folder / "run"))


def line(what: str, runs: list[Usage]) -> None:
    wall, cpu, peak = (median(each) for each in zip(*runs, strict=True))
    walls = [one[0] for one in runs]
    print(
        f"  {what:<58}{wall:>8.2f} s [{min(walls):.2f}, {max(walls):.2f}]{cpu:>9.2f} s of processor"
        f"{peak:>8,.0f} MiB  load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def by_population(folder: Path, repeat: int, rounds: int = 1500) -> None:
    print("3. one round at cohort 100, from the difference between two lengths of run (target: 1.5 times)")
    costs: dict[int, list[Usage]] = {devices: [] for devices in (10_000, 100_000, 1_000_000)}
    for _ in range(repeat):
        for devices, runs in costs.items():
            long, short = (
                simulate(LARGE.format(devices=devices, rounds=count, cohort=100), folder)
                for count in (2 * rounds, rounds)
            )
            wall, cpu, _ = (more - less for more, less in zip(long, short, strict=True))
            runs.append((1e3 * wall / rounds, 1e3 * cpu / rounds, long[2]))
    for devices, runs in costs.items():
        wall, cpu, peak = (median(each) for each in zip(*runs, strict=True))
        ratio = median(one[1] / first[1] for one, first in zip(runs, costs[10_000], strict=True))
        print(
            f"  N = {devices:>9,}: {wall:.2f} ms a round, {cpu:.2f} ms of processor ({ratio:.2f} times N = 10,000), "
            f"{peak:,.0f} MiB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="leave out 10^7 devices")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("1. ten thousand rounds in 30 days, cohort 1,000 (target: 30 s, 1,536 MiB)")
        text = LARGE.format(devices=1_000_000, rounds=10_000, cohort=1_000)
        line("N = 1,000,000", [simulate(text, folder) for _ in range(options.repeat)])
        if not options.quick:
            print("2. one day of 333 rounds, cohort 1,000 (target: 8,192 MiB)")
            line("N = 10,000,000", [simulate(LARGE.format(devices=10_000_000, rounds=333, cohort=1_000), folder)])
        by_population(folder, options.repeat)
        print("4. start-up (targets: 0.3 s, 2 s)")
        line("fedsim --help", [usage(sys.executable, "-m", "fedsim", "--help") for _ in range(options.repeat)])
        line("1,000 rounds of 100 clients", [simulate(SMALL, folder) for _ in range(options.repeat)])


if __name__ == "__main__":
    main()
