"""What a run promises to privacy, beside what its log shows, and what the promise does not cover."""

from dataclasses import dataclass

from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.enforced import caveats_of
from fedsim.privacy.epsilon import epsilon_of_rho
from fedsim.privacy.promise import broken
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import NOTHING, capitalized, count, number
from fedsim.report.tables import Table

HEADER = ("Bound", "Promised", "Observed")
_FIGURES = ("epsilon", "rho", "sensitivity", "noise_multiplier", "rounds", "separation", "most")


@dataclass(frozen=True)
class PrivacySection:
    """The section of a run page about privacy.

    Parameters
    ----------
    promise
        What is promised, in a sentence.
    kept
        Whether the log kept it, in sentences; `breaks` says whether one tells of a break.
    table
        n, b and k as promised and as observed.
    noise
        The mechanism and its noise.
    caveats
        What the promise does not cover, a sentence each.
    """

    promise: str
    kept: tuple[str, ...]
    breaks: bool
    table: Table
    noise: Table
    caveats: tuple[str, ...]


def privacy_section(run: FinishedRun) -> PrivacySection | None:
    """Compute the section; None where the scenario promises nothing."""
    privacy, known, seen = run.scenario.privacy, run.metrics, run.gathered.contributions
    if privacy is None or seen is None or any(f"privacy.{name}" not in known for name in _FIGURES):
        return None
    figures = {name: known[f"privacy.{name}"] for name in _FIGURES}
    bounds = ParticipationBounds(*(int(figures[name]) for name in ("rounds", "separation", "most")))
    faults = broken(bounds, seen)
    apart = NOTHING if seen.least_separation is None else count(seen.least_separation)
    rows = (
        (f"n: {run.noun}s", count(bounds.rounds), count(seen.last_round + 1)),
        (f"b: {run.noun}s from one contribution to the next, at least", count(bounds.min_separation), apart),
        ("k: contributions of a client, at most", count(bounds.participations), count(seen.most)),
    )
    std = None if privacy.clip is None else privacy.clip * figures["noise_multiplier"] * figures["sensitivity"]
    zcdp = epsilon_of_rho(figures["rho"], privacy.delta)
    noise = (
        ("Mechanism", privacy.mechanism.kind),
        ("Sensitivity of C", number(figures["sensitivity"], 5)),
        ("Noise multiplier", number(figures["noise_multiplier"], 5)),
        ("Standard deviation of the rows of Z", number(std, 5) if std is not None else "no clip is given"),
        ("zCDP, rho", number(figures["rho"], 5)),
        ("Epsilon by way of zCDP", number(zcdp, 5)),
    )
    clocked = bool((run.clients["cooldown_s"] > 0).any())
    return PrivacySection(
        promise=(
            f"Each client is promised epsilon = {number(figures['epsilon'], 4)} at delta = {privacy.delta:g}, with all "
            "that it contributes replaced by zeros."
        ),
        kept=tuple(f"The log breaks the promise: {each}." for each in faults) or ("The log keeps the promise.",),
        breaks=bool(faults),
        table=Table("What is promised, because the server enforces it, and what the log shows", HEADER, rows),
        noise=Table("The noise", ("Figure", "Value"), noise),
        caveats=tuple(f"{capitalized(each)}." for each in caveats_of(run.scenario, bounds, clocked=clocked)),
    )
