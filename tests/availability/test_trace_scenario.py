"""Traces in scenarios and on the command line."""

import json
import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim import simulate
from fedsim.availability import availability_models, available_at, between, intervals
from fedsim.availability.population import strata
from fedsim.availability.trace import RecordedAvailability
from fedsim.common.errors import ScenarioError
from fedsim.common.keyed import Purpose, stream
from fedsim.population import build_population
from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log
from tests.command import fedsim
from tests.conftest import Load, Write

STUDY = Path("scenarios/studies/trace-replay.fedsim.yaml")
HOUR = 3600.0


def case(write: Write, tmp_path: Path, keys: str = "", devices: int = 3, rows: str = "a,0,9\nb,5,20\n") -> Path:
    (tmp_path / "t.csv").write_text("device,start_s,end_s\n" + rows)
    return write(
        f"""\
        stop: {{rounds: 5}}
        population:
          - devices: {devices}
            availability: {{kind: trace, file: t.csv, base: 2020-01-31T00:00:00Z{keys}}}
        server: {{cohort: 1}}
        """
    )


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        (", bas: 1", ":4:74: error: population[0].availability.bas: unknown key; did you mean 'base'?"),
        (", repeat: month", "must be one of 'week', 'day', 'device' or 'none', not 'month'"),
        (", repeat: weekly", "did you mean 'week'?"),
        (", assign: without", "not 'without'"),
        (", require: [charging]", "t.csv: has no intervals of the condition 'charging'; it has available"),
        (", require: [idle, idle]", "availability.require: has 'idle' twice"),
        (", require: []", "availability.require"),
        (", since: 8h, until: 7h", "`since` must be before `until`"),
        (", until: 30", "needs a unit: write 30s, 30m or 30h, not 30"),
        (", since: 1d", "before the part that is used begins"),
        (", time_zone: Berlin", "unknown time zone 'Berlin'; did you mean 'Europe/Berlin'?"),
        (", policy: strict", "has faults, and the policy is strict: 1 interval of zero length, dropped"),
        (
            ", assign: without_replacement",
            "availability.assign: 3 clients cannot have a device each: the trace has 2 that can be assigned",
        ),
        (", assign: in_order", "3 clients cannot have a device each"),
    ],
)
def test_mistakes_have_places(write: Write, tmp_path: Path, keys: str, complaint: str) -> None:
    path = case(write, tmp_path, keys, rows="a,0,9\nb,5,20\nb,7,7\n")
    with pytest.raises(ScenarioError) as caught:
        preflight(Scenario.load(path))
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{path}:4:")
    assert complaint in line


@pytest.mark.parametrize(
    ("base", "complaint"),
    [
        ("2020-01-31", "does not say in which zone"),
        ("1580428800", "must be an instant with a zone"),
        ("9990-01-01T00:00:00Z", "must lie between 1900 and 2200"),
    ],
)
def test_the_base_is_an_instant(write: Write, base: str, complaint: str) -> None:
    path = write(
        f"""\
        stop: {{rounds: 5}}
        population: [{{devices: 2, availability: {{kind: trace, file: none.csv, base: {base}}}}}]
        server: {{cohort: 1}}
        """
    )
    with pytest.raises(ScenarioError, match=complaint):
        Scenario.load(path)


def test_a_file_that_is_not_there(write: Write) -> None:
    path = write(
        """\
        stop: {rounds: 5}
        population: [{devices: 2, availability: {kind: trace, file: none.csv, base: 2020-01-31T00:00:00Z}}]
        server: {cohort: 1}
        """
    )
    done = fedsim("validate", path)
    assert (done.returncode, done.stdout) == (2, "")
    place = f"{path}:2:61: error: population[0].availability.file: there is no file"
    assert done.stderr.startswith(place)


