"""What a change takes away from the limits, locks and files of a repository is told, with an exit code and a place."""

import json
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fedsim.ci.guard import _inside
from fedsim.measure.grammar import parse_condition
from tests.command import Done, fedsim
from tests.conftest import LIMIT_S, SMALL

CASE, LOCK = Path("scenarios/case.fedsim.yaml"), Path("scenarios/case.fedsim.lock.json")
EXPECT = "expect: [participation.gap.min >= 3, 0.05 < participation.l1_uniform <= 0.9]\n"
DRIFT = "drift: {figures: [participation.l1_uniform], rel: 1e-6, fingerprint: [rounds]}\n"


def replay(folder: Path, *arguments: object) -> Done:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedsim.ci.replay.LocalProcesses", ThreadPoolExecutor)
        return fedsim("replay", *arguments, cwd=folder)


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, timeout=LIMIT_S)


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a repository with a scenario that has limits and a lock, in its only commit."""
    folder = tmp_path_factory.mktemp("committed")
    (folder / CASE).parent.mkdir()
    (folder / CASE).write_text(SMALL + "seed: 3\n" + EXPECT + DRIFT)
    (folder / "scenarios/other.fedsim.yaml").write_text(SMALL + "expect: [rounds.count == 60]\n")
    assert replay(folder, CASE, "--update").returncode == 0
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "Begin")
    return folder


@pytest.fixture
def repository(committed: Path, tmp_path: Path) -> Path:
    """Copy that repository."""
    return Path(shutil.copytree(committed, tmp_path / "repository"))


def swap(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / CASE).read_text()
        assert old in text
        (folder / CASE).write_text(text.replace(old, new))

    return change


def relock(folder: Path) -> None:
    written = json.loads((folder / LOCK).read_text())
    for entry in written["platforms"].values():
        entry["figures"]["participation.l1_uniform"] *= 1.0 + 1e-9
    (folder / LOCK).write_text(json.dumps(written))


def test_an_unchanged_repository_passes(repository: Path) -> None:
    done = replay(repository, "scenarios", "--base", "HEAD", "--require-limits", "--locked")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("change", "code", "place", "words"),
    [
        (swap("participation.gap.min >= 3, ", ""), 1, f"{CASE}:1:1", "'participation.gap.min >= 3' of HEAD no longer"),
        (swap("gap.min >= 3", "gap.min >= 2"), 1, f"{CASE}:1:1", "and there is 'participation.gap.min >= 2'"),
        (swap("<= 0.9", "<= 0.95"), 1, f"{CASE}:1:1", "'0.05 < participation.l1_uniform <= 0.9' of HEAD no longer"),
        (swap("0.05 < participation", "0.04 < participation"), 1, f"{CASE}:1:1", "of HEAD no longer holds"),
        (
            swap("participation.gap.min >= 3", "{check: participation.gap.min >= 3, severity: warn}"),
            1,
            f"{CASE}:1:1",
            "no longer holds",
        ),
        (swap(EXPECT, ""), 1, f"{CASE}:1:1", "'participation.gap.min >= 3' of HEAD no longer holds"),
        (swap("rel: 1e-6", "rel: 1e-3"), 1, f"{CASE}:1:1", "`drift` allows participation.l1_uniform more than at HEAD"),
        (swap(", fingerprint: [rounds]", ""), 1, f"{CASE}:1:1", "no longer has the fingerprint of rounds"),
        (swap(EXPECT + DRIFT, ""), 1, f"{CASE}:1:1", "nothing that is expected of it can fail"),
        (swap("seed: 3", "seed: 4"), 1, f"{CASE}: warning", "the seed was 3 at HEAD, and is 4"),
        (relock, 0, f"{CASE}: warning", "the locked value of participation.l1_uniform was "),
        (lambda folder: (folder / LOCK).unlink(), 4, f"{CASE}:", "not locked yet"),
        (lambda folder: (folder / CASE).unlink(), 1, f"{CASE}: error", "it was there at HEAD, and is gone"),
    ],
)
def test_what_a_change_takes_away_is_told(
    repository: Path, change: Callable[[Path], None], code: int, place: str, words: str
) -> None:
    change(repository)
    done = replay(repository, "scenarios", "--base", "HEAD", "--require-limits", "--locked")
    assert done.returncode == code
    assert any(place in line and words in line for line in done.stderr.splitlines()), done.stderr


@pytest.mark.parametrize(
    "change", [swap("<= 0.9", "<= 0.8"), swap("gap.min >= 3", "gap.min > 3"), swap("1e-6", "1e-9")]
)
def test_what_demands_more_passes(repository: Path, change: Callable[[Path], None]) -> None:
    change(repository)
    done = replay(repository, "scenarios", "--base", "HEAD")
    assert "HEAD" not in done.stderr


@pytest.mark.parametrize(
    ("new", "old", "inside"),
    [
        ("a.b < 1", "a.b <= 1", True),
        ("a.b <= 1", "a.b < 1", False),
        ("a.b between 1 and 2", "a.b >= 1", True),
        ("a.b >= 1", "a.b between 1 and 2", False),
        ("a.b == 1 +- 0.5", "a.b between 0.5 and 2", True),
        ("a.b > 1", "a.b < 3", False),
    ],
)
def test_one_limit_implies_another(new: str, old: str, inside: bool) -> None:
    assert _inside(parse_condition(new), parse_condition(old)) is inside


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
