from pathlib import Path

import pytest

from fedsim.common import memory
from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, FedAvg, LearningError, LocalWork, Optimizer, replay, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.mifa import FedVarp, Mifa
from fedsim.learning.problems.quadratic import Quadratic
from fedsim.learning.server_updates import Composed, Sgd

from .cases import tables


def test_sizes_are_written_for_people() -> None:
    written = [memory.readable_bytes(size) for size in (0, 1023, 1536, 16 * 10**9)]
    assert written == ["0 B", "1023 B", "1.5 KiB", "14.9 GiB"]


def test_a_container_may_have_less_than_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lesser of the two counts; "max" is no limit."""
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    monkeypatch.setattr(memory, "_of_machine", lambda: 10_000)
    assert memory.free_bytes() == 10_000
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    assert memory.free_bytes() == 3_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_bytes() == 10_000


def test_what_does_not_fit_is_refused_before_it_is_allocated() -> None:
    """Two participants with 10^14 parameters each would take 3.6 PiB for each of the two, room for more included."""

    class Vast(Quadratic):
        def __init__(self) -> None:
            super().__init__(2, 0, dimension=2)
            self.dimension = 10**14

    rounds, participations = tables([[0, 1]])
    both: dict[str, Optimizer] = {"varp": FedVarp(), "plain": FedAvg(), "mifa": Composed(Mifa(), Sgd())}
    message = (
        r"^what varp and mifa remember of 2 participants \(100,000,000,000,000 parameters each\) would take 7\.1 PiB, "
        r"and .* are free; take fewer clients, a smaller model, or an optimizer that does not"
    )
    with pytest.raises(LearningError, match=message):
        replay(Vast(), both, rounds, participations, local_steps=1, step_size=0.1)


def test_large_states_are_announced_before_they_are_allocated() -> None:
    """From 1 MiB on; small ones and optimizers without such a state are not worth a word."""
    announced: list[str] = []
    rounds, participations = tables([range(10_000), range(9_000, 15_000)])
    problem = Quadratic(20_000, 0, dimension=10)
    work = LocalWork.checked(problem, 1, 0.1)
    choices: list[dict[str, Optimizer]] = [{"plain": FedAvg()}, {"varp": FedVarp(), "plain": FedAvg()}]
    for optimizers in choices:
        course = Course(Cohorts.read(rounds, participations, 20_000), optimizers, stream(0, 0, Purpose.OPTIMIZER))
        replay_together([course], work, announce=announced.append)
    assert announced == ["allocating 2.9 MiB for what varp remembers of 15,000 participants"]
