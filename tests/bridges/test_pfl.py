"""The user sampler, by the contract of pfl-research, in whose environment these tests run."""

import math
from pathlib import Path
from typing import Any

import pytest

from fedsim.bridges.schedules import read_schedule
from fedsim.common.errors import RunError
from fedsim.run.privacy import mechanism_data, privacy_guarantees
from fedsim.run.simulate import simulate
from tests.bridges.test_schedules import BUFFERED, SKIPPED
from tests.conftest import Load

pytestmark = pytest.mark.filterwarnings("ignore")
federated_dataset = pytest.importorskip("pfl.data.federated_dataset", reason="pfl-research is not installed")


@pytest.fixture(autouse=True)
def _with_numpy() -> None:
    from pfl.internal.ops import numpy_ops
    from pfl.internal.ops.selector import set_framework_module

    set_framework_module(numpy_ops)


@pytest.mark.parametrize("overrides", [(), SKIPPED])
def test_cohorts_of_a_federated_dataset_are_those_of_the_log(
    small: Load, tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    from pfl.algorithm.base import NNAlgorithmParams

    from fedsim.pfl import ScheduledUsers

    directory = simulate(small(*overrides)).save(tmp_path / "run")
    users = ScheduledUsers(directory, skip_empty=bool(overrides))
    params = NNAlgorithmParams(users.iterations, 10, users.cohort_size, None)
    dataset, found = federated_dataset.FederatedDataset(lambda user: user, users), []
    for _ in range(users.iterations):
        sizes = {params.static_clone().train_cohort_size, params.get("train_cohort_size")}  # asked more than once
        (size,) = sizes
        found.append([user for user, _ in dataset.get_cohort(size)])
    taken = [each for each in read_schedule(directory) if each.reported.any()]
    assert found == [each.reporting.tolist() for each in taken]
    assert users.rounds == [each.number for each in taken]
    with pytest.raises(RunError, match="iterations of the schedule are over, and another user is asked for"):
        users()


def test_what_does_not_fit_is_refused(small: Load, tmp_path: Path) -> None:
    from fedsim.pfl import ScheduledUsers

    directory = simulate(small("stop.rounds=5")).save(tmp_path / "run")
    assert ScheduledUsers(directory, workers=3).iterations == 5
    with pytest.raises(RunError, match="round 0 has 3 reports, which 2 workers cannot share evenly"):
        ScheduledUsers(directory, workers=2)
    with pytest.raises(RunError, match="is that of a buffered server"):
        ScheduledUsers(simulate(small(*BUFFERED)).save(tmp_path / "buffered"))
    skipped = simulate(small("server.cohort=6", "population.0.separation=3", "server.shortage=skip", "server.pause=1m"))
    with pytest.raises(RunError, match=r"30 of 60 rounds have no report, .* \(to 2 iterations\)"):
        ScheduledUsers(skipped.save(tmp_path / "skipped"))
    nobody = simulate(small("population.0.session={train: 10m}", "server.deadline=1m", "stop.rounds=5"))
    with pytest.raises(RunError, match="nobody reports in the schedule"):
        ScheduledUsers(nobody.save(tmp_path / "nobody"))


def test_two_workers_share_even_cohorts(small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker has a sampler of its own; together they have the cohort, and none is out of step with the other."""
    from fedsim.pfl import ScheduledUsers

    directory = simulate(small("server.cohort=4", "population.0.separation=1", "stop.rounds=9")).save(tmp_path / "run")
    shares: list[list[list[int]]] = []
    for rank in range(2):
        distributed: Any = type("Two", (), {"world_size": 2, "global_rank": rank})
        monkeypatch.setattr(federated_dataset.get_ops(), "distributed", distributed)
        users = ScheduledUsers(directory, workers=2)
        dataset = federated_dataset.FederatedDataset(lambda user: user, users)
        shares.append([[user for user, _ in dataset.get_cohort(4)] for _ in range(9)])
    together = [[first[0], second[0], first[1], second[1]] for first, second in zip(*shares, strict=True)]
    assert together == [each.reporting.tolist() for each in read_schedule(directory)]


@pytest.mark.parametrize(("rounds", "separation"), [(60, 3), (50, 2)])
def test_the_export_goes_into_their_accountant(small: Load, rounds: int, separation: int) -> None:
    """Their mechanism composes k = ceil(n / b) releases of one client: as much noise as the mechanism `independent`."""
    from pfl.privacy.privacy_accountant import PLDPrivacyAccountant

    privacy = "privacy={epsilon: 4, delta: 1.0e-5, clip: 1.5, mechanism: independent}"
    scenario = small(f"stop.rounds={rounds}", f"population.0.separation={separation}", privacy)
    data = mechanism_data(scenario, privacy_guarantees(scenario))
    n, b, k = data["rounds"], data["min_separation"], data["most_participations"]
    assert (n, b, k) == (rounds, separation + 1, math.ceil(rounds / (separation + 1)))
    theirs = PLDPrivacyAccountant(
        num_compositions=k, sampling_probability=1, mechanism="gaussian", epsilon=data["epsilon"], delta=data["delta"]
    )
    assert theirs.cohort_noise_parameter * data["clip"] == pytest.approx(data["noise_std"], rel=0.01)
