"""A schedule as a batch selection strategy of jax-privacy 2.0: a batch is a cohort, and an example is a client.

jax-privacy selects by Poisson sampling, balls in bins or fixed cycles, each with an analysis that holds for it alone. A
schedule brings the cohorts of a run with it, and with them the promise that its server kept: two participations of a
client are at least b rounds apart, and there are at most k (`fedsim privacy`). No amplification by sampling holds.
"""

import os
from collections.abc import Iterator

import numpy as np
from jax_privacy.batch_selection import BatchSelectionStrategy

from fedsim.bridges.schedules import Schedule, as_schedule
from fedsim.common.arrays import Ints


class ScheduledBatches(BatchSelectionStrategy):
    """The clients that reported, round by round, by a schedule or the name of its file or of a run directory.

    Nothing is drawn. Raises a `RunError` if it cannot be read, or is that of a buffered server.
    """

    def __init__(self, schedule: Schedule | str | os.PathLike[str]) -> None:
        self.schedule = as_schedule(schedule)

    def batch_iterator(self, num_examples: int, rng: np.random.Generator | int | None = None) -> Iterator[Ints]:  # noqa: ARG002
        """Return of each round the clients that reported, in order, none where nobody did; `rng` is not used.

        Raises a `ValueError` if `num_examples` is not the number of clients of the schedule.
        """
        if num_examples != self.schedule.clients:
            raise ValueError(
                f"num_examples is {num_examples}, and the schedule {self.schedule.about.get('name')!r} has "
                f"{self.schedule.clients} clients: an example is all that a client has"
            )
        return (each.reporting for each in self.schedule)
