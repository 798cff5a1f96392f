"""What a run directory lacks is said, with the file's name."""

from pathlib import Path

import pytest

from fedsim.common.errors import RunError
from fedsim.pages import write_report
from fedsim.run.files import Provenance
from fedsim.run.load import load_one
from fedsim.run.simulate import record
from tests.conftest import Load

from .runs import SCENARIO, rewrite, write_manifest, write_metrics


def test_a_table_without_a_column_says_which(run_directory: Path) -> None:
    rewrite(run_directory / "rounds.parquet", lambda rounds: rounds.drop("outcome", "late"))
    with pytest.raises(RunError, match=r"rounds\.parquet is not the table that the run wrote: it lacks late, outcome"):
        write_report(run_directory)


def test_a_manifest_that_no_run_wrote(run_directory: Path) -> None:
    write_manifest(run_directory, name=None)
    with pytest.raises(RunError, match=r"manifest\.json is not the manifest of a run: .*its name is not text"):
        write_report(run_directory)
    (run_directory / "manifest.json").write_text("[]")
    with pytest.raises(RunError, match=r"manifest\.json holds no JSON object"):
        write_report(run_directory)


def test_a_scenario_with_components_of_one_s_own_is_read_without_their_code(run_directory: Path) -> None:
    learning = SCENARIO["learning"] | {"optimizers": [{"kind": "nowhere:Optimizer", "rate": 3}]}
    write_manifest(run_directory, scenario=SCENARIO | {"learning": learning, "metrics": ["nowhere:Metric"]})
    run = load_one(run_directory)
    assert run.wanted == 5
    assert run.scenario.learning is not None
    assert run.scenario.learning.optimizers[0].kind == "nowhere:Optimizer"


def test_metrics_are_numbers(run_directory: Path) -> None:
    (run_directory / "metrics.json").write_text('{"rounds.count": "many"}')
    with pytest.raises(RunError, match=r"metrics\.json: rounds\.count is 'many', not a number"):
        write_report(run_directory)


def test_metrics_without_a_finite_value_are_left_out(run_directory: Path) -> None:
    write_metrics(run_directory, {"a": None, "b": float("nan"), "c": 1})
    known = load_one(run_directory).known
    assert {name: known[name] for name in ("a", "b", "c") if name in known} == {"c": 1.0}


@pytest.mark.long
def test_a_directory_that_cannot_be_written(run_directory: Path) -> None:
    (run_directory / "report.html").mkdir()
    with pytest.raises(RunError, match=r"report\.html cannot be written"):
        write_report(run_directory)


def test_the_page_of_a_run_is_what_its_directory_says(small: Load, tmp_path: Path) -> None:
    """A run draws it from what it has measured, a report from the files."""
    record(small("records.transitions=[1, 5]", "stop.rounds=20"), tmp_path / "run", Provenance())
    again = write_report(tmp_path / "run", tmp_path / "again.html")
    assert (tmp_path / "run" / "report.html").read_bytes() == again.read_bytes()
