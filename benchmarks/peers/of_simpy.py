"""Raw SimPy: a process for every device that plugs in once a day, and one for the server, with a cool-down."""

import argparse
import random
from collections.abc import Iterator

import simpy
from common import DAY, measure


def rounds(wanted: argparse.Namespace) -> Iterator[int]:
    env, rng = simpy.Environment(), random.Random(0)
    ready: list[int] = []  # available devices, in no order; and where each of them stands
    place = [-1] * wanted.clients
    last = [-(10**9)] * wanted.clients

    def device(client: int):
        # Devices that plug in at any hour, so that enough are there in each; the day before the run is the first.
        at = rng.uniform(0.0, DAY) - DAY
        while True:
            length = min(max(rng.gauss(7.75, 1.0), 0.1), 16.0) * 3600.0
            if at + length > env.now:
                if at > env.now:
                    yield env.timeout(at - env.now)
                place[client] = len(ready)
                ready.append(client)
                yield env.timeout(at + length - env.now)
                moved = ready.pop()
                if moved != client:
                    ready[place[client]], place[moved] = moved, place[client]
                place[client] = -1
            at += DAY + rng.gauss(0.0, 0.6) * 3600.0

    def select(number: int) -> int:
        chosen: set[int] = set()
        for _ in range(100 * wanted.cohort):
            if len(chosen) == wanted.cohort or not ready:
                break
            client = rng.choice(ready)
            if client not in chosen and number - last[client] > wanted.separation:
                chosen.add(client)
        for client in chosen:
            last[client] = number
        return len(chosen)

    for client in range(wanted.clients):
        env.process(device(client))

    def run() -> Iterator[int]:
        for number in range(wanted.rounds):
            env.run(until=number * DAY / wanted.rounds + 1.0)
            yield select(number)

    return run()


if __name__ == "__main__":
    measure("simpy", rounds)
