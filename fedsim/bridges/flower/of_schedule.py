"""A Flower strategy that sends each round to the cohort of a schedule, and takes the reports that its log took.

Round r goes to the clients of round r - 1 of the schedule (Flower counts from 1), in their order. The replies are
aggregated in that order too, so that sums of floating-point numbers are the same every time.

Flower's node ids are drawn anew in each run, so nodes are asked which partition they hold. A client app answers with
one line::

    app = ClientApp()
    app.query(PARTITION)(tell_partition)
"""

import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedsim.bridges.flower.accountant import ParticipationAccountant
from fedsim.bridges.schedules import Round, Schedule, as_schedule, participations_of
from fedsim.common.errors import RunError
from fedsim.privacy.bounds import ParticipationBounds

PARTITION: Final = "fedsim_partition"
"""The name under which a client app registers `tell_partition`."""

_RECORD, _KEY = "fedsim", "partition-id"

_EVERYONE = {"fraction_train": 1.0, "min_train_nodes": 1, "min_available_nodes": 1}


def tell_partition(message: Message, context: Context) -> Message:
    """Answer with the node's ``partition-id``, as Flower's simulation sets it, and ``--node-config`` elsewhere."""
    if _KEY not in context.node_config:
        raise RunError(f"this node has no partition: start it with --node-config '{_KEY}=3', say")
    return Message(RecordDict({_RECORD: MetricRecord({_KEY: int(context.node_config[_KEY])})}), reply_to=message)


class Partitions:
    """The nodes of clients, looked up when they are first wanted, and again when one is gone.

    `wait_s` is how many seconds to wait for nodes to connect.
    """

    def __init__(self, wait_s: float = 60.0) -> None:
        self.wait_s = wait_s
        self._clients: dict[int, int] = {}

    def nodes(self, grid: Grid, clients: Iterable[int]) -> dict[int, int]:
        """Return the node of each client.

        Raises a `RunError` if one has no node after the wait, two nodes have one partition, or a node does not tell.
        """
        wanted, until = list(clients), time.monotonic() + self.wait_s
        while True:
            there = list(grid.get_node_ids())
            nodes = self._nodes_of(there)
            missing = [client for client in wanted if client not in nodes]
            if not missing:
                return {client: nodes[client] for client in wanted}
            if unknown := set(there) - self._clients.keys():
                self._ask(grid, unknown)
            elif time.monotonic() > until:
                shown = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
                raise RunError(
                    f"no node has partition {shown}: {len(missing)} of the {len(wanted)} that are wanted are missing, "
                    f"and {len(there)} nodes are connected; --federation-config 'num-supernodes=N' sets how many a "
                    "simulation has"
                )
            else:
                time.sleep(min(0.2, self.wait_s))

    def clients(self, grid: Grid, nodes: Collection[int]) -> list[int]:
        """Return the client of each node, in the same order; a RunError if a node does not tell."""
        if unknown := set(nodes) - self._clients.keys():
            self._ask(grid, unknown)
        return [self._clients[node] for node in nodes]

    def _nodes_of(self, nodes: Iterable[int]) -> dict[int, int]:
        by_client: dict[int, int] = {}
        for node in (each for each in nodes if each in self._clients):
            client = self._clients[node]
            if client in by_client:
                raise RunError(f"nodes {by_client[client]} and {node} both have partition {client}; each needs its own")
            by_client[client] = node
        return by_client

    def _ask(self, grid: Grid, nodes: Collection[int]) -> None:
        questions = [Message(RecordDict(), node, f"query.{PARTITION}") for node in sorted(nodes)]
        for reply in grid.send_and_receive(questions, timeout=self.wait_s):
            node = reply.metadata.src_node_id
            if reply.has_error():
                raise RunError(
                    f"node {node} does not tell its partition ({reply.error.reason}); its client app needs the line "
                    "`app.query(PARTITION)(tell_partition)`, both from fedsim.flower"
                )
            self._clients[node] = int(reply.content[_RECORD][_KEY])
        if silent := sorted(set(nodes) - self._clients.keys()):
            raise RunError(f"node {silent[0]} does not answer within {self.wait_s:g} s when asked for its partition")


@Grid.register
class CohortGrid:
    """A grid that has the nodes of a cohort alone; the `grid` of all nodes does everything else.

    `members` is the client of each node, in the order of the cohort; `reporting` are the nodes whose report will be
    taken, and `population` is N, the clients of the federation.
    """

    def __init__(self, grid: Grid, members: dict[int, int], reporting: frozenset[int], population: int) -> None:
        self._grid = grid
        self.members, self.reporting, self.population = members, reporting, population

    def get_node_ids(self) -> list[int]:
        """Return the nodes of the cohort."""
        return list(self.members)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)


