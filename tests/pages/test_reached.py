"""What reached the model leads: the page counts the reports that were taken, and tells selections after them."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim import load, simulate
from fedsim.common.formatting import percent
from fedsim.pages.bias import bias_of
from fedsim.pages.run import run_answer
from fedsim.run.load import load_one
from fedsim.run.run import Run
from tests.conftest import Load

BASE = [
    "stop={rounds: 300}",
    "population.0={devices: 40, separation: 1, weight: {kind: zipf, exponent: 0.5}, "
    "session: {speed: {kind: lognormal, median: 1, sigma: 0.8}, train: {kind: exponential, mean: 5m}}}",
    "server={cohort: 6}",
]
SYNC = {
    "deadline": "server.deadline=%s",
    "over": "server.over_select=%s",
    "both": "server={cohort: 6, over_select: 1.5, deadline: %s}",
    "stale": "server={mode: buffered, concurrency: 12, buffer: 3, max_staleness: %s}",
}
CASES = [
    *(("deadline", value) for value in ("2m", "3m", "5m", "8m", "12m")),
    *(("over", value) for value in ("1.2", "1.5", "2", "2.5", "3")),
    *(("both", value) for value in ("2m", "4m", "6m", "9m", "20m")),
    *(("stale", value) for value in ("0", "1", "2", "3", "4")),
]


def run_of(small: Load, folder: Path, *settings: str) -> Run:
    return load_one(simulate(small(*BASE, *settings)).save(folder))


@pytest.mark.parametrize(("kind", "value"), CASES)
def test_the_headline_counts_reports(small: Load, tmp_path: Path, kind: str, value: str) -> None:
    """Title, tiles and tenths are those of an independent count of the reports in participations.parquet."""
    run = run_of(small, tmp_path / "run", SYNC[kind] % value)
    taken = pl.read_parquet(tmp_path / "run" / "participations.parquet").filter(
        pl.col("outcome").cast(pl.String) == "reported"
    )
    counts = np.bincount(taken["client"].to_numpy(), minlength=40)
    share = float(np.abs(counts / counts.sum() - 1 / 40).sum()) / 2
    bias, page = bias_of(run), run_answer(run)
    assert bias.measured == pytest.approx(share, abs=1e-12)
    assert percent(share) in f"{page.tiles[0].value} {page.tiles[0].detail}"
    speed = load(tmp_path / "run").clients["speed"].to_numpy()
    slowest = counts[np.argsort(speed)][:4].mean() / counts.mean()
    speeds = run.series["shares"].filter(kind="speed")
    assert speeds["value"][-1] == pytest.approx(slowest)


def test_the_pull_is_told_where_it_differs(small: Load, tmp_path: Path) -> None:
    """Poisson cohorts vary in size, so that a report of a small one weighs more."""
    by_weight = "population.0.weight={kind: zipf, exponent: 1.2}"
    run = run_of(small, tmp_path / "poisson", "server={cohort: 3, selection: poisson}", by_weight)
    pull, whole = run.metrics["participation.pull_tv_uniform"], run_of(small, tmp_path / "whole", by_weight)
    assert pull != pytest.approx(bias_of(run).measured, rel=0.01)
    [text] = [each.text for each in run_answer(run).sentences if "weighs" in each.text]
    assert text.endswith(f"{percent(pull)} from uniform.")
    assert not any("weighs" in each.text for each in run_answer(whole).sentences)
