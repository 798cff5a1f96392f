"""Training over a log on the disk: the same results as over one in memory, in memory that does not grow with it."""

from pathlib import Path

import polars as pl
import pytest

from fedsim import Scenario
from fedsim.common import files
from fedsim.common.files import slices
from fedsim.common.progress import Report, silent
from fedsim.learning import frequencies
from fedsim.log.journal import AnyLog
from fedsim.log.recorder import InMemoryLog, TemporaryParticipations
from fedsim.run.budget import ROW_BYTES
from fedsim.run.preflight import preflight
from fedsim.run.training import Training
from fedsim.simulation import simulate_log
from tests.conftest import Write
from tests.held import Held

SYNCHRONOUS = """\
population: [{devices: 500, weight: {kind: zipf, exponent: 1}, separation: 1}]
server: {cohort: 100}
"""
BUFFERED = """\
population: [{devices: 500, session: {train: {kind: exponential, mean: 180s}}}]
server: {mode: buffered, concurrency: 150, buffer: 100}
"""
COMMON = """\
stop: {rounds: 1}
engine: vectorized
records: {gauges: null}
learning:
  problem: {kind: quadratic, dimension: 2}
  optimizers: [fedavg]
  step_size: 0.05
  evaluate_every: 10
  reference: uniform
  target_loss: 2.0
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "server", [SYNCHRONOUS, pytest.param(BUFFERED, marks=pytest.mark.campaign)], ids=["synchronous", "buffered"]
)
def test_the_memory_of_training_and_of_its_twin_does_not_grow_with_the_log(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    """Twice the rounds take a few numbers a round and a piece more, not what a log takes in memory."""

    def most_held(rounds: int) -> int:
        scenario = Scenario.load(write(COMMON + server), [f"stop.rounds={rounds}"])
        world, learning = preflight(scenario), scenario.learning
        population = world.population
        assert learning is not None
        log = simulate_log(scenario, population)
        path = tmp_path / f"{rounds}.parquet"
        log.participations.write_parquet(path, row_group_size=1000)
        stored = InMemoryLog((log.rounds, pl.scan_parquet(path), log.gauges), ended_s=log.ended_s)  # type: ignore[arg-type]

        def train(recorded: AnyLog, report: Report) -> tuple[pl.DataFrame, dict[str, float]]:
            with TemporaryParticipations(files.ROWS) as temporary:
                training = Training(world, learning, recorded, temporary)
                for part in slices(recorded.participations):
                    training.watch(part)
                shares = frequencies(recorded.participations, len(population))
                return training.train(report, shares, shares, None)

        expected = train(log, silent)
        with monkeypatch.context() as patch, Held() as held:
            patch.setattr(files, "ROWS", 1000)
            patch.setattr("fedsim.log.recorder._SETTLE", 1000)
            found = train(stored, lambda *_: held.look())
        assert found[0].equals(expected[0])
        assert found[1] == pytest.approx(expected[1], rel=0.0, abs=0.0, nan_ok=True)
        return held.most

    few, many = most_held(400), most_held(800)
    assert many - few < 400 * 100 * ROW_BYTES / 5
