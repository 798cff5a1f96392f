"""A grid of Flower for tests, without Ray, processes or a network: the client app is called directly.

As in Flower's simulation, an exception becomes a reply that is an error.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict, UserConfig
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

_CLIENT_APP_RAISED = 2  # Flower's ErrorCode.CLIENT_APP_RAISED_EXCEPTION


class InProcessGrid(Grid):
    """Nodes in this process, one for each partition.

    `partitions` is the number of nodes, or the partition of each. `log` has (partition, message type) of every message
    that was delivered, in order.
    """

    def __init__(
        self, client_app: ClientApp, partitions: int | Sequence[int], run_config: UserConfig | None = None
    ) -> None:
        # A message says from which task it comes; outside of a run there is none.
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        held = list(range(partitions)) if isinstance(partitions, int) else list(partitions)
        self.log: list[tuple[int, str]] = []
        self._app = client_app
        self._contexts = {
            1_000 + place: Context(
                run_id=1,
                node_id=1_000 + place,
                node_config={"partition-id": partition, "num-partitions": len(held)},
                state=RecordDict(),
                run_config=dict(run_config or {}),
            )
            for place, partition in enumerate(held)
        }
        self._replies: dict[str, Message] = {}

    def set_run(self, run: Any) -> None:
        """Do nothing: there is one run."""

    @property
    def run(self) -> Any:
        """There is none that Flower knows of."""
        raise NotImplementedError("a grid in this process has no run")

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Make a message."""
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> list[int]:
        """Return the nodes, in the order of `partitions`."""
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Deliver messages, and keep the replies until they are pulled."""
        return [self._deliver(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Return the replies to messages, once."""
        return [self._replies.pop(each) for each in list(message_ids) if each in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:  # noqa: ARG002
        """Deliver messages and return the replies; nothing is waited for."""
        return self.pull_messages(self.push_messages(messages))

    def _deliver(self, message: Message) -> str:
        context = self._contexts[message.metadata.dst_node_id]
        received = deepcopy(message)
        received.metadata.__dict__["_message_id"] = str(uuid4())
        self.log.append((int(context.node_config["partition-id"]), received.metadata.message_type))
        try:
            reply = self._app(received, context)
        except Exception as error:  # noqa: BLE001
            reply = Message(Error(_CLIENT_APP_RAISED, f"{type(error).__name__}: {error}"), reply_to=received)
        number = str(received.metadata.message_id)
        self._replies[number] = deepcopy(reply)
        return number
