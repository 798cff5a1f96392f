"""The tournament: its scenario is what was tuned, and what is said follows from the numbers, whatever these are."""

import json
import re
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from fedsim import Scenario, simulate
from fedsim.common.arrays import Floats
from fedsim.trials.optimizers import _ranks as ranks
from fedsim.trials.optimizers import allowed, of_optimizers, winners
from fedsim.trials.plan import points_of
from fedsim.trials.trials import Trials
from reports.make import tournament
from reports.make.kept import REPORTS

pytest.importorskip("torch", reason="needs PyTorch, extra 'torch'")  # for the regime of a network
pytestmark = pytest.mark.extras

NAMES = tuple(method.name for method in tournament.METHODS if method.rival)
REGIMES = tuple(regime.name for regime in tournament.regimes())


def made(**means: float) -> Trials:
    """Return figures in which each method has its mean in all regimes, 5 where none is given, and noise of 1 %."""
    own = np.array([means.get(name, 5.0) for name in NAMES])[:, None, None]
    values = own * np.random.default_rng(0).normal(1, 0.01, (len(NAMES), len(REGIMES), 10))
    kinds = {method.name: method.kind for method in tournament.METHODS if method.rival}
    return of_optimizers({}, kinds, "bias", REGIMES, {"bias": values})


def test_the_scenario_is_what_was_tuned() -> None:
    """File and store say the same; each regime has the rivals that can differ in it, and ten other seeds."""
    tuning, text = tournament.kept()["tuning"], tournament.SCENARIO.read_text(encoding="utf-8")
    assert tournament.with_chosen(text, tuning) == text
    assert tournament.with_chosen(re.sub(r'      - \[\{"kind".*\n', "", text), tuning) == text
    scenario = Scenario.load(tournament.SCENARIO)
    assert scenario.sweep is not None
    assert scenario.sweep.seeds == tournament.SEEDS
    assert not {scenario.seed + k for k in range(tournament.SEEDS)} & {*tournament.TUNING_SEEDS}
    for each, regime in zip(points_of(scenario), tournament.regimes(), strict=True):
        assert each.scenario.learning is not None
        own = [one.label for one in each.scenario.learning.optimizers]
        assert own == [method.name for method in tournament.there(regime) if method.rival]
        assert ("fedbuff" in own) == (regime.law == "buffered")
        assert ("fedprox" in own) == (regime.local_steps > 1)
    assert tournament.cases_of(tournament.results()) == [*REGIMES]


def test_no_method_ends_at_an_edge_and_all_have_the_same_budget() -> None:
    """46 trainings each, and what was tried beyond an edge; fewer where a method has not so many candidates."""
    for found in tournament.kept()["tuning"].values():
        assert found["edges"] == []
        rivals = [found["trained"][name] for name in NAMES if name in found["trained"]]
        assert min(rivals) >= 46
        assert max(rivals) <= 46 + 5 * tournament.WIDENINGS * 2


def test_a_value_at_an_edge_is_tried_beyond_until_its_ladder_ends() -> None:
    method = tournament.METHODS[0]
    first = tuple(ladder.drawn[0] for ladder in method.ladders.values())
    other = tuple(rung + 1 for rung in first)
    tried = {first: [1.0], other: [2.0]}
    lengths = {place[0] for place in tournament.edges(method, tried)}
    assert first[0] - 1 in lengths
    assert all(place[1] >= 0 for place in tournament.edges(method, tried))
    middle = {tuple(rung + by for rung in first): [1.0 + abs(by - 1)] for by in (0, 1, 2)}
    assert not any(place[0] in {first[0] - 1, first[0] + 3} for place in tournament.edges(method, middle))


def test_candidates_beside_the_best_differ_from_it_in_one_value() -> None:
    method = next(each for each in tournament.METHODS if each.name == "debiased")
    places = tournament.drawn(method, tournament.DRAWN)
    assert len({*places}) == tournament.DRAWN
    tried = {place: [1.0 + k] for k, place in enumerate(places)}
    near = tournament.beside(method, tried, 4)
    assert len(near) == 4
    assert all(sum(abs(a - b) for a, b in zip(place, places[0], strict=True)) == 1 for place in near)


def test_the_best_has_the_most_seeds_and_the_least_mean() -> None:
    tried: dict[tournament.Place, list[float]] = {(0,): [0.1], (1,): [2.0, 2.0], (2,): [1.0, 4.0], (3,): [1.0, np.inf]}
    assert tournament.ranked(tried) == [(1,), (2,), (3,), (0,)]


@pytest.mark.parametrize(
    ("means", "said"),
    [
        ({"scaffold": 1.0}, "Any memory: SCAFFOLD is best or tied in 11 of 11 regimes; alone SCAFFOLD 11."),
        ({"scaffold": 1.0, "mifa": 2.0}, "Nothing kept on the device: MIFA is best or tied in 11 of 11 regimes"),
        ({"mifa": 1.0, "fedau": 2.0}, "each client: FedAU is best or tied in 11 of 11 regimes; alone FedAU 11."),
        ({"scaffold": 1.0, "focus": 1.0}, "Any memory: SCAFFOLD and FOCUS are best or tied in 11 of 11 regimes"),
    ],
)
def test_the_sentences_follow_the_numbers(monkeypatch: pytest.MonkeyPatch, means: dict[str, float], said: str) -> None:
    monkeypatch.setattr(tournament, "results", lambda: made(**means))
    assert said in " ".join(tournament.sentences())


