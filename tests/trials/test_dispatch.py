"""Every run exactly once, whatever happens to workers: against executors that fail on purpose."""

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim import __version__
from fedsim.common.errors import FedsimError, SweepError
from fedsim.trials import dispatch, executors
from fedsim.trials.dispatch import Dispatcher, Settled
from fedsim.trials.executors import Backend, ClusterExecutor
from fedsim.trials.plan import PlannedRun
from fedsim.trials.worker import AT, Inputs, RunOutcome, Task

RUNS = [PlannedRun(f"run-{seed}", 0, seed) for seed in range(12)]
NO_SCENARIO: Any = None


def task_of(run: PlannedRun) -> Task:
    return Task(run.run_id, NO_SCENARIO, "")


class Fragile(Executor):
    """Runs tasks in place, or never; breaks as a whole when it meets one of the poisonous ones."""

    def __init__(self, poison: Counter[str], calls: Counter[str], delay: int) -> None:
        self._poison, self._calls, self._delay = poison, calls, delay
        self._held: list[tuple[Future[Any], Callable[..., Any], Task]] = []
        self._broken = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        if self._broken:
            raise BrokenProcessPool("broken before")
        future: Future[Any] = Future()
        self._held.append((future, fn, args[0]))
        while len(self._held) > self._delay and not self._broken:
            self._do()
        # What is held back would be done by others in the meantime.
        future_of_last = self._held[-1][0] if self._held else future
        if not self._broken and future_of_last is future:
            while self._held and not self._broken:
                self._do()
        return future

    def _do(self) -> None:
        future, fn, task = self._held.pop(0)
        self._calls[task.run_id] += 1
        if self._poison[task.run_id] > 0:
            self._poison[task.run_id] -= 1
            self._broken = True
            for each in (future, *(held for held, _, _ in self._held)):
                each.set_exception(BrokenProcessPool("a child process died"))
            self._held.clear()
        else:
            future.set_result(fn(task))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass


def ok(_task: Task) -> RunOutcome:
    return RunOutcome()


def settle(backend: Backend, retries: int = 2, do: Callable[[Task], RunOutcome] = ok) -> list[Settled]:
    return list(Dispatcher(deque(RUNS), backend, task_of, retries, do).settled())


def final(settled: list[Settled]) -> dict[str, Settled]:
    ends = [each for each in settled if not each.again]
    assert sorted(each.run.run_id for each in ends) == sorted(run.run_id for run in RUNS)
    return {each.run.run_id: each for each in ends}


@given(
    poison=st.dictionaries(st.sampled_from([run.run_id for run in RUNS]), st.integers(1, 9), max_size=4),
    workers=st.integers(1, 4),
    retries=st.integers(0, 3),
)
def test_only_the_culprit_of_a_broken_executor_is_charged(poison: dict[str, int], workers: int, retries: int) -> None:
    """A run that breaks its executor often enough is given up; every other one is done, in one charged attempt."""
    calls: Counter[str] = Counter()
    left = Counter(poison)
    backend = Backend("fragile", lambda: Fragile(left, calls, workers), lambda _: workers)
    for run_id, end in final(settle(backend, retries)).items():
        times = poison.get(run_id, 0)
        if times == 0:
            assert (end.outcome.error, end.attempts) == ("", 1)
        elif end.outcome.error:
            assert end.attempts == retries + 1 <= times
            assert "BrokenProcessPool" in end.outcome.error
        else:
            assert end.attempts <= retries + 1


def test_a_task_that_raises_is_tried_again_and_then_given_up() -> None:
    calls: Counter[str] = Counter()

    def job(task: Task) -> RunOutcome:
        calls[task.run_id] += 1
        if task.run_id == "run-3" or (task.run_id == "run-5" and calls[task.run_id] < 3):
            raise OSError("lost on the way")
        return RunOutcome()

    ends = final(settle(Backend("threads", lambda: ThreadPoolExecutor(2), lambda _: 2), retries=2, do=job))
    assert (ends["run-3"].attempts, ends["run-3"].outcome.error) == (3, "OSError: lost on the way")
    assert (ends["run-5"].attempts, ends["run-5"].outcome.error) == (3, "")
    assert calls == Counter({run.run_id: 1 for run in RUNS}) + Counter({"run-3": 2, "run-5": 2})


def test_an_executor_that_always_breaks_ends_with_every_run_given_up() -> None:
    backend = Backend("fragile", lambda: Fragile(Counter({r.run_id: 99 for r in RUNS}), Counter(), 2), lambda _: 2)
    assert all(end.outcome.error for end in final(settle(backend, retries=1)).values())


def test_tasks_are_made_when_they_are_needed() -> None:
    """A sweep of a million runs holds a few scenarios at a time."""
    made: list[str] = []

    def task(run: PlannedRun) -> Task:
        made.append(run.run_id)
        return task_of(run)

    one_thread = Backend("thread", lambda: ThreadPoolExecutor(1), lambda _: 1)
    attempts = Dispatcher(deque(RUNS), one_thread, task, 0, ok).settled()
    next(attempts)
    assert len(made) <= 3
    assert len(list(attempts)) == len(RUNS) - 1


