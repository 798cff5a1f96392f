"""Server updates, which go with every optimizer: the protocol in `base`, then one module for each rule."""

from collections.abc import Mapping
from typing import Final

from fedsim.learning.server_updates.adam import Adam
from fedsim.learning.server_updates.momentum import Momentum
from fedsim.learning.server_updates.server_update import Composed, ServerUpdate
from fedsim.learning.server_updates.sgd import Sgd

SERVER_UPDATES: Final[Mapping[str, type[ServerUpdate]]] = {"sgd": Sgd, "momentum": Momentum, "adam": Adam}

__all__ = ["SERVER_UPDATES", "Adam", "Composed", "Momentum", "ServerUpdate", "Sgd"]
