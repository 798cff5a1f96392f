"""A schedule as a user sampler of pfl-research 0.6, and as the sizes of its cohorts.

A sampler returns one user at a time, and the algorithm asks for the size of each cohort; both come from one schedule::

    users = ScheduledUsers("schedule.json")
    dataset = FederatedDataset(make_dataset, users)
    params = NNAlgorithmParams(users.iterations, 10, train_cohort_size=users.cohort_size, val_cohort_size=None)

An iteration is a round in which somebody reported. pfl-research has no iterations without users: rounds without a
report are left out if that is asked for, and then n and b of ``fedsim privacy``, which count rounds, do not hold.
"""

import os

from pfl.hyperparam.base import HyperParam

from fedsim.bridges.schedules import Schedule, as_schedule, participations_of
from fedsim.common.errors import RunError


class ScheduledUsers:
    """Return the next client that reported, whenever it is called, for `workers` processes that train side by side.

    `skip_empty` leaves out rounds without a report: not where the noise of privacy is correlated over rounds.

    `rounds` has the round of each iteration, and `cohort_size` is the ``train_cohort_size`` of an algorithm: how many
    users the iteration wants that comes next.

    Raises a `RunError` if the schedule cannot be read, is that of a buffered server, has no report, or has rounds
    without one that may not be skipped; or if there are several workers and a cohort that they cannot share evenly:
    pfl-research 0.6 then draws different users in each.
    """

    def __init__(
        self, schedule: Schedule | str | os.PathLike[str], workers: int = 1, *, skip_empty: bool = False
    ) -> None:
        self.schedule = as_schedule(schedule)
        taken = [each for each in self.schedule if each.reported.any()]
        if not taken:
            raise RunError(f"nobody reports in the schedule of {self.schedule.about.get('name')!r}")
        if (empty := len(self.schedule) - len(taken)) and not skip_empty:
            first = next(each.number for each in self.schedule if not each.reported.any())
            least = min(apart for *_, apart in participations_of(each.reporting for each in taken))
            raise RunError(
                f"{empty:,} of {len(self.schedule):,} rounds have no report, the first of them round {first:,}, and "
                "pfl-research has no iterations without users. Left out, they bring the participations of a client "
                f"nearer to each other (to {least:,.0f} iterations), so that no promise on rounds holds for "
                "iterations; skip_empty=True leaves them out all the same"
            )
        for each in taken:
            if len(each.reporting) % workers:
                raise RunError(
                    f"round {each.number} has {len(each.reporting)} reports, which {workers} workers cannot share "
                    "evenly; pfl-research would then draw different users in each of them"
                )
        self.rounds = [each.number for each in taken]
        self.cohort_size = _CohortSize(self)
        self._users = [each.reporting.tolist() for each in taken]
        self._iteration = self._next = 0

    @property
    def iterations(self) -> int:
        """Rounds in which somebody reported: ``central_num_iterations``."""
        return len(self._users)

    @property
    def wanted(self) -> int:
        """How many users the iteration has whose users are not all sampled yet."""
        return len(self._users[min(self._iteration, self.iterations - 1)])

    def __call__(self) -> int:
        """Return the next user; a RunError after the last one."""
        if self._iteration == self.iterations:
            raise RunError(f"all {self.iterations} iterations of the schedule are over, and another user is asked for")
        users = self._users[self._iteration]
        user = users[self._next]
        self._next += 1
        if self._next == len(users):
            self._iteration, self._next = self._iteration + 1, 0
        return int(user)


class _CohortSize(HyperParam):
    def __init__(self, users: ScheduledUsers) -> None:
        self._users = users

    def value(self) -> int:
        """Return the size of the cohort that is sampled next; asking changes nothing."""
        return self._users.wanted
