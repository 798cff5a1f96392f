"""A sweep from its file to its results: resumed, merged, refused, interrupted, killed."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fedsim.common import progress
from fedsim.common.errors import RunError, SweepError
from fedsim.common.instants import readable_time
from fedsim.scenario import Scenario
from fedsim.trials import plan as planning
from fedsim.trials import store
from fedsim.trials.contrasts import differences
from fedsim.trials.executors import Backend, backend_of
from fedsim.trials.pilot import Estimate
from fedsim.trials.plan import plan_sweep
from fedsim.trials.results import read_results
from fedsim.trials.sweep import Swept, _Foreseen, run_sweep, sweep
from fedsim.trials.trials import Trials, merge_results
from fedsim.trials.worker import RunOutcome, Task, work
from tests.command import fedsim, fedsim_process
from tests.conftest import Load, Write
from tests.trials import jobs
from tests.trials.sweeping import (
    SLOW,
    SWEPT,
    THREADS,
    alive,
    children,
    command,
    done_here,
    results,
    run_files,
    session,
    started,
    until,
)


@pytest.fixture
def swept(write: Write) -> Path:
    return write(SWEPT)


def sweep_of(path: Path, folder: Path, backend: Backend | None = None, **options: object) -> Swept:
    plan = plan_sweep(Scenario.load(path))
    return run_sweep(plan, folder, backend or backend_of(THREADS, 2), **options)  # type: ignore[arg-type]


def test_every_run_is_done_once_and_as_it_would_be_alone(swept: Path, tmp_path: Path) -> None:
    done = fedsim("sweep", swept, "--out", tmp_path / "s", "--workers", 2, "--no-report")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 's'}\n"), done.stderr
    assert "sweeping: 100%" in done.stderr
    assert "9 of 9 runs complete, 0 of them from before; 0 crashed" in done.stderr
    assert len(run_files(tmp_path / "s")) == 9
    assert_frame_equal(results(tmp_path / "s"), done_here(Scenario.load(swept)))
    frame = read_results(tmp_path / "s")
    assert frame.columns == ["run_id", "point", "seed", "status", "population.*.separation", "metric", "value"]
    assert frame["population.*.separation"].dtype == pl.Int64
    assert set(frame["status"]) == {"complete"}
    assert "Report:" not in done.stderr
    assert not (tmp_path / "s" / "report.html").exists()


def test_a_sweep_ends_with_its_page_and_what_to_choose(swept: Path, tmp_path: Path) -> None:
    done = fedsim("sweep", swept, "--out", tmp_path / "s", "--executor", THREADS)
    assert done.returncode == 0
    page = (tmp_path / "s" / "report.html").read_text(encoding="utf-8")
    assert "3 seeds each" in page
    assert f"Report: {tmp_path / 's' / 'report.html'}" in done.stderr
    table = done.stderr.split("Settings: mean ± half of the 95 % interval:\n")[1].splitlines()
    assert table[0].split("  ")[0] == "R"
    assert "From uniform (TV, %)" in table[0]
    assert "pace" not in table[0].lower()  # it is the same at each
    assert [row.split()[0] for row in table[1:4]] == ["0", "1", "2"]  # none is significantly better
    assert table[3].split()[1] == "best"
    assert "the most even participation (" in done.stderr


def test_a_notebook_shows_the_finding_and_a_table(swept: Path, tmp_path: Path) -> None:
    shown = sweep_of(swept, tmp_path / "s")._repr_html_()
    assert shown.count("<svg") == 1
    assert "<thead>" in shown


def test_a_page_that_fails_costs_neither_results_nor_tables(
    swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Path:
        raise ValueError("no ink")

    monkeypatch.setattr("fedsim.pages.page.write_answer", fail)
    done = fedsim("sweep", swept, "--out", tmp_path / "s", "--executor", THREADS)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 's'}\n")
    assert f"no report: ValueError: no ink; fedsim report {tmp_path / 's'} makes it" in done.stderr
    assert "Settings: mean" in done.stderr
    assert len(run_files(tmp_path / "s")) == 9


def test_the_scenario_s_objective_is_told_at_the_end(write: Write, tmp_path: Path) -> None:
    objective = "decide: {maximize: participation.coverage, subject_to: [rounds.per_day >= 1]}\n"
    done = fedsim("sweep", write(SWEPT + objective), "--out", tmp_path / "s", "--executor", THREADS, "--no-report")
    assert "Took part (%)" in done.stderr.split("Settings, the best first")[1].splitlines()[1]


def test_sweep_json_says_what_was_swept(swept: Path, tmp_path: Path) -> None:
    sweep_of(swept, tmp_path / "s")
    about = json.loads((tmp_path / "s" / "sweep.json").read_text())
    assert about["parameters"] == ["population.*.separation"]
    assert about["points"][1] == {"point": 1, "values": {"population.*.separation": 1}}
    assert (about["seeds"], about["status"], len(about["runs"])) == ([0, 1, 2], "complete", 9)
    assert about["scenario"]["server"]["cohort"] == 3


def test_a_second_call_does_only_what_is_missing(swept: Path, tmp_path: Path) -> None:
    sweep_of(swept, tmp_path / "s")
    before = {path: path.stat().st_mtime_ns for path in run_files(tmp_path / "s")}
    lost, *rest = before
    lost.unlink()
    again = sweep_of(swept, tmp_path / "s")
    assert (again.runs, again.kept) == (9, 8)
    assert {path: path.stat().st_mtime_ns for path in rest} == {path: before[path] for path in rest}
    assert_frame_equal(results(tmp_path / "s"), done_here(Scenario.load(swept)))


@pytest.mark.long
def test_a_larger_sweep_keeps_the_runs_of_a_smaller_one(swept: Path, write: Write, tmp_path: Path) -> None:
    sweep_of(swept, tmp_path / "s")
    larger = write(SWEPT.replace("[0, 1, 2]", "[3, 2, 1]").replace("seeds: 3", "seeds: 4"), "larger.fedsim.yaml")
    assert sweep_of(larger, tmp_path / "s").kept == 6
    assert_frame_equal(results(tmp_path / "s"), done_here(Scenario.load(larger)))


def test_merged_results_are_the_same_and_count_as_done(swept: Path, tmp_path: Path) -> None:
    sweep_of(swept, tmp_path / "s")
    before = read_results(tmp_path / "s")
    merge_results(tmp_path / "s")
    assert run_files(tmp_path / "s") == []
    assert_frame_equal(read_results(tmp_path / "s"), before)
    options = ("--set", "sweep.seeds=4", "--compact", "--json", "--executor", THREADS, "--no-report")
    done = fedsim("sweep", swept, "--out", tmp_path / "s", *options)
    assert json.loads(done.stdout)["kept"] == 9
    assert run_files(tmp_path / "s") == []
    assert read_results(tmp_path / "s")["run_id"].n_unique() == 12


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("seal", [True, False])
def test_results_that_somebody_changed_are_refused_also_before_the_sweep_is_over(
    swept: Path, tmp_path: Path, whole: bool, seal: bool
) -> None:
    folder = tmp_path / "s"
    sweep_of(swept, folder)
    changed, lost, *_ = run_files(folder)
    if not whole:
        lost.unlink()
    known, table = pl.read_parquet_metadata(changed), pl.read_parquet(changed)
    table = table.with_columns(value=pl.col("value") + 1.0)
    table.write_parquet(changed, metadata={"fedsim": known["fedsim"]} if seal else None)
    why = f"{changed.name} is not what the sweep wrote" if seal or not whole else "the fingerprint of the results"
    with pytest.raises(RunError, match=why):
        read_results(folder)


def test_a_sweep_json_of_other_runs_is_refused(swept: Path, write: Write, tmp_path: Path) -> None:
    other = write(SWEPT.replace("devices: ", "devices: 1"), "other.fedsim.yaml")
    for file, folder in ((swept, tmp_path / "a"), (other, tmp_path / "b")):
        sweep_of(file, folder)
    (tmp_path / "a" / "sweep.json").write_bytes((tmp_path / "b" / "sweep.json").read_bytes())
    with pytest.raises(RunError, match=r"sweep\.json is that of another sweep"):
        read_results(tmp_path / "a")


def test_a_note_of_a_stall_that_was_changed_does_not_count(tmp_path: Path) -> None:
    store.open_sweep_directory(tmp_path)
    store.write_crash(tmp_path, "a", 1, "it waited", stalled=True)
    store.write_crash(tmp_path, "b", 1, "an error")
    assert store.stalled_runs(tmp_path) == {"a": "it waited"}
    notes = {name: tmp_path / "runs" / f"{name}.crashed.json" for name in "ab"}
    notes["b"].write_bytes(notes["a"].read_bytes())
    notes["a"].write_text(notes["a"].read_text().replace("waited", "failed"))
    assert store.stalled_runs(tmp_path) == {}
    assert store.crashed_runs(tmp_path) == {"a", "b"}


def test_a_link_to_nothing_in_place_of_results_is_told(swept: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    sweep_of(swept, folder)
    merge_results(folder).unlink()
    for where in ("nowhere", "results.parquet"):
        (folder / "results.parquet").symlink_to(where)
        with pytest.raises(RunError, match=r"results\.parquet"):
            sweep_of(swept, folder)
        (folder / "results.parquet").unlink()


def test_files_left_half_written_are_neither_read_nor_kept(swept: Path, tmp_path: Path) -> None:
    sweep_of(swept, tmp_path / "s")
    left = tmp_path / "s" / "runs" / f".{run_files(tmp_path / 's')[0].name}.77.partial"
    left.write_bytes(b"PAR1")
    assert read_results(tmp_path / "s")["run_id"].n_unique() == 9
    sweep_of(swept, tmp_path / "s")
    assert not left.exists()


def test_folders_that_are_not_a_sweeps_are_left_alone(swept: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(RunError, match="holds files that are not a sweep's"):
        sweep_of(swept, tmp_path / "mine")
    with pytest.raises(RunError, match="not a sweep directory"):
        read_results(tmp_path / "mine")
    with pytest.raises(RunError, match="cannot be written"):
        sweep_of(swept, swept)


def test_two_sweeps_do_not_share_a_folder(swept: Path, tmp_path: Path) -> None:
    folder = store.open_sweep_directory(tmp_path / "s")
    with store.sole_sweep_writer(folder), pytest.raises(RunError, match="another sweep is writing"):
        sweep_of(swept, folder)
    assert sweep_of(swept, folder).kept == 0


def test_points_alike_share_their_runs(write: Write, tmp_path: Path) -> None:
    path = write(SWEPT.replace("[0, 1, 2]", "[2, {kind: constant, value: 2}]"))
    assert sweep_of(path, tmp_path / "s").runs == 6
    assert len(run_files(tmp_path / "s")) == 3
    assert_frame_equal(results(tmp_path / "s"), done_here(Scenario.load(path)))


@pytest.mark.long
@pytest.mark.parametrize("executor", ["process", "tests.trials.jobs:pool"])
def test_a_killed_worker_costs_only_its_own_run(swept: Path, tmp_path: Path, executor: str) -> None:
    """Here at its first attempt at seed 1; results are as if nothing had happened."""
    done = sweep_of(swept, tmp_path / "s", backend_of(executor, 2), do=jobs.dies_once)
    assert done.crashed == {}
    if executor == "process":
        assert len((tmp_path / "s" / "attempts.partial").read_text().splitlines()) == 10
    assert_frame_equal(results(tmp_path / "s"), done_here(Scenario.load(swept)))


@pytest.mark.long
@pytest.mark.parametrize("executor", ["process", "tests.trials.jobs:pool"])
def test_runs_that_always_kill_their_worker_are_given_up(swept: Path, tmp_path: Path, executor: str) -> None:
    done = sweep_of(swept, tmp_path / "s", backend_of(executor, 2), do=jobs.always_dies, retries=1)
    assert {run.seed for run in done.crashed} == {1}
    assert len(done.crashed) == 3
    if executor == "process":
        assert jobs.attempts(tmp_path / "s", 1) == 3 * 2
    frame = read_results(tmp_path / "s")
    crashed = frame.filter(pl.col("status") == "crashed")
    assert (crashed["seed"].to_list(), crashed["metric"].null_count()) == ([1, 1, 1], 3)
    good = frame.filter(pl.col("status") == "complete").select("run_id", "point", "seed", "metric", "value")
    assert_frame_equal(good, done_here(Scenario.load(swept)).filter(pl.col("seed") != 1))
    assert json.loads((tmp_path / "s" / "sweep.json").read_text())["status"] == "crashed"
    assert sweep_of(swept, tmp_path / "s").kept == 6
    assert_frame_equal(results(tmp_path / "s"), done_here(Scenario.load(swept)))


def test_failures_that_may_pass_are_tried_again_and_others_not(swept: Path, tmp_path: Path) -> None:
    told: list[str] = []
    done = sweep_of(swept, tmp_path / "s", do=jobs.fails, retries=2, tell=told.append)
    assert {run.seed: error for run, error in done.crashed.items()} == {0: "out of luck", 1: "a bad idea"}
    assert jobs.attempts(tmp_path / "s", 0) == 3 * 3
    assert jobs.attempts(tmp_path / "s", 1) == 3
    assert sum("trying again" in line for line in told) == 6


def test_workers_that_write_elsewhere_are_found_out(swept: Path, tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="the workers must share that folder"):
        sweep_of(swept, tmp_path / "s", do=jobs.writes_elsewhere)
    assert json.loads((tmp_path / "s" / "sweep.json").read_text())["status"] == "incomplete"


@pytest.mark.long
def test_a_run_that_is_stuck_makes_the_sweep_exit_with_3(write: Write, tmp_path: Path) -> None:
    path = write(
        "stop: {rounds: 9}\npopulation: [{devices: 6, separation: [1, 1, 1, 4, 4, 4]}]\n"
        "server: {cohort: 2, selection: cyclic}\nsweep: {grid: {stop.rounds: [2, 9]}}\n"
    )
    done = fedsim("sweep", path, "--out", tmp_path / "s", "--json", "--workers", 1)
    assert done.returncode == 3
    (crash,) = json.loads(done.stdout)["crashed"]
    assert (crash["point"], "wants 2 eligible clients" in crash["error"]) == (1, True)
    assert "given up after attempt 1" in done.stderr
    assert "Traceback" not in done.stderr
    again = fedsim("sweep", path, "--out", tmp_path / "s", "--json", "--workers", 1)
    assert again.returncode == 3
    assert json.loads(again.stdout)["crashed"] == [crash]
    assert "attempt" not in again.stderr  # it would stall again
    assert "2 runs, 0 of them to do" in fedsim("plan", path, "--out", tmp_path / "s").stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--executor", "cloud"], "unknown executor 'cloud'"),
        (["--set", "population.*.separation=3"], "is swept, so this would have no effect"),
        (["--set", "sweep.grid={server.cohrt: [3]}"], "did you mean 'cohort'?"),
        (["--workers", "0"], "Invalid value for '--workers'"),
        (["--retries", "-1"], "Invalid value for '--retries'"),
    ],
)
def test_mistakes_exit_with_2_before_anything_runs(
    swept: Path, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    done = fedsim("sweep", swept, "--out", tmp_path / "s", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "s").exists()


@pytest.mark.long
def test_plan_lists_the_runs_and_runs_nothing(swept: Path, tmp_path: Path) -> None:
    listed = fedsim("plan", swept, "--out", tmp_path / "s")
    assert listed.returncode == 0
    assert len(listed.stdout.splitlines()) == 10
    assert "3 points x 3 seeds = 9 runs, 9 of them to do; estimated time: about " in listed.stderr
    assert not (tmp_path / "s").exists()
    sweep_of(swept, tmp_path / "s")
    run_files(tmp_path / "s")[0].unlink()
    planned = json.loads(fedsim("plan", swept, "--out", tmp_path / "s", "--json").stdout)
    assert sorted(run["status"] for run in planned["runs"]) == ["complete"] * 8 + ["missing"]
    assert planned["estimated_s"] > 0
    assert {run["run_id"] for run in planned["runs"]} == set(read_results(tmp_path / "s")["run_id"]) | {
        run["run_id"] for run in planned["runs"] if run["status"] == "missing"
    }


def test_the_default_folder_is_named_after_the_scenario(swept: Path, tmp_path: Path) -> None:
    assert fedsim("sweep", swept, "--executor", THREADS, "--no-report", cwd=tmp_path).stdout == "sweeps/case\n"
    assert (tmp_path / "sweeps" / "case" / "sweep.json").exists()


@pytest.fixture
def slow(write: Write) -> Path:
    return write(SLOW, "slow.fedsim.yaml")


@pytest.mark.long
def test_a_worker_killed_from_outside_costs_one_attempt(slow: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with started(command("sweep", slow, "--out", folder, "--workers", 2)) as driver:
        until(lambda: run_files(folder))
        os.kill(children(driver.pid, "spawn_main")[0], signal.SIGKILL)
        _, said = driver.communicate(timeout=300)
        assert driver.returncode == 0, said
        assert said.count("its worker process died (SIGKILL); trying again") == 1
    assert len(run_files(folder)) == 8
    assert_frame_equal(results(folder), done_here(Scenario.load(slow)))


@pytest.mark.long
def test_a_driver_that_is_killed_leaves_no_orphans_and_is_resumed(slow: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with started(command("sweep", slow, "--out", folder, "--workers", 2)) as driver:
        until(lambda: len(run_files(folder)) >= 2)
        assert len(session(driver.pid)) >= 3
        driver.kill()
        driver.wait()
        until(lambda: not session(driver.pid), 20)
    there = {path: path.stat().st_mtime_ns for path in run_files(folder)}
    assert 2 <= len(there) < 8
    again = fedsim_process("sweep", slow, "--out", folder, "--json", "--workers", 2, "--no-report")
    assert json.loads(again.stdout)["kept"] == len(there)
    assert {path: path.stat().st_mtime_ns for path in there} == there
    assert_frame_equal(results(folder), done_here(Scenario.load(slow)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("everyone", "what"),
    [
        pytest.param(True, signal.SIGINT, id="terminal"),
        pytest.param(False, signal.SIGINT, id="kill", marks=pytest.mark.campaign),
        pytest.param(False, signal.SIGTERM, id="end of a job"),
    ],
)
def test_an_interrupt_keeps_what_is_done_and_leaves_no_orphans(
    slow: Path, tmp_path: Path, everyone: bool, what: signal.Signals
) -> None:
    """As by Ctrl-C, which a terminal sends to the whole process group, or by `kill` to the driver alone."""
    folder = tmp_path / "s"
    with started(command("sweep", slow, "--out", folder, "--workers", 2)) as driver:
        until(lambda: len(run_files(folder)) >= 2)
        workers = children(driver.pid, "spawn_main")
        (os.killpg if everyone else os.kill)(driver.pid, what)
        _, said = driver.communicate(timeout=60)
        assert driver.returncode == 130
        assert "Traceback" not in said
        assert "of 8 runs done; the same command does the rest\n" in said
        assert not any(alive(pid) for pid in workers)
        until(lambda: not session(driver.pid), 20)
    kept = len(run_files(folder))
    assert 2 <= kept < 8
    assert json.loads((folder / "sweep.json").read_text())["status"] == "interrupted"
    assert json.loads(fedsim("sweep", slow, "--out", folder, "--json", "--executor", THREADS).stdout)["kept"] == kept
    assert_frame_equal(results(folder), done_here(Scenario.load(slow)))


@pytest.mark.long
def test_an_interrupt_at_any_moment_is_clean(swept: Path, tmp_path: Path) -> None:
    """While the command starts, while its workers start, and while they run."""
    for wanted in (1, 2, 3):
        folder = tmp_path / f"s{wanted}"
        with started(command("sweep", swept, "--out", folder, "--workers", 2, "--set", "stop.rounds=20000")) as driver:
            until(lambda: (folder / "sweep.json").exists() and len(session(driver.pid)) >= wanted)  # noqa: B023
            os.killpg(driver.pid, signal.SIGINT)
            _, said = driver.communicate(timeout=60)
            assert (driver.returncode, "Traceback" in said) == (130, False), said
            until(lambda: not session(driver.pid), 20)
        shutil.rmtree(folder)


@pytest.mark.long
@pytest.mark.parametrize("job", [jobs.hangs, jobs.stands_still])
def test_a_run_that_takes_too_long_is_given_up(swept: Path, tmp_path: Path, job: Callable[[Task], RunOutcome]) -> None:
    """It costs no other run anything, and the next call does it."""
    said: list[str] = []
    plan, folder = plan_sweep(Scenario.load(swept, ["sweep={seeds: 4}"])), tmp_path / "s"
    one = run_sweep(plan, folder, backend_of("process", 2), timeout=2.0, do=job, tell=said.append)
    assert [run.seed for run in one.crashed] == [1]
    assert len(run_files(folder)) == 3
    (line,) = said
    assert "took longer than 2 s, its limit (--timeout), and was given up: its process was ended" in line
    assert line.endswith("; given up after attempt 1")
    assert json.loads((folder / "sweep.json").read_text())["status"] == "crashed"
    assert not run_sweep(plan, folder, backend_of("process", 2)).crashed


def test_how_long_a_run_may_take_by_default(swept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_sweep(Scenario.load(swept))
    for estimate, limit in ((None, 86_400), (Estimate(0.1, 0.1, 0.1), 600), (Estimate(100.0, 50.0, 200.0), 4_000)):
        monkeypatch.setattr(planning, "estimated_times", lambda _, estimate=estimate: [estimate])
        limit_s = planning.default_limit(plan)
        assert [limit_s(run) for run in plan.runs[:4]] == [limit] * 4


def test_the_command_that_does_the_rest_says_how(swept: Path, tmp_path: Path) -> None:
    how = ["--executor", "concurrent.futures:ThreadPoolExecutor", "--workers", "1", "--retries", "0", "--timeout", "1h"]
    assert fedsim("sweep", swept, "--out", tmp_path / "s", "--no-report", *how).returncode == 0
    assert json.loads((tmp_path / "s" / "sweep.json").read_text())["command"].endswith(" ".join(how))
    for given, words in (("soon", "soon"), ("0s", "must be longer than nothing"), ("-1s", "-1s")):
        done = fedsim("sweep", swept, "--out", tmp_path / "s", "--timeout", given)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr


@pytest.mark.long
def test_the_same_job_is_what_a_worker_does_by_default(swept: Path, tmp_path: Path) -> None:
    one = sweep_of(swept, tmp_path / "a", do=work)
    other = sweep_of(swept, tmp_path / "b", backend_of("process", 2))
    assert one.runs == other.runs
    for ours, theirs in zip(run_files(tmp_path / "a"), run_files(tmp_path / "b"), strict=True):
        assert (ours.name, ours.read_bytes()) == (theirs.name, theirs.read_bytes())


def test_from_python_a_sweep_is_that_of_the_command(swept: Path, tmp_path: Path) -> None:
    """From the file, and from a scenario that was made in Python; the same runs, as the names of their files show."""
    scenario = Scenario.load(swept)
    made = Scenario.model_validate(scenario.model_dump(mode="json"))
    found = [
        sweep(each, tmp_path / name, executor=THREADS, workers=2)
        for name, each in (("file", swept), ("loaded", scenario), ("made", made))
    ]
    assert [each.runs for each in found] == [9, 9, 9]
    assert len({frozenset(path.name for path in run_files(each.directory)) for each in found}) == 1
    assert_frame_equal(found[0].results(), found[2].results())
    metric = ["participation.l1_uniform"]
    trials = Trials.read(tmp_path / "made")
    assert_frame_equal(found[0].differences(metric), differences(trials, trials.beside(), metric))
    assert sweep(made, tmp_path / "file", executor=THREADS).kept == 9


def test_an_executor_that_is_lent_is_left_open(swept: Path, tmp_path: Path) -> None:
    """One that is broken ends the sweep in words, since it cannot be opened again."""
    with ThreadPoolExecutor(2) as executor:
        assert sweep(swept, tmp_path / "s", executor=executor).crashed == {}
        assert executor.submit(int).result() == 0
    assert_frame_equal(results(tmp_path / "s"), done_here(Scenario.load(swept)))

    class Broken(ThreadPoolExecutor):
        def submit(self, *_: Any, **__: Any) -> Any:
            raise BrokenExecutor("a process was killed")

    with pytest.raises(SweepError, match="the executor Broken broke 6 times in a row"):
        sweep(swept, tmp_path / "other", executor=Broken())


def test_a_notebook_shows_the_progress_of_a_sweep(swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[str]()
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setattr(progress, "find_spec", lambda _: kernel)
    monkeypatch.setattr(progress, "_bar", lambda: nullcontext(lambda what, *_: seen.append(what)))
    sweep(swept, tmp_path / "s", executor=THREADS)
    assert "sweeping" in seen


def test_durations_of_a_sweep_made_in_python_are_seconds(tmp_path: Path) -> None:
    data = {"stop": {"rounds": 5}, "population": [{"devices": 5}], "server": {"cohort": 2}}
    made = Scenario.model_validate(data | {"sweep": {"grid": {"server.pause": [30, 60]}}})
    frame = sweep(made, tmp_path / "s", executor=THREADS).results()
    assert frame["server.pause"].unique().to_list() == [30, 60]


def test_how_long_runs_take_is_told_before_one_has_ended(small: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsim.trials.sweep._PILOT_AFTER_S", 0.0)
    plan, told = plan_sweep(small("stop.rounds=20000", "sweep.seeds=4")), list[str]()
    foreseen = _Foreseen(plan, plan.runs, told.append)
    with closing(foreseen):
        foreseen.look(2)
        estimate = foreseen._trial.result()
        assert estimate is not None
        foreseen.look(2)
        foreseen.look(2)  # nothing more: no second pilot
    low, high = (readable_time(max(1.0, 2 * each)) for each in (estimate.low, estimate.high))
    assert told == [f"about {low} to {high} if all runs are like the first"]
    assert [*foreseen.until_one(iter(()))] == []
    foreseen.look(2)
    assert foreseen._pilots is None
