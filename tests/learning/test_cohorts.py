"""The log read a piece at a time: the same reports in the same order as of the whole log, and no more memory."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.common import files
from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, FedAvg, LearningError, LocalWork, replay_together
from fedsim.learning.cohorts import Cohorts, Reports
from tests.held import Held

from .cases import Quadratic


class Row(NamedTuple):
    """A participation."""

    round: int
    client: int
    position: int
    ended_s: float
    outcome: str
    staleness: int | None


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[int], list[Row]]:
    """Draw numbers of rounds, with gaps, and rows: clients repeat, versions overlap, some buffers are not full."""
    numbers = draw(st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True).map(sorted))
    rows = []
    for number in numbers:
        for position in range(draw(st.integers(0, 5))):
            reported = draw(st.integers(0, 4)) > 0
            step = draw(st.sampled_from([later for later in numbers if later >= number]))
            rows.append(
                Row(
                    number,
                    draw(st.integers(0, 3)),
                    position,
                    float(draw(st.integers(0, 5))),
                    "reported" if reported else "dropped",
                    step - number if reported else None,
                )
            )
    return numbers, rows


def table(rows: list[Row]) -> pl.DataFrame:
    """Return a table of participations."""
    kinds = {"round": pl.Int64, "client": pl.Int64, "position": pl.Int64, "ended_s": pl.Float64, "outcome": pl.String}
    return pl.DataFrame(rows, schema={**kinds, "staleness": pl.Int64}, orient="row")


def rounds_of(numbers: list[int]) -> pl.DataFrame:
    """Return a table of rounds."""
    schema = {"round": pl.Int64, "closed_s": pl.Float64}
    return pl.DataFrame({"round": numbers, "closed_s": [float(number + 1) for number in numbers]}, schema=schema)


def by_hand(numbers: list[int], rows: list[Row], buffer: int | None) -> list[list[tuple[int, int, int]]]:
    """Return client, row of the version, and repeats of the reports of each row, from the whole log at once."""
    reported = [row for row in rows if row.outcome == "reported"]
    if buffer is None:
        ordered = sorted(reported, key=lambda row: (row.round, row.position))
        return [[(row.client, 0, 0) for row in ordered if row.round == number] for number in numbers]
    steps: list[list[Row]] = []
    for number in numbers:
        step = [row for row in reported if row.round + (row.staleness or 0) == number]
        step.sort(key=lambda row: (row.ended_s, row.round, row.position))
        steps.append(step if len(step) == buffer else [])
    counted = {row for step in steps for row in step}
    return [
        [
            (
                row.client,
                numbers.index(row.round),
                sum(
                    (other.round, other.client) == (row.round, row.client) and other.position < row.position
                    for other in counted
                ),
            )
            for row in step
        ]
        for step in steps
    ]


def as_lists(reports: Reports, buffer: int | None) -> list[tuple[int, int, int]]:
    """Return client, row of the version, and repeats; zeros for the two in synchronous rounds."""
    clients, begun, repeats, _ = reports
    if buffer is None:
        assert begun is repeats is None
        begun = repeats = np.zeros_like(clients)
    assert begun is not None
    assert repeats is not None
    return list(zip(clients.tolist(), begun.tolist(), repeats.tolist(), strict=True))


@pytest.mark.long
@given(log=logs(), buffer=st.sampled_from([None, 1, 2, 3]), at_a_time=st.integers(1, 9), data=st.data())
def test_a_log_that_is_read_by_the_piece_says_what_the_whole_says(
    log: tuple[list[int], list[Row]], buffer: int | None, at_a_time: int, data: st.DataObject
) -> None:
    """Whatever the pieces, in order or not."""
    numbers, rows = log
    expected = by_hand(numbers, rows, buffer)
    rows = data.draw(st.sampled_from([rows, rows[::-1]])) if data.draw(st.booleans()) else rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "ROWS", at_a_time)
        cohorts = Cohorts.read(rounds_of(numbers), table(rows), 4, buffer)
        pieces = [as_lists(reports, buffer) for reports in cohorts.in_turn()]
        first = cohorts.first(rows_read := data.draw(st.integers(1, max(1, len(numbers)))))
        assert [as_lists(reports, buffer) for reports in first.in_turn()] == expected[:rows_read]
        assert first.past_versions <= cohorts.past_versions
    assert pieces == expected
    assert cohorts.counts.tolist() == [len(group) for group in expected]
    assert cohorts.participants == len({client for group in expected for client, _, _ in group})
    if buffer is not None:
        began = [{version for _, version, _ in group} for group in expected]
        last = [max((k for k, group in enumerate(began) if row in group), default=-1) for row in range(len(numbers))]
        assert cohorts.needed is not None
        assert cohorts.needed.tolist() == last


@pytest.mark.parametrize(
    ("row", "buffer", "message"),
    [
        (Row(1, 9, 0, 0.0, "reported", 0), None, r"^client 9 of the log is not in the problem, which has 4 clients$"),
        (Row(1, -1, 0, 0.0, "reported", 0), 1, r"^client -1 of the log is not in the problem, which has 4 clients$"),
        (Row(3, 0, 0, 0.0, "reported", 0), None, r"^round 3 has participations, and no row in the table of rounds$"),
        (Row(1, 0, 0, 0.0, "reported", 2), 1, r"^round 3 has participations, and no row in the table of rounds$"),
        (Row(-1, 0, 0, 0.0, "reported", 2), 1, r"^round -1 has participations, and no row in the table of rounds$"),
        (Row(1, 0, 0, 0.0, "reported", -1), 1, r"^round 1 has a report of staleness -1; expected at least 0$"),
    ],
)
def test_a_log_that_cannot_be_is_refused_before_training(row: Row, buffer: int | None, message: str) -> None:
    with pytest.raises(LearningError, match=message):
        Cohorts.read(rounds_of([0, 1]), table([row]), 4, buffer)


def test_what_did_not_report_may_be_of_anyone() -> None:
    """Nor does it matter what becomes of a buffer that is not full, in a version that has no row."""
    rows = [Row(0, 1, 0, 0.0, "reported", 0), Row(0, 9, 1, 0.0, "dropped", None), Row(0, 2, 2, 1.0, "reported", 5)]
    assert Cohorts.read(rounds_of([0]), table(rows[:2]), 4).participants == 1
    both = Cohorts.read(rounds_of([0, 1]), table([*rows, Row(0, 3, 3, 0.0, "reported", 0)]), 4, buffer=2)
    assert [reports.clients.tolist() for reports in both.in_turn()] == [[1, 3], []]


CLIENTS, COHORT = 200, 100


def stored(folder: Path, count: int, *, buffered: bool) -> tuple[pl.DataFrame, pl.LazyFrame]:
    """Write a log of rounds whose cohorts take turns, for a buffered server half of each one version late.

    The first version is then half a step, and the last one and a half: neither is taken.
    """
    positions = np.arange(count * COHORT)
    version, place = np.divmod(positions, COHORT)
    late = np.where(buffered & (place % 2 == 1) & (version < count - 1), 1, 0)
    columns = {
        "round": version,
        "client": positions % CLIENTS,
        "position": place,
        "ended_s": (version + late + place / COHORT).astype(np.float64),
        "outcome": ["reported"] * len(positions),
        "staleness": late,
    }
    path = folder / f"{count}.parquet"
    pl.DataFrame(columns).write_parquet(path, row_group_size=files.ROWS)
    return rounds_of(list(range(count))), pl.scan_parquet(path)


@pytest.mark.long
@pytest.mark.parametrize("buffer", [None, COHORT])
def test_the_memory_of_training_does_not_grow_with_the_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffer: int | None
) -> None:
    """Eight times the rounds take a few numbers a round more, far less than the clients of its 100 reports.

    A slice that is read while another is worked on may have come at one time and not at another.
    """
    monkeypatch.setattr(files, "ROWS", 2000)
    problem = Quadratic(np.eye(CLIENTS, 2))

    def most_held(count: int) -> int:
        rounds, participations = stored(tmp_path, count, buffered=buffer is not None)
        with Held() as held:
            cohorts = Cohorts.read(rounds, participations, CLIENTS, buffer)
            course = Course(cohorts, {"it": FedAvg()}, stream(0, 0, Purpose.OPTIMIZER))
            [trained] = replay_together(
                [course], LocalWork.checked(problem, 1, 0.1), evaluate_every=10**9, progress=held.look
            )
        assert trained.table["round"][-1] == count - 1
        return held.most

    few, many = most_held(100), most_held(800)
    assert many - few < 64 * 700 + 2 * files.ROWS * 60 < COHORT * 8 * 700
