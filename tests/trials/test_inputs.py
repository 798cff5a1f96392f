"""What a worker reads is what the driver has read: files, modules of one's own, the version; or the run fails."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from fedsim import sweep
from fedsim.common.errors import RunError
from fedsim.scenario import Scenario
from fedsim.trials.executors import Backend
from fedsim.trials.plan import plan_sweep
from fedsim.trials.sweep import Swept, run_sweep
from fedsim.trials.worker import Inputs, RunOutcome, Task, check_inputs, inputs_of, work
from tests.conftest import Write

MODULE = "own_of_sweeps"
TEXT = """\
stop: {rounds: 5}
population:
  - {devices: 3, weight: {kind: column, file: p.csv, column: p}}
server: {cohort: 2}
metrics: ["own_of_sweeps:Own"]
sweep: {seeds: 3}
"""
METRIC = """\
class Own:
    name = "own.value"
    unit = ""
    meaning = "a number"

    def measure(self, run):
        return NUMBER
"""
THREAD = Backend("thread", lambda: ThreadPoolExecutor(1), lambda _: 1)


@pytest.fixture
def file(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A scenario with a column and a metric of its own, which this process can import."""
    (tmp_path / "p.csv").write_text("p\n1\n2\n3\n")
    (tmp_path / f"{MODULE}.py").write_text(METRIC.replace("NUMBER", "1.0"))
    monkeypatch.syspath_prepend(tmp_path)
    yield write(TEXT)
    sys.modules.pop(MODULE, None)


def opened(file: Path) -> Scenario:
    return Scenario.load(file, allow_plugins=True)


def values(swept: Swept) -> list[float]:
    table = swept.results()
    return table.filter(table["metric"] == "own.value")["value"].to_list()


def test_a_module_that_was_changed_between_two_sweeps_is_imported_anew(file: Path, tmp_path: Path) -> None:
    """Workers that live on kept the old one, and its values were stored under new names."""
    for number in ("1.0", "2.0", "3.0"):  # of one length, and within a second
        (tmp_path / f"{MODULE}.py").write_text(METRIC.replace("NUMBER", number))
        assert values(run_sweep(plan_sweep(opened(file)), tmp_path / number, THREAD)) == [float(number)] * 3


@pytest.mark.long
@pytest.mark.parametrize("name", ["p.csv", f"{MODULE}.py"])
@pytest.mark.parametrize("how", ["changed", "gone"])
@pytest.mark.parametrize("when", ["before", "during"])
def test_what_is_changed_during_a_sweep_stores_nothing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str, when: str
) -> None:
    """A column that was edited was mixed into later points under the old hash."""
    from fedsim.run import simulate as run

    path, whole = tmp_path / name, (tmp_path / name).read_bytes()

    def spoil() -> None:
        path.unlink()
        if how == "changed":
            path.write_bytes(whole.replace(b"1", b"7"))

    simulate = run.simulate

    def job(task: Task) -> RunOutcome:
        if task.scenario.seed == 1 and when == "before":
            spoil()
        return work(task)

    def simulated(scenario: Scenario, **more: object) -> object:
        result = simulate(scenario, **more)  # type: ignore[arg-type]
        if scenario.seed == 1 and when == "during":
            spoil()
        return result

    monkeypatch.setattr(run, "simulate", simulated)
    said: list[str] = []
    swept = run_sweep(plan_sweep(opened(file)), tmp_path / "s", THREAD, retries=0, do=job, tell=said.append)
    what = f"the module {MODULE}" if name.endswith(".py") else str(path)
    words = f"reads another content of {what} than" if how == "changed" else f"does not find {what}, which"
    assert [words in line and "the worker " in line for line in said] == [True, True]  # seeds 1 and 2
    assert (len(swept.crashed), values(swept)) == (2, [1.0])
    path.write_bytes(whole)
    monkeypatch.undo()
    monkeypatch.syspath_prepend(tmp_path)
    assert values(run_sweep(plan_sweep(opened(file)), tmp_path / "s", THREAD)) == [1.0] * 3


def test_versions_are_compared(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver of 9.9.9 with workers of another version completed all runs."""
    check_inputs(Inputs())
    with pytest.raises(RunError, match=r"the worker .*:\d+ has fedsim .*, and the sweep 9\.9\.9; install the same"):
        check_inputs(Inputs(version="9.9.9"))
    plan = plan_sweep(opened(file))
    plan = replace(plan, points=[replace(point, inputs=Inputs(version="9.9.9")) for point in plan.points])
    assert len(run_sweep(plan, tmp_path / "s", THREAD, retries=0).crashed) == 3


def test_a_folder_of_files_counts(write: Write, tmp_path: Path) -> None:
    learning = "learning: {problem: {kind: softmax_regression, data: {kind: mnist, path: idx}}, optimizers: [fedavg], "
    scenario = Scenario.load(write(f"{TEXT.partition('metrics')[0]}{learning}step_size: 0.1}}\n"))
    (tmp_path / "idx").mkdir()
    found = []
    for content in ("a", "b"):
        (tmp_path / "idx" / "train").write_text(content)
        found.append(inputs_of(scenario).files)
    assert list(found[0]) == list(found[1]) == [str(tmp_path / "idx")]
    assert found[0] != found[1]


def test_a_run_ends_when_its_mark_is_taken_away(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the driver does with those of a sweep that was interrupted."""
    folder = tmp_path / "s"
    (folder / "runs").mkdir(parents=True)
    plan = plan_sweep(opened(file))
    task = Task("one", plan.scenario_of(plan.runs[0]), str(folder), (), plan.points[0].inputs)
    assert work(task) == RunOutcome()
    assert [path.name for path in (folder / "runs").iterdir()] == ["one.parquet"]
    monkeypatch.setattr(
        "fedsim.trials.worker.import_afresh", lambda _: (folder / "runs" / ".two.begun.partial").unlink()
    )
    assert work(replace(task, run_id="two")) == RunOutcome("ended by the driver of the sweep")
    assert [path.name for path in (folder / "runs").iterdir()] == ["one.parquet"]


def test_a_worker_that_does_not_share_the_folder_says_so(file: Path, tmp_path: Path) -> None:
    plan = plan_sweep(opened(file))
    outcome = work(Task("one", plan.scenario_of(plan.runs[0]), str(tmp_path / "elsewhere")))
    assert "the worker " in outcome.error
    assert "elsewhere, which it must share: No such file or directory" in outcome.error


def test_a_sweep_from_python_runs_code_that_its_scenario_may(file: Path, tmp_path: Path) -> None:
    swept = sweep(opened(file), tmp_path / "s", executor="concurrent.futures:ThreadPoolExecutor", timeout=60.0)
    assert values(swept) == [1.0] * 3
