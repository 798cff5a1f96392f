"""fedsim and its peers side by side: the time of a round of selection, and the memory that it takes.

Run ``python benchmarks/peers.py``. Each tool gets a virtual environment of its own under ``build/benchmarks`` (FLGo's
brings PyTorch along, some gigabytes), and each measurement is a process of its own, in turns; printed are medians.
Times leave out imports, set-up and the first round.
"""

import argparse
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = ROOT / "build" / "benchmarks"
TIMEOUT_S = 900.0  # of one measurement


class Tool(NamedTuple):
    """One of those that are compared."""

    name: str
    environment: str  # of a virtual environment
    requirement: tuple[str, ...]  # what pip installs there: its arguments
    distribution: str  # whose version says whether it is there
    command: tuple[str, ...]  # script in ``benchmarks/peers``, and its own arguments


TOOLS = (
    Tool("fedsim", "fedsim", ("--editable", str(ROOT)), "fedsim-participation", ("of_fedsim.py",)),
    Tool("numpy script", "numpy", ("numpy",), "numpy", ("of_numpy.py",)),
    Tool("FLGo", "flgo", ("flgo==0.4.4",), "flgo", ("of_flgo.py",)),
    Tool("Flower, `sample`", "flower", ("flwr",), "flwr", ("of_flower.py", "--plain")),
    Tool("Flower, `sample` with a criterion", "flower", ("flwr",), "flwr", ("of_flower.py",)),
    Tool("jax-privacy", "jax-privacy", ("jax-privacy",), "jax-privacy", ("of_jax_privacy.py",)),
    Tool("raw SimPy", "simpy", ("simpy",), "simpy", ("of_simpy.py",)),
)


def prepare(tool: Tool) -> Path | str:
    """Return the interpreter of a tool's environment, made if need be, or why there is none."""
    folder = ENVIRONMENTS / tool.environment
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
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"more than {TIMEOUT_S:.0f} s"
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else _last_line(done.stderr)


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2] or "failed without a word"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--cohort", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=96, help="spread over one day")
    parser.add_argument("--separation", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tools", nargs="+", default=[tool.name for tool in TOOLS], metavar="NAME")
    options = parser.parse_args()
    pythons = {tool: prepare(tool) for tool in TOOLS if tool.name in options.tools}
    for clients in options.clients:
        measured: dict[Tool, list[dict[str, Any]]] = {tool: [] for tool in pythons}
        failed = {tool: python for tool, python in pythons.items() if isinstance(python, str)}
        for _ in range(options.repeat):
            for tool, python in pythons.items():
                one = "" if tool in failed else run(tool, Path(python), clients, options)
                if isinstance(one, dict):
                    measured[tool].append(one)
                elif one:
                    failed[tool] = one
        for tool, runs in measured.items():
            if tool in failed:
                print(f"{clients:,} clients, {tool.name}: not measured: {failed[tool]}")
                continue
            figures = {key: median(one[key] for one in runs) for key in ("round_s", "peak_mb")}
            line = f"{1e3 * figures['round_s']:,.3f} ms a round, {figures['peak_mb']:,.0f} MB"
            print(f"{clients:,} clients, {tool.name} {runs[0]['version']}: {line}, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
