"""The study ``which-r``: which separation serves a private federation best, at an epsilon and a dimension.

Every case is one command, ``fedsim decide FILE --set ...``, printed before it runs; what its last sweep found is kept.
Cases that are there are not run again. Takes an hour and a half of processor time, half of it at d = 100,000.
"""

import re
import subprocess
import sys
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np

from fedsim import Scenario
from fedsim.common.formatting import listing, number
from fedsim.learning.components import build_problem
from fedsim.learning.problems.problem import Solvable, Solved
from fedsim.pages.trial_tables import standings
from fedsim.trials.contrasts import interval
from fedsim.trials.decision import aim_of, planned_seeds
from fedsim.trials.trials import Trials
from reports.make.kept import ROOT, SCENARIOS, Record, read_store, write_store
from reports.make.rates import picture
from reports.make.words import signed, table

PARTS = ("bias_loss", "participation_noise_loss", "privacy_noise_loss")


class Case(NamedTuple):
    """One decision."""

    problem: str  # what the table calls it
    epsilon: int
    mechanism: str = "banded"
    file: str = "which-r"
    more: tuple[str, ...] = ()  # overrides

    @property
    def name(self) -> str:
        """What the store calls it."""
        return " ".join((self.problem, str(self.epsilon), self.mechanism, self.file, *self.more))

    @property
    def amplified(self) -> bool:
        """Whether privacy counts on sampling."""
        return self.file.endswith("amplified")

    @property
    def words(self) -> str:
        """What the table calls it."""
        kind = "amplified" if self.amplified else ""
        seeds = "other seeds" if self.more[-1:] == OTHER_SEEDS else ""
        return ", ".join(filter(None, (self.problem.removeprefix("quadratic, "), self.mechanism, kind, seeds)))

    @property
    def command(self) -> list[str]:
        """The arguments of fedsim that decide it."""
        sets = (f"privacy.epsilon={self.epsilon}", f"privacy.mechanism={self.mechanism}", *self.more)
        file = str(SCENARIOS.relative_to(ROOT) / "studies" / f"{self.file}.fedsim.yaml")
        return ["decide", file, *(part for each in sets for part in ("--set", each))]


SMALL, LARGE, HUGE, DIGITS = (*(f"quadratic, d = {d}" for d in ("10", "1,000", "100,000")), "digits, d = 650")
PROBLEMS = SMALL, LARGE, HUGE, DIGITS
_LARGE = (
    "learning.problem.dimension=1000",
    "decide.tune={server.step_size: [0.01, 0.03, 0.1, 0.3, 1.0], update_clip: [1.0, 3.0, 10.0]}",
)
# Half the rounds, and fewer variants and seeds: of the size of the others it would take hours.
_HUGE = (
    *("learning.problem.dimension=100000", "stop.rounds=100", "learning.loss_parts=false"),
    "decide.tune={server.step_size: [0.01, 0.03, 0.1], update_clip: [10.0, 30.0]}",
    *("decide.tuning_seeds=1", "decide.seeds=5", "decide.minimize=learning.fedavg.loss"),
)
OTHER_SEEDS = ("seed=5001",)
"""The seeds of the comparison and, 10^6 above them, those of tuning."""

_FILES = {SMALL: "which-r", LARGE: "which-r", DIGITS: "which-r-digits"}
CASES = (
    *(
        Case(problem, epsilon, mechanism, _FILES[problem], _LARGE if problem == LARGE else ())
        for problem in (SMALL, LARGE, DIGITS)
        for mechanism in ("banded", "independent")
        for epsilon in (8, 2, 1)
        if (problem, mechanism, epsilon)
        not in {(LARGE, "independent", 2), *((DIGITS, "independent", e) for e in (2, 1))}
    ),
    Case(HUGE, 8, more=_HUGE),
    *(Case(SMALL, epsilon, more=OTHER_SEEDS) for epsilon in (8, 1)),
    Case(LARGE, 8, more=(*_LARGE, *OTHER_SEEDS)),
    Case(DIGITS, 8, file="which-r-digits", more=OTHER_SEEDS),
    *(Case(SMALL, epsilon, "independent", "which-r-amplified") for epsilon in (8, 2, 1)),
    *(Case(SMALL, epsilon, "banded", "which-r-amplified") for epsilon in (8, 1)),
)


def run() -> None:
    """Decide the cases that are missing, and keep what they found."""
    for case in CASES:
        if case.name in read_store("which-r", {}):
            continue
        folder = ROOT / "runs" / "which-r" / re.sub(r"\W+", "-", case.name)
        sys.stderr.write(f"fedsim {' '.join(case.command)}\n")
        arguments = [*case.command, "--out", str(folder), "--workers", "1", "--quiet"]
        subprocess.run([sys.executable, "-m", "fedsim", *arguments], cwd=ROOT, check=True)
        write_store("which-r", read_store("which-r", {}) | {case.name: kept(case, folder)})
    draw()


def kept(case: Case, folder: Any) -> Record:
    """Return what a decision found at each setting."""
    trials = Trials.read(folder)
    values = trials.samples(aim_of(trials).metric)
    seeds, stand, least = planned_seeds(trials), standings(trials), np.zeros(values.shape[1])
    if case.problem in {DIGITS, HUGE}:
        scenario = Scenario.load(case.command[1], case.command[3::2])
        least += [_least(scenario, scenario.seed + k) for k in range(len(least))]
    rows = []
    for row, (mean, half) in enumerate(np.transpose(interval(values - least))):
        own = {"name": trials.names[row], "seeds": seeds[row], "loss": mean, "half": half}
        own |= {"standing": stand[row], "pace": interval(trials.samples("rounds.per_day"))[0][row]}
        own |= {
            path.rpartition("fedavg.")[2]: interval(trials.samples(f"learning.fedavg.{path}"))[0][row] for path in PARTS
        }
        tuned = {path: trials.numbers(path) for path in trials.tuned}
        own |= {path.rpartition(".0.")[2]: float(each[row]) for path, each in tuned.items() if each is not None}
        rows.append({key: _short(value) for key, value in own.items()})
    return {"settings": rows}


