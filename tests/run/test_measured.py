"""A log measured: the facts of the run that it is of, as far as a log tells them, for all that reads runs."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fedsim as package
from fedsim.pages.checks import checks_of
from tests.command import fedsim
from tests.production import COLUMNS, OUTCOMES, Production, log_in, stamped

BASE = ("--base", "2026-01-05T00:00:00Z")
NEEDS_CLIENTS = (
    "participation.tv_uniform",
    "participation.never_share",
    "participation.gini",
    "group.a.reported_ratio",
)
SCENARIO = """
stop: {duration: 6d}
population:
  - {name: a, devices: 50, time_zone: Europe/Berlin, availability: {kind: habits, require: [charging]}}
  - {name: b, devices: 30, weight: {kind: lognormal, sigma: 0.5, median: 100}, time_zone: Asia/Kolkata,
     availability: {kind: habits, require: [charging]}, separation: 1}
server: SERVER
""".replace(
    "availability:",
    "session: {train: {kind: lognormal, median: 8m, sigma: 0.5}, fails: {per_hour: 0.5}}, availability:",
)
SERVERS = {
    "sync": "{cohort: 5, over_select: 1.4, deadline: 14m, pause: 40m, shortage: proceed}",
    "buffered": "{mode: buffered, concurrency: 4, buffer: 5, deadline: 20m}",
}


@pytest.fixture(scope="module", params=SERVERS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    text = SCENARIO.replace("SERVER", SERVERS[request.param])
    (folder / "a.fedsim.yaml").write_text(text)
    done = fedsim("run", folder / "a.fedsim.yaml", "--out", folder / "run", "-q", "--no-page")
    assert done.returncode == 0, done.stderr
    done = fedsim("export", folder / "run", "--to", "csv", "--out", folder)
    assert done.stdout.split() == [str(folder / f"{name}.csv") for name in ("log", "clients", "rounds")]
    return folder


def test_a_run_and_its_log_have_the_same_facts(exported: Path, no_charts: None) -> None:
    with_all = ("--clients", exported / "clients.csv", "--rounds", exported / "rounds.csv", "--set", "stop.duration=6d")
    done = fedsim("measure", exported / "log.csv", *BASE, *with_all, "--out", exported / "log")
    assert done.returncode == 0, done.stderr
    run, log = package.load(exported / "run"), package.load(exported / "log")
    assert log.rounds.equals(run.rounds)
    assert log.participations.equals(run.participations)
    beside = ("population", "availability", "theory", "by_availability")
    told = {key: value for key, value in run.metrics.items() if not any(each in key for each in beside)}
    assert told.keys() == log.metrics.keys()
    assert log.metrics == pytest.approx(told, rel=1e-9, abs=1e-9, nan_ok=True)
    assert run.series["reports"].equals(log.series["reports"])


def test_without_a_roster_what_needs_all_clients_is_null_and_said(exported: Path) -> None:
    assert fedsim("measure", exported / "log.csv", *BASE, "--out", exported / "bare", "-q").returncode == 0
    run, log = package.load(exported / "run"), package.load(exported / "bare")
    assert all(key not in log.known for key in NEEDS_CLIENTS)
    assert log.fact("participation.tv_uniform") == dict.fromkeys(log.facts.columns) | {
        "key": "participation.tv_uniform"
    }
    assert log.known["sessions.reported_share"] == run.known["sessions.reported_share"]
    assert log.known["participation.most"] == run.known["participation.most"]
    page = (exported / "bare/report.html").read_text(encoding="utf-8")
    assert "Clients that never came are not known" in page
    assert "Which clients were eligible is not known" in page
    halves = re.findall("the half that reported least gave ([0-9.]+)\\s% of them .([0-9.]+)\\s% by equal", page)
    assert 0 < float(halves[0][0]) < float(halves[0][1]) < 50
    assert "When sessions begin" in page
    assert "When devices are available" not in page
    measures, calibrates = dict.fromkeys(each.command for each in checks_of(log) if each.command)
    assert measures.startswith("fedsim measure ")
    assert " --clients all-clients.csv --rounds rounds.csv --check-ins check-ins.csv" in measures
    assert calibrates.startswith("fedsim calibrate ")
    compared = fedsim("compare", exported / "bare", exported / "run")
    assert compared.returncode == 0, compared.stderr
    assert "availability.kind" not in compared.stdout + compared.stderr


def test_a_log_is_replayed_with_its_limits_and_its_lock(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsim.ci.replay.LocalProcesses", ThreadPoolExecutor)
    text = "log: {file: log.csv, base: 2026-01-05T00:00:00Z}\nexpect: [sessions.reported_share LIMIT]\n"
    text += "drift: {figures: [reports.per_day], fingerprint: [participations]}\n"
    file = exported / "log.fedsim.yaml"
    file.write_text(text.replace("LIMIT", "> 0.1"))
    assert fedsim("validate", file).returncode == 0
    assert fedsim("run", file, "--out", exported / "none", "--no-page").returncode == 0
    assert not (exported / "none" / "report.html").exists()
    assert fedsim("replay", file, "--update").returncode == 0
    assert fedsim("replay", file, "--locked").returncode == 0
    table = pl.read_csv(exported / "log.csv")
    table.head(len(table) // 2).write_csv(exported / "log.csv")
    assert fedsim("replay", file).returncode == 1
    table.write_csv(exported / "log.csv")
    file.write_text(text.replace("LIMIT", "> 0.999"))
    assert fedsim("replay", file).returncode == 1
    done = fedsim("plan", file)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


def test_a_log_of_another_system_has_classes_and_zones(tmp_path: Path) -> None:
    table = Production(seed=1, days=5).sessions()
    named = f"{COLUMNS},round=round"
    done = fedsim(
        "measure", log_in(tmp_path, table), "--columns", named, "--outcomes", OUTCOMES, "--out", tmp_path / "run"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("times: dates with a zone\n")
    run = package.load(tmp_path / "run")
    assert {*run.clients["group"]} == {"phone", "tablet", "old"}
    assert run.clients["time_zone"].n_unique() == 3
    assert run.known["sessions.count"] == len(table)
    assert run.known["rounds.count"] == table["round"].n_unique()
    shares = run.clients.group_by("group").agg(pl.col("participations").sum()).sort("group")["participations"]
    assert shares.to_list() == table.group_by("model").len().sort("model")["len"].to_list()
    bare = table.drop("round")
    stamped(bare).write_csv(tmp_path / "bare.csv")
    columns = ("--columns", COLUMNS, "--outcomes", OUTCOMES)
    assert fedsim("measure", tmp_path / "bare.csv", *columns, "--out", tmp_path / "bare", "-q").returncode == 0
    assert not {"rounds.count", "updates.per_day"} & package.load(tmp_path / "bare").known.keys()


def test_with_check_ins_a_log_tells_who_was_eligible(tmp_path: Path) -> None:
    """The same as the run that it is of, whose devices were there when the check-ins say so."""
    draws, rows = np.random.default_rng(1), []
    for device in range(80):
        edges = np.cumsum(draws.integers(1800, 6 * 3600, 80)).tolist()
        rows += [(str(device), begin, end) for begin, end in zip([0, *edges[1::2]], edges[::2], strict=False)]
    pl.DataFrame(rows, schema=["device", "start_s", "end_s"], orient="row").write_csv(tmp_path / "there.csv")
    there = "{kind: trace, file: there.csv, assign: in_order, repeat: none, base: 2026-01-05T00:00:00Z}"
    text = SCENARIO.replace("SERVER", SERVERS["sync"]).replace("{kind: habits, require: [charging]}", there)
    for part in (", separation: 1", ", time_zone: Europe/Berlin", ", time_zone: Asia/Kolkata"):
        text = text.replace(part, "")
    text = text.replace("duration: 6d}", "duration: 3d}\nrecords: {eligible: true}")
    (tmp_path / "a.fedsim.yaml").write_text(text)
    done = fedsim("run", tmp_path / "a.fedsim.yaml", "--out", tmp_path / "run", "-q", "--no-page")
    assert done.returncode == 0, done.stderr
    assert fedsim("export", tmp_path / "run", "--to", "csv", "--out", tmp_path).returncode == 0
    all_of_it = [x for n in ("clients", "rounds") for x in (f"--{n}", tmp_path / f"{n}.csv")]
    checks = ["--check-ins", tmp_path / "there.csv", "--set", "stop.duration=3d"]
    done = fedsim("measure", tmp_path / "log.csv", *BASE, *all_of_it, *checks, "--out", tmp_path / "log")
    assert done.returncode == 0, done.stderr
    run, log = package.load(tmp_path / "run"), package.load(tmp_path / "log")
    assert log.rounds.equals(run.rounds)
    counts = ["time_s", "group", "time_zone", "available", "eligible", "in_session"]
    assert log.gauges.select(counts).equals(run.gauges.select(counts))
    told = {key: value for key, value in run.metrics.items() if "theory" not in key}
    assert log.metrics == pytest.approx(told, rel=1e-9, abs=1e-9, nan_ok=True)
    page = (tmp_path / "log/report.html").read_text(encoding="utf-8")
    assert "eligible" not in page.partition("<main")[0]
    assert "does not tell who was eligible" not in page
    table = pl.read_csv(tmp_path / "there.csv").rename({"start_s": "from", "end_s": "to"})
    table.write_csv(tmp_path / "there.csv")
    done = fedsim("measure", tmp_path / "log.csv", *BASE, *checks, "--out", tmp_path / "other", "-q")
    assert (done.returncode, "--check-in-columns start=NAME" in done.stderr) == (2, True), done.stderr
    named = ("--check-in-columns", "start=from,end=to")
    done = fedsim("measure", tmp_path / "log.csv", *BASE, *checks, *named, "--out", tmp_path / "other", "-q")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("roster", "complaint"),
    [
        ("client\n0\n0\n", "clients.csv: error: has client '0' twice"),
        ("client\nx\n", "clients.csv: error: lacks 3 clients of the log, such as '0'"),
        ("name\nx\n", "clients.csv: error: has no column 'client'; it has name"),
    ],
)
def test_a_roster_has_every_client_once(tmp_path: Path, roster: str, complaint: str) -> None:
    (tmp_path / "clients.csv").write_text(roster)
    (tmp_path / "log.csv").write_text("client,selected_s,ended_s,outcome\n0,1,2,reported\n1,3,4,reported\n2,5,6,late\n")
    done = fedsim(
        "measure", tmp_path / "log.csv", *BASE, "--clients", tmp_path / "clients.csv", "--out", tmp_path / "run"
    )
    assert (done.returncode, complaint in done.stderr) == (2, True), done.stderr
