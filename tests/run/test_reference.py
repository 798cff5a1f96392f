"""The unbiased twin of a buffered run: the same sessions, of uniform clients."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim import Scenario, simulate
from fedsim.common.keyed import Purpose, stream
from fedsim.run.reference import UniformClients
from tests.conftest import Write

DRAWS = stream(4, 0, Purpose.REFERENCE)


def sessions(count: int, at_once: int) -> pl.DataFrame:
    """Return sessions of which so many run at a time: the k-th begins when the one before the last `at_once` ends."""
    begun_s = [max(0.0, float(k - at_once + 1)) for k in range(count)]
    ended_s = [float(k + 1) for k in range(count)]
    return pl.DataFrame({"client": [0] * count, "selected_s": begun_s, "ended_s": ended_s})


@given(clients=st.integers(1, 30), data=st.data())
def test_nobody_is_in_two_sessions(clients: int, data: st.DataObject) -> None:
    """Even where nearly everybody has to be in one; nothing but the clients changes."""
    at_once = data.draw(st.integers(1, clients))
    table = sessions(200, at_once)
    found = UniformClients(clients, DRAWS).reassign(table)
    first = data.draw(st.integers(1, 199))
    pieces = UniformClients(clients, DRAWS)
    assert found.equals(pl.concat([pieces.reassign(table.head(first)), pieces.reassign(table.tail(-first))]))
    assert found.drop("client").equals(table.drop("client"))
    assert found["client"].is_between(0, clients - 1).all()
    ordered = found.sort("client", "selected_s")
    again = ordered["selected_s"].shift(-1) >= ordered["ended_s"]
    assert again.filter(ordered["client"] == ordered["client"].shift(-1)).all()


def test_clients_are_uniform() -> None:
    """20,000 sessions of 10 clients, 4 at a time: chi-square with 9 degrees of freedom, above 33.7 once in 10,000.

    Drawing among the idle makes counts more even than independent draws would be, so the test errs on the safe side.
    """
    found = UniformClients(10, DRAWS).reassign(sessions(20_000, 4))
    counts = np.bincount(found["client"].to_numpy(), minlength=10)
    assert ((counts - 2000.0) ** 2 / 2000.0).sum() < 33.7
    assert UniformClients(10, DRAWS).reassign(sessions(0, 1)).is_empty()


BUFFERED = """\
stop: {rounds: 400}
seed: 3
population:
  - {name: slow, devices: 30, session: {train: {kind: exponential, mean: 180s}}}
  - {name: fast, devices: 30, session: {train: {kind: exponential, mean: 180s}, speed: 5}}
server: {mode: buffered, concurrency: 30, buffer: 5}
learning:
  problem: {kind: quadratic, clusters: 2, cluster_spread: 3.0, dimension: 3, data_seed: 1}
  optimizers: [fedbuff, debiased_fedbuff, {kind: debiased_fedbuff, name: weighted, normalise: weights}]
  step_size: 0.05
  reference: uniform
  target_loss: 100.0
records: {gauges: null}
"""


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_buffered_run_is_compared_with_uniform_clients_of_the_same_sessions(write: Write, engine: str) -> None:
    """FedBuff leans towards the fast, whose optimum lies elsewhere; its debiased variants do not."""
    result = simulate(Scenario.load(write(BUFFERED), [f"engine={engine}"]))
    figures = {
        name: result.metrics[f"learning.{name}.average_excess_loss"]
        for name in ("fedbuff", "debiased_fedbuff", "weighted")
    }
    assert figures["fedbuff"] > 0.3
    assert max(abs(figures["debiased_fedbuff"]), abs(figures["weighted"])) < 0.1 * figures["fedbuff"]
    assert result.learning is not None
    assert result.learning["optimizer"].unique(maintain_order=True).to_list()[-1] == "fedbuff_uniform"
    # Full buffers make every step, and the learning table ends with the last version.
    assert result.learning["round"].max() == 399
    assert result.metrics["learning.fedbuff.rounds_to_target"] == 10.0
