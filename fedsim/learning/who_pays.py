"""Who pays: losses and accuracies of the mean model by tenth of participation and by group, and of the worst tenth."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.problems.problem import ByClient, Problem
from fedsim.learning.trajectory import End


def who_pays(
    problem: Problem, ends: Mapping[str, End], reports: Floats, groups: Ints, names: Sequence[str]
) -> dict[str, float]:
    """Return the figures of each optimizer's mean model, if it is finite; {} for a problem that is not `ByClient`.

    `reports`, (N,), says how often clients reported, and `groups`, (N,), to which of the `names` they belong. Clients
    that reported equally often share the mean of their figures, so that no order of theirs makes a tenth; tenths need
    ten clients, and groups two. ``loss_of_tenth_1`` is of those that reported least often.
    """
    figures = dict[str, float]()
    if not isinstance(problem, ByClient):
        return figures
    _, tie = np.unique(reports, return_inverse=True)
    tenths = np.array_split(np.argsort(tie, kind="stable"), 10) if problem.clients >= 10 else []
    for optimizer, end in ends.items():
        if not np.isfinite(end.average).all():
            continue
        for what, values in problem.by_client(end.average).items():
            at = f"learning.{optimizer}.{what}_of"
            worst = np.sort(values if what == "accuracy" else -values)[: -(-len(values) // 10)].mean()
            figures[f"{at}_worst_tenth"] = float(worst if what == "accuracy" else -worst)
            shared = (np.bincount(tie, values) / np.bincount(tie))[tie]
            figures |= {f"{at}_tenth_{place + 1}": float(shared[rows].mean()) for place, rows in enumerate(tenths)}
            means = {name: values[groups == place] for place, name in enumerate(names)} if len(names) > 1 else {}
            figures |= {f"{at}_group_{name}": float(members.mean()) for name, members in means.items() if len(members)}
    return figures