class Replay(Strategy):
    """Train by another strategy, with the cohorts of a schedule.

    The strategy is FedAvg, DebiasedFedAvg, FedAdam, ...: anything that sends to nodes that it samples from the grid; or
    its class, to be made without arguments. The schedule may be the name of its file or of a run directory. The nodes
    of a cohort have `wait_s` seconds to connect. `sent` are the clients to whom each round so far was sent, in order,
    and `received` those whose report was taken.

    Raises a `RunError` if the schedule cannot be read, is that of a buffered server, or breaks what a
    `ParticipationAccountant` of the strategy was promised; in a round, if there is no node for a client, the strategy
    does not send to the whole cohort, or no report comes where the log has one.
    """

    def __init__(
        self, strategy: Strategy | type[Strategy], schedule: Schedule | str | os.PathLike[str], *, wait_s: float = 60.0
    ) -> None:
        self.strategy = strategy() if isinstance(strategy, type) else strategy
        self.schedule = as_schedule(schedule)
        self.sent: list[list[int]] = []
        self.received: list[list[int]] = []
        self._partitions = Partitions(wait_s)
        self._members: dict[int, int] = {}
        self._accountants = [
            each.accountant
            for each in _with_inner(self.strategy)
            if isinstance(getattr(each, "accountant", None), ParticipationAccountant)
        ]
        for accountant in self._accountants:
            _check_promise(self.schedule, accountant.bounds)

    def start(self, grid: Grid, initial_arrays: ArrayRecord, num_rounds: int | None = None, **kwargs: Any) -> Result:
        """Run as Flower does: all rounds of the schedule, unless there is a number of them."""
        rounds = len(self.schedule) if num_rounds is None else num_rounds
        return super().start(grid, initial_arrays, rounds, **kwargs)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the messages of the strategy to the cohort, in its order; none where the round has no cohort."""
        cohort = self._round(server_round)
        nodes = self._partitions.nodes(grid, cohort.clients.tolist())
        self._members = {node: client for client, node in nodes.items()}
        self.sent.append(list(nodes))
        for accountant in self._accountants:
            accountant.round = cohort.number
        if not nodes:
            return []
        reporting = frozenset(nodes[client] for client in cohort.reporting.tolist())
        behind = CohortGrid(grid, self._members, reporting, self.schedule.clients)
        with _sampling_everyone(self.strategy):
            messages = {
                each.metadata.dst_node_id: each
                for each in self.strategy.configure_train(server_round, arrays, config, behind)
            }
        if messages.keys() != self._members.keys():
            raise RunError(
                f"round {cohort.number}: {type(self.strategy).__name__} sends to {len(messages)} nodes, and the cohort "
                f"has {len(nodes)}; it must send to all nodes that the grid has"
            )
        return [messages[node] for node in self._members]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return what the strategy makes of the reports that the log took, in the order of the cohort."""
        cohort = self._round(server_round)
        by_client = {self._members.get(each.metadata.src_node_id): each for each in replies}
        taken = []
        for client in cohort.reporting.tolist():
            reply = by_client.get(client)
            if reply is None or reply.has_error():
                problem = "there is no reply" if reply is None else f"its reply is an error: {reply.error.reason}"
                raise RunError(f"round {cohort.number}: client {client} reported in the schedule, and {problem}")
            taken.append(reply)
        self.received.append(cohort.reporting.tolist())
        return self.strategy.aggregate_train(server_round, taken) if taken else (None, None)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return what the strategy does: the schedule does not say who evaluates."""
        return list(self.strategy.configure_evaluate(server_round, arrays, config, grid))

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return what the strategy does."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """Log the summary of the strategy."""
        self.strategy.summary()

    def _round(self, server_round: int) -> Round:
        if not 1 <= server_round <= len(self.schedule):
            raise RunError(
                f"the schedule of {self.schedule.about.get('name')!r} has {len(self.schedule)} rounds, and Flower asks "
                f"for round {server_round}"
            )
        return self.schedule.rounds[server_round - 1]


def _with_inner(strategy: Any) -> list[Any]:
    """Return a strategy and those that it wraps, from the outside in."""
    strategies = []
    while strategy is not None:
        strategies.append(strategy)
        strategy = getattr(strategy, "strategy", None)
    return strategies


def _check_promise(schedule: Schedule, bounds: ParticipationBounds) -> None:
    """See that the reports of a schedule are within what an accountant was promised."""
    if len(schedule) > bounds.rounds:
        raise RunError(f"the schedule has {len(schedule)} rounds, and the accountant was promised {bounds.rounds}")
    for number, client, times, apart in participations_of(each.reporting for each in schedule):
        if apart < bounds.min_separation or times > bounds.participations:
            raise RunError(
                f"round {number} of the schedule has report {times} of client {client}, {apart} rounds after the one "
                f"before; the accountant was promised at most {bounds.participations}, {bounds.min_separation} rounds "
                "apart or more"
            )


@contextmanager
def _sampling_everyone(strategy: Strategy) -> Iterator[None]:
    """Let a strategy of FedAvg's kind, and those that it wraps, sample every node that there is, be it a single one."""
    changed = [
        (each, name, getattr(each, name)) for each in _with_inner(strategy) for name in _EVERYONE if hasattr(each, name)
    ]
    try:
        for owner, name, _ in changed:
            setattr(owner, name, _EVERYONE[name])
        yield
    finally:
        for owner, name, value in changed:
            setattr(owner, name, value)