def _least(scenario: Scenario, seed: int) -> float:
    assert scenario.learning is not None
    choice = scenario.learning.problem
    problem = build_problem(choice.kind, choice.options, clients=scenario.devices, seed=seed)
    assert isinstance(problem, Solvable | Solved)
    return float(problem.evaluate(problem.solve() if isinstance(problem, Solvable) else problem.optimum)["loss"])


def _short(value: Any) -> Any:
    known = isinstance(value, str) or np.isfinite(value)
    return None if not known else value if isinstance(value, str) else float(f"{value:.4g}")


EPSILONS = (8, 2, 1)


def found() -> list[tuple[Case, list[Record]]]:
    """Return the cases that were decided, and their settings."""
    known = read_store("which-r", {})
    return [(case, known[case.name]["settings"]) for case in sorted(CASES, key=_order) if case.name in known]


def _order(case: Case) -> tuple[bool, int, bool, str, int]:
    return case.amplified, PROBLEMS.index(case.problem), case.more[-1:] == OTHER_SEEDS, case.mechanism, -case.epsilon


def table_of() -> str:
    """Return the table of docs/studies.md: a row for each problem and mechanism, a column for each epsilon."""
    rows = dict[str, dict[int, str]]()
    for case, settings in found():
        best = _best(settings)
        tied = [_r(each) for each in settings if each["standing"] in {"best", "tied"}]
        ties = f" ({tied[0]}\N{EN DASH}{tied[-1]})" if len(tied) > 1 else ""
        losses = f"{number(settings[0]['loss'], 2)}\N{RIGHTWARDS ARROW}{number(best['loss'], 2)}"
        rows.setdefault(case.words, {})[case.epsilon] = f"{losses} at {_r(best)}{ties}"
    head = ("", *(f"epsilon {epsilon}" for epsilon in EPSILONS))
    return table(head, [[words, *(own.get(each, "") for each in EPSILONS)] for words, own in rows.items()])


def parts() -> str:
    """Say of what the loss is made at R = 0 and at the best R, where its parts are known."""
    asked = {Case(SMALL, 8), Case(SMALL, 1), Case(LARGE, 8, more=_LARGE), Case(LARGE, 1, more=_LARGE)}
    return listing(
        [
            f"{_shares(settings[0])} and {_shares(_best(settings))} % (d = {case.problem.rpartition(' ')[2]}, "
            f"epsilon {case.epsilon})"
            for case, settings in found()
            if case in asked
        ]
    )


def sentence() -> str:
    """Say where the best separation lies where rounds may wait, and which are told to be worse in every case."""
    cases = [(settings, _best(settings)) for case, settings in found() if not case.amplified]
    best = [_r(each) for _, each in cases]
    paces = [each["pace"] / settings[0]["pace"] for settings, each in cases]
    open_ = {_r(each) for settings, _ in cases for each in settings if each["standing"] in {"best", "tied"}}
    never = [r for r in (_r(each) for each in cases[0][0]) if r not in open_]
    low, high = [r for r in never if r < min(best)], [r for r in never if r > max(best)]
    return (
        f"In all {len(cases)} cases the best R lies where rounds already wait for phones: from {min(best)} to "
        f"{max(best)}, "
        f"at {100 * min(paces):.0f} to {100 * max(paces):.0f} % of the pace of R = 0. Those up to {max(low)} are worse "
        f"in each of them, and so is {listing([str(r) for r in high])}."
    )


def _best(settings: list[Record]) -> Record:
    return next(each for each in settings if each["standing"] == "best")


def _r(setting: Record) -> int:
    name, value = str(setting["name"]).replace("\N{NO-BREAK SPACE}", " ").rsplit(" = ", 1)
    return int(value) - (name != "R")


def _shares(setting: Record) -> str:
    return "/".join(signed(100 * setting[part] / setting["loss"], 0) for part in PARTS)


def draw() -> None:
    """Draw the loss along R for each problem, with a line for each epsilon and mechanism."""
    shown = [(case, settings) for case, settings in found() if not case.amplified and OTHER_SEEDS[0] not in case.more]
    with picture("which-r", len(PROBLEMS), width=16) as axes:
        for panel, problem in zip(axes, PROBLEMS, strict=True):
            for case, settings in shown:
                if case.problem == problem:
                    r, loss, half = ([float(value) for value in column] for column in _columns(settings))
                    style = "-" if case.mechanism == "banded" else ":"
                    colour = mpl.colormaps["viridis"]({8: 0.1, 2: 0.5, 1: 0.85}[case.epsilon])
                    label = f"epsilon {case.epsilon}, {case.mechanism}"
                    panel.errorbar(r, loss, half, color=colour, linestyle=style, label=label, capsize=2)
            panel.axvspan(6, 10, color="0.9", zorder=0)
            panel.set(
                title=problem, xlabel="R (grey: rounds come to wait)", ylabel="loss above the optimum", yscale="log"
            )
        told = {
            label: handle for panel in axes for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        axes[0].figure.legend(told.values(), told, loc="outside lower center", ncols=len(told), fontsize=9)


def _columns(settings: list[Record]) -> tuple[list[int], list[float], list[float]]:
    return [_r(each) for each in settings], [each["loss"] for each in settings], [each["half"] for each in settings]
