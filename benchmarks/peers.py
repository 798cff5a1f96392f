"""fedsim and its peers side by side: the time of one round of selection, and the memory that it takes.

Run ``python benchmarks/peers.py``. Each tool gets a virtual environment of its own under ``build/benchmarks`` (FLGo's
brings PyTorch along, some gigabytes), and each measurement is a process of its own. All tools run in turn, as often as
``--repeat`` says, so that what else the machine does meets all of them; tables hold medians. Times leave out imports;
set-up stands in a column of its own. The result replaces the section on peers in ``benchmarks/RESULTS.md``.
"""

import argparse
import json
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from results import conditions, put

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Tool:
    """One of those that are compared.

    Attributes
    ----------
    name
        As in the table.
    environment
        Name of its virtual environment.
    requirement
        What pip installs there: its arguments.
    distribution
        Whose version says whether it is there.
    command
        Script in ``benchmarks/peers``, and its own arguments.
    models, lacks
        What one of its rounds takes into account, and what it does not.
    """

    name: str
    environment: str
    requirement: tuple[str, ...]
    distribution: str
    command: tuple[str, ...]
    models: str
    lacks: str


TOOLS = (
    Tool(
        "fedsim",
        "fedsim",
        ("--editable", str(ROOT)),
        "fedsim-participation",
        ("of_fedsim.py",),
        "habits by person and day (charging, network, screen) in civil time, separation, sessions that may drop out, "
        "the whole log; any instant",
        "training",
    ),
    Tool(
        "numpy script",
        "numpy",
        ("numpy",),
        "numpy",
        ("of_numpy.py",),
        "one charging window per device, the same each day, chance of a top-up, separation; uniform selection",
        "days that differ, network, screen, sessions, log, theory",
    ),
    Tool(
        "FLGo",
        "flgo",
        ("flgo==0.4.4",),
        "flgo",
        ("of_flgo.py",),
        "sinusoidal availability over 24 rounds, a coin for each client and round (`SLN`), sampling among idle clients",
        "separation, time within a round, persons' habits (training is left out here)",
    ),
    Tool(
        "Flower, `sample`",
        "flower",
        ("flwr",),
        "flwr",
        ("of_flower.py", "--plain"),
        "a uniform sample of all registered clients",
        "availability, separation",
    ),
    Tool(
        "Flower, `sample` with a criterion",
        "flower",
        ("flwr",),
        "flwr",
        ("of_flower.py",),
        "a charging window and a separation, in a criterion of 2 lines that we wrote",
        "days that differ, network, screen, sessions, log",
    ),
    Tool(
        "jax-privacy, `BMinSepSampling`",
        "jax-privacy",
        ("jax-privacy",),
        "jax-privacy",
        ("of_jax_privacy.py",),
        "the minimum separation, with Poisson cohorts",
        "availability, time, fixed cohorts",
    ),
    Tool(
        "raw SimPy",
        "simpy",
        ("simpy",),
        "simpy",
        ("of_simpy.py",),
        "a process per device with a charging window that varies by day, separation by rejection",
        "network, screen, sessions, log",
    ),
)


def prepare(tool: Tool, environments: Path) -> Path | str:
    """Return the interpreter of a tool's environment, made if need be, or why there is none."""
    folder = environments / tool.environment
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    look = [str(python), "-c", f"import importlib.metadata as m; print(m.version('{tool.distribution}'))"]
    if python.exists() and subprocess.run(look, check=False, capture_output=True).returncode == 0:
        return python
    print(f"installing {' '.join(tool.requirement)} into {folder}", file=sys.stderr)
    venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *tool.requirement]
    done = subprocess.run(pip, check=False, stderr=subprocess.PIPE, text=True)
    return python if done.returncode == 0 else _last_line(done.stderr)


def run(tool: Tool, python: Path, clients: int, options: argparse.Namespace) -> dict[str, Any] | str:
    """Measure once, in a process of its own; return the figures, or why there are none."""
    script, *arguments = tool.command
    command = [str(python), str(ROOT / "benchmarks" / "peers" / script), *arguments, "--clients", str(clients)]
    for name in ("cohort", "rounds", "separation"):
        command += [f"--{name}", str(getattr(options, name))]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return f"more than {options.timeout:.0f} s"
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else _last_line(done.stderr)


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2] or "failed without a word"


def table(
    tools: list[Tool], clients: int, measured: dict[str, list[dict[str, Any]]], failed: dict[str, str]
) -> list[str]:
    """Return the rows of one size of population."""
    lines = [
        f"### {clients:,} clients",
        "",
        "| tool | version | ms a round, median (smallest to largest) | times fedsim, in the same turn | set-up, s | "
        "peak memory, MB | mean cohort |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    ours = measured.get("fedsim", [])
    for tool in tools:
        if tool.name in failed:
            lines.append(f"| {tool.name} | | not measured here: {failed[tool.name]} | | | | |")
            continue
        runs = measured[tool.name]
        each = [1e3 * one["round_s"] for one in runs]
        ratios = [one["round_s"] / our["round_s"] for one, our in zip(runs, ours, strict=False)]
        middle = {key: median(one[key] for one in runs) for key in ("setup_s", "peak_mb", "cohort")}
        lines.append(
            f"| {tool.name} | {runs[0]['version']} | {median(each):,.3f} ({min(each):,.3f} to {max(each):,.3f}) | "
            f"{median(ratios) if ratios else float('nan'):,.2f} | {middle['setup_s']:.2f} | {middle['peak_mb']:,.0f} | "
            f"{middle['cohort']:.0f} |"
        )
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--cohort", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=96, help="spread over one day")
    parser.add_argument("--separation", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one measurement")
    parser.add_argument("--tools", nargs="+", default=[tool.name for tool in TOOLS], metavar="NAME")
    parser.add_argument("--section", default="peers", help="section of the results that is replaced")
    parser.add_argument("--title", default="fedsim and its peers", help="heading of that section")
    parser.add_argument("--environments", type=Path, default=ROOT / "build" / "benchmarks")
    options = parser.parse_args()
    before, missing, pythons = conditions(), {}, {}
    tools = [tool for tool in TOOLS if tool.name in options.tools]
    for tool in tools:
        python = prepare(tool, options.environments)
        (missing if isinstance(python, str) else pythons)[tool.name] = python
    text = [f"## {options.title}", "", f"Before: {before}.", ""]
    for clients in options.clients:
        measured: dict[str, list[dict[str, Any]]] = {}
        failed = dict(missing)
        for turn in range(options.repeat):
            for tool in tools:
                if tool.name in failed:
                    continue
                print(f"{clients:,} clients, turn {turn + 1}: {tool.name}", file=sys.stderr)
                one = run(tool, pythons[tool.name], clients, options)
                if isinstance(one, str):
                    failed[tool.name] = one
                else:
                    measured.setdefault(tool.name, []).append(one)
        text += table(tools, clients, measured, failed)
    text[3:3] = [
        f"After: {conditions()}.",
        "",
        f"{options.rounds} rounds over one day, cohort {options.cohort}, separation {options.separation}, "
        f"{options.repeat} turn{'s' * (options.repeat > 1)}; each measurement in a process and "
        "each tool in an environment of its own. Times leave out imports, set-up and the first round.",
    ]
    text += ["| tool | a round takes into account | but not |", "| --- | --- | --- |"]
    text += [f"| {tool.name} | {tool.models} | {tool.lacks} |" for tool in tools]
    put(options.section, "\n".join(text))


if __name__ == "__main__":
    main()
