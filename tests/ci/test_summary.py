"""The summary of a replay: counts, a table, and what is missed, whatever files are called."""

from pathlib import Path

from tests.ci.test_replay import EXPECT, put, replay


def test_summary_is_appended(tmp_path: Path) -> None:
    put(tmp_path, EXPECT, "good")
    put(tmp_path, EXPECT.replace("0.2", "0.02"), "a|b")
    (tmp_path / "summary.md").write_text("before\n")
    done = replay(".", "--summary", "summary.md", cwd=tmp_path)
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert done.returncode == 1
    assert text.startswith("before\n### fedsim replay: 1 of 2 scenarios pass\n")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert [row.replace("\\|", "?").split("|")[1:3] for row in rows] == [
        [" FAIL ", " `a?b.fedsim.yaml` "],
        [" PASS ", " `good.fedsim.yaml` "],
    ]
    [missed] = [line for line in text.splitlines() if line.startswith("- ")]
    assert missed.startswith("- **error** `a\\|b.fedsim.yaml:")
    assert "observed" in missed


def test_a_bad_scenario_is_named_in_the_summary(tmp_path: Path) -> None:
    path = put(tmp_path, "expect: [nothing < 1]\n")
    assert replay(path, "--summary", "summary.md", cwd=tmp_path).returncode == 2
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "0 of 1 scenario pass" in text
    assert "| BAD |" in text
    assert "unknown metric" in text


def test_a_summary_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    done = replay(put(tmp_path, ""), "--summary", "no/summary.md", cwd=tmp_path)
    assert done.returncode == 2
    assert "error: no/summary.md cannot be written: No such file or directory" in done.stderr


def test_runs_are_kept_beside_each_other(tmp_path: Path, no_charts: None) -> None:
    """Under the path of their file; a run that is kept is what a run alone would have been."""
    put(tmp_path, "replicates: 2\n", "deep/one")
    put(tmp_path, "", "two")
    assert replay(".", "--out", "kept", cwd=tmp_path).returncode == 0
    assert sorted(path.parent.as_posix() for path in (tmp_path / "kept").rglob("report.html")) == [
        f"{tmp_path}/kept/deep/one",
        f"{tmp_path}/kept/two",
    ]
    (tmp_path / "before").mkdir()
    assert replay("../case.fedsim.yaml", cwd=tmp_path / "before").returncode == 2
