"""Training that is killed goes on from its state, and ends at the same bytes; what is not its own begins anew."""

import os
import pickle
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim.learning.checkpoint
from fedsim import Scenario
from fedsim.learning.checkpoint import Checkpoint
from fedsim.learning.optimizers.by_participant import Remembered
from fedsim.learning.optimizers.scaffold import Controls
from fedsim.learning.problems.torch_module import TorchModule
from fedsim.run.files import Provenance
from fedsim.run.simulate import record

SYNCHRONOUS = """\
stop: {rounds: 60}
population: [{devices: 30, weight: {kind: zipf, exponent: 1}, separation: 2}]
server: {cohort: 5}
learning:
  problem: {kind: sampled_quadratic, dimension: 4, samples: 6}
  batch_size: 2
  local_steps: 3
  step_size: 0.02
  evaluate_every: 7
  reference: uniform
  target_loss: 1.0
  optimizers: [OPTIMIZERS]
"""
KINDS = (
    *("fedavg", "fedprox", "debiased_fedavg", "fedvarp", "mifa", "scaffold", "amplified_fedavg", "amplified_scaffold"),
    *("focus", "area", "ace", "fedawe", "fedau", "fadas", "debiased_fedbuff"),
)
SERVERS = (
    "{kind: momentum, step_size: 0.5, beta: 0.9}",
    *(f"{{kind: {kind}, step_size: 0.1}}" for kind in ("adam", "yogi", "adagrad")),
)
PRIVATE = """\
privacy: {mechanism: banded, epsilon: 8, delta: 1.0e-6, clip: 1, adaptive_clip: {quantile: 0.5}, training: noise}
"""
OURS = ", ".join([*KINDS, *(f"{{kind: fedavg, name: s{k}, server: {each}}}" for k, each in enumerate(SERVERS))])
CASES = {
    "synchronous": SYNCHRONOUS.replace("OPTIMIZERS", OURS),
    "buffered": SYNCHRONOUS.replace("OPTIMIZERS", OURS)
    .replace("{cohort: 5}", "{mode: buffered, concurrency: 10, buffer: 5}")
    .replace("separation: 2", "session: {train: {kind: lognormal, median: 5m, sigma: 1}}"),
    "loss parts": SYNCHRONOUS.replace("OPTIMIZERS", "fedavg, debiased_fedavg")
    .replace("sampled_quadratic, dimension: 4, samples: 6", "quadratic, dimension: 4")
    .replace("  batch_size: 2\n", "  loss_parts: true\n"),
    "torch": SYNCHRONOUS.replace("OPTIMIZERS", "fedavg, scaffold, fedvarp").replace(
        "sampled_quadratic, dimension: 4, samples: 6", "torch, arguments: {hidden: [4]}"
    ),
    "until the target": SYNCHRONOUS.replace("OPTIMIZERS", "fedavg, {kind: fedavg, name: adam, server: adam}").replace(
        "stop: {rounds: 60}", "stop: {rounds: 600}"
    )
    + "  stop_at_target: true\n",
    "private": SYNCHRONOUS.replace("OPTIMIZERS", "fedavg, debiased_fedavg") + PRIVATE,
}


class Killed(BaseException):
    """What a kill is here."""


@pytest.fixture(autouse=True)
def at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fedsim.learning.checkpoint, "_SECONDS", 0.0)
    monkeypatch.setattr(fedsim.learning.checkpoint, "_SHARE", 1e9)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        each.name: each.read_bytes() for each in folder.iterdir() if each.is_file() and each.name != "manifest.json"
    }


@pytest.mark.long
@pytest.mark.extras
@pytest.mark.parametrize("name", CASES)
def test_training_that_was_killed_ends_at_the_same_bytes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "torch":
        pytest.importorskip("torch", reason="needs PyTorch, extra 'torch'")
    file = tmp_path / "case.fedsim.yaml"
    file.write_text(CASES[name])
    scenario, origin = Scenario.load(file), Provenance(str(file))
    record(scenario, tmp_path / "whole", origin)
    keep, stages = Checkpoint.keep, list[str]()

    def kill_after(step: int) -> None:
        def keep_and_die(self: Checkpoint, done: int, state: object) -> None:
            keep(self, done, state)
            if done == step:
                raise Killed

        monkeypatch.setattr(Checkpoint, "keep", keep_and_die)

    def progress(what: str, _share: float, _beside: str = "", /) -> None:
        stages.append(what)

    for step in (1, 23, 24, 59):
        kill_after(step)
        with pytest.raises(Killed):
            record(scenario, tmp_path / "killed", origin, resume=True, progress=progress)
    monkeypatch.setattr(Checkpoint, "keep", keep)
    record(scenario, tmp_path / "killed", origin, resume=True, progress=progress)
    assert [each for each in dict.fromkeys(stages) if "goes on" in each] == [
        f"training goes on after {step} rounds" for step in (1, 23, 24, 59)
    ]
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


