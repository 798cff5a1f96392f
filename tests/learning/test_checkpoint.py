"""Training that is killed goes on from its state, and ends at the same bytes; what is not fedsim's is not read."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import fedsim.learning.checkpoint
from fedsim import Scenario
from fedsim.experiment.run import record
from fedsim.experiment.run_directory import Provenance
from fedsim.learning.checkpoint import Checkpoint

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
    keep, told = Checkpoint.keep, list[str]()

    def kill_after(step: int) -> None:
        def keep_and_die(self: Checkpoint, done: int, state: object) -> None:
            keep(self, done, state)
            if done == step:
                raise Killed

        monkeypatch.setattr(Checkpoint, "keep", keep_and_die)

    def report(what: str, _share: float, _beside: str = "", /) -> None:
        told.append(what)

    for step in (1, 23, 24, 59):
        kill_after(step)
        with pytest.raises(Killed):
            record(scenario, tmp_path / "killed", origin, resume=True, report=report)
    monkeypatch.setattr(Checkpoint, "keep", keep)
    record(scenario, tmp_path / "killed", origin, resume=True, report=report)
    assert [each for each in dict.fromkeys(told) if "goes on" in each] == [
        f"training goes on after {step} rounds" for step in (1, 23, 24, 59)
    ]
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


class Trap:
    """Runs something where it is read."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("trapped",)


@pytest.mark.parametrize("state", [Trap(), [{"state": Trap()}]])
def test_a_state_that_runs_something_is_neither_read_nor_kept(
    state: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "training.pickle"
    file.write_bytes(pickle.dumps((3, state)))
    assert Checkpoint(file).read() is None
    assert not file.exists()
    kept = Checkpoint(file)
    kept.keep(3, state)
    assert not file.exists()
    assert not kept.due
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize(
    "content", [b"", b"\x80", b"cos\nsystem\n(S'true'\ntR.", b"cfedsim.learning.train\nnp.load\n.", b"N."]
)
def test_a_damaged_state_is_begun_anew(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "training.pickle"
    file.write_bytes(content)
    assert Checkpoint(file).read() is None
    assert not file.exists()
