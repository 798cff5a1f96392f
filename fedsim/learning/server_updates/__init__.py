"""Server updates, which go with every optimizer: the protocol in `base`, then one module for each rule."""

from typing import Final

from fedsim.common.registry import Registry
from fedsim.learning.failures import LearningError
from fedsim.learning.server_updates.adam import Adam
from fedsim.learning.server_updates.momentum import Momentum
from fedsim.learning.server_updates.server_update import Composed, ServerUpdate
from fedsim.learning.server_updates.sgd import Sgd

SERVER_UPDATES: Final = Registry[ServerUpdate](
    "a server update",
    ServerUpdate,
    {
        "sgd": "fedsim.learning.server_updates.sgd:Sgd",
        "momentum": "fedsim.learning.server_updates.momentum:Momentum",
        "adam": "fedsim.learning.server_updates.adam:Adam",
    },
    error=LearningError,
)

__all__ = ["SERVER_UPDATES", "Adam", "Composed", "Momentum", "ServerUpdate", "Sgd"]
