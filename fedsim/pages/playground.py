"""The playground: a page that computes theory for a population, a cohort, a separation and weights of one's choice."""

import math
import shlex
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from fedsim.common.errors import RunError
from fedsim.common.formatting import count, number, percent
from fedsim.pages.answer import BIAS, COST, NEXT, PRIVACY, TRUST, Answer, Sentence
from fedsim.pages.page import write_answer
from fedsim.population import Population, build_population
from fedsim.scenario import Scenario
from fedsim.scenario.server import SyncServer
from fedsim.theory import closed_form

_ABOUT = (
    "A client that has taken part waits at least R rounds before it may take part again. The longer all wait, the more "
    "evenly they take part, whatever their weights; and the fewer are ready in a round. This page computes how evenly, "
    "exactly, for clients that are always available. Nothing is run."
)

IN_PAGE = 1_000  # up to so many units of selection the page computes, at most some 30 ms for a move of a slider
_LIMIT = 0.1  # of the distance from uniform, with which the page starts
_MOST_ROUNDS = 10_000  # the most rounds for which the page says what is promised to privacy


@dataclass(frozen=True)
class _Start:
    """What the page starts with."""

    clients: int
    cohort: int
    separation: int
    selection: str  # ``midzuno``, or ``groups`` where a round takes one fixed group
    law: str  # of the weights: ``zipf`` with this exponent, or ``file`` where they are the scenario's own
    exponent: float = 1.0
    weights: Sequence[float] | None = None  # those of the scenario, the largest being 1; None without a scenario
    file: str = ""  # the scenario's file, quoted for a shell
    notes: Sequence[str] = ()  # what of the scenario the page leaves out
    rounds: int = 1_000  # for which the page says what is promised to privacy

    @property
    def most(self) -> int:
        """The largest R that can be kept."""
        return self.clients // self.cohort - 1


_PAPER = _Start(100, 5, 4, "groups", "zipf", 1.5)  # the start without a scenario: the paper's synthetic experiment


def write_playground(out: Path, scenario: Scenario | None = None, file: Path | None = None) -> Sequence[str]:
    """Write the page, and return what of the scenario it leaves out.

    The page starts with the scenario read from a file; by default with the paper's synthetic experiment.

    Raises
    ------
    RunError
        The scenario has a buffered server or too many devices, or the page cannot be written.
    """
    answer, shown = playground_answer(scenario, file)
    write_answer(answer, out, playground=shown)
    return answer.failures


