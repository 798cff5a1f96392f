"""Optimizers of a sweep, ranked over its settings or where they are what is swept."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsim.findings.finding import COST, TRUST
from fedsim.findings.finished_sweep import read_finished_sweep
from fedsim.findings.tournament import (
    Tournament,
    allowed,
    leaders,
    ranks,
    tied,
    tournament_findings,
    tournament_of,
    tournament_title,
    winners,
)
from fedsim.report import write_report
from fedsim.report.page import document_of

from ..report.sweeps import SEPARATION, write_points
from ..report.test_page import check

LAWS = [{"server": {"selection": law}} for law in ("uniform", "midzuno", "cyclic")]


def losses(index: int, seed: int, **means: float) -> dict[str, float]:
    draws = np.random.default_rng((index, seed)).normal(0, 0.01, len(means))
    return {f"learning.{name}.loss": mean + draw for (name, mean), draw in zip(means.items(), draws, strict=True)}


def test_ranks_are_means_of_average_ranks() -> None:
    values = np.array([[[1.0, 5.0]], [[2.0, 5.0]], [[np.nan, 1.0]]])
    assert ranks(values).tolist() == [[1, 2.5], [2, 2.5], [3, 1]]


def test_a_case_that_an_optimizer_has_not_ranks_it_nowhere() -> None:
    """With NaN as last, the third would have the mean rank 2; where all its runs diverged, it is last."""
    values = np.array([[[2.0], [1.0]], [[3.0], [2.0]], [[1.0], [np.nan]]])
    assert ranks(values).ravel().tolist() == [1.5, 2.5, 1]
    assert ranks(np.where(np.isnan(values), np.inf, values)).ravel().tolist() == [1.5, 2.5, 2]


@pytest.mark.parametrize(("diverged", "mean"), [(True, 2.0), (False, 1.0)])
def test_divergence_is_told_from_absence(tmp_path: Path, diverged: bool, mean: float) -> None:
    def figures(index: int, seed: int) -> dict[str, float]:
        found = losses(index, seed, fedau=2.0, fedavg=3.0, **({} if index else {"mifa": 1.0}))
        return found | ({"learning.mifa.diverged": 1.0} if diverged and index else {})

    folder = write_points(tmp_path / "s", LAWS[:2], figures)
    found = tournament_of(read_finished_sweep(folder))
    assert found is not None
    page = write_report(folder).read_text(encoding="utf-8")
    assert ("Without a value in some runs, and last there: mifa." in page) == diverged
    assert "inf ±" not in page
    assert ranks(found.values)[found.names.index("mifa")].tolist() == [mean] * 3


def test_several_optimizers_over_worlds_are_ranked(tmp_path: Path) -> None:
    folder = write_points(
        tmp_path / "s", LAWS, lambda i, s: losses(i, s, fedau=1.0, fedavg=2.0, mifa=3.0, fedavg_uniform=0.5)
    )
    found = tournament_of(read_finished_sweep(folder))
    assert found is not None
    assert set(found.names) == {"fedau", "fedavg", "mifa"}
    assert found.values.shape == (3, 3, 3)
    assert tournament_title(found) == "“fedau” has the lowest loss, by mean rank over 3 cases"
    effect, ranked, *_ = (each.text for each in tournament_findings(found))
    assert effect == "In the median case “fedau” ends at a loss of 1; “fedavg” 2; “mifa”, the last, 3."
    assert "“fedau” has the least mean rank of 3 optimizers (1.0); last is “mifa” (3.0)." in ranked
    document = document_of(folder)
    tested = next(each.text for each in document.answer if each.about == TRUST)
    assert tested.endswith("over 3 seeds (5\N{NARROW NO-BREAK SPACE}%, Holm): 1 leads, 2 are worse.")
    assert [(tile.value, tile.label) for tile in document.tiles][:3] == [("1", "loss"), ("2", "loss"), ("3", "cases")]
    said = "3 optimizers on 3 cases, 3 seeds each, such as “server = no. 1”"
    assert document.setup.replace("\N{NO-BREAK SPACE}", " ") == f"{said}; 200 devices over 400 rounds"
    assert [chart.name for chart in document.charts] == ["ranks"]
    check(write_report(folder).read_text(encoding="utf-8"))


def test_a_sweep_over_optimizers_compares_them_at_what_else_is_swept(tmp_path: Path) -> None:
    names = ("fedavg", "fedau")
    points = [{"learning.optimizers": [{"kind": name}], SEPARATION: r} for name in names for r in (0, 4)]
    folder = write_points(tmp_path / "s", points, lambda i, s: losses(i, s, **{names[i // 2]: 1.0 + i // 2}))
    found = tournament_of(read_finished_sweep(folder))
    assert found is not None
    assert found.values.shape == (2, 2, 3)
    assert np.isfinite(found.values).all()
    assert tournament_title(found).startswith("“fedavg” has the lowest loss")


@pytest.mark.parametrize("points", [[{SEPARATION: r} for r in (0, 4)], LAWS[:2]])
def test_other_sweeps_are_no_tournament(tmp_path: Path, points: list[dict[str, object]]) -> None:
    folder = write_points(tmp_path / "s", points, lambda i, s: losses(i, s, fedavg=1.0, fedau=2.0))
    assert tournament_of(read_finished_sweep(folder)) is None


def test_of_equal_optimizers_one_in_twenty_tournaments_has_a_leader() -> None:
    """Of 400: more than 36 come about once in 1,000 at 5 %."""
    draws = np.random.default_rng(3).normal(size=(400, 6, 4, 5))
    assert sum(len(leaders(each)[1]) == 1 for each in draws) <= 36
    equal = Tournament("loss", tuple("abcdef"), ("",), draws[0][:, :1])
    assert "not told apart" in tournament_title(equal)


def test_stretches_that_are_tied_are_those_of_all_pairs() -> None:
    """Recomputed by scipy, pair by pair, with Holm's steps written out, for optimizers that differ by a little."""
    ttest_rel = pytest.importorskip("scipy.stats").ttest_rel
    for seed in range(20):
        draws = np.random.default_rng(seed)
        values = draws.normal(size=(7, 5, 8)) + np.linspace(0, 3, 7)[draws.permutation(7), None, None]
        order, first = leaders(values)
        by_seed, last, apart = ranks(values)[order], len(order) - 1, set[tuple[int, int]]()
        p = {(a, b): float(ttest_rel(by_seed[a], by_seed[b]).pvalue) for a in range(7) for b in range(a + 1, 7)}
        for step, pair in enumerate(sorted(p, key=p.__getitem__)):
            if p[pair] > 0.05 / (len(p) - step):
                break
            apart.add(pair)
        apart |= {(0, place) for place in range(7) if order[place] not in first}
        together = [(a, b) for a, b in p if not any(a <= x and y <= b for x, y in apart)]
        most = [(a, b) for a, b in together if not ((a - 1, b) in together or (a, b + 1) in together)]
        assert tied(values) == most
        assert all(0 <= a < b <= last for a, b in most)


