"""The finding on clipping in docs/learning.md is what was measured, and its words hold for all ten seeds together."""

import numpy as np
import pytest

from reports.make.kept import read_store


def test_the_words_about_it_hold() -> None:
    kept = read_store("what-ifs")

    def mean(study: str, kind: str) -> float:
        return float(np.mean(kept[f"clipping-{study}"]["metrics"][f"learning.{kind}.bias"]))

    assert mean("clip-0.8", "fedavg") == pytest.approx(mean("none", "fedavg"), rel=0.01)
    assert mean("clip-0.8", "debiased_fedavg") > 3 * mean("none", "debiased_fedavg")
    noisy = [mean(f"noise-{clip}", "debiased_fedavg") for clip in (1.6, 0.8, 0.4, 0.2)]
    assert noisy == sorted(noisy)  # the widest clip is the best, for all its noise
