"""Series counted part by part say what one join of the whole tables says."""

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fedsim.measure.series import SLOT_S, EqualSpans, Homes, SeriesCounter, by_span, series_of, weight_classes
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from tests.conftest import Write

PLAIN = {"stop": {"rounds": 3}, "population": [{"devices": 2}], "server": {"cohort": 1}}
SCENARIO = Scenario.model_validate(PLAIN)


@pytest.mark.parametrize("clients", [60, 20])
@pytest.mark.parametrize("few", [False, True])
def test_what_is_counted_is_what_a_join_finds(clients: int, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many parts there are, and counts of them are held at once."""
    monkeypatch.setattr("fedsim.common.files.ROWS", 7)
    if few:
        monkeypatch.setattr("fedsim.measure.series._MOST_HELD", 2)
    rng, rows = np.random.default_rng(5), 300
    table = pl.DataFrame(
        {
            "client": range(clients),
            "weight": np.arange(clients) + 1.0,
            "group": [("north", "south")[client % 2] for client in range(clients)],
            "time_zone": [("UTC", "Asia/Tokyo", None)[client % 3] for client in range(clients)],
        }
    )
    taken = pl.DataFrame(
        {
            "client": rng.integers(0, 60, rows),  # not all of them are in the table
            "round": np.arange(rows),
            "selected_s": [None if late else 400.0 * at for at, late in enumerate(rng.random(rows) < 0.1)],
            "outcome": rng.choice(["reported", "dropped"], rows),
        }
    ).with_columns(gap=pl.when(pl.col("client").is_first_distinct()).then(None).otherwise(1))
    rounds = pl.DataFrame({"round": np.arange(rows)})
    found = series_of(taken.lazy(), table, SCENARIO, rounds, 400.0 * rows)
    known = taken.join(table, on="client")
    slot = (pl.col("selected_s") / SLOT_S).floor().cast(pl.Int64).alias("slot")
    starts = known.drop_nulls("selected_s").group_by("time_zone", slot).len().sort("time_zone", "slot")
    assert_frame_equal(found["starts"], starts)
    firsts = known.drop_nulls("selected_s").filter(pl.col("gap").is_null())["selected_s"].sort()
    assert_frame_equal(found["reached"], pl.DataFrame({"time_s": firsts, "len": np.arange(1, len(firsts) + 1)}))
    span = (pl.col("round") * 20 // rows).alias("span")
    homes = known.filter(outcome="reported").group_by(span, "group", "time_zone").len()
    counted = found["reports"].filter(pl.col("len") > 0)
    assert_frame_equal(counted, homes, check_row_order=False, check_dtypes=False, check_column_order=False)
    classes = weight_classes(table["weight"].to_numpy(), 1)
    assert classes is not None
    parts = table.select("client", part=pl.Series(classes).cast(pl.Int64))
    own = known.filter(outcome="reported").join(parts, on="client").group_by(span, "part").len()
    assert_frame_equal(found["weights"].filter(pl.col("len") > 0), own, check_row_order=False, check_dtypes=False)


@pytest.mark.parametrize("server", ["{cohort: 3, deadline: 70s}", "{mode: buffered, buffer: 4, concurrency: 9}"])
@pytest.mark.parametrize("groups", [1, 3])
def test_what_is_counted_while_it_is_measured_is_what_the_tables_say(
    write: Write, monkeypatch: pytest.MonkeyPatch, server: str, groups: int
) -> None:
    """With groups and time zones or without, separations that differ, and devices that never take part."""
    monkeypatch.setattr("fedsim.common.files.ROWS", 50)
    others = [
        "{name: b, devices: 9, separation: {kind: uniform, low: 1, high: 4}, time_zone: Asia/Tokyo}",
        "{name: c, devices: 5, availability: {kind: renewal, on: 1s, off: 1000h}, time_zone: {kind: mixture, "
        "parts: [{share: 1, source: UTC}, {share: 1, source: Asia/Tokyo}]}}",
    ]
    population = ", ".join(["{name: a, devices: 12, weight: {kind: zipf, exponent: 1}}", *others][:groups])
    run = simulate(Scenario.load(write(f"stop: {{rounds: 90}}\npopulation: [{population}]\nserver: {server}\n")))
    again = series_of(run.log, run.clients, run.scenario, run.rounds, run.simulated_s)
    once = set() if "mode" in server else {"round"}  # examples, which a run alone takes
    assert set(run.series) - set(again) == {"shares", "bias", *once}
    for name, expected in again.items():
        assert_frame_equal(run.series[name], expected)
    assert ("staleness" in again) == ("mode" in server)
    for name in ("reports", "weights"):
        assert again[name]["len"].sum() == (run.participations["outcome"].cast(pl.String) == "reported").sum()


@pytest.mark.parametrize(
    ("clients", "together", "ends", "classes"), [(100, 1, 10, 10), (27, 1, 2, 10), (9, 1, 1, 9), (20, 5, 5, 4)]
)
def test_clients_are_parted_by_weight(clients: int, together: int, ends: int, classes: int) -> None:
    """Into tenths, of which both ends have one size; a few clients each by itself; groups as they are selected."""
    weight = np.random.default_rng(1).permutation(np.arange(clients) // together) + 1.0
    found = weight_classes(weight, together)
    assert found is not None
    sizes = np.bincount(found)
    assert (len(sizes), sizes[0], sizes[-1], sizes.sum()) == (classes, ends, ends, clients)
    assert sizes.max() - sizes.min() <= 1
    assert (np.diff(found[np.argsort(-weight, kind="stable")]) >= 0).all()
    assert weight_classes(np.ones(clients), together) is None


@pytest.mark.parametrize("levels", [2, 3, 9, 11, 40])
@pytest.mark.parametrize("clients", [12, 100, 163])
def test_clients_of_one_weight_are_in_one_class(clients: int, levels: int) -> None:
    """Whatever weights there are: classes are in their order, and as many as weights where these are few."""
    weight = 1.0 + np.random.default_rng(levels).integers(0, levels, clients) ** 2
    found = weight_classes(weight.astype(np.float64), 1)
    assert found is not None
    of_weight = pl.DataFrame({"weight": weight, "part": found}).unique().sort("weight", descending=True)
    assert of_weight["weight"].is_unique().all()
    assert (np.diff(of_weight["part"].cast(pl.Int64)) >= 0).all()
    assert set(found.tolist()) == set(range(found.max() + 1))
    assert found.max() < (clients if clients < 20 else 10)
    if levels <= 10:
        assert len(of_weight) == found.max() + 1


@pytest.mark.parametrize("weight", [[5, 1, 1], [5, 5, 1], [5, 1, 1, 2, 2], [1, 2, 3]])
def test_a_few_clients_some_of_one_weight_have_a_share_for_each_weight(weight: list[int]) -> None:
    """Also where the heaviest is alone in its class, and the sizes of classes differ by one."""
    run = simulate(Scenario.model_validate(PLAIN | {"population": [{"devices": len(weight), "weight": weight}]}))
    shares = run.series["shares"].filter(kind="weight")
    assert shares["size"].to_list() == [weight.count(each) / len(weight) for each in sorted(set(weight), reverse=True)]
    assert set(shares["noun"]) == {"client" if len(set(weight)) == len(weight) else "class"}


def test_spans_are_of_rounds_or_of_whole_days() -> None:
    assert [EqualSpans(rounds).number for rounds in (199, 200, 5000)] == [1, 20, 20]
    assert [EqualSpans(5000, days).number for days in (0, 4, 5, 20, 21, 60)] == [1, 1, 5, 20, 10, 20]


def test_a_run_of_less_than_a_day_has_one_span() -> None:
    """Where availability follows the clock: no whole day is there to count in."""
    clients = pl.DataFrame({"client": [0, 1], "group": "all", "time_zone": "UTC", "weight": [1.0, 2.0]})
    taken = pl.DataFrame({"client": [0, 1, 1], "round": [0, 1, 2], "selected_s": [0.0, 90.0, 180.0]})
    habits = Scenario.model_validate({**PLAIN, "population": [{"devices": 2, "availability": {"kind": "habits"}}]})
    found = SeriesCounter(Homes.of_table(clients), habits, taken, 240.0)
    with np.errstate(all="raise"):
        found.add(taken.with_columns(outcome=pl.lit("reported"), gap=pl.Series([None, None, 0])))
    counts = [by_span(found.series(), name) for name in ("reports", "weights")]
    assert [None if each is None else each.tolist() for each in counts] == [[[3]], [[2, 1]]]
