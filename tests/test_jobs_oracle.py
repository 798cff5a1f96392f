"""Several jobs on one fleet against a simulator written apart from it; `FEDSIM_ORACLE=10` takes ten times as many."""

import sys

import numpy as np
import pytest

from fedsim.scenario import Scenario
from fedsim.scenario.document import Document
from tests.jobs import simulated
from tests.jobs_oracle import Fleet, fleet, measured
from tests.oracle import StuckError
from tests.test_oracle import DEALS, FROM, REPLICATES, TIMES, z_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]


def figures(number: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return what both measure of a world in each replicate; None where a job has not had all its rounds."""
    data, written = fleet(number)
    scenario, ours, theirs = Scenario.of_document(Document(written)), [], []
    try:
        for replicate in range(REPLICATES):
            other = Fleet(data, seed=1000 * number + replicate)
            other.run()
            theirs.append(measured(other))
    except StuckError:
        return None
    for replicate in range(REPLICATES):
        row = list[float]()
        for view, log, _ in simulated(scenario, ["process", "vectorized"][number % 2], replicate).values():
            rounds, rows = view.stop.rounds or 0, log.participations
            if len(log.rounds) < rounds or log.rounds["outcome"][rounds - 1] == "stopped":
                return None
            for part in (rows, rows.filter(outcome="reported")):
                row += np.bincount(part["client"].to_numpy(), minlength=scenario.devices).tolist()
            row.append(log.rounds["closed_s"][rounds - 1])
        ours.append(row)
    return np.array(ours), np.array(theirs)


def test_an_independent_simulator_of_jobs_agrees() -> None:
    """The z of all means have rms 1: within three standard deviations of it, in 99.7 % of choices of seeds."""
    worlds, number, count, found = 0, FROM, 0, np.zeros(1 + DEALS)
    draws = np.random.default_rng(FROM)
    while worlds < 4 * TIMES:
        number += 1
        if (both := figures(number)) is None:
            continue
        worlds += 1
        ours, theirs = both
        certain = np.maximum(ours.std(axis=0), theirs.std(axis=0)) < 1e-9
        assert np.abs(ours.mean(axis=0) - theirs.mean(axis=0))[certain].max(initial=0.0) < 1e-9, f"world {number}"
        whole = np.concatenate(both)
        deals = [draws.permutation(2 * REPLICATES) for _ in range(DEALS)]
        dealt = [z_of(whole[one[:REPLICATES]], whole[one[REPLICATES:]], certain) for one in deals]
        found += [np.square(each).sum() for each in (z_of(ours, theirs, certain), *dealt)]
        count += int((~certain).sum())
    rms, null = np.sqrt(found[0] / count), np.sqrt(found[1:] / count)
    sys.stdout.write(
        f"oracle of jobs: {worlds} worlds, {count:,} figures, z rms {rms:.3f}, deviation {null.std():.3f}\n"
    )
    assert abs(rms - 1.0) < 3.0 * null.std()
