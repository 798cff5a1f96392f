"""A run directory read back is the result that was written there, or an error that names the file."""

import json
import math
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import fedsim
from fedsim import Result, RunError, Scenario, ScenarioError
from fedsim.bridges.exports import export_perfetto, schedule_of
from fedsim.common.json_files import checksum
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.log import _of_0_2 as of_0_2
from fedsim.pages.page import answer_of
from fedsim.run.files import SCHEMAS, Provenance
from fedsim.run.preflight import preflight
from fedsim.run.privacy import check_log
from fedsim.run.simulate import record
from tests.conftest import Load
from tests.scenarios import buffered_scenarios, scenarios

LEARNING = "learning={problem: quadratic, optimizers: [fedavg], step_size: 0.1}"


def same(one: Result, other: Result) -> None:
    assert (one.scenario, one.replicate, one.simulated_s) == (other.scenario, other.replicate, other.simulated_s)
    assert one.tables.keys() == other.tables.keys()
    for name, table in one.tables.items():
        assert_frame_equal(table, other.tables[name], check_exact=True)
    assert list(one.metrics) == list(other.metrics)
    for name, value in one.metrics.items():
        assert value == other.metrics[name] or (math.isnan(value) and math.isnan(other.metrics[name])), name


@settings(max_examples=15)
@given(st.one_of(scenarios(), buffered_scenarios()), st.integers(0, 3))
def test_what_was_saved_is_loaded(tmp_path: Path, scenario: Scenario, replicate: int) -> None:
    try:
        result = fedsim.simulate(scenario, replicate=replicate)
    except fedsim.StalledError:
        return
    same(fedsim.load(result.save(tmp_path / "run")), result)