def test_groups_share_the_deal_of_one_trace(write: Write, tmp_path: Path) -> None:
    """Two groups with the same trace without replacement never hold the same device."""
    (tmp_path / "t.csv").write_text("device,start_s,end_s\n" + "".join(f"d{n},0,{n + 1}\n" for n in range(5)))
    group = "devices: {}, availability: {{kind: trace, file: t.csv, base: 2020-01-31T00:00:00Z, assign: {}}}"

    def scenario(first: int, second: int, assign: str) -> Scenario:
        groups = "".join(f"\n  - {{name: g{n}, {group.format(n, assign)}}}" for n in (first, second))
        return Scenario.load(write(f"stop: {{rounds: 5}}\nserver: {{cohort: 1}}\npopulation:{groups}\n"))

    one, two = availability_models(scenario(3, 2, "without_replacement"))
    assert isinstance(one, RecordedAvailability)
    assert isinstance(two, RecordedAvailability)
    assert (one.first, one.taken, two.first, two.taken) == (0, 0, 3, 3)
    with pytest.raises(ScenarioError, match=r"3 clients \(after 4 of earlier groups\) cannot have .* trace has 5"):
        availability_models(scenario(4, 3, "without_replacement"))
    _, again = availability_models(scenario(4, 3, "with_replacement"))
    assert isinstance(again, RecordedAvailability)
    assert again.taken == 0


def test_what_was_repaired_is_told(write: Write, tmp_path: Path) -> None:
    path = case(write, tmp_path, ", repeat: day, until: 12h", rows="a,0,9\na,3,3\nb,90000,90001\n")
    (first, outside, second, third) = preflight(Scenario.load(path)).notes
    assert outside == "t.csv: 1 interval outside of the part that is used, left out"
    assert first == "t.csv: 2 intervals of 2 devices; 1 interval of zero length, dropped"
    assert second == "t.csv: 1 device is never available (available, within the part that is used)"
    assert third.startswith("t.csv: covers 0.5 of the 1 days that are repeated")
    done = fedsim("validate", path)
    assert (done.returncode, done.stdout) == (0, f"{path}: ok\n")
    assert f"{path}: note: {first}\n" in done.stderr
    done = fedsim("run", path, "--out", tmp_path / "run", "--set", "server.patience=400d", "--set", "stop.rounds=1")
    assert (done.returncode, "error: no report was taken" in done.stderr) == (3, True)  # the only session drops out
    assert f"note: {first}\n" in done.stderr


def test_a_new_file_is_read_anew(write: Write, tmp_path: Path) -> None:
    scenario = Scenario.load(case(write, tmp_path, ", assign: in_order", 2))
    preflight(scenario)
    (tmp_path / "t.csv").write_text("device,start_s,end_s\nonly,0,9999\n")
    with pytest.raises(ScenarioError, match="the trace has 1 that can"):
        preflight(scenario)


def test_a_manifest_states_the_trace_as_it_was(write: Write, tmp_path: Path) -> None:
    scenario = Scenario.load(case(write, tmp_path, ", until: 7d, since: 0s, require: [available]"))
    written = scenario.model_dump(mode="json")
    assert Scenario.model_validate(written).population == scenario.population
    assert written["population"][0]["availability"]["until"] == "7d"


