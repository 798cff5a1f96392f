"""Selects by the scenario's law, where enough clients are ready."""

from typing import NamedTuple, Protocol, cast

import numpy as np

from fedsim.common.arrays import Ints
from fedsim.common.instants import to_seconds
from fedsim.common.keyed import Purpose, stream
from fedsim.common.registry import is_own
from fedsim.log.columns import Arrays, part_of, with_prefix
from fedsim.log.recorder import Recorder
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.selection import (
    Candidates,
    Eligibility,
    Feedback,
    Informed,
    Remembering,
    Request,
    needs_feedback,
    selection_law,
)
from fedsim.simulation.clock import Clock


class Countable(Eligibility, Protocol):
    """Who is eligible now, and how many are ready."""

    @property
    def counted(self) -> bool:
        """Whether counting those who are ready costs next to nothing, since all clients have been looked at."""
        ...

    def ready(self, most: int) -> int:
        """Clients that could be selected now, counted up to `most`: all eligible ones, or those in whole groups."""
        ...


class Trial(NamedTuple):
    """How many clients are ready, counted up to those wanted; and the selected ones, None where too few are ready."""

    ready: int
    cohort: Ints | None


class Selector:
    """Selects by the scenario's law, and remembers who was selected last.

    `last_selected` is the client selected last, -1 before the first; `informed` says whether the law needs feedback.
    """

    def __init__(
        self,
        scenario: Scenario,
        population: Population,
        roster: Countable,
        recorder: Recorder,
        replicate: int,
        clock: Clock,
    ) -> None:
        server = scenario.server
        choice, seed = server.selection, scenario.own_seed
        self._selection = selection_law(choice, population.weight, server.wanted, seed, replicate)
        self._few = server.check_ins is not None and server.check_ins.few
        self._finds_shortage = bool(getattr(self._selection, "finds_shortage", False))
        self._roster = roster
        self._candidates = Candidates(roster, population, recorder.last_round, checked=is_own(server.selection.kind))
        self._draws = stream(scenario.own_seed, replicate, Purpose.OWN_SELECTION)
        self.last_selected = -1
        self.informed, self._clock = needs_feedback(server.selection), clock

    def take(self, feedback: Feedback) -> None:
        """Tell the law the outcome of a round."""
        cast("Informed", self._selection).take_feedback(feedback)

    def try_select(self, number: int, round_: int, count: int) -> Trial:
        """Select `count` clients, if so many are ready, in the round or version `round_`.

        `number` counts the selections, and is the key of the draws.
        """
        if self._finds_shortage and not self._roster.counted:
            # Asking the law is cheaper than looking at all clients.
            cohort = self._ask(number, round_, count, None)
            if len(cohort) == count:
                return Trial(count, self._chosen(cohort))
        ready = self._roster.ready(count)
        return Trial(ready, self.select(number, round_, count) if ready == count else None)

    def select(self, number: int, round_: int, count: int, everyone: Ints | None = None) -> Ints:
        """Select where enough clients are ready; `everyone` is given where all that are eligible are wanted."""
        return self._chosen(self._ask(number, round_, count, everyone))

    def state(self) -> Arrays:
        """Return who was selected last, and what the law remembers."""
        remembered = self._selection.state() if isinstance(self._selection, Remembering) else {}
        return {"last_selected": np.array(self.last_selected), **with_prefix("law", remembered)}

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned."""
        self.last_selected = int(state["last_selected"])
        if isinstance(self._selection, Remembering):
            self._selection.restore(part_of("law", state))

    def _ask(self, number: int, round_: int, count: int, everyone: Ints | None) -> Ints:
        now_s = to_seconds(self._clock.now)
        request = Request(number, count, round_, self._draws, self.last_selected, everyone, now_s, self._few)
        return self._selection.select(request, self._candidates)

    def _chosen(self, cohort: Ints) -> Ints:
        if len(cohort):
            self.last_selected = int(cohort[-1])
        return cohort