class Cluster(ClusterExecutor):
    """Does tasks in place, on its workers in turn; `answers` are what they import, or raise."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__()
        self.answers, self.did = answers, Counter[str]()

    def look(self) -> tuple[dict[str, int], dict[str, Any]]:
        new = {worker: answer for worker, answer in self.answers.items() if worker not in self.wrong}
        return dict.fromkeys(self.answers, 1), new

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        worker = min(self.good, key=lambda each: self.did[each])
        self.did[worker] += 1
        future: Future[Any] = Future()
        token = AT.set(worker)
        future.set_result(fn(*args))
        AT.reset(token)
        return future


def done_by(
    cluster: Cluster, job: Callable[[Task], RunOutcome] = ok, retries: int = 0, inputs: Inputs | None = None
) -> tuple[list[Settled], list[str]]:
    said: list[str] = []

    def task(run: PlannedRun) -> Task:
        return Task(run.run_id, NO_SCENARIO, "", inputs=inputs or Inputs())

    backend = Backend("cluster", lambda: cluster, lambda each: each.worker_count())
    settled = [*Dispatcher(deque(RUNS), backend, task, retries, job, tell=said.append).settled()]
    return settled, said + [each.outcome.error for each in settled if each.outcome.error]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(dispatch, "_LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(dispatch, "_PATIENCE_S", 0.01)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("0.0.1", f"cluster: 1 of 3 workers get no runs: fedsim is 0.0.1 there and {__version__} here"),
        (ModuleNotFoundError("No module named 'polars'"), "cannot import fedsim: ModuleNotFoundError: No module named"),
        (SyntaxError("invalid syntax"), "cannot import fedsim: SyntaxError: invalid syntax"),
    ],
)
def test_a_worker_that_fails_the_check_gets_no_runs(answer: Any, words: str) -> None:
    cluster = Cluster({"a": __version__, "bad": answer, "c": __version__})
    settled, (said,) = done_by(cluster)
    assert words in said
    assert "(on 1: bad)" in said
    assert cluster.did.keys() == {"a", "c"}
    assert len(final(settled)) == len(RUNS)


def test_a_worker_that_dies_in_the_check_is_left_and_one_that_is_too_busy_is_not() -> None:
    cluster = Cluster({"a": __version__, "dead": ConnectionResetError(), "busy": TimeoutError()})
    settled, said = done_by(cluster)
    assert (said, set(cluster.did), len(final(settled))) == ([], {"a", "busy"}, len(RUNS))


@pytest.mark.usefixtures("impatient")
def test_a_bad_worker_that_comes_late_gets_no_runs() -> None:
    cluster = Cluster({"a": __version__})

    def job(_: Task) -> RunOutcome:
        cluster.answers["late"] = "0.0.1"
        return RunOutcome()

    settled, (said,) = done_by(cluster, job)
    assert "1 of 2 workers get no runs" in said
    assert (set(cluster.did), len(final(settled))) == ({"a"}, len(RUNS))


def test_a_worker_that_is_unfit_twice_gets_no_more_runs_and_costs_no_attempt() -> None:
    def job(_: Task) -> RunOutcome:
        return RunOutcome("it does not share the folder", worker="bad") if AT.get() == "bad" else RunOutcome()

    cluster = Cluster({"a": __version__, "bad": __version__, "c": __version__})
    settled, said = done_by(cluster, job)
    first, last = "it does not share the folder", "it does not share the folder; that worker gets no more runs"
    assert said == [first, last]
    assert all(end.attempts == 1 and not end.outcome.error for end in final(settled).values())
    assert cluster.did["bad"] <= 4
    with pytest.raises(SweepError, match="no worker can do the runs: it does not share"):
        done_by(Cluster({"bad": __version__}), job)


def test_inputs_that_changed_everywhere_are_no_worker_s_fault(tmp_path: Path) -> None:
    """Runs are charged with them, as with local processes, and no worker is given up."""

    def job(_: Task) -> RunOutcome:
        return RunOutcome("reads another content", worker=AT.get())

    cluster = Cluster({"a": __version__, "b": __version__})
    settled, _ = done_by(cluster, job, 1, Inputs({str(tmp_path / "gone.csv"): "another"}))
    assert {end.attempts for end in final(settled).values()} == {2}
    assert cluster.good.keys() == {"a", "b"}


@pytest.mark.parametrize("bad", [1, 5])
def test_a_cluster_of_which_no_worker_passes_is_an_error_with_its_cause(bad: int) -> None:
    with pytest.raises(SweepError, match=rf"no worker can do the runs: fedsim is 0.0.1 there .*\(on {bad}: 0"):
        done_by(Cluster(dict.fromkeys(map(str, range(bad)), "0.0.1")))


@pytest.mark.usefixtures("impatient")
def test_a_cluster_without_workers_is_told_at_once_and_is_an_error_in_the_end() -> None:
    said: list[str] = []
    backend = Backend("cluster", lambda: Cluster({}), lambda each: each.worker_count())
    with pytest.raises(SweepError, match="has had no workers that can do the runs for 0 s; the same command does the"):
        [*Dispatcher(deque(RUNS), backend, task_of, tell=said.append).settled()]
    assert said == ["cluster: no workers; waiting 0 s for one"]


@pytest.mark.usefixtures("impatient")
def test_what_waits_for_workers_that_have_left_is_handed_out_again() -> None:
    class Leaving(Cluster):
        kept: Future[Any] | None = None

        def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
            if self.kept is not None:
                return super().submit(fn, *args)
            self.kept = Future()
            self.answers = {"b": __version__}
            return self.kept

        def stranded(self) -> list[Future[Any]]:
            return [self.kept] if self.kept and "b" in self.good else []

    cluster = Leaving({"a": __version__})
    settled, said = done_by(cluster)
    assert (said, len(settled), cluster.did["b"]) == ([], len(RUNS), len(RUNS) - cluster.did["a"])


def test_a_cluster_that_cannot_be_opened_again_was_lost() -> None:
    opened: list[Executor] = []

    def connect() -> Executor:
        if opened:
            raise OSError("timed out")
        opened.append(Fragile(Counter({"run-0": 1}), Counter(), 1))
        return opened[0]

    with pytest.raises(SweepError, match=r"was lost; the same command does the rest \(fragile\): timed out"):
        settle(Backend("fragile", connect, lambda _: 1))
    with pytest.raises(SweepError, match=r"the executor cannot be opened \(fragile\): timed out"):
        settle(Backend("fragile", connect, lambda _: 1))


class Minimal(ThreadPoolExecutor):
    """An executor that promises no more than a way to close it; `asked` is what it is closed with."""

    asked: list[dict[str, Any]]

    def __init__(self, fails: bool = False) -> None:
        super().__init__(2)
        self.asked, self.fails = [], fails

    def shutdown(self, wait: bool = True) -> None:  # type: ignore[override]
        self.asked.append({"wait": wait})
        super().shutdown(wait)
        if self.fails:
            raise OSError("no answer")


class Killing(Minimal):
    """Another one, which can do more, by another name."""

    def shutdown(self, wait: bool = True, kill_workers: bool = False) -> None:  # type: ignore[override]
        super().shutdown(wait)
        self.asked[-1]["kill_workers"] = kill_workers


@pytest.mark.parametrize("kind", [Minimal, Killing])
def test_any_way_to_close_an_executor_will_do(kind: type[Minimal]) -> None:
    executor = kind()
    settled = settle(Backend("own", lambda: executor, lambda _: 2))
    assert ({each.run.run_id for each in settled}, len(executor.asked)) == ({run.run_id for run in RUNS}, 1)
    assert executor.asked[0]["wait"]


def test_what_an_executor_holds_is_cancelled_whatever_it_knows_of_that() -> None:
    held: list[Future[Any]] = []

    class Holding(Executor):
        def submit(self, _fn: Callable[..., Any], /, *_args: Any, **_: Any) -> Future[Any]:
            held.append(Future())
            if len(held) == 1:
                held[0].set_result(RunOutcome())
            return held[-1]

        def shutdown(self, wait: bool = True) -> None:  # type: ignore[override]
            assert not wait

    attempts = Dispatcher(deque(RUNS), Backend("own", Holding, lambda _: 2), task_of, 0, ok).settled()
    next(attempts)
    attempts.close()
    assert [future.cancelled() for future in held] == [False, *(len(held) - 1) * [True]]


def test_an_executor_that_cannot_be_closed_costs_no_results() -> None:
    said: list[str] = []
    backend = Backend("own", lambda: Minimal(fails=True), lambda _: 2)
    settled = [*Dispatcher(deque(RUNS), backend, task_of, do=ok, tell=said.append).settled()]
    assert len(settled) == len(RUNS)
    (warning,) = said
    assert warning.startswith("warning: own was not closed: OSError: no answer")


def test_one_that_cannot_be_closed_hides_no_error() -> None:
    def job(_: Task) -> RunOutcome:
        raise FedsimError("the cause")

    with pytest.raises(FedsimError, match="the cause"):
        settle(Backend("own", lambda: Minimal(fails=True), lambda _: 2), do=job)


def test_what_is_no_future_is_told() -> None:
    class Eager(Minimal):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Any:
            return fn(*args)

    with pytest.raises(SweepError, match="'eager' submitted a RunOutcome, which is no Future"):
        settle(Backend("eager", Eager, lambda _: 2))


@pytest.mark.parametrize("error", [TypeError("takes no arguments"), KeyError("HOME"), ImportError("no MPI")])
def test_whatever_opening_raises_is_told(error: Exception) -> None:
    def opened() -> Executor:
        raise error

    with pytest.raises(SweepError, match=rf"cannot be opened \(own\): {type(error).__name__}"):
        settle(Backend("own", opened, lambda _: 2))
