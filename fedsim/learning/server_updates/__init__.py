"""Server updates, which go with every optimizer: the protocol in `server_update`, then one module for each rule."""

from typing import Final

from fedsim.common.registry import Registry
from fedsim.learning.failures import LearningError
from fedsim.learning.server_updates.server_update import ServerUpdate

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