class Trap:
    """Runs something where it is read."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("trapped",)


@dataclass
class State:
    """A state of a user's own."""

    step: int = 0


BEGUN: tuple[int, dict[str, Any]] = (
    0,
    {"model": np.zeros(3), "rows": np.zeros((0, 3)), "state": Remembered(4, 3), "losses": array("d", [1.0])},
)
LATER = 7, {"model": np.ones(3), "rows": np.ones((5, 3)), "state": Remembered(4, 3), "losses": array("d", [1.0, 2.0])}


def kept(file: Path, state: object, run: str = "this") -> Path:
    Checkpoint(file, run).keep(3, state)
    return file


def test_what_is_kept_is_read_again_by_the_same_run(tmp_path: Path) -> None:
    file = kept(tmp_path / "training.npz", LATER)
    back = Checkpoint(file, "this").read(BEGUN)
    assert back is not None
    step, (most, held) = back
    model, rows, state, losses = held.values()
    assert (step, most, losses) == (3, 7, array("d", [1.0, 2.0]))
    assert (model.tobytes(), rows.tobytes()) == (np.ones(3).tobytes(), np.ones((5, 3)).tobytes())
    assert isinstance(state, Remembered)
    assert Checkpoint(file, "another").read(BEGUN) is None


@pytest.mark.parametrize(
    "other",
    [
        *({"model": np.zeros(2)}, {"model": np.zeros((3, 1))}, {"model": np.zeros(3, dtype=int)}, {"model": None}),
        *({"rows": np.zeros((5, 2))}, {"rows": 3.0}, {"losses": np.zeros((2, 2))}, {"losses": "abc"}, {"more": 1}),
        *({"state": Remembered(5, 3)}, {"state": Controls(4, 2)}, {"state": {"mean": 1}}, {"state": [1]}),
        {"state": TorchModule.__new__(TorchModule)},
    ],
)
def test_a_state_of_another_kind_or_shape_is_begun_anew(other: dict[str, Any], tmp_path: Path) -> None:
    assert Checkpoint(kept(tmp_path / "training.npz", (7, LATER[1] | other)), "this").read(BEGUN) is None


WITHIN: list[object] = []
WITHIN.append(WITHIN)


@pytest.mark.parametrize("state", [State(), [{"state": Trap()}], np.array([Trap()], dtype=object), lambda: 3, WITHIN])
def test_a_state_of_ones_own_is_not_kept(state: object, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "training.npz")
    checkpoint.keep(3, state)
    assert not [*tmp_path.iterdir()]
    assert not checkpoint.due


def _pickled(file: Path) -> None:
    file.write_bytes(pickle.dumps((3, Trap())))


def _packed(file: Path) -> None:
    np.savez(file, allow_pickle=True, tree=np.array([Trap()], dtype=object), checksum=np.array(Trap(), dtype=object))


def _flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        *(_pickled, _packed, _flipped, os.mkfifo, Path.mkdir, lambda file: file.write_bytes(b"")),
        *(lambda file: file.symlink_to(file), lambda file: file.symlink_to("/dev/zero")),
        lambda file: file.write_bytes(b"PK\x05\x06" + bytes(18)),
    ],
)
def test_a_damaged_state_is_begun_anew_and_runs_nothing(
    damage: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = kept(tmp_path / "training.npz", LATER)
    if damage is not _flipped:
        file.unlink()
    damage(file)
    assert Checkpoint(file, "this").read(BEGUN) is None
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("forged", ["_used", "_row_of"])
def test_training_that_fails_from_a_state_that_somebody_made_up_begins_anew(
    forged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "case.fedsim.yaml"
    file.write_text(SYNCHRONOUS.replace("OPTIMIZERS", "mifa"))
    scenario, keep = Scenario.load(file), Checkpoint.keep
    record(scenario, tmp_path / "whole", Provenance())

    def forge_and_die(self: Checkpoint, done: int, state: Any) -> None:
        rows = state[0][2][0]["state"].rows
        setattr(rows, forged, 10**9 if forged == "_used" else rows._row_of + 10**9)
        keep(self, done, state)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "keep", forge_and_die)
        with pytest.raises(Killed):
            record(scenario, tmp_path / "killed", Provenance())
    record(scenario, tmp_path / "killed", Provenance(), resume=True)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
