"""Which of several jobs selects first, where they want devices at the same instant."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from fedsim.common.errors import PluginError
from fedsim.common.registry import Registry, is_own
from fedsim.scenario.component import Choice


@dataclass(frozen=True)
class Wish:
    """What a job wants at an instant."""

    name: str  # the job's
    weight: float
    now_s: float  # the instant, in simulated seconds
    since_s: float  # since when the job has wanted devices: its round opened, or its last selection was
    wanted: int  # devices that it would select
    sessions: int  # that it has begun so far
    draw: float  # uniform on (0, 1), drawn for this job at this instant


class MatchingPolicy(Protocol):
    """Puts the jobs that want devices at an instant in an order."""

    def rank(self, wish: Wish) -> float:
        """Return a number from the wish alone: the job with the smallest selects first, of equal ones the first."""
        ...


def _by(name: str, words: str, rank: Callable[[Wish], float]) -> type[MatchingPolicy]:
    """Return the class of a policy without options, which ranks by what a function says of a wish."""
    return type(name, (), {"__doc__": words, "rank": staticmethod(rank)})


FirstCome = _by("FirstCome", "The job first that has wanted devices for the longest time.", lambda wish: wish.since_s)
Random = _by("Random", "Any order, drawn anew for each instant.", lambda wish: wish.draw)
ByWeight = _by("ByWeight", "The job with the largest weight first.", lambda wish: -wish.weight)
FairShare = _by(
    "FairShare",
    "The job first that has begun the fewest sessions for its weight.",
    lambda wish: wish.sessions / wish.weight,
)
ShortestDemand = _by(
    "ShortestDemand",
    "The job first that wants the fewest devices, the order of Venn (Liu et al., MLSys 2025) within an instant.",
    lambda wish: float(wish.wanted),
)
POLICIES: Final = Registry[MatchingPolicy](
    "a matching policy",
    MatchingPolicy,
    {
        "first_come": "fedsim.selection.matching:FirstCome",
        "random": "fedsim.selection.matching:Random",
        "by_weight": "fedsim.selection.matching:ByWeight",
        "fair_share": "fedsim.selection.matching:FairShare",
        "shortest_demand": "fedsim.selection.matching:ShortestDemand",
    },
    at="matching",
    chance="take wish.draw",
)


def ranking(choice: Choice | None) -> Callable[[Wish], float]:
    """Return the rank by a policy, by default first_come; a `PluginError` says what is wrong with one's own."""
    if choice is None:
        return FirstCome().rank
    policy = POLICIES.build(choice.kind, choice.options)

    def checked(wish: Wish) -> float:
        with POLICIES.reraise_as_plugin_error(f"matching policy {choice.kind!r}, job {wish.name!r}", policy.rank):
            if math.isnan(rank := float(policy.rank(wish))):
                raise PluginError("must return a number, not NaN")
        return rank

    return checked if is_own(choice.kind) else policy.rank
