"""What whole processes take: a round by the number of devices, and the start.

Run ``python benchmarks/scale.py``. Medians of ``--repeat`` turns as the operating system accounts for them:

1. A round of 100 beside 10^6 devices over one beside 10^4, from runs of two lengths: with habits, and with renewal.
2. ``fedsim --help``; the imports of the dependencies; and 1,000 rounds of 100 clients with their page.
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
population: [{{devices: {devices}, availability: {availability}}}]
server: {{cohort: 100, pause: 160s}}
engine: vectorized
"""
SMALL = """\
stop: {rounds: 1000}
population: [{devices: 100, separation: 4}]
server: {cohort: 5}
"""
IMPORTS = "import jinja2, matplotlib, numba, numpy, polars, pydantic, rich, ruamel.yaml, simpy, typer"
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


def a_round_ms(folder: Path, availability: str, devices: int, rounds: int = 1500) -> float:
    """Return the processor time of a round."""
    texts = (LARGE.format(availability=availability, devices=devices, rounds=n) for n in (2 * rounds, rounds))
    more, less = (simulate(text, folder)[1] for text in texts)
    return 1e3 * (more - less) / rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = range(parser.parse_args().repeat)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for availability in ("habits", "{kind: renewal, on: 1h, off: 2h}"):
            pairs = [[a_round_ms(folder, availability, devices) for devices in (10_000, 1_000_000)] for _ in repeat]
            few, many = (median(each) for each in zip(*pairs, strict=True))
            times = median(more / less for less, more in pairs)
            print(f"{availability}: {few:.2f} ms at 10^4, {many:.2f} ms at 10^6, {times:.2f} times")
        python = sys.executable
        starts = [usage(python, "-m", "fedsim", "--help")[1] for _ in repeat]
        pairs = [[usage(python, "-c", IMPORTS)[1], simulate(SMALL, folder)[1]] for _ in repeat]
        imports, small = (median(each) for each in zip(*pairs, strict=True))
        print(f"fedsim --help {median(starts):.2f} s; imports {imports:.2f} s, a small run {small:.2f} s")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
