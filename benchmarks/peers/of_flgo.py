"""FLGo's availability and sampling: its default simulator with a sinusoidal day of 24 rounds, and its uniform sample.

Clients are stand-ins without data or models, so that nothing but the simulator's state machine, the server's `sample`
and the states that a round sets is timed. FLGo is used as it is: `SLN` availability, `uniform_available` sampling.
"""

import argparse
from collections.abc import Iterator
from types import SimpleNamespace

from common import measure
from flgo.algorithm.fedbase import BasicClient, BasicServer
from flgo.simulator.base import ElemClock, with_availability
from flgo.simulator.default_simulator import Simulator


class Client(BasicClient):
    """A client without data."""

    def __init__(self, number: int) -> None:
        self.id, self.num_steps, self._latency = number, 1, 0


class Server(BasicServer):
    """A server without a model."""

    def __init__(self, clients: list[Client], cohort: int) -> None:
        self.clients, self.num_clients = clients, len(clients)
        self.proportion, self.sample_option = (cohort + 0.5) / len(clients), "uniform_available"
        self.current_round, self.tolerance_for_latency = 0, 100

    sample = with_availability(BasicServer.sample)


def rounds(wanted: argparse.Namespace) -> Iterator[int]:
    clients = [Client(number) for number in range(wanted.clients)]
    server = Server(clients, wanted.cohort)
    option = {"availability": "SLN", "connectivity": "IDL", "completeness": "IDL", "responsiveness": "IDL"}
    simulator, clock = Simulator([server, *clients], option), ElemClock()
    clock.register_simulator(simulator)
    shared = SimpleNamespace(simulator=simulator, clock=clock, logger=SimpleNamespace(info=print))
    for each in (server, *clients):
        each.gv = shared

    def run() -> Iterator[int]:
        for number in range(wanted.rounds):
            server.current_round = number
            clock.step()
            chosen = server.sample()
            simulator.set_client_state(simulator.idx2id(chosen), "working")
            simulator.set_client_state(simulator.idx2id(chosen), "offline")  # as after every report
            yield len(chosen)

    return run()


if __name__ == "__main__":
    measure("flgo", rounds)
