"""The finding on clipping in docs/learning.md is what was measured, and its words hold for all ten seeds together."""

import numpy as np
import pytest

from reports.make import training
from reports.make.kept import read_store


def test_the_words_about_it_hold() -> None:
    seeds = read_store("clipping")

    def mean(name: str) -> float:
        return float(np.mean([found[name] for found in seeds.values()]))

    assert mean("fedavg clip 0.8") == pytest.approx(mean("fedavg none None"), rel=0.01)
    assert mean("debiased_fedavg clip 0.8") > 3 * mean("debiased_fedavg none None")
    noisy = [mean(f"debiased_fedavg noise {clip}") for clip in training.CLIPS]
    assert noisy == sorted(noisy)  # the widest clip is the best, for all its noise
