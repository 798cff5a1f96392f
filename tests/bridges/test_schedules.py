"""Schedules read back: the cohorts of the run, and a refusal of whatever an export does not write."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.bridges.exports import export_schedule
from fedsim.bridges.schedules import Schedule, as_schedule, read_schedule
from fedsim.common.errors import RunError
from fedsim.log import with_staleness
from fedsim.run.run import Result
from fedsim.run.simulate import simulate
from tests.conftest import LIMIT_S, Load

RENEWAL = "population.0.availability={kind: renewal, on: 5m, off: 5m}"
SKIPPED = ("population.0.availability={kind: renewal, on: 8m, off: 12m}", "server.shortage=skip")
BUFFERED = (
    "server={mode: buffered, concurrency: 4, buffer: 2}",
    "population.0.session={train: {kind: exponential, mean: 120s}}",
)


def assert_same(schedule: Schedule, result: Result) -> None:
    """Compare every figure of a schedule with the tables of the run."""
    assert (schedule.clients, len(schedule)) == (len(result.clients), len(result.rounds))
    assert [each.opened_s for each in schedule] == result.rounds["opened_s"].to_list()
    sessions = with_staleness(result.participations).sort("round", "position")
    lasted = (sessions["ended_s"] - sessions["selected_s"]).to_list()
    expected = zip(
        sessions["round"],
        sessions["client"],
        sessions["outcome"],
        lasted,
        sessions["staleness"].fill_null(-1),
        strict=True,
    )
    assert [
        (each.number, *session)
        for each in schedule
        for session in zip(each.clients, each.outcome, each.duration_s, each.staleness, strict=True)
    ] == list(expected)
    reports = sessions.filter(sessions["outcome"] == "reported")["client"].to_list()
    assert np.concatenate([each.reporting for each in schedule]).tolist() == reports


@pytest.mark.parametrize("overrides", [(RENEWAL,), SKIPPED, BUFFERED], ids=["rounds", "skipped", "buffered"])
def test_every_form_holds_the_sessions_of_the_run(small: Load, tmp_path: Path, overrides: tuple[str, ...]) -> None:
    result = simulate(small(*overrides))
    directory = result.save(tmp_path / "run")
    assert_same(read_schedule(directory), result)
    for suffix in ("json", "csv", "parquet"):
        out = tmp_path / f"schedule.{suffix}"
        export_schedule(directory, out)
        schedule = read_schedule(str(out))
        assert_same(schedule, result)
        assert schedule.about == read_schedule(directory).about
    assert schedule.buffered == ("server" in overrides[0])
    assert any(not len(each.clients) for each in schedule) == (overrides == SKIPPED)
    assert any(len(each.clients) for each in schedule)


def test_rounds_are_a_sequence(small: Load, tmp_path: Path) -> None:
    schedule = read_schedule(simulate(small("stop.rounds=7")).save(tmp_path / "run"))
    assert [each.number for each in schedule] == [schedule[number].number for number in range(7)] == list(range(7))
    assert [each.number for each in schedule[2:4]] == [2, 3]
    assert as_schedule(schedule) is schedule


def test_what_trains_in_rounds_refuses_a_buffered_server(small: Load, tmp_path: Path) -> None:
    directory = simulate(small(*BUFFERED)).save(tmp_path / "run")
    with pytest.raises(RunError, match="is that of a buffered server"):
        as_schedule(directory)


def session(**changes: Any) -> dict[str, Any]:
    return {"client": 1, "outcome": "reported", "duration_s": 60.0, "staleness": 0} | changes


def written(path: Path, *cohorts: list[Any], **changes: Any) -> Path:
    """Write a schedule of some rounds, with other values of some keys."""
    rounds = [{"round": number, "opened_s": 60.0 * number, "cohort": cohort} for number, cohort in enumerate(cohorts)]
    about = {"format": "fedsim-schedule", "version": 1, "clients": 3, "rounds": len(rounds)}
    path.write_text(json.dumps({**about, "schedule": rounds, **changes}), encoding="utf-8")
    return path


Case = tuple[Callable[[Path], Path], str]
DAMAGED: dict[str, Case] = {
    "other file": (lambda p: written(p, format="other"), "it does not say that its format is 'fedsim-schedule'"),
    "later version": (lambda p: written(p, version=2), "of version 2; this fedsim reads version 1"),
    "clients": (lambda p: written(p, clients="many"), "clients is 'many'; it must be a whole number"),
    "more rounds": (lambda p: written(p, [session()], rounds=2), "says that it has 2 rounds, and 1 rows are there"),
    "a round twice": (
        lambda p: written(p, schedule=2 * [{"round": 0, "opened_s": 0.0, "cohort": []}], rounds=2),
        "round 0 has 2 rows, the first without a client",
    ),
    "fewer rounds": (lambda p: written(p, [session()], [], rounds=1), "there is a round 1, and rounds are 0 to 0"),
    "no cohort": (lambda p: written(p, schedule=[{"round": 0}]), "round 0 has no cohort"),
    "no session": (lambda p: written(p, ["client"]), "round 0, session 0 has no client"),
    "no such client": (lambda p: written(p, [session(client=3)]), "is of client 3, and clients are 0 to 2"),
    "no list": (lambda p: written(p, schedule=7), "has no list of rounds under 'schedule'"),
    "endless": (lambda p: written(p, rounds=10**30), "it must be a whole number"),
    "huge": (lambda p: written(p, [session(client=10**25)], clients=10**30), "it must be a whole number"),
    "for ever": (lambda p: written(p, [session(duration_s=float("inf"))]), "lasted inf seconds"),
    "half a client": (lambda p: written(p, [session(client=1.5)]), "is of client 1.5"),
    "yes": (lambda p: written(p, [session(client=True)]), "is of client True"),
    "none at first": (lambda p: written(p, [session(client=None), session()]), "session 0 has no client"),
    "outcome": (lambda p: written(p, [session(outcome="lost")]), "ended as 'lost'; known are reported, dropped"),
    "duration": (lambda p: written(p, [session(duration_s=-1)]), "lasted -1 seconds"),
    "staleness": (lambda p: written(p, [session(staleness=-1)]), "has staleness -1"),
    "opening": (
        lambda p: written(p, rounds=1, schedule=[{"round": 0, "opened_s": "noon", "cohort": []}]),
        "it opened at 'noon'",
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_what_an_export_does_not_write_is_refused(tmp_path: Path, case: str) -> None:
    damage, message = DAMAGED[case]
    path = damage(tmp_path / "schedule.json")
    with pytest.raises(RunError) as caught:
        read_schedule(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet"])
def test_a_file_that_is_cut_short_is_refused(small: Load, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"schedule.{suffix}"
    export_schedule(simulate(small("stop.rounds=6")).save(tmp_path / "run"), out)
    whole = out.read_bytes()
    for share in (0, 1, len(whole) // 3, 2 * len(whole) // 3, len(whole) - 5):
        out.write_bytes(whole[:share])
        with pytest.raises(RunError, match=r"schedule\."):
            read_schedule(out)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0,0.0,0,1", "line 3 has 4 fields, not 7"),
        ("0,0.0,0,one,reported,1.0,0", "line 3: invalid literal"),
        ("0,0.0,1,1,reported,1.0,0", "has position 1; sessions are listed in order"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, line: str, message: str) -> None:
    about = json.dumps({"format": "fedsim-schedule", "version": 1, "clients": 3, "rounds": 1})
    columns = "round,opened_s,position,client,outcome,duration_s,staleness"
    path = tmp_path / "schedule.csv"
    path.write_text(f"# {about}\n{columns}\n{line}\n", encoding="utf-8")  # as version 0.2 wrote it
    with pytest.raises(RunError, match=message):
        read_schedule(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0,0.0,0,1,{}", "line 2 has 5 fields, not 8"),
        ("0,0.0,0,one,reported,1.0,0,null", "line 2: invalid literal"),
        ("0,0.0,0,1,reported,1.0,0,", "does not say that its format is"),
    ],
)
def test_a_line_that_is_wrong_is_named_today(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "schedule.csv"
    columns = "round,opened_s,position,client,outcome,duration_s,staleness,about"
    path.write_text(f"{columns}\n{line}\n", encoding="utf-8")
    with pytest.raises(RunError, match=message):
        read_schedule(path)
    path.write_text(f"{columns[:-6]}\n{line}\n", encoding="utf-8")
    with pytest.raises(RunError, match=f"line 1 is not {columns}"):
        read_schedule(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [("missing.json", "no such file; `fedsim export schedule"), ("other.txt", "a schedule whose name ends in .json")],
)
def test_a_file_that_is_not_there_is_told(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(RunError, match=message):
        read_schedule(tmp_path / name)


def test_reading_needs_numpy_alone(tmp_path: Path) -> None:
    written(tmp_path / "schedule.json", [session()], [])
    code = (
        "import sys\n"
        "for name in ('polars', 'pydantic', 'scipy', 'typer'): sys.modules[name] = None\n"
        "from fedsim.schedules import read_schedule\n"
        "print([each.reporting.tolist() for each in read_schedule('schedule.json')])\n"
    )
    home = str(Path(fedsim.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": home, "PATH": ""},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("[[1], []]", "")
