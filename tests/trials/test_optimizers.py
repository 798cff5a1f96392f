"""Optimizers of a sweep, ranked over its settings or where they are what is swept; and who wins in which case."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.common.formatting import NO_VALUE, listing
from fedsim.pages import write_report
from fedsim.pages.answer import BIAS, COST, MODEL
from fedsim.pages.page import answer_of
from fedsim.pages.trial_tables import optimizer_table
from fedsim.pages.trials import trials_answer
from fedsim.trials.contrasts import Standing, contrasts_of
from fedsim.trials.optimizers import RANK, allowed, by_optimizer, of_optimizers, ranked, twins, winners
from fedsim.trials.optimizers import _ranks as ranks
from fedsim.trials.trials import Trials
from tests.pages.sweeps import SEPARATION, write_points
from tests.pages.test_page import check

LEARNING = {"problem": {"kind": "quadratic"}, "optimizers": ["fedavg"], "step_size": 0.1}
LAWS = [{"server": {"selection": law}} for law in ("uniform", "midzuno", "cyclic")]


def losses(index: int, seed: int, **means: float) -> dict[str, float]:
    draws = np.random.default_rng((index, seed)).normal(0, 0.01, len(means))
    return {f"learning.{name}.loss": mean + draw for (name, mean), draw in zip(means.items(), draws, strict=True)}


def test_ranks_are_means_of_average_ranks() -> None:
    values = np.array([[[1.0, 5.0]], [[2.0, 5.0]], [[np.nan, 1.0]]])
    assert ranks(values).tolist() == [[1, 2.5], [2, 2.5], [3, 1]]


def test_ranks_are_over_cases_that_all_have() -> None:
    """The third had the mean rank of its one case, an easy one for it; where all its runs diverged, it is last."""
    values = np.array([[[2.0], [1.0]], [[3.0], [2.0]], [[1.0], [np.nan]]])
    names = dict.fromkeys("abc", "fedavg")
    some = of_optimizers({}, names, "loss", ("x", "y"), values)
    assert some.samples(RANK).ravel().tolist() == pytest.approx([1, 2, np.nan], nan_ok=True)
    assert (some.meta["elsewhere"], some.meta["ranked"]) == (["c"], ["x", "y"])
    every = of_optimizers({}, names, "loss", ("x", "y"), np.where(np.isnan(values), np.inf, values))
    assert every.samples(RANK).ravel().tolist() == [1.5, 2.5, 2]
    assert (every.meta["elsewhere"], every.meta["lost"]) == ([], {"c": ["y"]})
    values[0, 1] = np.nan  # each of two has a case of its own, and nothing can be ranked but the second
    apart = of_optimizers({}, names, "loss", ("x", "y"), values)
    assert (apart.meta["elsewhere"], apart.meta["ranked"]) == (["a", "c"], ["x", "y"])


@pytest.mark.parametrize("far", [[69_200.0, 480_000.0], [150.0, 150.0]])
def test_what_is_far_off_with_some_seeds_is_no_tie(tmp_path: Path, far: list[float]) -> None:
    """One had 69,200 ± 160,000, and the page said to take either."""

    def figures(index: int, seed: int) -> dict[str, float]:
        own = losses(index, seed, scaffold=1.0, fedavg=2.0, mifa=1.0)
        return own | ({"learning.mifa.loss": far[seed - 7]} if seed > 6 else {})

    folder = write_points(tmp_path / "s", LAWS[:2], figures, seeds=range(1, 9))
    found = by_optimizer(Trials.read(folder))
    assert found is not None
    assert found.meta["lost"] == {"mifa": found.meta["cases"]}
    assert {name for cells in named(found) for cell in cells for name in cell} == {"scaffold", "fedavg"}
    rows = {row[0]: row[1:3] for row in optimizer_table(found).rows}
    assert rows["mifa"] == ("far off", NO_VALUE)  # whose rank would be that of the seeds that did not diverge
    page = said(folder)
    assert "; the other is significantly worse" in page
    far_off = "more than ten times as far off as others in some runs, and is not compared."
    assert f"“mifa” in {listing(found.meta['cases'])} diverged, {far_off}" in page
    assert "tied" not in page.partition("Which optimizer, by case")[2].partition("</table>")[0]


def said(folder: Path) -> str:
    """Return the page of trials, in which names are not set apart."""
    return re.sub("</?bdi>", "", write_report(folder).read_text(encoding="utf-8"))


@pytest.mark.parametrize("diverged", [True, False])
def test_divergence_is_told_from_absence(tmp_path: Path, diverged: bool) -> None:
    def figures(index: int, seed: int) -> dict[str, float]:
        found = losses(index, seed, fedau=2.0, fedavg=3.0, **({} if index else {"mifa": 1.0}))
        return found | {"learning.fedau.diverged": 0.0, "learning.mifa.diverged": float(diverged and index)}

    folder = write_points(tmp_path / "s", LAWS[:2], figures)
    found = by_optimizer(Trials.read(folder))
    assert found is not None
    page = said(folder)
    assert ("Training diverged: “mifa” in 3 of 6 runs" in page) == diverged
    assert ("Not ranked, without a result in some cases: “mifa”." in page) != diverged
    assert "inf ±" not in page
    row = found.settings["optimizer"].to_list().index("mifa")
    assert found.samples(RANK)[row].tolist() == pytest.approx([2.0 if diverged else np.nan] * 3, nan_ok=True)


def test_several_optimizers_over_worlds_are_ranked(tmp_path: Path) -> None:
    figures = {"fedau": 1.0, "fedavg": 2.0, "mifa": 3.0, "fedavg_uniform": 0.5}
    known = {"learning": LEARNING | {"optimizers": ["fedavg", "fedau", "mifa"], "reference": "uniform"}}
    folder = write_points(tmp_path / "s", LAWS, lambda i, s: losses(i, s, **figures), scenario=known)
    trials = Trials.read(folder)
    found = by_optimizer(trials)
    assert found is not None
    assert set(found.settings["optimizer"]) == {"fedau", "fedavg", "mifa"}
    assert ranked(found).states.count(Standing.DIFFERS) == 2
    answer = trials_answer(trials)
    assert answer.headline == "“fedau” is best, or ties, in all 3 cases."
    rank = "“fedau” has the lowest mean rank over 3 cases (1.00); each of the 2 others that were tried is significantly"
    assert f"{rank} worse." in [each.text for each in answer.sentences if each.about == MODEL]
    table = next(each for section in answer.sections if section.name == "optimizers" for each in section.tables)
    assert [row[:2] for row in table.rows] == [("fedau", "3"), ("fedavg", "0"), ("mifa", "0")]  # type: ignore[union-attr]
    document = answer_of(folder)
    tiles = [(tile.value, tile.label, tile.detail) for tile in document.tiles]
    assert tiles == [("3 of 3", "cases in which “fedau” is best or ties", "of those with any memory")]
    assert document.setup == "3 optimizers on 3 cases, 3 seeds each; 200 devices, 400 rounds"
    assert [chart.name for chart in document.charts] == ["ranks"]
    check(write_report(folder).read_text(encoding="utf-8"))


def test_a_sweep_over_optimizers_compares_them_at_what_else_is_swept(tmp_path: Path) -> None:
    names = ("fedavg", "fedau")
    points = [{"learning.optimizers": [{"kind": name}], SEPARATION: r} for name in names for r in (0, 4)]
    folder = write_points(tmp_path / "s", points, lambda i, s: losses(i, s, **{names[i // 2]: 1.0 + i // 2}))
    found = by_optimizer(Trials.read(folder))
    assert found is not None
    assert found.meta["cases"] == [f"R\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{r}" for r in (0, 4)]
    assert np.isfinite(found.samples(RANK)).all()
    assert trials_answer(Trials.read(folder)).headline == "“fedavg” is best, or ties, in both cases."


def test_optimizers_in_one_case_are_compared_by_their_losses(tmp_path: Path) -> None:
    """Ranks of 1 to 3 with every seed were called significant, however little the losses differ."""
    names = ("fedavg", "fedau", "mifa")
    points = [{"learning.optimizers": [{"kind": name}]} for name in names]

    def figures(index: int, seed: int) -> dict[str, float]:
        return losses(index, seed, **{names[index]: (2.0, 2.01 if seed > 1 else 2.2, 5.0)[index]})

    answer = trials_answer(Trials.read(write_points(tmp_path / "s", points, figures)))
    assert answer.headline.startswith("“fedavg” has the lowest loss (1.99")
    assert answer.headline.endswith(", “fedau” (2.071) not significantly worse.")
    assert answer.setup.startswith("3 optimizers, 3 seeds each")
    tables = [table for section in answer.sections for table in section.tables if table is not None]
    costs = ("Models a report", "Kept on devices", "On the server")
    assert tables[0].header == ("Optimizer", "Standing", "From the best", "Loss", *costs)
    assert (tables[1].rows[2][1][:26], *tables[0].rows[2][4:]) == ("MIFA: the server moves by ", "1", "0", "1")
    assert [row[:2] for row in tables[0].rows] == [("fedavg", "best"), ("fedau", "tied"), ("mifa", "worse")]


def test_settings_of_one_optimizer_are_compared_by_what_they_are_called(tmp_path: Path) -> None:
    """All were judged by who takes part, which no optimizer changes: the two of one name were no optimizers."""
    adam: dict[str, object] = {"kind": "fedavg", "server": {"kind": "adam"}}
    points: list[dict[str, Any]] = [{"learning.optimizers": [each]} for each in ("fedavg", adam, "scaffold")]
    names, ends = ("fedavg", "fedavg", "scaffold"), (5.0, 3.0, 4.0)
    folder = write_points(tmp_path / "s", points, lambda i, s: losses(i, s, **{names[i]: ends[i]}))
    answer = trials_answer(Trials.read(folder))
    assert answer.headline.startswith("“fedavg server adam” has the lowest loss (")
    table, methods = [table for section in answer.sections for table in section.tables if table is not None]
    assert [row[0] for row in table.rows] == ["fedavg server adam", "scaffold", "fedavg"]
    here = {row[0]: row[1].partition(" Here: ")[2] for row in methods.rows}
    assert not any("no state" in row[1] for row in methods.rows)  # that of Adam is one
    assert here == {"fedavg": "", "fedavg server adam": "fedavg with server = adam.", "scaffold": ""}
    chart = answer.first_picture
    assert chart is not None
    assert chart.title == "Loss, minus that of “fedavg server adam”"  # seeds are paired


@pytest.mark.parametrize("points", [[{SEPARATION: r} for r in (0, 4)], LAWS[:2]])
def test_other_sweeps_are_not_of_optimizers(tmp_path: Path, points: list[dict[str, object]]) -> None:
    folder = write_points(tmp_path / "s", points, lambda i, s: losses(i, s, fedavg=1.0, fedau=2.0))
    assert by_optimizer(Trials.read(folder)) is None


def test_of_equal_optimizers_few_tables_of_ranks_tell_any_apart() -> None:
    """Of 300: more than 28 come about once in 1,000 at 5 %."""
    draws = np.random.default_rng(3).normal(size=(300, 6, 4, 5))
    assert sum(contrasts_of(ranks(each)).differs.any() for each in draws) <= 28


def test_what_the_leader_sends_and_keeps_is_said(tmp_path: Path) -> None:
    def figures(index: int, seed: int) -> dict[str, float]:
        return losses(index, seed, scaffold=1.0, fedavg=2.0, mifa=3.0)

    trials = Trials.read(write_points(tmp_path / "s", LAWS, figures, seeds=(1, 2, 3)))
    answer = trials_answer(trials)
    less = "of those with nothing kept on the device"
    assert answer.headline == f"“scaffold” is best, or ties, in all 3 cases; {less}, “fedavg” (in 3)."
    assert [each.text for each in answer.sentences if each.about == COST] == [
        "“scaffold” sends 2 models a report, and keeps 1 model per client on the device.",
        "“fedavg” sends 1 model a report, and keeps none per client.",
    ]
    first, second = answer.tiles
    assert (first.value, first.detail) == ("3 of 3", "of those with any memory")
    assert float(second.value) == pytest.approx(2.0, abs=0.02)
    assert second.detail == f"“fedavg”, {less}: best or ties in 3"
    _, often, far = [each.text for each in answer.sentences if each.about == MODEL]
    cases = listing(by_optimizer(trials).meta["cases"])  # type: ignore[union-attr]
    assert often == f"Of 3 cases one optimizer is best alone in {cases}; several tie in 0."
    beside = "Median loss, in multiples of that of “scaffold”: “fedavg” "
    assert re.fullmatch(rf"{beside}(2|1\.99|2\.01); “fedavg” is furthest behind in server.*\.", far)


@pytest.mark.parametrize(
    ("ends", "less"),
    [
        ({"mifa": (2.0,) * 3, "fedavg": (3.0,) * 3}, "of {}, “mifa” (in 3); the only one with {}, “fedavg” (in none)."),
        ({"fedau": (2.0, 2.0, 4.0), "fedavg": (3.0,) * 3}, "of {}, “fedau” (in 2)."),
    ],
)
def test_who_keeps_less_is_counted_among_its_like(
    tmp_path: Path, ends: dict[str, tuple[float, ...]], less: str
) -> None:
    """The best of those without memory was said to be best in none, since it was counted against all."""

    def figures(index: int, seed: int) -> dict[str, float]:
        return losses(index, seed, scaffold=1.0, **{name: each[index] for name, each in ends.items()})

    headline = trials_answer(Trials.read(write_points(tmp_path / "s", LAWS, figures))).headline
    like = less.format("those with nothing kept on the device", "no model kept per client")
    assert headline == f"“scaffold” is best, or ties, in all 3 cases; {like}"


@pytest.mark.parametrize(("fair", "says"), [((0.1, 0.1, 0.1), True), ((0.1, 0.1, 0.2), False)])
def test_a_distance_that_holds_chance_is_said_beside_it(tmp_path: Path, fair: tuple[float, ...], says: bool) -> None:
    def figures(index: int, seed: int) -> dict[str, float]:
        even = {"participation.l1_uniform": 0.16, "participation.l1_fair": fair[index]}
        return losses(index, seed, fedavg=2.0, fedau=3.0, mifa=4.0) | even

    answer = trials_answer(Trials.read(write_points(tmp_path / "s", LAWS, figures)))
    texts = [each.text.replace("\N{NARROW NO-BREAK SPACE}", " ") for each in answer.sentences if each.about == BIAS]
    assert texts == ["Distance of participation from uniform (TV): 8.0 % at every setting.", *FAIR][: 1 + says]


FAIR = ["Equal chances would give 5.0 %."]


def made(kinds: dict[str, str] | None = None, lost: str = "", **means: Sequence[float]) -> Trials:
    """Return methods with these means, one for each of two cases, over ten seeds with noise of 1 %."""
    noise = np.random.default_rng(1).normal(1, 0.01, (len(means), 2, 10))
    values = np.array(list(means.values()))[:, :, None] * noise
    if lost:
        values[[*means].index(lost), 0, 3] = np.inf
    return of_optimizers(
        {}, {name: (kinds or {}).get(name, name) for name in means}, "bias", ("quiet", "noisy"), values
    )


def named(found: Trials) -> list[list[list[str]]]:
    names = found.settings["optimizer"]
    return [[[names[row] for row in cell] for cell in cells] for cells in winners(found)]


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
    found = made(lost="scaffold", fedavg=[9, 9], oracle_weighted=[0.1, 0.1], scaffold=[1, 1], mifa=[2, 2])
    assert [cells[0] for cells in named(found)] == [["mifa"], ["scaffold"]]


def test_names_of_ones_own_have_the_memory_of_their_kind_and_unknown_kinds_the_first_column_only() -> None:
    kinds = {"mine": "scaffold", "scaffold": "fedavg"}
    found = made(kinds, "", **{name: [1.0, 1.0] for name in ("mine", "scaffold", "my_module:Own")})
    assert allowed(found).T.tolist() == [[True, False, False], [True, True, True], [True, False, False]]


def test_equal_methods_seldom_have_a_cell_told_apart() -> None:
    """Of 60 tables: more than 9 come about once in 1,000 at 5 %."""
    draws = np.exp(np.random.default_rng(5).normal(size=(60, 4, 6, 10)))
    kinds = {name: name for name in ("fedavg", "mifa", "scaffold", "fedau")}
    tables = [of_optimizers({}, kinds, "loss", tuple("abcdef"), each) for each in draws]
    whole = [all([len(cell) for cell in cells] == [4, 3, 2] for cells in winners(each)) for each in tables]
    assert sum(not each for each in whole) <= 9


def test_the_page_has_a_table_of_winners_where_memory_differs(tmp_path: Path) -> None:
    def figures(index: int, seed: int) -> dict[str, float]:
        return losses(index, seed, scaffold=1.0, fedavg=2.0, fedau=2.0001 if index else 3.0)

    page = write_report(write_points(tmp_path / "s", LAWS[:2], figures)).read_text(encoding="utf-8")
    check(page)
    page = page.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "scaffold 1" in page
    assert "; of those with nothing kept on the device, “" in page  # scaffold keeps more than there is room for
    assert "fedavg 2</td>" in page or "fedavg 2; " in page
    assert "fedau 2; tied: fedavg" in page


def test_a_case_whose_figure_is_a_loss_is_marked_among_distances(tmp_path: Path) -> None:
    def figures(index: int, seed: int) -> dict[str, float]:
        figure = "average_loss" if index == 1 else "bias"
        own = losses(index, seed, scaffold=1.0, fedavg=2.0, fedau=3.0)
        return own | {name.replace(".loss", f".{figure}"): value for name, value in own.items()}

    found = by_optimizer(trials := Trials.read(write_points(tmp_path / "s", LAWS, figures)))
    assert found is not None
    assert found.meta["by_loss"] == found.meta["cases"][1:2]
    tables = [table for section in trials_answer(trials).sections for table in section.tables if table is not None]
    heads = [f"{case}{' (loss)' * (at == 1)}" for at, case in enumerate(found.meta["cases"])]
    assert [row[0] for row in tables[0].rows] == heads == [row[0] for row in tables[2].rows]
    assert tables[2].header == ("Case", "scaffold", "fedavg", "fedau")
    assert [float(cell) for cell in tables[2].rows[0][1:]] == pytest.approx([1, 2, 3], abs=0.1)


def test_only_a_twin_is_one(tmp_path: Path) -> None:
    """An optimizer that somebody called ``own_uniform`` was left out of the ranks."""
    optimizers = [{"kind": "fedavg", "name": name} for name in ("own_uniform", "own", "fedau")]
    figures = {"own_uniform": 1.0, "own": 2.0, "fedau": 3.0}
    for reference, twin in (("none", {}), ("uniform", {"own_uniform_uniform": 0.5})):
        points = [each | {"learning.optimizers": optimizers, "learning.reference": reference} for each in LAWS]
        own = lambda i, s, of=figures | twin: losses(i, s, **of)  # noqa: E731
        folder = write_points(tmp_path / reference, points, own, scenario={"learning": LEARNING})
        trials = Trials.read(folder)
        assert twins(trials) == {*twin}
        found = by_optimizer(trials)
        assert found is not None
        assert set(found.settings["optimizer"]) == {*figures}
