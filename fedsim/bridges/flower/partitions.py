"""Which node holds which partition: Flower's node ids are drawn anew in each run, so nodes are asked.

A client app answers with one line::

    app = ClientApp()
    app.query(PARTITION)(tell_partition)
"""

import time
from collections.abc import Collection, Iterable
from typing import Final

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from fedsim.common.errors import RunError

PARTITION: Final = "fedsim_partition"
"""The name under which a client app registers `tell_partition`."""

_RECORD, _KEY = "fedsim", "partition-id"


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
            found = self._nodes_of(there)
            missing = [client for client in wanted if client not in found]
            if not missing:
                return {client: found[client] for client in wanted}
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
        found: dict[int, int] = {}
        for node in (each for each in nodes if each in self._clients):
            client = self._clients[node]
            if client in found:
                raise RunError(f"nodes {found[client]} and {node} both have partition {client}; each needs its own")
            found[client] = node
        return found

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
