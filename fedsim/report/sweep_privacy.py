"""What every setting of a sweep promises to privacy, beside what its runs had."""

from collections.abc import Callable

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.report.finished_sweep import FinishedSweep, names_of, values_of
from fedsim.report.formatting import NOTHING, count, number
from fedsim.report.tables import Table
from fedsim.sweeps.decision import samples

EPSILON = "privacy.epsilon"


def privacy_table(sweep: FinishedSweep, most: int) -> Table | None:
    """Show n, b and k as promised and as observed, and the noise, at `most` settings; None without ``privacy``.

    Observed are the most rounds and participations and the least distance of any run of a setting: what would break
    the promise, if anything did.
    """
    if EPSILON not in sweep.metrics:
        return None
    points, seeds = sweep.points["point"].to_list(), sorted(set(sweep.runs["seed"].to_list()))

    def column(metric: str, over: Callable[[Floats], float], write: Callable[[float], str]) -> list[str]:
        found = samples(sweep.results, metric, points, seeds)
        known = [row[np.isfinite(row)] for row in found]
        return [write(over(row)) if len(row) else NOTHING for row in known]

    def figure(value: float) -> str:
        return number(value, 4)

    columns = {
        "n promised": column("privacy.rounds", np.max, count),
        "n observed": column("rounds.count", np.max, count),
        "b promised": column("privacy.separation", np.min, count),
        "b observed": column("participation.separation.least", np.min, count),
        "k promised": column("privacy.most", np.max, count),
        "k observed": column("participation.most", np.max, count),
        "Sensitivity": column("privacy.sensitivity", np.max, figure),
        "Noise multiplier": column("privacy.noise_multiplier", np.min, figure),
        "Epsilon": column(EPSILON, np.max, figure),
    }
    values = [values_of(sweep, name) for name in sweep.parameters]
    rows = tuple(zip(*values, *columns.values(), strict=True))
    left = len(rows) - most
    notes = [
        "n rounds, at least b rounds from one participation of a client to its next, at most k of them. Only what is "
        "promised, because the server enforces it, counts for epsilon; what was observed is luck where it is better."
    ]
    if left > 0:
        notes.append(f"The first {most} settings; {count(left)} more are in the results of the sweep.")
    caption = "What is promised to privacy, and what the runs had"
    header = (*names_of(sweep.parameters).values(), *columns)
    return Table(caption, header, rows[:most], len(sweep.parameters), note=" ".join(notes))
