"""The finding on clipping in docs/learning.md is what was measured, and its words hold for all ten seeds together."""

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def clipping(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend("reports")
    return import_module("clipping")


def test_the_table_is_what_was_measured(clipping: ModuleType) -> None:
    seeds = json.loads(clipping.KEPT.read_text(encoding="utf-8"))
    assert len(seeds) >= 10
    assert "\n".join(clipping.table(seeds)) in Path("docs/learning.md").read_text(encoding="utf-8")
    other = {seed: {name: 2 * value for name, value in found.items()} for seed, found in seeds.items()}
    assert clipping.table(other) != clipping.table(seeds)


def test_the_words_about_it_hold(clipping: ModuleType) -> None:
    seeds = json.loads(clipping.KEPT.read_text(encoding="utf-8"))

    def mean(name: str) -> float:
        return float(np.mean([found[name] for found in seeds.values()]))

    assert mean("fedavg clip 0.8") == pytest.approx(mean("fedavg none None"), rel=0.01)
    assert mean("debiased_fedavg clip 0.8") > 3 * mean("debiased_fedavg none None")
    noisy = [mean(f"debiased_fedavg noise {clip}") for clip in clipping.CLIPS]
    assert noisy == sorted(noisy)  # the widest clip is the best, for all its noise
