"""Models that training leaves behind: in the run directory, in Python, and as the start of another run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim import Scenario, ScenarioError, load, simulate
from fedsim.common.errors import RunError
from fedsim.learning import LearningError, build_problem
from fedsim.run.files import Provenance
from fedsim.run.simulate import record

LEARNING: dict[str, Any] = {
    "problem": {"kind": "quadratic", "dimension": 3},
    "optimizers": ["fedavg", "fedvarp", {"kind": "fedavg", "name": "lost", "local_step_size": 50.0}],
    "step_size": 0.1,
    "reference": "uniform",
}
SCENARIO: dict[str, Any] = {
    "stop": {"rounds": 300},
    "population": [{"devices": 12}],
    "server": {"cohort": 3},
    "learning": LEARNING,
}


def scenario(folder: Path, **learning: Any) -> Scenario:
    document = {**SCENARIO, "learning": {**LEARNING, **learning}}
    file = folder / "it.fedsim.yaml"
    file.write_text(Scenario.model_validate(document).model_dump_json(exclude_defaults=True))
    return Scenario.load(file)


def test_a_run_keeps_its_models(tmp_path: Path) -> None:
    """In memory, saved by Python and by the command alike, and read again; one that diverged has none."""
    result = simulate(scenario(tmp_path))
    quadratic = build_problem("quadratic", {"dimension": 3}, clients=12, seed=0)
    distance = float(np.linalg.norm(result.model("fedvarp") - quadratic.optimum))  # type: ignore
    assert distance == pytest.approx(result.metrics["learning.fedvarp.bias"])
    assert quadratic.evaluate(result.model("fedavg", "last"))["loss"] == result.metrics["learning.fedavg.final_loss"]
    assert sorted(result.models) == ["fedavg.average", "fedavg.last", "fedvarp.average", "fedvarp.last"]
    with pytest.raises(LearningError, match=r"no model 'lost.average'; it has fedavg.last, "):
        result.model("lost")
    saved, recorded = result.save(tmp_path / "saved"), tmp_path / "recorded"
    record(scenario(tmp_path), recorded, Provenance())
    assert (saved / "models.npz").read_bytes() == (recorded / "models.npz").read_bytes()
    np.testing.assert_array_equal(load(recorded).model("fedavg"), result.model("fedavg"))


def test_a_damaged_or_missing_file_of_models_is_told(tmp_path: Path) -> None:
    saved = simulate(scenario(tmp_path)).save(tmp_path / "saved")
    np.savez(saved / "models.npz", a=np.zeros(3))
    with pytest.raises(RunError, match=r"models.npz is not the file that the run wrote"):
        load(saved)
    (saved / "models.npz").unlink()
    with pytest.raises(RunError, match=r"models.npz: no such file"):
        load(saved)


def test_a_run_starts_where_another_ended(tmp_path: Path) -> None:
    """The twin too: every initial loss is that of the kept model."""
    first = simulate(scenario(tmp_path))
    first.save(tmp_path / "first")
    start = {"path": "first/models.npz", "model": "fedavg.last"}
    again = simulate(scenario(tmp_path, start=start)).learning
    assert again is not None
    assert set(again.filter(round=-1)["loss"]) == {first.metrics["learning.fedavg.final_loss"]}
    assert len(again.filter(round=-1)) == 4


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ({"path": "nowhere.npz"}, "nowhere.npz is not an .npz file of models"),
        ({"path": "own.npz", "model": "fedsvg.last"}, r"own.npz has no model 'fedsvg.last'; it has a"),
        ({"path": "own.npz", "model": "a"}, r"learning.start: own.npz: a has the shape \(4,\), expected \(3,\)"),
    ],
)
def test_a_start_that_is_not_there_or_of_another_problem_is_told_before_the_run(
    tmp_path: Path, start: dict[str, str], said: str
) -> None:
    np.savez(tmp_path / "own.npz", a=np.zeros(4))
    with pytest.raises(ScenarioError, match=said):
        simulate(scenario(tmp_path, start=start))
