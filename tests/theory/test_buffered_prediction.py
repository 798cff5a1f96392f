"""What theory says of a scenario with a buffered server, and what its log shows."""

import json

import numpy as np
import pytest

from fedsim import Scenario, simulate
from fedsim.common.errors import ChainError
from fedsim.population import build_population
from fedsim.scenario.server import BufferedServer
from fedsim.theory import Stationary
from fedsim.theory.prediction import flow_of, predicted, theory_or_why_not
from tests.command import fedsim
from tests.conftest import Write

TIERS = """\
stop: {rounds: 12000}
seed: 11
population:
  - name: slow
    devices: 200
    cooldown: COOLDOWN
    separation: 3
    session: {train: {kind: lognormal, median: 150s, sigma: 0.5}}
  - name: middle
    devices: 100
    session: {train: {kind: exponential, mean: 80s}, speed: {kind: uniform, low: 1, high: 2}}
  - name: fast
    devices: 100
    weight: 2
    session: {download: {kind: exponential, mean: 8s}, speed: 3}
server: {mode: buffered, concurrency: 120, buffer: 12, selection: LAW, cooldown_from: FROM, max_staleness: 40}
records: {gauges: null}
"""


def load(write: Write, law: str = "midzuno", begins: str = "selected", cooldown: str = "0s", *more: str) -> Scenario:
    text = TIERS.replace("LAW", law).replace("FROM", begins).replace("COOLDOWN", cooldown)
    return Scenario.load(write(text), more)


@pytest.mark.long
@pytest.mark.parametrize(
    ("law", "begins", "cooldown"),
    [
        pytest.param("midzuno", "selected", "0s", marks=pytest.mark.campaign),
        ("uniform", "reported", "5m"),
        pytest.param("successive", "selected", "20m", marks=pytest.mark.campaign),
    ],
)
def test_a_long_run_agrees(write: Write, law: str, begins: str, cooldown: str) -> None:
    """Shares of the tiers and versions an hour, within 4.5 standard errors of 50 batches and the estimated error.

    12 comparisons, each of which other seeds would exceed once in 20,000 (Student's t, 49 degrees of freedom).
    """
    scenario = load(write, law, begins, cooldown)
    population = build_population(scenario)
    assert isinstance(scenario.server, BufferedServer)
    flow = flow_of(scenario, scenario.server, population)
    result = simulate(scenario)
    late = result.participations.filter(result.participations["round"] >= 1000)
    estimate = flow.stationary.error_bound
    assert estimate is not None
    assert estimate < 0.02
    batches = np.array_split(population.group[late["client"].to_numpy()], 50)
    for tier in range(3):
        shares = np.array([(part == tier).mean() for part in batches])
        expected = float(flow.stationary.pi[population.group == tier].sum())
        assert abs(shares.mean() - expected) < 4.5 * shares.std(ddof=1) / np.sqrt(50) + estimate * expected
    lasted_s = result.rounds.filter(result.rounds["round"] >= 1000).select("closed_s").to_series().to_numpy()
    pace = np.array([part[-1] - part[0] for part in np.array_split(lasted_s, 50)]) / (len(lasted_s) / 50 - 1)
    assert abs(pace.mean() - flow.version_s) < 4.5 * pace.std(ddof=1) / np.sqrt(50) + estimate * flow.version_s
    # ... and the table of clients carries the prediction.
    assert result.clients["pi_method"].unique().to_list() == ["mean-field"]
    assert result.metrics["participation.l1_chain"] < 1.2 * result.metrics["participation.l1_noise"] + estimate
    assert result.metrics["group.slow.share_theory"] == pytest.approx(flow.stationary.pi[:200].sum())


def test_equal_sessions_in_full_buffers_have_the_theory_of_rounds(write: Write) -> None:
    """Buffer = concurrency = cohort: the same shares by the same method."""
    text = """\
        stop: {rounds: 100}
        population:
          - {devices: 12, weight: {kind: zipf, exponent: 1}, separation: 2}
        server: {SERVER}
        """
    buffered = Scenario.load(write(text.replace("SERVER", "mode: buffered, concurrency: 3, buffer: 3")))
    rounds = Scenario.load(write(text.replace("SERVER", "cohort: 3"), "rounds.fedsim.yaml"))
    answer, expected = (predicted(each, build_population(each)) for each in (buffered, rounds))
    np.testing.assert_array_equal(answer.pi, expected.pi)
    assert answer.method == expected.method == "closed-form"


def test_theory_applies_to_available_devices(write: Write) -> None:
    """The mean field knows neither habits nor turns taken by index, which a run says by leaving pi out."""
    for overrides, applies in [
        ([], True),
        (["server.deadline=3m"], True),
        (["population.0.availability={kind: renewal, on: 1h, off: 1s}"], False),
        (["server.selection=cyclic"], False),
    ]:
        scenario = load(write, "midzuno", "selected", "0s", *overrides)
        assert isinstance(theory_or_why_not(scenario, build_population(scenario)), Stationary) == applies


def test_a_deadline_cuts_sessions_and_frees_their_places(write: Write) -> None:
    """The slow are given up after as long as it says, and reports come from the others."""
    flows = []
    for more in ((), ("server.deadline=100s",)):
        scenario = load(write, "midzuno", "selected", "0s", *more)
        assert isinstance(scenario.server, BufferedServer)
        flows.append(flow_of(scenario, scenario.server, build_population(scenario)))
    assert flows[1].rate[:200].mean() > flows[0].rate[:200].mean()
    assert flows[1].rate.sum() * flows[1].version_s > 1.3 * 12


def test_methods_of_rounds_are_refused(write: Write) -> None:
    scenario = load(write)
    for method in ("exact", "magic"):
        with pytest.raises(ChainError, match=rf"not found by '{method}' .*: use mean-field"):
            predicted(scenario, build_population(scenario), method=method)


def test_chain_tells_of_a_buffered_server(write: Write) -> None:
    """As JSON: the shares as for rounds, and beside them pace, utilisation and the groups."""
    path = write(TIERS.replace("LAW", "midzuno").replace("FROM", "selected").replace("COOLDOWN", "0s"))
    done = fedsim("chain", path, "--separation", "0,8", "--json")
    free, waiting = json.loads(done.stdout)["results"]
    assert (free["separation"], waiting["separation"]) == (0, 8)
    assert free["method"] == "mean-field"
    assert free["cohort"] == free["buffered"]["concurrency"] == 120
    assert sum(free["pi"]) == pytest.approx(1.0)
    assert free["buffered"]["utilisation"] == pytest.approx(1.0)
    assert free["buffered"]["versions_per_hour"] * free["buffered"]["version_s"] == pytest.approx(3600.0)
    groups = free["buffered"]["groups"]
    assert groups["slow"]["share"] == pytest.approx(sum(free["pi"][:200]))
    assert groups["fast"]["participations_per_day"] > groups["slow"]["participations_per_day"]
    assert waiting["l1_uniform"] < free["l1_uniform"]
    refused = fedsim("chain", path, "--target-l1", 0.1)
    assert refused.returncode == 2
    assert "are about synchronous rounds, and this scenario's server is buffered" in refused.stderr
    lines = fedsim("chain", path).stdout
    assert "versions an hour, 100 % of its 120 places taken" in lines
    assert "% of the participations" in lines
