"""What a run directory lacks is said, with the file's name."""

from pathlib import Path

import pytest

from fedsim.common.errors import RunError
from fedsim.findings.finished_run import read_run
from fedsim.report import write_report
from fedsim.run.run_directory import Provenance
from fedsim.run.simulate import record
from tests.conftest import Load

from .runs import SCENARIO, rewrite, write_manifest, write_metrics

FILES = ("manifest.json", "rounds.parquet", "participations.parquet", "clients.parquet", "metrics.json")


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="nowhere: no such run directory"):
        write_report(tmp_path / "nowhere")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(run_directory: Path, name: str) -> None:
    (run_directory / name).unlink()
    with pytest.raises(RunError, match=f"{name}: no such file"):
        write_report(run_directory)
    assert not (run_directory / "report.html").exists()


@pytest.mark.parametrize("name", [*FILES, "learning.parquet"])
def test_an_unreadable_file_is_named(run_directory: Path, name: str) -> None:
    (run_directory / name).write_bytes(b"\xff\x00 not what it should be")
    with pytest.raises(RunError, match=f"{name}:? cannot be read"):
        write_report(run_directory)


def test_a_table_without_a_column_says_which(run_directory: Path) -> None:
    rewrite(run_directory / "rounds.parquet", lambda rounds: rounds.drop("outcome", "late"))
    with pytest.raises(RunError, match=r"rounds\.parquet: lacks the columns late, outcome"):
        write_report(run_directory)


def test_a_manifest_that_no_run_wrote(run_directory: Path) -> None:
    write_manifest(run_directory, name=None)
    with pytest.raises(RunError, match=r"manifest\.json: has no name"):
        write_report(run_directory)
    (run_directory / "manifest.json").write_text("[]")
    with pytest.raises(RunError, match=r"manifest\.json holds no JSON object"):
        write_report(run_directory)


@pytest.mark.parametrize(
    ("scenario", "complaint"),
    [
        (None, "its scenario cannot be read: "),
        ([1], "its scenario cannot be read: "),
        (SCENARIO | {"server": {"cohort": "five"}}, "its scenario cannot be read: .*server.cohort: must be a whole"),
        (SCENARIO | {"later": 1}, "its scenario cannot be read: .*later: unknown key"),
    ],
)
def test_a_scenario_that_this_version_does_not_know(run_directory: Path, scenario: object, complaint: str) -> None:
    write_manifest(run_directory, scenario=scenario)
    with pytest.raises(RunError, match=r"manifest\.json: " + complaint):
        write_report(run_directory)


def test_a_scenario_with_components_of_one_s_own_is_read_without_their_code(run_directory: Path) -> None:
    learning = SCENARIO["learning"] | {"optimizers": [{"kind": "nowhere:Optimizer", "rate": 3}]}
    write_manifest(run_directory, scenario=SCENARIO | {"learning": learning, "metrics": ["nowhere:Metric"]})
    run = read_run(run_directory)
    assert run.wanted == 5
    assert run.scenario.learning is not None
    assert run.scenario.learning.optimizers[0].kind == "nowhere:Optimizer"


def test_metrics_are_numbers(run_directory: Path) -> None:
    (run_directory / "metrics.json").write_text('{"rounds.count": "many"}')
    with pytest.raises(RunError, match=r"metrics\.json: rounds\.count is 'many', not a number"):
        write_report(run_directory)


def test_metrics_without_a_finite_value_are_left_out(run_directory: Path) -> None:
    write_metrics(run_directory, {"a": None, "b": float("nan"), "c": 1})
    assert read_run(run_directory).metrics == {"c": 1.0}


@pytest.mark.long
def test_a_directory_that_cannot_be_written(run_directory: Path) -> None:
    (run_directory / "report.html").mkdir()
    with pytest.raises(RunError, match=r"report\.html cannot be written"):
        write_report(run_directory)


def test_sessions_are_counted_by_their_end(run_directory: Path) -> None:
    assert dict(read_run(run_directory).gathered.outcomes.iter_rows()) == {"reported": 300}


def test_the_page_of_a_run_is_what_its_directory_says(small: Load, tmp_path: Path) -> None:
    """A run draws it from what it has gathered while it measured, a report from the table."""
    done = record(small("records.transitions=[1, 5]", "stop.rounds=20"), tmp_path / "run", Provenance())
    again = write_report(tmp_path / "run", tmp_path / "again.html")
    assert done.page.read_bytes() == again.read_bytes()
