"""The finding on clipping in docs/learning.md is what was measured, and its words hold for all ten seeds together."""

from pathlib import Path

import numpy as np
import pytest

from reports.make import studies
from reports.make.kept import read_store


def test_the_table_is_what_was_measured() -> None:
    seeds = read_store("clipping")
    assert len(seeds) >= 10
    assert studies.clipping_table(seeds).strip() in Path("docs/learning.md").read_text(encoding="utf-8")
    other = {seed: {name: 2 * value for name, value in found.items()} for seed, found in seeds.items()}
    assert studies.clipping_table(other) != studies.clipping_table(seeds)


def test_the_words_about_it_hold() -> None:
    seeds = read_store("clipping")

    def mean(name: str) -> float:
        return float(np.mean([found[name] for found in seeds.values()]))

    assert mean("fedavg clip 0.8") == pytest.approx(mean("fedavg none None"), rel=0.01)
    assert mean("debiased_fedavg clip 0.8") > 3 * mean("debiased_fedavg none None")
    noisy = [mean(f"debiased_fedavg noise {clip}") for clip in studies.CLIPS]
    assert noisy == sorted(noisy)  # the widest clip is the best, for all its noise