def test_what_was_recorded_is_loaded(small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsim.run.simulate.write_page", lambda _, page, **__: page)
    study = "theory.convergence={rounds: 20, separations: [0, 1]}"
    scenario = small(LEARNING, "records.transitions=[1]", study)
    record(scenario, tmp_path / "run", Provenance())
    found, result = fedsim.load(tmp_path / "run"), fedsim.simulate(scenario)
    assert {"learning", "transitions", "convergence"} <= found.tables.keys()
    same(found, result)
    assert [each.as_dict() for each in found.verdict] == [each.as_dict() for each in result.verdict]
    # ... and can be simulated again, and saved.
    same(fedsim.simulate(found.scenario), result)
    same(fedsim.load(found.save(tmp_path / "again")), result)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Keep the files of a run directory."""
    folder = tmp_path_factory.mktemp("run")
    population = [{"devices": 12, "separation": 2}]
    fedsim.simulate(
        Scenario.model_validate({"stop": {"rounds": 20}, "population": population, "server": {"cohort": 3}})
    ).save(folder)
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def refusal(folder: Path, files: dict[str, bytes]) -> str:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    with pytest.raises(RunError) as caught:
        fedsim.load(folder)
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["manifest.json", "metrics.json", "rounds.parquet", "participations.parquet", "clients.parquet"]
)
def test_a_missing_or_damaged_file_is_named(tmp_path: Path, kept: dict[str, bytes], name: str) -> None:
    others = {each: content for each, content in kept.items() if each != name}
    assert f"{tmp_path / name}: no such file" in refusal(tmp_path, others)
    for damaged in (b"", kept[name][: len(kept[name]) // 2], b"[]", kept[name][:-20] + bytes(20)):
        assert str(tmp_path / name) in refusal(tmp_path, others | {name: damaged})


def test_what_vouches_for_the_figures_cannot_be_left_out(tmp_path: Path, kept: dict[str, bytes]) -> None:
    manifest = json.loads(kept["manifest.json"])
    without = {key: value for key, value in manifest.items() if key != "checksums"}
    told = refusal(tmp_path, kept | {"manifest.json": json.dumps(without).encode()})
    assert told == f"{tmp_path / 'manifest.json'} is not the manifest of a run: KeyError: 'checksums'"
    told = refusal(tmp_path, kept | {"models.npz": b"PK"})
    assert told.startswith(f"{tmp_path / 'models.npz'} is not the file that the run wrote")


@pytest.mark.parametrize("name", ["manifest.json", "metrics.json"])
def test_json_that_is_nested_without_end_is_refused(tmp_path: Path, kept: dict[str, bytes], name: str) -> None:
    for depth in (120, 900, 100_000):
        deep = b'{"a": ' + b"[" * depth + b"]" * depth + b"}"
        assert refusal(tmp_path, kept | {name: deep}).startswith(f"{tmp_path / name} cannot be read: ")


def test_a_table_of_another_run_is_refused(tmp_path: Path, kept: dict[str, bytes]) -> None:
    told = refusal(tmp_path, kept | {"rounds.parquet": kept["gauges.parquet"]})
    assert told.startswith(f"{tmp_path / 'rounds.parquet'} is not the table that the run wrote")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"fingerprints": 3}, "is not the manifest of a run"),
        ({"replicate": None}, "is not the manifest of a run"),
        ({"scenario": []}, "cannot read"),
        ({"scenario": {"stop": {"rounds": 0}}}, "stop.rounds: must be at least 1, not 0"),
    ],
)
def test_a_manifest_that_is_none_is_refused(
    tmp_path: Path, kept: dict[str, bytes], changes: dict[str, object], told: str
) -> None:
    manifest = json.loads(kept["manifest.json"]) | changes
    manifest["checksums"]["manifest.json"] = checksum(manifest, "checksums", "wall_time_s")
    found = refusal(tmp_path, kept | {"manifest.json": json.dumps(manifest).encode()})
    assert found.startswith(str(tmp_path / "manifest.json"))
    assert told in found


def test_a_run_that_has_not_ended_is_told_apart(tmp_path: Path, kept: dict[str, bytes]) -> None:
    assert "is this a run directory?" in refusal(tmp_path, {})
    assert "has not ended" in refusal(tmp_path, {"rounds.parquet": kept["rounds.parquet"]})
    with pytest.raises(RunError, match="no such run directory"):
        fedsim.load(tmp_path / "nowhere")


def test_nothing_of_ones_own_is_imported_unless_it_is_allowed(
    small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "from fedsim.learning import FedAvg\nclass Own(FedAvg):\n    pass\n"
    (tmp_path / "an_own_optimizer.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("fedsim.run.simulate.write_page", lambda _, page, **__: page)
    small(LEARNING)
    own = LEARNING.replace("fedavg", "'an_own_optimizer:Own'")
    scenario = Scenario.load(tmp_path / "case.fedsim.yaml", [own], allow_plugins=True)
    folder = fedsim.simulate(scenario).save(tmp_path / "run")
    del sys.modules["an_own_optimizer"]
    found = fedsim.load(folder)
    assert found.scenario == scenario
    for use in (found.scenario, found.scenario.model_copy(update={"seed": 3})):
        with pytest.raises(ScenarioError, match="would run code"):
            fedsim.simulate(use)
    with pytest.raises(ScenarioError, match="would run code"):
        fedsim.participation_theory(found.scenario)
    assert "an_own_optimizer" not in sys.modules
    same(fedsim.simulate(fedsim.load(folder, allow_plugins=True).scenario), found)


def test_a_result_is_shown_on_a_screen(small: Load) -> None:
    shown = repr(fedsim.simulate(small(LEARNING)))
    lines = shown.splitlines()
    assert lines[0].startswith("<Result of 'case': 60 rounds, 12 clients, 180 participations, ")
    assert any("loss of fedavg" in line for line in lines)
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 120


def test_a_result_without_a_report_says_so_first(small: Load) -> None:
    sessions = "population=[{devices: 12, session: {train: 20m}}]"
    shown = repr(fedsim.simulate(small("server={cohort: 3, deadline: 10m}", sessions))).splitlines()
    assert shown[1] == "  error: all 180 sessions missed the 10 min deadline"


def test_a_directory_from_before_an_outcome_is_read(
    small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fedsim.simulate(small("stop.rounds=3")).save(tmp_path / "run")
    more = {**SCHEMAS["participations"], "outcome": pl.Enum([*SESSION_OUTCOMES, "refused"])}
    monkeypatch.setitem(SCHEMAS, "participations", more)
    assert len(fedsim.load(folder).participations) == 9


@pytest.mark.long
@pytest.mark.parametrize("server", ["{cohort: 3}", "{mode: buffered, buffer: 2, concurrency: 4}"])
def test_a_directory_of_0_2_is_still_read(small: Load, tmp_path: Path, server: str) -> None:
    """Its numbers had 64 bits, its outcomes were texts, and every log said version and staleness."""
    result = fedsim.simulate(small(f"server={server}", LEARNING, "records.transitions=[1]"))
    folder = result.save(tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    for name, table in result.tables.items():
        wide = table.with_columns(pl.col(pl.Int32).cast(pl.Int64), pl.col(pl.Enum).cast(pl.String))
        if name == "participations" and "version" not in wide.columns:
            wide = wide.with_columns(version="round", staleness=pl.lit(0, pl.Int64))
        wide.write_parquet(folder / f"{name}.parquet")
        manifest["fingerprints"][name] = of_0_2(wide)
    manifest["checksums"]["manifest.json"] = checksum(manifest, "checksums", "wall_time_s")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    found = fedsim.load(folder)
    for name, table in result.tables.items():
        assert_frame_equal(found.tables[name].select(table.columns), table, check_dtypes=False, categorical_as_str=True)
    assert found.participations["version"].equals(found.participations["round"].alias("version"))
    new = result.save(tmp_path / "new")
    assert schedule_of(found).equals(schedule_of(result).cast(schedule_of(found).schema))
    assert [check_log(each, {"rounds": 9, "min_separation": 2}) for each in (found, result)] == [
        check_log(result, {"rounds": 9, "min_separation": 2})
    ] * 2
    of_run, of_old = (answer_of(each) for each in (new, folder))
    assert (of_old.tiles, of_old.sentences, of_old.headline) == (of_run.tiles, of_run.sentences, of_run.headline)
    assert export_perfetto(folder, tmp_path / "old.json") == export_perfetto(new, tmp_path / "new.json")
    assert (tmp_path / "old.json").read_bytes() == (tmp_path / "new.json").read_bytes()
    again = found.save(tmp_path / "again")
    same(fedsim.load(again), found)
    (folder / "rounds.parquet").write_bytes((new / "rounds.parquet").read_bytes())
    with pytest.raises(RunError, match=r"its fingerprint in manifest\.json is another"):
        fedsim.load(folder)


@pytest.mark.parametrize(("over_select", "wanted", "most"), [("1", 3, 3), ("2", 6, 1)])
def test_a_convergence_that_cannot_be_is_told_first(small: Load, over_select: str, wanted: int, most: int) -> None:
    """It was told when the run was over; cohorts are those that are selected."""
    scenario = small("theory.convergence={rounds: 20, separations: [0, 9]}", f"server.over_select={over_select}")
    words = rf"separations\[1\]: 12 clients in cohorts of {wanted} can keep a separation of {most}"
    with pytest.raises(ScenarioError, match=words):
        preflight(scenario)
    with pytest.raises(ScenarioError, match="separations: has 0 twice"):  # its chart has a curve for each
        small("theory.convergence={rounds: 20, separations: [0, 1, 0]}")
