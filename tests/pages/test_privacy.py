"""The section of a run page about privacy: what is promised and observed, and that a broken promise is told."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from fedsim import Scenario, simulate
from fedsim.measure.contributions import contributions
from fedsim.pages.checks import privacy
from fedsim.pages.run import privacy_caveats, privacy_section
from fedsim.run.check import Grade
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario.privacy import UNIT
from tests.command import fedsim
from tests.conftest import SMALL, Load, Write

from .runs import comparison_of
from .test_page import check

PRIVATE = "privacy={mechanism: sqrt, epsilon: 6, delta: 1e-3, clip: 0.5}"


def finished(tmp_path: Path, scenario: Scenario) -> Run:
    simulate(scenario).save(tmp_path / "run")
    return load_one(tmp_path / "run")


def test_what_is_promised_and_what_the_log_shows(tmp_path: Path, small: Load) -> None:
    run = finished(tmp_path, small(PRIVATE, "stop.rounds=50", "population.0.participations={most: 14}"))
    section = privacy_section(run)
    assert [each.state for each in privacy(run)] == [Grade.OK]
    bound, noise = section.tables
    assert bound is not None
    assert noise is not None
    (n, n_promised, n_seen), (b, b_promised, b_seen), (k, k_promised, k_seen) = bound.rows
    assert (n[:2], b[:2], k[:2]) == ("n:", "b:", "k:")
    assert (n_promised, b_promised, k_promised) == ("50", "3", "14")
    assert int(n_seen) == run.metrics["rounds.count"] <= 50
    assert int(b_seen) == run.metrics["participation.separation.least"] >= 3
    assert int(k_seen) == run.metrics["participation.most"] <= 14
    figures = {row[0]: row[1] for row in noise.rows}
    deviation = 0.5 * run.metrics["privacy.noise_multiplier"] * run.metrics["privacy.sensitivity"]
    assert float(figures["Standard deviation of the rows of Z"]) == pytest.approx(deviation, rel=1e-4)


def test_a_broken_promise_is_told(tmp_path: Path, small: Load) -> None:
    run = finished(tmp_path, small(PRIVATE))
    often = pl.concat([run.participations] * 2).sort("round", maintain_order=True).lazy()
    seen = contributions(often, len(run.clients))
    found = list(privacy(replace(run, series={**run.series, "contributions": pl.DataFrame([vars(seen)])})))
    assert any(": 0 apart, and b = 3 was promised." in each.text for each in found if each.state is Grade.BAD)


def test_caveats_follow_what_the_scenario_has(tmp_path: Path, small: Load) -> None:
    run = finished(tmp_path, small(PRIVATE.replace("clip: 0.5", "clip: null"), "population.0.cooldown=1h"))
    section = privacy_section(run)
    assert next(privacy_caveats(run)).text.startswith("Cool-downs by the clock count for nothing")
    (noise,) = section.tables[1:]
    assert noise is not None
    assert ("Standard deviation of the rows of Z", "no clip is given") in noise.rows


def test_the_page_has_the_section_only_with_privacy(tmp_path: Path, write: Write) -> None:
    """Expectations on what is promised are judged like others, on the command line too."""
    file = write(SMALL)
    limits = "expect=[privacy.epsilon <= %s, participation.most <= 30, participation.separation.least >= 3]"
    done = fedsim("run", file, "--set", PRIVATE, "--set", limits % 6.01, "--out", tmp_path / "kept")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "kept" / "report.html").read_text(encoding="utf-8")
    check(page)
    assert '<section id="privacy"' in page
    assert "The log keeps the promise of privacy." in page
    missed = fedsim("run", file, "--set", PRIVATE, "--set", limits % 5.99, "--out", tmp_path / "missed")
    assert missed.returncode == 1
    assert "privacy.epsilon" in missed.stdout + missed.stderr
    for text in (page, missed.stdout + missed.stderr, (tmp_path / "missed" / "report.html").read_text("utf-8")):
        assert f"for {UNIT}; delta = " in text
    compared = comparison_of(tmp_path / "kept", tmp_path / "missed").sections[-1].tables[0]
    assert compared is not None
    assert f"Epsilon is for {UNIT}." in compared.note
    fedsim("run", file, "--out", tmp_path / "plain")
    assert 'id="privacy"' not in (tmp_path / "plain" / "report.html").read_text(encoding="utf-8")
