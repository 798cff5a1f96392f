"""The tournament: its scenarios have what tuning chose, and what is said follows from its numbers."""

import json
from collections.abc import Mapping
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from fedsim import Scenario, simulate
from fedsim.trials.optimizers import _ranks as ranks
from fedsim.trials.optimizers import allowed, of_optimizers, winners
from fedsim.trials.plan import points_of
from fedsim.trials.trials import Trials
from reports.make import tournament
from reports.make.kept import REPORTS, SCENARIOS

pytest.importorskip("torch", reason="needs PyTorch, extra 'torch'")  # for the regime of a network
pytestmark = pytest.mark.extras

FILES = {name: SCENARIOS / "studies" / f"{name}.fedsim.yaml" for name in ("tournament", "tournament-debiased")}
SCENARIO = Scenario.load(FILES["tournament"])
BUFFERED = points_of(SCENARIO)[7].scenario.learning
assert BUFFERED is not None
KINDS = {each.label: each.kind for each in BUFFERED.optimizers}
"""All methods: that regime has every one."""
NAMES = tuple(KINDS)
REGIMES = tuple(tournament.regimes())
TUNING_SEEDS = {101, 102, 103, 104, 105}


def made(means: Mapping[str, float], names: tuple[str, ...] = NAMES) -> Trials:
    """Return figures in which each method has its mean in all regimes, 5 where none is given, and noise of 1 %."""
    own = np.array([means.get(name, 5.0) for name in names])[:, None, None]
    values = own * np.random.default_rng(0).normal(1, 0.01, (len(names), len(REGIMES), 10))
    return of_optimizers({}, {name: KINDS.get(name, name) for name in names}, "bias", REGIMES, values)


@pytest.mark.parametrize("name", FILES)
def test_each_regime_has_the_methods_that_can_differ_in_it_and_ten_other_seeds(name: str) -> None:
    scenario = Scenario.load(FILES[name])
    assert scenario.sweep is not None
    assert scenario.sweep.seeds == 10
    assert not {scenario.seed + k for k in range(10)} & TUNING_SEEDS
    names = {"tournament": {*NAMES}, "tournament-debiased": {tournament.PLAIN, *tournament.TUNED}}[name]
    for each, regime in zip(points_of(scenario), REGIMES, strict=True):
        assert each.scenario.name == regime
        assert each.scenario.learning is not None
        buffered, one = each.scenario.server.buffer is not None, each.scenario.learning.local_steps == 1
        absent = set() if buffered else {"fedbuff", "debiased_fedbuff"}
        absent |= {"fedprox"} if one else set()
        assert {own.label for own in each.scenario.learning.optimizers} == names - absent


def test_both_sweeps_have_debiased_fedavg_as_it_was_tuned() -> None:
    """To seven digits: networks are trained with 32 bits."""
    every = map(tournament.results, FILES)
    one, other = (tournament.figures(each)[each.settings["optimizer"].to_list().index("debiased")] for each in every)
    np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("means", "said"),
    [
        ({"scaffold": 1.0}, "Any memory: `scaffold` is best or tied in 11 of 11 regimes."),
        ({"scaffold": 1.0, "mifa": 2.0}, "Nothing kept on the device: `mifa` is best or tied in 11 of 11 regimes"),
        ({"mifa": 1.0, "fedau": 2.0}, "No model kept per client: `fedau` is best or tied in 11 of 11 regimes."),
        ({"scaffold": 1.0, "focus": 1.0}, "Any memory: `scaffold` and `focus` are best or tied in 11 of 11 regimes"),
    ],
)
def test_the_sentences_follow_the_numbers(means: dict[str, float], said: str) -> None:
    assert said in " ".join(tournament.sentences(made(means)))


def test_a_row_of_the_table_names_winner_ties_and_distance() -> None:
    rows = tournament.by_regime(made({"scaffold": 1.0, "mifa": 2.0, "debiased": 3.0, "fedau": 3.0}))
    assert rows[1][:3] == ["Batch 32", "`scaffold` (1)", "`mifa` (2)"]
    assert rows[1][3] in {"`debiased_fedavg` and `fedau` (3)", "`fedau` and `debiased_fedavg` (3)"}


