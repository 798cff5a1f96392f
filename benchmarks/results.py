"""Keeps ``benchmarks/RESULTS.md``: each benchmark replaces its own section.

Run ``python benchmarks/results.py chain learning sweep`` to run these scripts and put down what they print.
"""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path(__file__).parent
FILE = FOLDER / "RESULTS.md"


def put(section: str, text: str) -> None:
    """Replace a section of the results, or add it at the end."""
    begin, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->\n"
    written = FILE.read_text(encoding="utf-8") if FILE.exists() else "# Results\n"
    if begin in written:
        before, _, rest = written.partition(begin)
        after = rest.partition(end)[2]
    else:
        before, after = written + "\n", ""
    FILE.write_text(f"{before}{begin}{text.rstrip()}\n{end}{after}", encoding="utf-8")


def conditions() -> str:
    """Say on what machine a benchmark runs, and what else runs there."""
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {_processor()}, {os.cpu_count()} processors, {memory:.0f} GiB; "
        f"Python {platform.python_version()}, {platform.system()} {platform.release()}; load average {load}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def main() -> None:
    for name in sys.argv[1:]:
        before = conditions()
        done = subprocess.run(
            [sys.executable, FOLDER / f"{name}.py"], check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        title = f"## `python benchmarks/{name}.py`"
        put(name, f"{title}\n\nBefore: {before}.\nAfter: {conditions()}.\n\n```text\n{done.stdout.strip()}\n```")


if __name__ == "__main__":
    main()
