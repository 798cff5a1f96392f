"""Logs as they are written: their times, doubled and odd rows, and what their rounds tell of the server."""

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedsim.availability.trace import TraceError, build_pattern
from fedsim.availability.trace.rows import read_rows
from fedsim.scenario.log import ProductionLog
from fedsim.traces.calibrate import _with_causes, by_hour, calibrate
from fedsim.traces.fit_habits import _spread
from fedsim.traces.fit_renewal import lengths_on_and_off
from fedsim.traces.imports import import_trace, write_trace
from fedsim.traces.log_rounds import rounds_told, server_of
from fedsim.traces.logs import SessionLog, read_log
from tests.command import fedsim
from tests.production import COLUMNS, DAY, HOUR, OUTCOMES, START, Production, log_in, named, stamped

BASE = {"base": START}


def read(path: Path, **asked: Any) -> SessionLog:
    return read_log(path, ProductionLog.model_construct(file=str(path), **asked))


def plain(sessions: int = 200, clients: int = 20) -> pl.DataFrame:
    """Return a log with relative times in whole seconds."""
    begin = 600 * np.arange(sessions)
    rows = {"client": np.arange(sessions) % clients, "selected_s": begin, "ended_s": begin + 60 + begin // 600 % 7}
    return pl.DataFrame(rows).with_columns(outcome=pl.lit("reported"))


def production(folder: Path, **planted: Any) -> SessionLog:
    log_in(folder, Production(**planted).sessions())
    meant = {word: how for how, word in named(OUTCOMES).items()}
    return read(folder / "log.csv", columns=named(COLUMNS), outcomes=meant)


FORMS: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "dates.csv": lambda t: stamped(t.rename({"selected_s": "begin", "ended_s": "end"}), "%Y-%m-%d %H:%M:%S UTC"),
    "ms.csv": lambda t: t.with_columns((pl.col("selected_s", "ended_s") + int(START.timestamp())) * 1000),
    "ns.parquet": lambda t: t.with_columns((pl.col("selected_s", "ended_s") + int(START.timestamp())) * 10**9),
    "epoch.ndjson": lambda t: t.with_columns(pl.col("selected_s", "ended_s") + int(START.timestamp())),
    "packed.csv.gz": lambda t: t.with_columns(pl.col("selected_s", "ended_s") + int(START.timestamp())),
    "relative.csv": lambda t: t,
    "thousandths.csv": lambda t: t.with_columns(pl.col("selected_s", "ended_s") * 1000),
}


@pytest.mark.parametrize("name", FORMS)
def test_times_are_read_in_their_unit(tmp_path: Path, name: str) -> None:
    """Milliseconds ended with a traceback, or made sessions of hours; seconds since 1970 began in 2079."""
    path, table = tmp_path / name, plain(6000)
    written = FORMS[name](table)
    if name.endswith("gz"):
        path.write_bytes(gzip.compress(written.write_csv().encode()))
    elif name.endswith("ndjson"):
        written.write_ndjson(path)
    else:
        written.write_parquet(path) if name.endswith("parquet") else written.write_csv(path)
    asked: dict[str, Any] = {"columns": {"selected": "begin", "ended": "end"}} if name.startswith("dates") else {}
    log = read(path, **asked, **(BASE if name in {"relative.csv", "thousandths.csv"} else {}))
    assert log.base.timestamp() == START.timestamp()
    assert log.table["selected_s"].to_list() == table["selected_s"].to_list()
    assert log.table["ended_s"].to_list() == table["ended_s"].to_list()
    assert log.notes[0].startswith("times: ")


def test_an_instant_has_one_base(tmp_path: Path) -> None:
    FORMS["epoch.ndjson"](plain()).write_csv(tmp_path / "log.csv")
    done = fedsim("calibrate", tmp_path / "log.csv", "--base", "2026-01-05T00:00:00Z")
    assert (done.returncode, "since 1970, so that they have no other base" in done.stderr) == (2, True)
    plain().write_csv(tmp_path / "log.csv")
    done = fedsim("calibrate", tmp_path / "log.csv")
    assert (done.returncode, "--base says from which one" in done.stderr) == (2, True)


