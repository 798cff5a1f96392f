"""The batch selection strategy, by the contract of jax-privacy, in whose environment these tests run."""

from pathlib import Path

import numpy as np
import pytest

from fedsim.bridges.schedules import read_schedule
from fedsim.common.errors import RunError
from fedsim.run.simulate import simulate
from tests.bridges.test_schedules import BUFFERED, SKIPPED
from tests.conftest import Load

pytestmark = pytest.mark.filterwarnings("ignore")
batch_selection = pytest.importorskip("jax_privacy.batch_selection", reason="jax-privacy is not installed")


@pytest.mark.parametrize("overrides", [(), SKIPPED])
def test_batches_are_the_cohorts(small: Load, tmp_path: Path, overrides: tuple[str, ...]) -> None:
    from fedsim.jax_privacy import ScheduledBatches

    directory = simulate(small(*overrides)).save(tmp_path / "run")
    schedule, strategy = read_schedule(directory), ScheduledBatches(directory)
    assert isinstance(strategy, batch_selection.BatchSelectionStrategy)
    for rng in (None, 3, np.random.default_rng(1)):  # whatever the generator, and every time
        batches = list(strategy.batch_iterator(12, rng=rng))
        assert [each.tolist() for each in batches] == [each.reporting.tolist() for each in schedule]
        assert {(each.ndim, each.dtype.kind) for each in batches} == {(1, "i")}
    filled = next(each for each in strategy.batch_iterator(12) if len(each))
    assert batch_selection.pad_to_multiple_of(filled, 4)[: len(filled)].tolist() == filled.tolist()
    assert len(batch_selection.split_and_pad_global_batch(filled, 2)) == -(-len(filled) // 2)


def test_what_does_not_fit_is_refused(small: Load, tmp_path: Path) -> None:
    from fedsim.jax_privacy import ScheduledBatches

    strategy = ScheduledBatches(simulate(small("stop.rounds=3")).save(tmp_path / "run"))
    with pytest.raises(ValueError, match="num_examples is 13, and the schedule 'case' has 12 clients"):
        strategy.batch_iterator(13)
    with pytest.raises(RunError, match="is that of a buffered server"):
        ScheduledBatches(simulate(small(*BUFFERED)).save(tmp_path / "buffered"))