def playground_answer(scenario: Scenario | None = None, file: Path | None = None) -> tuple[Answer, dict[str, object]]:
    """Return what the page says, and the numbers that it starts with; see `write_playground`."""
    start = _PAPER if scenario is None else _start(scenario, shlex.quote(str(file or f"{scenario.name}.fedsim.yaml")))
    weights = np.asarray(_weights(start))
    theory = closed_form(weights, start.separation, start.cohort, start.selection)
    share = percent(theory.tv_uniform)
    one = "group" if start.selection == "groups" else "client"
    ends = dict.fromkeys(number(float(end) * len(theory.pi), 3) for end in (theory.pi.min(), theory.pi.max()))
    ready = f"{count(start.clients - start.separation * start.cohort)} of {count(start.clients)} clients"

    def even(separation: int) -> float:
        return -closed_form(weights, separation, start.cohort, start.selection).tv_uniform

    enough = bisect_left(range(start.most + 1), -_LIMIT, key=even)
    within = f"R = {count(enough)} is the smallest" if enough <= start.most else "no R comes"
    finding = f"participation is {share} from uniform; {within} within {number(100 * _LIMIT)}\N{NARROW NO-BREAK SPACE}%"
    if np.ptp(theory.pi) < 1e-12:
        finding = "all take part equally often"
    shown: dict[str, object] = {**vars(start), "largest": max(IN_PAGE, start.clients), "most": start.most}
    times = -(-start.rounds // (start.separation + 1))
    of_noise = percent(math.sqrt(times / start.rounds))
    noise = f"with noise drawn anew in each round, the same epsilon takes {of_noise} of the noise that R = 0 needs"
    noise += " (no amplification by sampling is counted)"
    answer = Answer(
        kind="playground",
        name="theory",
        question="How uneven is participation at a separation R, and which R is enough?",
        headline=f"With R = {count(start.separation)}, {finding}.",
        setup="Who takes part in federated learning: move the sliders to your own clients, cohort and weights. "
        "R: rounds a client waits before it may take part again.",
        sentences=(
            Sentence(f"{share} from uniform (TV): a {one} takes part {' to '.join(ends)} times its fair share.", BIAS),
            Sentence(f"Waiting leaves {ready} ready in a round. A round takes {count(start.cohort)}.", COST),
            Sentence(
                f"In {count(start.rounds, 'round')} a client takes part at most {count(times, 'time')}: {noise}.",
                PRIVACY,
            ),
            Sentence(
                "Exact for clients that are always available: of others a scenario with `availability` tells.", TRUST
            ),
            Sentence("With scripts on, this page computes the same for other numbers.", NEXT),
        ),
        description=_ABOUT,
        failures=tuple(start.notes),
    )
    return answer, shown


def _start(scenario: Scenario, file: str) -> _Start:
    """Read the start off a scenario."""
    server = scenario.server
    if not server.selects_once:
        raise RunError(f"{file} has a buffered server, and the closed form is about rounds: ask fedsim chain {file}")
    population = build_population(scenario)
    clients, size, whole_groups = len(population), server.wanted, server.selection.kind == "groups"
    units = clients // size if whole_groups else clients
    if 2 * size > clients:
        raise RunError(f"{file} wants {count(size)} of {count(clients)} clients in a round: none could wait for one")
    if units > IN_PAGE:
        what, most = "selection groups" if whole_groups else "devices", min(99, clients // size - 1)
        raise RunError(
            f"{file} has {count(units)} {what}, and the page computes for at most {count(IN_PAGE)}: take fewer, or ask "
            f"fedsim chain {file} --separation 0:{most}"
        )
    return _Start(
        clients=clients,
        cohort=size,
        separation=min(int(np.median(population.separation)), clients // size - 1),
        selection="groups" if whole_groups else "midzuno",
        law="file",
        weights=(population.weight / population.weight.max()).tolist(),
        file=file,
        notes=list(_notes(scenario, server, population)),
        rounds=int(min(scenario.stop.most_rounds, _MOST_ROUNDS)),
    )


def _notes(scenario: Scenario, server: SyncServer, population: Population) -> Iterator[str]:
    """Say what of a scenario the page leaves out."""
    by, size = server.selection.kind, server.wanted
    if not scenario.always_available:
        are = "are" if "shocks" in scenario.absences or " and " in scenario.absences else "is"
        yield f"the scenario's {scenario.absences} {are} left out: in the page every client is always there"
    if population.common_separation is None:
        low, high = int(population.separation.min()), int(population.separation.max())
        yield f"the scenario's separations differ, from {low} to {high}: in the page all clients wait equally long"
    if population.cooldown_s.any():
        yield "the scenario's cool-downs by the clock are left out: in the page clients wait a number of rounds"
    if by not in {"midzuno", "groups"} and not (by == "successive" and size == 1):
        yield f"the scenario's selection by {by!r} is left out: the page draws one client by weight, the others evenly"
    if scenario.privacy is not None:
        yield "the scenario's mechanism, noise and caps are left out: in the page noise is independent"
    if server.deadline is not None or size != server.cohort:
        yield "reports that come late, or that are not needed, count too: in the page every participation does"


def _weights(start: _Start) -> Sequence[float]:
    if start.weights is not None:
        return start.weights
    ranks = np.arange(start.clients) // (start.cohort if start.selection == "groups" else 1) + 1
    return cast("list[float]", (ranks.astype(np.float64) ** -start.exponent).tolist())