def test_the_study_replays_its_trace() -> None:
    """The process engine counts available, hour by hour, exactly the clients whose recorded phone says so."""
    scenario = Scenario.load(STUDY, ["stop.duration=16d"])
    population = build_population(scenario)
    gauges = simulate_log(scenario, population).gauges
    draws = stream(scenario.seed, 0, Purpose.AVAILABILITY)
    found = strata(scenario, population)
    for index, (model, place, (name, zone)) in enumerate(zip(found.models, found.places, found.names, strict=True)):
        clients, own = np.flatnonzero(found.of_client == index), gauges.filter(group=name, time_zone=zone)
        expected = [int(available_at(model, clients, t, place, draws).sum()) for t in own["time_s"]]
        assert own["available"].to_list() == expected
        hours = (own["time_s"].to_numpy() // HOUR + {"berlin": 1, "new-york": -4}[name]) % 24
        before_the_change = own["time_s"].to_numpy() < 12 * 24 * HOUR
        night, day = ((hours == hour) & before_the_change for hour in (2, 12))
        assert own["available"].to_numpy()[night].min() > 3 * own["available"].to_numpy()[day].max()


def test_the_studys_trace_is_what_its_script_makes() -> None:
    made = runpy.run_path(str(STUDY.with_name("phones_trace.py")))["phones"]()
    assert pl.read_parquet(STUDY.with_name("phones.parquet")).equals(made)
    assert STUDY.with_name("phones.parquet").stat().st_size < 300_000


@pytest.mark.long
def test_import_show_and_fit(tmp_path: Path) -> None:
    source, out = tmp_path / "in.json", tmp_path / "out.parquet"
    source.write_text(json.dumps({f"d{n}": [[3600 * n, 3600 * n + 7200], [5, 5]] for n in range(30)}))
    done = fedsim("trace", "import", source, "--out", out, "--base", "2020-01-31T00:00:00Z")
    assert (done.returncode, done.stdout) == (0, f"{out}\n")
    assert "30 intervals of 30 devices; 30 intervals of zero length, dropped" in done.stderr
    assert "{kind: trace, file: out.parquet, base: 2020-01-31T00:00:00Z}" in done.stderr
    done = fedsim("trace", "import", source, "--out", out, "--json")
    assert json.loads(done.stdout)["report"]["empty"] == 30
    done = fedsim("trace", "show", out, "--base", "2020-01-31T00:00:00Z", "--json")
    shown = json.loads(done.stdout)
    assert (shown["lap_days"], shown["covered_days"]) == (7, pytest.approx(31 / 24))
    assert shown["available_by_hour"][3] == pytest.approx(2 / 30)
    assert "of a lap of 7" in fedsim("trace", "show", out, "--base", "2020-01-31T00:00:00Z").stdout
    done = fedsim("trace", "fit", "scenarios/studies/phones.parquet", "--base", "2020-02-03T00:00:00Z", "--json")
    kinds_found = [found["availability"]["kind"] for found in json.loads(done.stdout)["fits"]]
    assert kinds_found == ["renewal", "habits"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["import", "README.md", "--out", "x.parquet"], "README.md:1:1: error: is neither CSV"),
        (["import", "none.json", "--out", "x.parquet"], "error: there is no file 'none.json'"),
        (["import", "README.md", "--out", "x.txt"], "must end in .parquet or .csv"),
        (["import", "README.md", "--out", "x.csv", "--format", "jsn"], "did you mean 'json'?"),
        (["import", "README.md", "--out", "x.csv", "--policy", "kind"], "must be one of repair, strict, lenient"),
        (["import", "README.md", "--out", "x.csv", "--base", "now"], "an instant with a zone"),
        (["import", "README.md", "--out", "x.csv", "--base", "1066-01-01T00:00:00Z"], "between 1900 and 2200"),
        (["show", "README.md", "--base", "2020-01-31T00:00:00Z"], "unknown column"),
        (["show", "README.md"], "Missing option '--base'"),
        (["fit", "README.md", "--base", "2020-01-31T00:00:00Z", "--kind", "habit"], "did you mean 'habits'?"),
        (["fit", "README.md", "--base", "2020-01-31T00:00:00Z", "--time-zone", "Paris"], "'Europe/Paris'?"),
    ],
)
def test_mistakes_on_the_command_line(arguments: list[str], complaint: str) -> None:
    done = fedsim("trace", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_the_clients_table_names_the_device_that_each_replays(write: Write, small: Load, tmp_path: Path) -> None:
    """`clients.parquet` names the device of the file that each client replays; only with a trace it has this column."""
    rows = "".join(f"d{n},0,{40_000 + n}\n" for n in range(9))
    path = case(write, tmp_path, ", repeat: day, assign: without_replacement", 4, rows=rows)
    result = simulate(Scenario.load(path))
    named = result.clients["device"].to_list()
    assert len({*named}) == 4
    living = strata(result.scenario, build_population(result.scenario))
    draws = stream(result.scenario.seed, 0, Purpose.AVAILABILITY)
    (model,), (place,) = living.models, living.places
    ends = [between(intervals(model, client, place, draws), 0.0, 80_000.0)[0][1] for client in range(4)]
    assert ends == [40_000 + int(name[1:]) for name in named]
    assert "device" not in simulate(small()).clients.columns