def test_what_tuning_adds_to_debiased_fedavg_is_told_against_the_papers() -> None:
    means = dict(zip(tournament.TUNED, (0.5, 1.0, 1.0, 2.0, 0.25, 0.1), strict=True)) | {tournament.PLAIN: 1.0}
    rows = tournament.debiased(made(means, tuple(means)))
    assert [row[0] for row in rows] == list(tournament.TUNED.values())
    every, none = str(len(REGIMES)), "0"
    better, same, worse = [every, none], [none, none], [none, every]
    assert [row[2:] for row in rows] == [better, same, same, worse, better, better]
    assert float(rows[3][1]) == pytest.approx(2.0, rel=0.01)


def test_only_options_that_help_significantly_are_recommended() -> None:
    means = dict.fromkeys(tournament.TUNED, 1.0) | {"known": 0.5, tournament.PLAIN: 1.0}
    assert tournament.recommended(made(means, tuple(means))).endswith("no option helps significantly.")
    said = tournament.recommended(made(means | {"debiased_prior": 0.5}, tuple(means)))
    assert all(f"in {regime}, where “`prior` too” has 0." in said for regime in REGIMES)
    assert "known" not in said


@pytest.mark.parametrize("regime", [REGIMES[0], REGIMES[6]])
def test_scipy_ranks_the_methods_of_a_regime_alike(regime: str) -> None:
    """From the rows of the results, without the code of findings."""
    found = tournament.results()
    folder = REPORTS / "sweeps" / "tournament"
    table, case = pl.read_parquet(folder / "results.parquet"), REGIMES.index(regime)
    runs = json.loads((folder / "sweep.json").read_text("utf-8"))["runs"]
    own = {run["seed"]: run["run_id"] for run in runs if run["point"] == case}
    values = {(run, name): value for run, name, value in table.select("run_id", "metric", "value").iter_rows()}
    own_values = tournament.figures(found)[:, case]
    place = {name: row for row, name in enumerate(found.settings["optimizer"])}
    names = [name for name in NAMES if np.isfinite(own_values[place[name]]).all()]
    raw = [[values[own[seed], f"learning.{name}.bias"] for seed in sorted(own)] for name in names]
    ours = own_values[[place[name] for name in names], None]
    assert np.allclose(ranks(ours), stats.rankdata(raw, axis=0), rtol=0, atol=1e-12)


def test_scipy_tells_the_same_winners() -> None:
    """Every cell of the table, by paired t tests of logarithms of all its pairs and Holm's steps written anew."""
    found = tournament.results()
    level = 0.05 / 3 / len(REGIMES)
    for case, cells in enumerate(winners(found)):
        figures = tournament.figures(found)[:, case]
        logs = np.log(np.clip(figures, 1e-6 * np.nanmedian(figures), None))
        for column, cell in zip(allowed(found), cells, strict=True):
            rows = [row for row in np.flatnonzero(column).tolist() if np.isfinite(logs[row]).all()]
            rows = [
                row for row in rows if figures[row].mean() <= 10 * np.exp(max(logs[row].mean(), np.nanmedian(logs)))
            ]
            best = min(rows, key=lambda row: float(logs[row].mean()))
            p = {pair: float(stats.ttest_rel(*logs[[*pair]]).pvalue) for pair in combinations(rows, 2)}
            tested, worse = sorted(pair for pair in p if np.ptp(logs[pair[0]] - logs[pair[1]]) > 1e-9), set[int]()
            tested.sort(key=p.__getitem__)
            for step, pair in enumerate(tested):
                if p[pair] > level / (len(tested) - step):
                    break
                worse |= {*pair} - {best} if best in pair else set()
            assert {*cell} == {*rows} - worse


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("index", [0, 6, 7])
def test_every_method_runs_in_every_world(name: str, index: int) -> None:
    """For a few rounds."""
    point = points_of(Scenario.load(FILES[name]))[index].scenario
    assert point.learning is not None
    metrics = simulate(point.with_values({"stop.rounds": 8})).metrics
    assert all(np.isfinite(metrics[f"learning.{each.label}.bias"]) for each in point.learning.optimizers)
