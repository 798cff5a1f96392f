"""What a change takes away from the limits, locks and files of a repository is told, with an exit code and a place."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fedsim.ci.guard import Base
from tests.command import Done, fedsim
from tests.conftest import LIMIT_S, SMALL

CASE, BASE = Path("scenarios/case.fedsim.yaml"), Path("scenarios/base.yaml")
LOCK, WEIGHTS = Path("scenarios/case.fedsim.lock.json"), Path("scenarios/weights.csv")
EXPECT = """\
expect:
  - participation.gap.min >= 3
  - 0.05 < participation.l1_uniform <= 90%
  - rounds.count == 60
  - rounds.duration.p95 <= 5m
"""
FILES = {
    CASE: "extends: base.yaml\nschema_version: 1\nseed: 3\nreplicates: 2\n" + EXPECT,
    BASE: SMALL.replace("{kind: zipf, exponent: 1}", "{kind: column, file: weights.csv, column: w}")
    + "drift: {figures: [participation.l1_uniform, rounds.count], rel: 1e-6, abs: 1e-9, fingerprint: [rounds]}\n",
    WEIGHTS: "w\n" + "".join(f"{1 / rank:.3f}\n" for rank in range(1, 13)),
    Path("scenarios/loose.yaml"): SMALL + "expect: [rounds.count > 0]\n",
}
HELD = "the limit {!r} of HEAD no longer holds".format
MEAN = "'participation.gap.min >= 3' (error, over: mean)"
AT_3, AT_60 = HELD("participation.gap.min >= 3"), HELD("rounds.count == 60")
NARROW = HELD("0.05 < participation.l1_uniform <= 90%")


def replay(folder: Path, *arguments: object) -> Done:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedsim.ci.replay.LocalProcesses", ThreadPoolExecutor)
        return fedsim("replay", *arguments, cwd=folder)


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, timeout=LIMIT_S)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a scenario that has limits and a lock."""
    folder = tmp_path_factory.mktemp("before")
    (folder / CASE).parent.mkdir()
    for path, text in FILES.items():
        (folder / path).write_text(text)
    assert replay(folder, CASE, "--update").returncode == 0
    return folder


