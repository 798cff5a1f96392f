"""A check: one reason to trust a result or not, and what became of it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Grade(StrEnum):
    """What became of a check."""

    OK = "ok"
    CAUTION = "caution"
    BAD = "bad"
    NONE = "does not apply"


@dataclass(frozen=True)
class Check:
    """One reason to trust a result or not, and what became of it."""

    name: str  # of the list of checks: ``converged``
    state: Grade
    text: str  # what is so, in a sentence
    of: str = ""  # the optimizer, group, job or setting that it is about; empty where it is about the whole
    facts: tuple[str, ...] = ()  # keys of the facts that the sentence names
    remedy: str = ""  # what to do about it, in a sentence; empty where there is nothing to do
    command: str = ""  # what does that, for a shell
    turns: tuple[str, ...] = ()  # last words of the keys that the remedy changes: ``separation``
    since: str = ""  # the check that is the cause, under whose name a page shows it; empty where it is its own


CHECKED = {
    "ended": "ended early",
    "reports": "reports missing",
    "log": "log lacks columns",
    "privacy": "privacy promise broken",
    "expectations": "expectations missed",
    "trained": "training failed",
    "steps": "steps too large",
    "converged": "losses not converged",
    "compared": "too short to test differences of losses",
    "enough": "too short to test bias",
    "month": "month extrapolated",
    "separation": "clients wait too long",
    "shocks": "one course of shocks",
    "budget": "noise for other rounds",
    "theory": "theory does not apply",
    "off_theory": "shares off theory",
    "epsilons": "one epsilon",
    "spends": "cost",
    "favours": "model favours a group",
    "cohorts": "cohorts not filled",
    "surplus": "more reports than wanted",
    "waits": "rounds wait for clients",
    "wasted": "device time wasted",
    "setting": "one setting of a sweep",
    "even": "uneven participation",
    "seeds": "too few seeds",
    "promise": "no promise to users",
    "backtest": "scenario misses the log",
    "failed": "failed runs",
    "missing": "runs not done",
    "complete": "runs not complete",
    "comparable": "nothing to choose by",
    "conditions": "conditions not kept",
    "missed": "settings miss conditions",
    "diverged": "some training diverged",
    "chance": "chance is large",
    "edge": "best value may lie beyond",
    "paired": "runs not paired",
    "price": "choice has a price",
    "size": "scaled down",
}
"""What is so, in a few words, where a check does not hold."""
SEEDS, LENGTH, STEP = ("seeds",), ("rounds", "duration"), ("step_size", "local_step_size")
"""What remedies change: how many seeds there are, how long a run is, how large steps are."""


def agreeing(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return checks without remedies that contradict others, or come before others are done.

    If bad checks have remedies, the first of these is the only one, since what the others say is of a run to be done
    anew. Else those of checks that ask for caution stay, and of findings, which are no reason for it; or, if there are
    none, those of the rest; but no key is changed by two of them.
    """
    given = tuple(checks)
    ranks = ({Grade.BAD}, {Grade.CAUTION, Grade.NONE}, {Grade.OK})
    advised = [[each for each in given if each.remedy and each.state in states] for states in ranks]
    kept, turned = set[tuple[str, str]](), set[str]()
    for each in next(filter(None, advised), []):
        if not (kept and each.state is Grade.BAD) and turned.isdisjoint(each.turns):
            kept.add((each.remedy, each.command))
            turned.update(each.turns)
    return tuple(
        each if (each.remedy, each.command) in kept else replace(each, remedy="", command="") for each in given
    )


EXIT_CODES = {
    ("ended", Grade.BAD): 3,
    ("reports", Grade.BAD): 3,
    ("failed", Grade.CAUTION): 3,
    ("failed", Grade.BAD): 3,
    ("expectations", Grade.BAD): 1,
    ("comparable", Grade.BAD): 1,
    ("conditions", Grade.BAD): 1,
}
"""The codes of checks that end a command without success: 3 where runs failed, 1 where an answer is not as wanted."""


def exit_code(checks: Iterable[Check]) -> int:
    """Return the code with which a command ends: the greatest of its checks, 0 without any."""
    return max((EXIT_CODES.get((each.name, each.state), 0) for each in checks), default=0)