def test_columns_need_no_option_by_either_of_their_names(tmp_path: Path) -> None:
    table = plain().rename({"selected_s": "selected", "ended_s": "ended"})
    table.write_csv(tmp_path / "log.csv")
    assert len(read(tmp_path / "log.csv", **BASE).table) == 200
    table.with_columns(pl.col("selected", "ended") * 1000).rename(
        {"selected": "selected_ms", "ended": "ended_ms"}
    ).write_csv(tmp_path / "log.csv")
    assert read(tmp_path / "log.csv", **BASE).table["ended_s"][0] == 60.0


def test_rows_that_repeat_others_count_once(tmp_path: Path) -> None:
    table = plain().with_columns(round=pl.int_range(200) // 10)
    pl.concat([table, table.sample(50, seed=1)]).write_csv(tmp_path / "log.csv")
    with (tmp_path / "log.csv").open("a") as file:
        file.write("\n\n")
    log = read(tmp_path / "log.csv", **BASE)
    assert (len(log.table), server_of(log)[0]["cohort"]) == (200, 10)
    assert "left out 50 rows that repeat others" in " ".join(log.notes)


def test_a_client_has_one_class_and_zone(tmp_path: Path) -> None:
    table = plain(400, 20).with_columns(
        pl.when(pl.int_range(400) // 20 % 5 < 3).then(pl.lit("x")).otherwise(pl.lit("y")).alias("class"),
        time_zone=pl.lit("Asia/Kolkata"),
    )
    table.write_csv(tmp_path / "log.csv")
    made = calibrate(read(tmp_path / "log.csv", **BASE))
    assert sum(group["devices"] for group in made.scenario["population"]) == 20
    assert made.scenario["population"][0]["time_zone"] == "Asia/Kolkata"
    assert "have more than one class" in " ".join(made.notes)


@pytest.mark.parametrize(
    ("column", "complaint"),
    [
        ({"weight": ["1"] * 3 + ["x"] + ["1"] * 196}, ":5:{column}: error: weight must be a number, not 'x'"),
        ({"time_zone": ["localtime"] * 200}, "unknown time zone 'localtime'"),
        ({"time_zone": ["GMT+8"] * 200}, "unknown time zone 'GMT+8'; did you mean 'Etc/GMT-8'?"),
        ({"time_zone": ["UTC-3"] * 200}, "unknown time zone 'UTC-3'"),
        ({"client": [None] + ["a"] * 199}, ":2:1: error: client must not be empty"),
    ],
)
def test_bad_values_have_their_row(tmp_path: Path, column: dict[str, Any], complaint: str) -> None:
    path = tmp_path / "log.csv"
    plain().with_columns(**{name: pl.Series(values) for name, values in column.items()}).write_csv(path)
    done = fedsim("calibrate", path, "--base", "2026-01-05T00:00:00Z")
    place = path.read_text().splitlines()[4].find("x") + 1
    assert done.returncode == 2
    assert complaint.format(column=place) in done.stderr


def test_weights_of_zero_are_not_dropped(tmp_path: Path) -> None:
    plain(800, 80).with_columns(weight=pl.int_range(800) % 80 % 2 * 100).write_csv(tmp_path / "log.csv")
    log = read(tmp_path / "log.csv", **BASE)
    made = calibrate(log)
    assert "weight" not in made.scenario["population"][0]
    assert made.evidence["devices"]["weight"] == {"none": 40}
    done = fedsim("calibrate", tmp_path / "log.csv", "--base", "2026-01-05T00:00:00Z")
    assert "40 of 80 clients have 0, which no scenario has: it is left out" in done.stderr


def test_the_server_is_read_from_the_rounds(tmp_path: Path) -> None:
    """The cohort was the median of those selected."""
    log = production(tmp_path, seed=2, days=3, deadline=600.0, pause=90.0, cohort=6, wanted=9)
    server, said = server_of(
        read(tmp_path / "log.csv", columns=log.columns, outcomes={w: h for h, w in named(OUTCOMES).items()})
    )
    assert {key: server[key] for key in ("cohort", "over_select", "deadline", "pause")} == {
        "cohort": 6,
        "over_select": 1.5,
        "deadline": "10m",
        "pause": "90s",
    }
    assert any(line.startswith("cohort 6: ") and "in 100% of" in line for line in said)
    assert set(rounds_told(log, server)["outcome"]) <= {"target", "deadline", "exhausted", "stopped"}


def test_a_round_that_failed_closes_with_its_last_report_or_its_deadline(tmp_path: Path) -> None:
    """What reported in it was in no list of outcomes: it closed when it began, exhausted."""
    rows = [(0, 0, 10, "failed"), (0, 0, 20, "failed"), (1, 100, 110, "failed"), (1, 100, 190, "late")]
    rows += [(2, 200, 210, "reported"), (2, 200, 215, "dropped")]
    table = pl.DataFrame(rows, ["round", "selected_s", "ended_s", "outcome"], orient="row")
    table.with_columns(client=pl.int_range(6)).write_csv(tmp_path / "log.csv")
    rounds = rounds_told(read(tmp_path / "log.csv", **BASE), {"cohort": 2, "deadline_s": 30.0})
    told = [(20.0, "failed", 0), (130.0, "failed", 0), (215.0, "exhausted", 1)]
    assert rounds.select("closed_s", "outcome", "reported").rows() == told


@pytest.mark.parametrize("deadline", [60.0, 120.0])
def test_late_reports_show_how_long_they_took(tmp_path: Path, deadline: float) -> None:
    """They were read as cut: median 83 and sigma 0.85 with a deadline of 60 s."""
    log = production(tmp_path, seed=3, days=3, classes={"phone": (120, 60.0, 0.5)}, cohort=10, deadline=deadline)
    duration = calibrate(log).evidence["phone"]["duration"]
    assert duration["median"] == pytest.approx(60.0, rel=0.05)
    assert duration["sigma"] == pytest.approx(0.5, rel=0.05)
    assert log.table["how"].value_counts()["count"].to_numpy().min() > 0.01 * len(log.table)  # late ones too


def test_drop_outs_have_two_causes(tmp_path: Path) -> None:
    """A session hazard of 0.5 in an hour was lost where check-ins are given."""
    world = Production(
        seed=4, days=6, classes={"phone": (120, 300.0, 0.5)}, zones=("UTC",), night=(2 * HOUR, 0.5 * HOUR)
    )
    log_in(tmp_path, world.sessions())
    world.check_ins().write_csv(tmp_path / "checkins.csv")
    meant = {word: how for how, word in named(OUTCOMES).items()}
    log = read(tmp_path / "log.csv", columns=named(COLUMNS), outcomes=meant)
    trace = import_trace(tmp_path / "checkins.csv", base=log.base).trace
    made, alone = calibrate(log, trace), calibrate(log)
    low, high = made.evidence["phone"]["intervals"]["per_hour"]
    assert low < 0.5 < high
    assert made.scenario["population"][0]["session"]["fails"]["per_hour"] == pytest.approx(0.5, rel=0.2)
    assert (
        alone.scenario["population"][0]["session"]["fails"]["per_hour"] > 1.2 * made.evidence["phone"]["fails_per_hour"]
    )


def test_check_ins_that_are_missing_are_noticed(tmp_path: Path) -> None:
    world = Production(seed=5, days=2, classes={"phone": (100, 300.0, 0.5)}, zones=("UTC",))
    log_in(tmp_path, world.sessions())
    meant = {word: how for how, word in named(OUTCOMES).items()}
    log = read(tmp_path / "log.csv", columns=named(COLUMNS), outcomes=meant)
    for share, missing in ((1.0, False), (0.8, True)):
        world.check_ins().sample(fraction=share, seed=1).write_csv(tmp_path / "checkins.csv")
        _, said = _with_causes(log.table, log, import_trace(tmp_path / "checkins.csv", base=log.base).trace)
        assert ("of the sessions begin outside of all check-ins of their device" in " ".join(said)) == missing


def test_hours_of_eighty_logs(tmp_path: Path) -> None:
    """Of 60 logs without an effect at most 6 are below 0.05 (more by chance: 3 %), of 20 with one 18 at least.

    Where rounds close early those that reported were compared, and 10 of 24 logs without an effect were below 0.05.
    """
    none, planted = (chances(tmp_path, *each) for each in ((range(100, 160), 1.0), (range(160, 180), 1.4)))
    assert sum(p < 0.05 for p in none) <= 6
    assert sum(p < 0.05 for p in planted) >= 18


def chances(folder: Path, seeds: range, slower: float) -> list[float]:
    """Return what the test of hours gives for logs in which sessions take so many times as long by night."""
    found = []
    planted = {
        "classes": {"phone": (150, 200.0, 0.5)},
        "zones": ("UTC",),
        "fails_per_hour": 0.1,
        "night": (11 * HOUR, HOUR),
    }
    for seed in seeds:
        log = production(folder, seed=seed, days=2, slower_by_night=slower, cohort=7, wanted=14, **planted)
        table = log.table.with_columns(
            length_s=pl.col("ended_s") - pl.col("selected_s"), whole=pl.col("how") == "reported"
        )
        found.append(by_hour(table, log.base, None)["p"] or 1.0)
    return found


def test_how_much_persons_differ_is_estimated() -> None:
    """Of charging it kept its default."""
    draws = np.random.default_rng(1)
    for spread in (0.0, 0.8, 1.6):
        score = 0.4 * np.sqrt(1 + spread**2) + spread * draws.normal(size=2000)
        nights = np.full(2000, 8)
        from scipy.special import ndtr

        found = _spread(draws.binomial(nights, ndtr(score)), nights, float(ndtr(0.4)))
        assert found == pytest.approx(spread, abs=0.12)


EVENTS = "2020-01-01 00:00:00\t{}\n2020-01-01 06:00:00\tscreen_off\n2020-01-01 12:00:00\tbattery_charged_on\n"
EVENTS += "2020-01-01 18:00:00\tbattery_charged_off\n2020-01-02 00:00:00\tscreen_on\n"


def test_a_condition_that_is_never_on_is_none_that_nobody_asks_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(EVENTS.format("4g"))
    trace = import_trace(tmp_path / "a.txt").trace
    assert {name: len(spans.who) for name, spans in trace.spans.items()} == {"charging": 1, "network": 0, "idle": 1}
    for name in ("t.csv", "t.parquet"):
        write_trace(tmp_path / name, trace)
        done = fedsim("trace", "show", tmp_path / name, "--base", "2020-01-01T00:00:00Z")
        assert "available 0.0% of the time" in done.stdout, done.stderr
    assert "network" in read_rows(tmp_path / "t.csv").names or import_trace(tmp_path / "t.csv").trace.spans["network"]


def test_before_its_first_event_a_condition_is_unknown(tmp_path: Path) -> None:
    """Charging is known from 12:00 on: for half of the twelve hours since. All 24 hours counted."""
    (tmp_path / "a.txt").write_text(EVENTS.format("wifi"))
    trace = import_trace(tmp_path / "a.txt").trace
    assert trace.seen is not None
    assert trace.seen[0, :2].tolist() == [12 * HOUR, DAY]
    write_trace(tmp_path / "t.csv", trace)
    done = fedsim("trace", "show", tmp_path / "t.csv", "--base", "2020-01-01T00:00:00Z")
    assert "available 50.0% of the time that they were observed" in done.stdout, done.stderr


def test_after_a_phone_was_off_conditions_are_unknown_again(tmp_path: Path) -> None:
    """Off from 6:00 to 8:00, when it goes on; that it charges is known at 12:00, and the Wi-Fi at 20:00.

    Twelve of the sixteen hours that count were on. It counted as off from 8:00 to 20:00, and was on half of the time.
    """
    days = "2020-01-01 {}\twifi\n2020-01-01 {}\tbattery_charged_on\n"
    text = days.format("00:00:00", "00:00:00") + "2020-01-01 06:00:00\tphone_off\n2020-01-01 08:00:00\tphone_on\n"
    text += days.format("20:00:00", "12:00:00") + "2020-01-02 02:00:00\tbattery_charged_off\n"
    (tmp_path / "a.txt").write_text(text + "2020-01-02 04:00:00\tbattery_low\n")
    trace = import_trace(tmp_path / "a.txt").trace
    unknown = trace.spans["unknown"]
    assert (unknown.starts_s.tolist(), unknown.ends_s.tolist()) == ([8 * HOUR], [20 * HOUR])
    write_trace(tmp_path / "t.csv", trace)
    done = fedsim("trace", "show", tmp_path / "t.csv", "--base", "2020-01-01T00:00:00Z")
    assert "available 75.0% of the time that they were observed" in done.stdout, done.stderr
    assert "conditions: charging, network; required" in done.stdout
    pattern = build_pattern(trace, START, repeat="none")
    lengths = lengths_on_and_off(pattern.spans, pattern.seen)
    assert (lengths["on"].whole.tolist(), lengths["off"].cut.tolist()) == ([], [2 * HOUR, 2 * HOUR])


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsim.traces.table_form._LARGEST_PACKED", 1000)
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(plain().write_csv().encode()))
    with pytest.raises(TraceError, match="unpacks to more than"):
        read(tmp_path / "log.csv.gz", **BASE)


@pytest.mark.parametrize(("deadline", "expired"), [(300.0, True), (9000.0, False)])
def test_a_deadline_is_read_from_rounds_that_are_cut_at_one_length(
    tmp_path: Path, deadline: float, expired: bool
) -> None:
    """They counted as rounds that had their reports, of a server without a deadline."""
    planted = Production(seed=4, days=3, deadline=deadline, pause=90.0, cohort=6, wanted=9)
    late = pl.col("status") == "late"
    table = planted.sessions().with_columns(
        pl.when(late).then(pl.col("begin") + deadline).otherwise("end").alias("end"),
        pl.when(late).then(pl.lit("closed")).otherwise("status").alias("status"),
    )
    meant = {word: how for how, word in named(OUTCOMES).items()}
    log = read(log_in(tmp_path, table), columns=named(COLUMNS), outcomes=meant)
    server, told = server_of(log)
    assert server["cohort"] == 6
    assert server.get("deadline_s") == (deadline if expired else None)
    assert any(line.startswith("deadline 5m: rounds were cut") for line in told) == expired
    rounds = rounds_told(log, server)
    reports = table.group_by("round").agg((pl.col("status") == "ok").sum()).sort("round")["status"].to_numpy()
    full = rounds["outcome"].to_numpy() == "target"
    assert (full == (reports >= 6)).all()
    assert (rounds.filter(outcome="deadline").height > 50) == expired


def test_sessions_that_all_take_as_long_have_no_deadline(tmp_path: Path) -> None:
    """The longest rounds are equally long, and have their reports."""
    log = production(tmp_path, seed=4, days=3, deadline=9000.0, cohort=6, wanted=9, classes={"p": (200, 60.0, 1e-9)})
    server, _ = server_of(log)
    assert (server["cohort"], "deadline_s" in server) == (6, False)
    log = replace(log, table=log.table.filter(pl.int_range(pl.len()) % 20 > 0))  # some sessions are not in the log
    assert "deadline_s" not in server_of(log)[0]
