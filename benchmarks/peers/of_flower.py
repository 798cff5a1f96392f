"""Flower's client manager: every client registered as a proxy, and `sample` with a criterion for night and cool-down.

The manager's own `sample` asks the criterion about each registered client. Without one it models neither; its time is
then that of a list of all clients and a random sample of it (`--plain`).
"""

import argparse
import sys
from collections.abc import Iterator
from random import Random

from common import measure
from flwr.server.client_manager import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.criterion import Criterion

PLAIN = "--plain" in sys.argv and (sys.argv.remove("--plain") or True)


class Client(ClientProxy):
    """A client that is never called."""

    plugs_in = hours = 0.0
    last = -(10**9)

    def get_properties(self, ins, timeout, group_id):
        """Not needed for sampling."""
        raise NotImplementedError

    get_parameters = fit = evaluate = reconnect = get_properties


class Eligible(Criterion):
    """On the charger, and rested."""

    number, hour, separation = 0, 0.0, 0

    def select(self, client: Client) -> bool:
        """Say whether a client may be chosen."""
        rested = self.number - client.last > self.separation
        return rested and (self.hour - client.plugs_in) % 24.0 < client.hours


def rounds(wanted: argparse.Namespace) -> Iterator[int]:
    manager, rng, eligible = SimpleClientManager(), Random(0), Eligible()
    eligible.separation = wanted.separation
    for number in range(wanted.clients):
        client = Client(str(number))
        # Devices that plug in at any hour, so that enough are there in each: the manager returns nobody otherwise.
        client.plugs_in, client.hours = rng.uniform(0.0, 24.0), min(max(rng.gauss(7.75, 1.0), 0.0), 16.0)
        manager.register(client)

    def run() -> Iterator[int]:
        for number in range(wanted.rounds):
            eligible.number, eligible.hour = number, number * 24.0 / wanted.rounds
            chosen = manager.sample(wanted.cohort, criterion=None if PLAIN else eligible)
            for client in chosen:
                client.last = number
            yield len(chosen)

    return run()


if __name__ == "__main__":
    measure("flwr", rounds)
