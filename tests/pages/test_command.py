"""`fedsim report` and `fedsim compare --report`: formats, places, what is printed."""

from pathlib import Path

import pytest

from fedsim import Scenario, simulate
from fedsim.common.errors import RunError
from fedsim.pages import report_directories
from tests.command import fedsim
from tests.conftest import Load

from .runs import write_run
from .sweeps import write_sweep


def test_a_page_can_be_one_file(run_directory: Path, tmp_path: Path) -> None:
    assert report_directories([run_directory], "html", tmp_path / "deep" / "x.html") == [str(tmp_path / "deep/x.html")]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["x.html"]


@pytest.mark.long
def test_several_directories_get_folders_of_their_own(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name / "run", rounds=30) for name in ("a", "b")]
    sweep = write_sweep(tmp_path / "sweep", cohorts=(5,))
    written = report_directories([*runs, sweep], "html", tmp_path / "out")
    assert written == [str(tmp_path / "out" / name / "report.html") for name in ("run", "run-2", "sweep")] + [
        str(tmp_path / "out" / "index.html")
    ]
    listed = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert all(f'href="{name}/report.html"' in listed for name in ("run", "run-2", "sweep"))
    with pytest.raises(RunError, match="is one file, but there are 2"):
        report_directories(runs, "html", tmp_path / "one.html")


def test_a_summary_is_returned_or_written(run_directory: Path, tmp_path: Path) -> None:
    (text,) = report_directories([run_directory], "md", None)
    assert text.startswith("### paper\\-synthetic (run)")
    assert report_directories([run_directory], "md", tmp_path / "x.md") == [str(tmp_path / "x.md")]
    assert (tmp_path / "x.md").read_text(encoding="utf-8") == text + "\n"
    assert report_directories([run_directory], "md", tmp_path / "out") == [str(tmp_path / "out" / "report.md")]


@pytest.mark.long
def test_the_command_line(run_directory: Path, tmp_path: Path) -> None:
    done = fedsim("report", run_directory, "--out", tmp_path / "x.html")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'x.html'}\n"), done.stderr
    assert fedsim("report", run_directory, "--format", "md").stdout.startswith("### ")
    missing = fedsim("report", tmp_path / "nowhere")
    assert missing.returncode == 2
    assert missing.stderr == f"error: {tmp_path / 'nowhere'}: no such run directory\n"


@pytest.mark.long
def test_compare_writes_a_report_when_asked(tmp_path: Path) -> None:
    first, second = write_run(tmp_path / "a", rounds=30), write_run(tmp_path / "b", rounds=40)
    done = fedsim("compare", first, second, "--report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Report: comparisons/a-b/report.html" in done.stderr
    assert (tmp_path / "comparisons" / "a-b" / "report.html").exists()
    fedsim("compare", first, second, "--out", tmp_path / "x.html")
    assert (tmp_path / "x.html").exists()


def test_a_result_shows_itself(small: Load, tmp_path: Path) -> None:
    result = simulate(small())
    page = result.report(tmp_path / "page.html")
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".yaml"] == ["page.html"]
    fragment = result._repr_html_()
    assert fragment.startswith('<div class="fedsim-result">')
    assert "<svg" in fragment
    assert "<script" not in fragment


def test_a_hostile_name_is_text_in_a_notebook() -> None:
    data = {"name": "<script>alert(1)</script>", "stop": {"rounds": 3}, "population": [{"devices": 3}]}
    scenario = Scenario.model_validate(data | {"server": {"cohort": 1}})
    assert "&lt;script&gt;" in simulate(scenario)._repr_html_()
