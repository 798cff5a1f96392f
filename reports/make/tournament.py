"""The tournament of methods: which one debiases best in which regime of noise, local steps, cohorts and memory.

Regimes are the points of ``scenarios/studies/tournament.fedsim.yaml``: a reference, what differs from it in one
respect, and a network; ``tournament-debiased`` has Debiased FedAvg in the same regimes, with more and more of its
options tuned. Both files have the values that were best for each regime on five other seeds. Every method had the same
budget: 24 candidates over one participation (six lengths of the step with all else as usual, six that were drawn, and
twelve beside the best so far), the best eight over three participations, the best three over five. A value that was
best, and the least or largest tried, was tried beyond. `fedsim sweep` runs both files over ten seeds; this is
what docs/learning.md says of them.
"""

from collections import Counter

import numpy as np

from fedsim.common.arrays import Bools, Floats
from fedsim.common.formatting import listing, number
from fedsim.measure.verdict import holm_levels
from fedsim.trials.contrasts import LEVEL, paired
from fedsim.trials.optimizers import MEMORY, by_optimizer, in_case, winners
from fedsim.trials.trials import Trials
from reports.make.kept import kept_sweep

HEAD = ("regime", *MEMORY)
HEAD_DEBIASED = ("tuned", "ratio", "less", "more")
PLAIN = "debiased_plain"  # Debiased FedAvg as in the paper, its constant step tuned
TUNED = {
    "debiased_decay": "decaying steps",
    "debiased_clip": "`clip` too",
    "debiased_prior": "`prior` too",
    "debiased_warm": "`warm_up` too",
    "debiased": "all, server too",
    "known": "Frequencies known",
}
NETWORK = "Network"
LEAST = 1e-6  # distances below are not told apart


def results(sweep: str = "tournament") -> Trials:
    """Return the trials of the methods."""
    trials = by_optimizer(kept_sweep(sweep))
    assert trials is not None
    return trials


def regimes() -> list[str]:
    """Return the names of the regimes."""
    return list(kept_sweep("tournament").texts("name"))


def figures(trials: Trials) -> Floats:
    """Return what methods are compared by, (methods, regimes, seeds)."""
    values = [trials.samples(in_case(trials.meta["figure"], case)) for case in trials.meta["cases"]]
    return np.stack(values, axis=1)


def by_regime(trials: Trials) -> list[list[str]]:
    """Return a row for each regime: who wins within each memory, who ties, and the distance of the first."""
    rows, kinds, means = list[list[str]](), trials.settings["kind"], figures(trials).mean(axis=2)
    for case, (regime, cells) in enumerate(zip(regimes(), winners(trials), strict=True)):
        texts = []
        for best in cells:
            ties = [f"`{kinds[row]}`" for row in best]
            more = listing(ties) if len(ties) < 3 else f"{ties[0]} and {len(ties) - 1} more"
            texts.append(f"{more} ({_distance(float(means[best[0], case]))})" if best else "")
        rows.append([regime, *texts])
    return rows


def _distance(value: float) -> str:
    return f"< {number(LEAST, 1)}" if value < LEAST else number(value, 1 if value < 1e-3 else 2)


def sentences(trials: Trials) -> list[str]:
    """Say who wins how often within each memory."""
    cells, kinds, lines = winners(trials), trials.settings["kind"].to_list(), list[str]()
    for column, words in enumerate(MEMORY):
        often = Counter(kinds[row] for regime in cells for row in regime[column])
        most = max(often.values())
        top = [f"`{kind}`" for kind in kinds if often[kind] == most]
        are = "is" if len(top) == 1 else "are"
        lines.append(f"{words}: {listing(top)} {are} best or tied in {most} of {len(cells)} regimes.")
    return lines


def _against_plain(trials: Trials) -> tuple[Floats, Bools, Bools]:
    """Return mean ratios to `PLAIN`, (`TUNED`, regimes), and where figures are significantly less or more."""
    logs = dict(zip(trials.settings["optimizer"], np.log(figures(trials)), strict=True))
    apart = np.stack([logs[name] - logs[PLAIN] for name in TUNED])
    mean, p = apart.mean(axis=2), paired(apart, np.zeros(apart.shape[2])).p
    differs = (p.ravel() <= holm_levels(p.ravel(), LEVEL)).reshape(p.shape)
    return np.exp(mean), differs & (mean < 0), differs & (mean > 0)


def debiased(trials: Trials) -> list[list[str]]:
    """Return a row for each way to tune Debiased FedAvg: its distance against the paper's, and in how many regimes."""
    (ratio, less, more), convex = _against_plain(trials), [regime != NETWORK for regime in regimes()]
    typical = np.exp(np.log(ratio[:, convex]).mean(axis=1))
    every = zip(TUNED.values(), typical, less.sum(axis=1), more.sum(axis=1), strict=True)
    return [[words, number(float(mean), 2), str(fewer), str(greater)] for words, mean, fewer, greater in every]


def recommended(trials: Trials) -> str:
    """Say which of Debiased FedAvg's options help significantly, and where."""
    _, less, _ = _against_plain(trials)
    means, names, better = figures(trials).mean(axis=2), regimes(), list[str]()
    of = dict(zip(trials.settings["optimizer"], means, strict=True))
    for row, case in zip(*np.nonzero(less[:-1]), strict=True):  # all but known frequencies
        option = [*TUNED][row]
        now, was = (number(float(of[name][case]), 3) for name in (option, PLAIN))
        better.append(f"in {names[case]}, where “{TUNED[option]}” has {now} for {was}")
    helps = f"no option helps significantly{f', except {listing(better)}' if better else ''}"
    return f"Recommended: the paper's algorithm, its constant step tuned; {helps}."
