"""A Flower strategy whose clients a scenario manages while it trains: who is sent to, when, and whose report counts.

The scenario is simulated round by round (`fedsim.live`); a law that needs feedback is given the losses that the client
app returns. Versions of a buffered server take the place of rounds: each goes to the clients whose reports fill its
buffer, with the models that they had downloaded, and what a report adds to such a model is added to the newest one.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedsim.bridges.flower.of_schedule import Replay
from fedsim.bridges.schedules import Round, Schedule
from fedsim.common.errors import RunError
from fedsim.run.live import live
from fedsim.scenario import GivenScenario
from fedsim.selection import needs_feedback


class Live(Replay):
    """Train by another strategy, as `Replay` does, with the rounds of a scenario as they come.

    `loss` is the metric that a client app returns for a law that needs feedback: the mean loss of its samples, whose
    number is ``num-examples``. `fleet` is that of `fedsim.live`; after the last round its ``result()`` is that
    of the run.

    Raises a `RunError` as `Replay` does, or if the scenario has no number of rounds, reports of one client may meet in
    a version of its buffered server, or a client app returns no loss where the law needs it.
    """

    def __init__(
        self,
        strategy: Strategy | type[Strategy],
        scenario: GivenScenario,
        *,
        loss: str = "train_loss",
        wait_s: float = 60.0,
    ) -> None:
        self.fleet, self._loss, self._at = live(scenario), loss, 0
        simulated = self.fleet.scenario
        if simulated.server.buffer is not None and simulated.server.cooldown_from != "reported":
            raise RunError(
                "two reports of a client may fill one buffer, and Flower takes one reply of a node: set "
                "server.cooldown_from to reported"
            )
        about = {"name": simulated.name, "clients": self.fleet.clients}
        super().__init__(strategy, Schedule(about, ()), wait_s=wait_s)
        self._models: dict[int, ArrayRecord] = {}

    def start(self, grid: Grid, initial_arrays: ArrayRecord, num_rounds: int | None = None, **kwargs: Any) -> Result:
        """Run as Flower does, for the rounds of the scenario unless there is a number of them."""
        most = self.fleet.scenario.stop.most_rounds
        if num_rounds is None and most == math.inf:
            raise RunError(
                "Flower wants to know how many rounds there are: give the scenario stop.rounds, or num_rounds"
            )
        rounds = int(num_rounds or most)
        result = super().start(grid, initial_arrays, rounds, **kwargs)
        if rounds == most:
            next(self.fleet, None)  # there is none: the run ends
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the messages of the strategy to the cohort, or to those whose reports fill the buffer."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        if self.fleet.scenario.server.buffer is None:
            return messages
        self._models[self._current.number] = arrays
        for place, message in enumerate(messages):
            version = int(self._current.versions[self._current.arrivals][place])
            content = {
                key: self._models[version] if isinstance(each, ArrayRecord) else each
                for key, each in message.content.items()
            }
            meta = message.metadata
            messages[place] = Message(RecordDict(content), meta.dst_node_id, meta.message_type, group_id=meta.group_id)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return what the strategy makes of the reports that were taken, and tell the fleet their losses."""
        replies = list(replies)
        if self._models:
            self._follow(replies)
        aggregated = super().aggregate_train(server_round, replies)
        if needs_feedback(self.fleet.scenario.server.selection) and len(self._current.reporters):
            by_client = {
                self._members[each.metadata.src_node_id]: self._loss_of(each) for each in replies if each.has_content()
            }
            losses = [by_client[client] for client in self._current.reporters.tolist()]
            self._current.report([loss for loss, _ in losses], samples=[samples for _, samples in losses])
        return aggregated

    def _follow(self, replies: list[Message]) -> None:
        """Make of each reply what it adds to the model that its client downloaded, added to the newest one."""
        newest = self._models[self._current.number]
        versions = dict(
            zip(self._current.reporters.tolist(), self._current.versions[self._current.arrivals].tolist(), strict=True)
        )
        for reply in (each for each in replies if each.has_content()):
            begun = self._models[versions[self._members[reply.metadata.src_node_id]]]
            for key, arrays in list(reply.content.items()):
                if isinstance(arrays, ArrayRecord):
                    reply.content[key] = _added(newest, begun, arrays)
        self._models = {version: each for version, each in self._models.items() if version >= self._current.oldest}

    def _loss_of(self, reply: Message) -> tuple[float, float]:
        for record in reply.content.values():
            if isinstance(record, MetricRecord) and self._loss in record:
                return float(record[self._loss]), float(record.get("num-examples", 1))
        kind = self.fleet.scenario.server.selection.kind
        raise RunError(f"selection by {kind!r} goes by losses, and the client app returns no metric {self._loss!r}")

    def _round(self, server_round: int) -> Round:
        if server_round != self._at:
            following = next(self.fleet, None)
            if following is None:
                raise RunError(f"the scenario ended after {self._at} rounds, and Flower asks for round {server_round}")
            self._current, self._at = following, server_round
        now, buffered = self._current, self.fleet.scenario.server.buffer is not None
        which = now.arrivals if buffered else np.arange(len(now.clients))
        took_s = now.ended_s[which] - now.began_s[which]
        return Round(now.number, now.opened_s, now.clients[which], now.outcomes[which], took_s, np.zeros_like(which))


def _added(newest: ArrayRecord, begun: ArrayRecord, ended: ArrayRecord) -> ArrayRecord:
    """Return a model, with what a client has added to the one that it began with."""
    changes = {name: array.numpy() - begun[name].numpy() for name, array in ended.items()}
    return ArrayRecord({name: Array(newest[name].numpy() + change) for name, change in changes.items()})