@pytest.fixture
def after(before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy it, to be compared with what it was, without git."""
    folder = Path(shutil.copytree(before, tmp_path / "after"))

    @contextmanager
    def base_of(reference: str, _folder: Path) -> Iterator[Base]:
        yield Base(reference, folder.resolve(), before)

    monkeypatch.setattr("fedsim.ci.guard.base_of", base_of)
    monkeypatch.delenv("FEDSIM_MNIST", raising=False)
    return folder


@pytest.fixture
def repository(before: Path, tmp_path: Path) -> Path:
    """Copy it into a repository, in its only commit."""
    folder = Path(shutil.copytree(before, tmp_path / "repository"))
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "Begin")
    return folder


Change = Callable[[Path], object]


def swap(old: str, new: str, file: Path = CASE) -> Change:
    def change(folder: Path) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))

    return change


def severe(keys: str) -> Change:
    return swap("participation.gap.min >= 3", "{check: participation.gap.min >= 3, " + keys + "}")


def move(to: str, of: Path = CASE) -> Change:
    def change(folder: Path) -> None:
        (folder / to).parent.mkdir(exist_ok=True)
        (folder / of).rename(folder / to)

    return change


def relock(change: Callable[[dict[str, dict[str, Any]]], object]) -> Change:
    def edit(folder: Path) -> None:
        written = json.loads((folder / LOCK).read_text())
        for entry in written["platforms"].values():
            change(entry)
        (folder / LOCK).write_text(json.dumps(written))

    return edit


def times(factor: float) -> Change:
    name = "participation.l1_uniform"
    return relock(lambda entry: entry["figures"].update({name: factor * entry["figures"][name]}))


def link(to: str) -> Change:
    def change(folder: Path) -> None:
        (folder / CASE).unlink()
        (folder / CASE).symlink_to(to)

    return change


def gone(folder: Path) -> None:
    (folder / CASE).unlink()
    move("scenarios/loose.fedsim.yaml", Path("scenarios/loose.yaml"))(folder)


def another_folder(folder: Path) -> None:
    move("new", Path("scenarios"))(folder)
    (folder / "scenarios").symlink_to("new")
    swap("gap.min >= 3", "gap.min >= 2")(folder)


def looser_in_the_base(folder: Path) -> None:
    swap(EXPECT, "")(folder)
    (folder / BASE).write_text((folder / BASE).read_text() + EXPECT.replace("== 60", ">= 6"))


def a_folder_for_a_lock(folder: Path) -> None:
    (folder / LOCK).unlink()
    (folder / LOCK).mkdir()


ABSENT = "learning: {problem: {kind: softmax_regression, data: mnist}, optimizers: [fedavg], step_size: 0.1}\n"
SABOTAGES: dict[str, tuple[Change, int, object, str]] = {
    "a limit deleted": (swap("  - participation.gap.min >= 3\n", ""), 1, CASE, AT_3),
    "a lower limit loosened": (swap("min >= 3", "min >= 2"), 1, f"{CASE}:6:5", "there is 'participation.gap.min >= 2'"),
    "an upper limit loosened": (swap("90%", "95%"), 1, f"{CASE}:7:5", NARROW),
    "the lower of two loosened": (swap("0.05 <", "0.04 <"), 1, f"{CASE}:7:5", NARROW),
    "the lower of two deleted": (swap("0.05 < ", ""), 1, f"{CASE}:7:5", NARROW),
    "the end itself allowed": (swap("0.05 <", "0.05 <="), 1, f"{CASE}:7:5", NARROW),
    "a tolerance given": (swap("== 60", "== 60 ± 5"), 1, f"{CASE}:8:5", AT_60),
    "an equality made a limit": (swap("== 60", ">= 60"), 1, f"{CASE}:8:5", AT_60),
    "another metric limited": (swap("gap.min", "gap.mean"), 1, CASE, AT_3),
    "a metric without a name": (swap("gap.min", "gap.least"), 2, f"{CASE}:6:5", "unknown metric"),
    "a severity lowered": (severe("severity: warn"), 1, f"{CASE}:6:5", AT_3),
    "a mean for every": (severe("over: mean"), 1, f"{CASE}:6:5", f"{AT_3}, and there is {MEAN}"),
    "no limits": (swap(EXPECT, ""), 1, CASE, AT_3),
    "an empty list": (swap(EXPECT, "expect: []\n"), 1, f"{CASE}:5:9", AT_3),
    "a second list": (swap(EXPECT, EXPECT + "expect: [rounds.count > 0]\n"), 2, f"{CASE}:10:1", "duplicate key"),
    "neither limits nor drift": (swap(EXPECT, "drift: null\n"), 1, CASE, "nothing that is expected of it can fail"),
    "limits moved into a base and loosened": (looser_in_the_base, 1, f"{BASE}:9:5", AT_60),
    "drift switched off": (swap("seed", "drift: null\nseed"), 1, CASE, "`drift` no longer has rounds.count"),
    "a figure of drift deleted": (swap(", rounds.count", "", BASE), 1, f"{BASE}:5:8", "no longer has rounds.count"),
    "a relative tolerance": (swap("1e-6", "1e-3", BASE), 1, f"{BASE}:5:8", "allows rounds.count more than at HEAD"),
    "an absolute tolerance": (swap("1e-9", "1e-3", BASE), 1, f"{BASE}:5:8", "allows rounds.count more than at HEAD"),
    "a tolerance of one figure": (
        swap(", rounds.count", ", {name: rounds.count, abs: 1}", BASE), 1, f"{BASE}:5:8", "allows rounds.count more",
    ),
    "a fingerprint deleted": (swap(", fingerprint: [rounds]", "", BASE), 1, f"{BASE}:5:8", "the fingerprint of rounds"),
    "drift of one's own": (
        swap("seed", "drift: {figures: [rounds.count]}\nseed"), 1, f"{CASE}:3:8", "has participation.l1_uniform",
    ),
    "another base": (swap("base.yaml", "loose.yaml"), 1, CASE, "`drift` no longer has participation.l1_uniform"),
    "fewer replicates": (swap("replicates: 2", "replicates: 1"), 1, f"{CASE}:4:13", "replicates were 2 at HEAD"),
    "another seed": (swap("seed: 3", "seed: 4"), 1, CASE, "seed was 3, and is 4"),
    "another scenario": (
        swap("separation: 2", "separation: 3", BASE), 1, CASE, "population[0].separation.value was 2, and is 3",
    ),
    "other data": (swap("1.000", "0.001", WEIGHTS), 1, CASE, "the file weights.csv has changed"),
    "data that are not there": (swap("seed", ABSENT + "seed"), 1, CASE, "nothing of it is judged here"),
    "another format": (swap("schema_version: 1", "schema_version: 2"), 2, f"{CASE}:2:17", "schema_version"),
    "no lock": (lambda folder: (folder / LOCK).unlink(), 4, BASE, "not locked yet"),
    "a folder for a lock": (a_folder_for_a_lock, 4, f"{LOCK}:1:1", "is not a file"),
    "a lock that is not JSON": (swap("{", "{{", LOCK), 4, f"{LOCK}:1:2", "is not JSON"),
    "a lock of another format": (swap('"format": 1', '"format": 2', LOCK), 4, f"{LOCK}:1:1", "is not a lock file"),
    "a value gone from a lock": (
        relock(lambda entry: entry["figures"].pop("rounds.count")), 4, BASE, "not locked yet",
    ),
    "a value edited a little": (times(1 + 1e-9), 0, CASE, "the locked value of participation.l1_uniform was "),
    "a value edited": (times(1.1), 1, BASE, "the figure has drifted"),
    "a fingerprint edited": (
        relock(lambda entry: entry.update(fingerprints={"rounds": 64 * "0"})), 1, BASE, "the fingerprint has drifted",
    ),
    "a lock of another platform": (swap('"linux', '"plan9', LOCK), 0, CASE, "of HEAD is gone"),
    "a file gone": (gone, 1, CASE, "it was there at HEAD, and is gone"),
    "a file renamed": (move("scenarios/other.fedsim.yaml"), 1, CASE, "it was there at HEAD, and is gone"),
    "a file moved": (move("scenarios/old/case.fedsim.yaml"), 2, CASE, "it was there at HEAD, and is gone"),
    "a file hidden": (move("scenarios/.old/case.fedsim.yaml"), 2, "error", "holds no scenario"),
    "a folder renamed": (move("old", Path("scenarios")), 2, "error", "scenarios does not exist"),
    "an empty file": (lambda folder: (folder / CASE).write_text(""), 2, CASE, "empty"),
    "a link to another file": (link("loose.yaml"), 1, CASE, AT_3),
    "a link to another folder": (another_folder, 1, f"{CASE}:6:5", AT_3),
    "a link to nothing": (link("nothing.yaml"), 2, CASE, "cannot be read"),
}  # fmt: skip


def test_an_unchanged_repository_passes(repository: Path) -> None:
    done = replay(repository, "scenarios", "--base", "HEAD", "--require-limits", "--locked")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("sabotage", SABOTAGES)
def test_what_a_change_takes_away_is_told(after: Path, sabotage: str) -> None:
    change, code, place, words = SABOTAGES[sabotage]
    change(after)
    done = replay(after, "scenarios", "--base", "HEAD", "--require-limits", "--locked")
    assert done.returncode == code, done.stderr
    assert any(line.startswith(f"{place}:") and words in line for line in done.stderr.splitlines()), done.stderr


def test_attributes_of_archives_leave_nothing_out_of_what_it_was(repository: Path) -> None:
    (repository / ".gitattributes").write_text("scenarios export-ignore\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "Leave scenarios out of releases")
    swap("min >= 3", "min >= 2")(repository)
    done = replay(repository, "scenarios", "--base", "HEAD")
    assert (done.returncode, AT_3 in done.stderr) == (1, True)


@pytest.mark.parametrize(
    "change",
    [
        swap("90%", "80%"),
        swap("gap.min >= 3", "gap.min > 3"),
        swap("1e-6", "1e-9", BASE),
        swap("5m", "300s"),
        swap("90%", "0.9"),
        swap("seed: 3", "headline: rounds.count\nengine: vectorized\nseed: 3"),
    ],
)
def test_what_demands_as_much_or_more_passes(after: Path, change: Change) -> None:
    change(after)
    done = replay(after, "scenarios", "--base", "HEAD")
    assert "HEAD" not in done.stderr


def test_usage_errors_are_in_the_files_that_a_service_reads(repository: Path) -> None:
    for arguments, words in (
        (("scenarios/*.none.yaml",), "does not exist"),
        (("scenarios", "--base", "nowhere"), "a shallow clone has no other commits"),
        (("scenarios", "--base", "--output=x"), "is no reference"),
    ):
        done = replay(repository, *arguments, "--junit", "junit.xml", "--summary", "summary.md")
        assert done.returncode == 2
        assert words in done.stderr
        (error,) = ElementTree.parse(repository / "junit.xml").iter("error")
        assert words in str(error.get("message"))
        assert words in (repository / "summary.md").read_text()


def test_a_case_has_the_time_of_the_runs(repository: Path) -> None:
    replay(repository, CASE, "--junit", "junit.xml")
    (suite,) = ElementTree.parse(repository / "junit.xml").iter("testsuite")
    times = [float(case.get("time", "0")) for case in suite.iter("testcase")]
    assert sum(times) == pytest.approx(float(str(suite.get("time"))))
    assert times[0] > 0