def test_equal_optimizers_are_one_stretch() -> None:
    """But for one in ten, by two families of tests at 5 %. Of 400: more than 59 come about once in 1,000."""
    draws = np.random.default_rng(4).normal(size=(400, 4, 6, 6))
    assert sum(tied(each) != [(0, 3)] for each in draws) <= 59


def test_what_the_leader_sends_and_keeps_is_said_beside_fedavg(tmp_path: Path) -> None:
    def figures(index: int, seed: int) -> dict[str, float]:
        return losses(index, seed, scaffold=1.0, fedavg=2.0, mifa=3.0)

    sweep = read_finished_sweep(write_points(tmp_path / "s", LAWS, figures, seeds=(1, 2, 3)))
    found = tournament_of(sweep)
    assert found is not None
    said = next(each.text for each in tournament_findings(found) if each.about == COST)
    assert said == "“scaffold” sends 2 models a report, and keeps 1 per client; “fedavg” 1 and 0."


def made(**means: Sequence[float]) -> Tournament:
    """Return methods with these means, one for each of two cases, over ten seeds with noise of 1 %."""
    noise = np.random.default_rng(1).normal(1, 0.01, (len(means), 2, 10))
    values = np.array(list(means.values()))[:, :, None] * noise
    return Tournament("bias", tuple(means), ("quiet", "noisy"), values)


def named(found: Tournament) -> list[list[list[str]]]:
    return [[[found.names[row] for row in cell] for cell in cells] for cells in winners(found)]


def test_the_winner_changes_with_the_case_and_with_the_memory_that_there_is() -> None:
    found = made(fedavg=[9, 9], scaffold=[1, 3], mifa=[2, 2], debiased_fedavg=[4, 2.5])
    assert named(found) == [[["scaffold"], ["mifa"], ["debiased_fedavg"]], [["mifa"], ["mifa"], ["debiased_fedavg"]]]


def test_what_is_not_told_apart_ties_with_the_winner_of_its_own_cell_only() -> None:
    found = made(fedavg=[9, 9], scaffold=[1, 1.001], mifa=[3, 1], fedau=[5, 5], debiased_fedavg=[5, 6])
    assert [[set(cell) for cell in cells] for cells in named(found)] == [
        [{"scaffold"}, {"mifa"}, {"fedau", "debiased_fedavg"}],
        [{"scaffold", "mifa"}, {"mifa"}, {"fedau"}],
    ]


def test_who_is_told_the_frequencies_or_diverged_once_wins_nothing() -> None:
    found = made(fedavg=[9, 9], oracle_weighted=[0.1, 0.1], scaffold=[1, 1], mifa=[2, 2])
    found.values[2, 0, 3] = np.inf
    assert [cells[0] for cells in named(found)] == [["mifa"], ["scaffold"]]


def test_names_of_ones_own_have_the_memory_of_their_kind_and_unknown_kinds_the_first_column_only() -> None:
    names = ("mine", "scaffold", "my_module:Own")
    found = replace(made(**{name: [1.0, 1.0] for name in names}), kinds={"mine": "scaffold", "scaffold": "fedavg"})
    assert allowed(found).T.tolist() == [[True, False, False], [True, True, True], [True, False, False]]


def test_equal_methods_seldom_have_a_cell_told_apart() -> None:
    draws = np.random.default_rng(5).normal(size=(200, 4, 6, 10))
    tables = [Tournament("loss", ("fedavg", "mifa", "scaffold", "fedau"), tuple("abcdef"), each) for each in draws]
    # The best of several is tested after it was chosen, so tests of equal ones reject more often than 5 %.
    assert np.mean([all(len(cells[2]) == 2 for cells in winners(each)) for each in tables]) > 0.8


def test_the_page_has_a_table_of_winners_where_memory_differs(tmp_path: Path) -> None:
    def figures(index: int, seed: int) -> dict[str, float]:
        costs = {"rounds_to_target": 40.0, "time_to_target": 7200.0, "sent_mb_to_target": 1.5}
        own = losses(index, seed, scaffold=1.0, fedavg=2.0, fedau=2.0001 if index else 3.0)
        return own | {f"learning.scaffold.{name}": value for name, value in costs.items()}

    page = write_report(write_points(tmp_path / "s", LAWS[:2], figures)).read_text(encoding="utf-8")
    check(page)
    page = page.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "scaffold 1; 40 rounds, 2 h, 1.5 MB" in page
    assert "fedavg 2</td>" in page
    assert "fedau 2; tied: fedavg" in page