def test_a_row_of_the_table_names_winner_ties_and_distance() -> None:
    rows = tournament.by_regime(made(scaffold=1.0, mifa=2.0, debiased=3.0, fedau=3.0))
    assert rows[1][:3] == ["Batch 32", "SCAFFOLD (1)", "MIFA (2)"]
    assert rows[1][3] in {"Debiased FedAvg and FedAU (3)", "FedAU and Debiased FedAvg (3)"}


def variants(*means: float) -> dict[str, Floats]:
    """Return figures of Debiased FedAvg as in the paper, of 1, and of its variants, with noise of 0.1 %."""
    noise = np.random.default_rng(0).normal(1, 0.001, (len(means) + 1, len(REGIMES), 10))
    names = ("debiased_plain", *tournament.VARIANTS)
    return {name: mean * own for name, mean, own in zip(names, (1.0, *means), noise, strict=True)}


def test_what_tuning_adds_to_debiased_fedavg_is_told_against_the_papers() -> None:
    rows = tournament.debiased(variants(0.5, 1.0, 1.0, 2.0, 0.25, 0.1), REGIMES)
    assert rows[0] == ["decaying steps", "0.5", str(len(REGIMES)), "0"]
    assert rows[3] == ["`warm_up` too", "2", "0", str(len(REGIMES))]
    assert rows[1][2:] == ["0", "0"]


def test_only_options_that_are_told_to_help_are_recommended() -> None:
    table = variants(1.0, 1.0, 1.0, 1.0, 1.0, 0.5)
    assert "its constant step tuned; no option is told from it. Where" in tournament.recommended(table, REGIMES)
    table["debiased_prior"][2] *= 0.5
    assert f"no option is told from it but in {REGIMES[2]} (" in tournament.recommended(table, REGIMES)


@pytest.mark.parametrize("regime", [REGIMES[0], REGIMES[6]])
def test_scipy_ranks_the_methods_of_a_regime_alike(regime: str) -> None:
    """From the rows of the results, without the code of findings."""
    found = tournament.results()
    folder = REPORTS / "sweeps" / "tournament"
    table, case = pl.read_parquet(folder / "results.parquet"), REGIMES.index(regime)
    runs = json.loads((folder / "sweep.json").read_text("utf-8"))["runs"]
    own = {run["seed"]: run["run_id"] for run in runs if run["point"] == case}
    values = {(run, name): value for run, name, value in table.select("run_id", "metric", "value").iter_rows()}
    own_values = tournament.figures_in(found, found.meta["cases"][case])
    place = {name: row for row, name in enumerate(found.settings["optimizer"])}
    names = [name for name in NAMES if np.isfinite(own_values[place[name]]).all()]
    raw = [[values[own[seed], f"learning.{name}.bias"] for seed in sorted(own)] for name in names]
    ours = own_values[[place[name] for name in names], None]
    assert np.allclose(ranks(ours), stats.rankdata(raw, axis=0), rtol=0, atol=1e-12)


def test_scipy_tells_the_same_winners() -> None:
    """Every cell of the table, by paired t tests of logarithms of all its pairs and Holm's steps written anew."""
    found = tournament.results()
    level = 0.05 / 3 / len(REGIMES)
    for case, cells in zip(found.meta["cases"], winners(found), strict=True):
        figures = tournament.figures_in(found, case)
        logs = np.log(np.clip(figures, 1e-6 * np.nanmedian(figures), None))
        for column, cell in zip(allowed(found), cells, strict=True):
            rows = [row for row in np.flatnonzero(column).tolist() if np.isfinite(logs[row]).all()]
            best = min(rows, key=lambda row: float(logs[row].mean()))
            p = {pair: float(stats.ttest_rel(*logs[[*pair]]).pvalue) for pair in combinations(rows, 2)}
            tested, worse = sorted(pair for pair in p if np.ptp(logs[pair[0]] - logs[pair[1]]) > 1e-9), set[int]()
            tested.sort(key=p.__getitem__)
            for step, pair in enumerate(tested):
                if p[pair] > level / (len(tested) - step):
                    break
                worse |= {*pair} - {best} if best in pair else set()
            assert {*cell} == {*rows} - worse


@pytest.mark.parametrize("index", [0, 6, 7])
def test_every_method_runs_in_every_world(index: int) -> None:
    """For a few rounds, with a candidate of its own."""
    point = points_of(Scenario.load(tournament.SCENARIO))[index].scenario
    methods = tournament.there(tournament.regimes()[index])
    own = [tournament.optimizer(each, tournament.drawn(each, 1)[0], 1000, each.name) for each in methods]
    metrics = simulate(point.with_values({"learning.optimizers": own, "stop.rounds": 8})).metrics
    assert all(np.isfinite(metrics[f"learning.{method.name}.bias"]) for method in methods)


@pytest.mark.long
def test_tuning_again_chooses_the_same() -> None:
    """Two methods of one regime, alone instead of with all others."""
    index = REGIMES.index("K = 1")
    methods = [method for method in tournament.METHODS if method.name in {"fedavg", "debiased_decay"}]
    found, known = tournament.tune(index, methods), tournament.kept()["tuning"][REGIMES[index]]
    for what in ("chosen", "trained"):
        assert found[what] == {method.name: known[what][method.name] for method in methods}
    assert not found["edges"]
