"""The unbiased twin of a run: the same rounds and sessions, of uniform clients."""

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedsim import Scenario, simulate
from fedsim.common.keyed import Purpose, stream
from fedsim.learning.problems.quadratic import Quadratic
from fedsim.run.reference import UniformClients
from fedsim.run.run import Run
from fedsim.scenario.server import BufferedServer, SyncServer
from tests.conftest import Write

DRAWS = stream(4, 0, Purpose.REFERENCE)
ROUNDS = SyncServer.model_validate({"cohort": 4})
GROUPS = SyncServer.model_validate({"cohort": 4, "selection": "groups"})
PLACES = BufferedServer.model_validate({"mode": "buffered", "concurrency": 4, "buffer": 2})


def sessions(count: int, at_once: int) -> pl.DataFrame:
    """Return sessions of which so many run at a time: the k-th begins when the one before the last `at_once` ends."""
    begun_s = [max(0.0, float(k - at_once + 1)) for k in range(count)]
    ended_s = [float(k + 1) for k in range(count)]
    return pl.DataFrame({"round": 0, "client": [0] * count, "selected_s": begun_s, "ended_s": ended_s})


def cohorts(sizes: list[int]) -> pl.DataFrame:
    """Return rounds with so many sessions each, of no length."""
    rounds = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return pl.DataFrame({"round": rounds, "client": 0 * rounds, "selected_s": 0.0 * rounds, "ended_s": 0.0 * rounds})


@given(clients=st.integers(1, 30), data=st.data())
def test_nobody_is_in_two_sessions(clients: int, data: st.DataObject) -> None:
    """Even where nearly everybody has to be in one; nothing but the clients changes."""
    table = sessions(200, data.draw(st.integers(1, clients)))
    found = in_pieces(table, clients, PLACES, data.draw(st.integers(1, 199)))
    ordered = found.sort("client", "selected_s")
    again = ordered["selected_s"].shift(-1) >= ordered["ended_s"]
    assert again.filter(ordered["client"] == ordered["client"].shift(-1)).all()


@given(groups=st.integers(1, 6), sizes=st.lists(st.integers(0, 4), min_size=2, max_size=40), data=st.data())
def test_nobody_is_twice_in_a_round(groups: int, sizes: list[int], data: st.DataObject) -> None:
    """Of all clients, or of a group of four; rounds may have nobody, and begin in one piece and end in the next."""
    first = data.draw(st.integers(0, sum(sizes)))
    for server in (ROUNDS, GROUPS):
        found = in_pieces(cohorts(sizes), 4 * groups, server, first)
        assert not found.select("round", "client").is_duplicated().any()
        if server is GROUPS:
            assert found.group_by("round").agg((pl.col("client") // 4).n_unique())["client"].is_in([1]).all()


def in_pieces(table: pl.DataFrame, clients: int, server: SyncServer | BufferedServer, first: int) -> pl.DataFrame:
    """Return the sessions of the twin, which are the same where the log is read in two pieces."""
    found, pieces = UniformClients(clients, server, DRAWS).reassign(table), UniformClients(clients, server, DRAWS)
    assert found.equals(pl.concat([pieces.reassign(table.head(first)), pieces.reassign(table.slice(first))]))
    assert found.drop("client").equals(table.drop("client"))
    assert found["client"].is_between(0, clients - 1).all()
    return found


@pytest.mark.parametrize(("server", "most"), [(ROUNDS, 37.4), (PLACES, 37.4), (GROUPS, 4 * 18.4)])
def test_clients_of_the_twin_are_uniform(server: SyncServer | BufferedServer, most: float) -> None:
    """20,000 sessions of 12 clients: chi-square with 11 degrees of freedom, above 37.4 once in 10,000.

    Drawing without replacement makes counts more even than independent draws. Of three groups 2 degrees, and 18.4.
    """
    table = sessions(20_000, 4) if server is PLACES else cohorts([4] * 5000)
    counts = np.bincount(UniformClients(12, server, DRAWS).reassign(table)["client"].to_numpy(), minlength=12)
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < most
    assert UniformClients(12, server, DRAWS).reassign(table.clear()).is_empty()


SELDOM: dict[str, dict[str, object]] = {
    "renewal": {"kind": "renewal", "on": "10m", "off": "590m"},
    "habits": {"kind": "habits"},
    "trace": {"kind": "trace", "file": "seldom.csv", "base": "2026-01-05T00:00:00Z"},
}
SERVERS: tuple[dict[str, object], ...] = (
    {"cohort": 8, "over_select": 1.25, "shortage": "proceed", "deadline": "3m", "pause": "5m", "minimum_reports": 3},
    {"mode": "buffered", "concurrency": 12, "buffer": 6},
    {"cohort": 6, "pause": "4m", "selection": "bernoulli"},
    {"mode": "buffered", "concurrency": 20, "buffer": 8, "deadline": "4m"},
)


def world(write: Write, availability: str, server: int, seed: int, rounds: int = 800) -> Scenario:
    """Return a scenario whose second half of the clients is seldom there, and has other data."""
    rng = np.random.default_rng(seed)
    starts = [(k, int(start)) for k in range(20) for start in np.sort(rng.integers(0, 80_000, 2))]
    rows = [f"phone{k},{start},{start + 600}" for k, start in starts]
    write("\n".join(["device,start_s,end_s", *rows]) + "\n", "seldom.csv")
    weight = {"weight": {"kind": "lognormal", "sigma": 0.5}, "separation": int(rng.integers(3))}
    scenario: dict[str, Any] = {
        "seed": seed,
        "start": "2026-01-05T00:00:00Z",
        "stop": {"duration": "10d", "rounds": rounds},
        "population": [
            {"name": "always", "devices": 20, **weight},
            {"name": "seldom", "devices": 20, **weight, "availability": SELDOM[availability]},
        ],
        "server": SERVERS[server],
        "learning": {
            "problem": {"kind": "quadratic", "dimension": 4, "clusters": 2, "cluster_spread": 3.0, "data_seed": seed},
            "optimizers": ["fedavg"],
            "step_size": 0.01,
            "evaluate_every": 1,
            "reference": "uniform",
        },
        "records": {"gauges": None},
    }
    return Scenario.load(write(json.dumps(scenario)))


def excess_over_uniform_cohorts(run: Run, seed: int) -> Any:
    """Return the loss above that of a loop with cohorts as large as the run's, over the last half of the rounds.

    It is the mean of ten loops, within 10 %, or what chance makes of one loop: more in one world of 10,000.
    """
    server, draws, found = run.scenario.server, np.random.default_rng(seed), list[float]()
    centres = Quadratic(40, 0, dimension=4, clusters=2, cluster_spread=3.0, data_seed=seed).centres
    for _ in range(10):
        model, losses = np.zeros(4), list[float]()
        for reports in run.rounds["reported"].to_list():
            if reports and server.buffer in {None, reports}:
                members = draws.choice(40, reports, replace=False)
                model = model + (1.0 - 0.99**5) * (centres[members] - model).mean(axis=0)
            losses.append(float(((model - centres) ** 2).sum(axis=1).mean() / 2.0))
        found.append(float(np.mean(losses[len(losses) // 2 :])))
    chance = float(stats.t.ppf(1 - 5e-5, 9) * np.std(found, ddof=1) * np.sqrt(1.1))
    return pytest.approx(run.metrics["learning.fedavg.loss"] - float(np.mean(found)), rel=0.1, abs=chance)


@pytest.mark.parametrize("server", range(2))
@pytest.mark.parametrize("availability", SELDOM)
def test_the_excess_is_over_uniform_cohorts(write: Write, availability: str, server: int) -> None:
    """Those who are seldom there have other data: a twin with the run's availability would be as biased as the run."""
    scenario = world(write, availability, server, seed=1, rounds=300)
    run, other = (simulate(scenario.with_values({"engine": engine})) for engine in ("process", "vectorized"))
    assert run.metrics["learning.fedavg.excess_loss"] == excess_over_uniform_cohorts(run, 1)
    assert run.learning is not None
    assert other.learning is not None
    assert run.learning.equals(other.learning)


@pytest.mark.long
@pytest.mark.campaign
@pytest.mark.parametrize("server", range(len(SERVERS)))
@pytest.mark.parametrize("availability", SELDOM)
def test_the_excess_is_over_uniform_cohorts_in_many_worlds(write: Write, availability: str, server: int) -> None:
    for seed in range(2, 7):
        run = simulate(world(write, availability, server, seed))
        assert run.metrics["learning.fedavg.excess_loss"] == excess_over_uniform_cohorts(run, seed), seed


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
