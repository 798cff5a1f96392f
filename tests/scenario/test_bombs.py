"""Small files that would take long to read: each is a scenario or is refused after a bounded number of steps."""

import difflib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fedsim.common.errors import ScenarioError
from fedsim.scenario import Scenario, document, loading
from fedsim.trials.plan import points_of
from tests.conftest import SMALL


def told(path: Path) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(path)
    return [str(mistake) for mistake in caught.value.mistakes]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often each file is read."""
    counted: Counter[str] = Counter()
    read = document.read_document

    def counting(path: Path, *rest: Any) -> Any:
        counted[path.name] += 1
        return read(path, *rest)

    monkeypatch.setattr(loading, "read_document", counting)
    return counted


def test_a_file_is_read_once_however_often_it_is_extended(tmp_path: Path, reads: Counter[str]) -> None:
    """Twice the same at each of 20 levels: twice the time at each level once."""
    for level in range(19):
        text = f"extends: [l{level + 1}.yaml, l{level + 1}.yaml]\n"
        (tmp_path / f"l{level}.yaml").write_text(text)
    (tmp_path / "l19.yaml").write_text(SMALL)
    assert Scenario.load(tmp_path / "l0.yaml").devices == 12
    assert set(reads.values()) == {1}
    assert len(reads) == 20


def test_what_is_merged_twice_is_not_changed_by_the_first(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        SMALL + "learning: {problem: quadratic, optimizers: [fedavg], step_size: 0.1}\n"
    )
    (tmp_path / "one.yaml").write_text("extends: base.yaml\nlearning: {step_size: 0.5}\nserver: {cohort: 2}\n")
    (tmp_path / "both.yaml").write_text("extends: [one.yaml, base.yaml]\n")
    found, base = (Scenario.load(tmp_path / name) for name in ("both.yaml", "base.yaml"))
    assert (found.learning, found.server) == (base.learning, base.server)
    assert Scenario.load(tmp_path / "one.yaml").server != base.server


@pytest.mark.long
@pytest.mark.parametrize("names", ["base.yaml", "./base.yaml"])
def test_too_many_files_are_not_read(tmp_path: Path, reads: Counter[str], names: str) -> None:
    (tmp_path / "base.yaml").write_text(SMALL)
    (tmp_path / "case.yaml").write_text("extends: [" + ", ".join([names] * 20_000) + "]\n")
    assert "case.yaml:1:" in told(tmp_path / "case.yaml")[0]
    assert "extends too many files" in told(tmp_path / "case.yaml")[0]
    assert reads["base.yaml"] <= 2


@pytest.mark.long
def test_what_is_read_is_counted_over_all_files(tmp_path: Path, reads: Counter[str]) -> None:
    for number in range(20):
        (tmp_path / f"b{number}.yaml").write_text("a: 1\n" + "\n" * 900_000)
    (tmp_path / "case.yaml").write_text("extends: [" + ", ".join(f"b{number}.yaml" for number in range(20)) + "]\n")
    assert "is larger than 3 MiB, with the files that are read before it" in told(tmp_path / "case.yaml")[0]
    assert len(reads) == 5


def test_what_is_merged_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document.Allowance, "__init__", lambda self: self.__dict__.update(FEW))
    (tmp_path / "big.yaml").write_text("".join(f"k{number}: 1\n" for number in range(100)))
    (tmp_path / "case.yaml").write_text("extends: [" + ", ".join(["big.yaml"] * 90) + "]\n")
    assert "takes over too many values" in told(tmp_path / "case.yaml")[0]


FEW = {"size": 10**6, "nodes": 1000, "values": 1000, "merged": 2000, "files": 100}


def test_merging_looks_at_every_key_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was quadratic in the keys."""
    steps, look = [0], document.below_and_at

    def counting(path: Any, data: Any) -> Any:
        for each in look(path, data):
            steps[0] += 1
            yield each

    for module in (loading, document):
        monkeypatch.setattr(module, "below_and_at", counting)
    for name in ("a", "b"):
        keys = "".join(f"  k{number}: [{number}]\n" for number in range(1_000))
        (tmp_path / f"{name}.yaml").write_text("learning:\n" + keys)
    (tmp_path / "case.yaml").write_text("extends: [a.yaml, b.yaml]\n" + SMALL)
    assert told(tmp_path / "case.yaml")
    assert 2_000 < steps[0] < 40_000


@pytest.mark.long
def test_only_so_many_mistakes_are_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, closest = [0], difflib.get_close_matches

    def counting(*rest: Any, **more: Any) -> Any:
        asked[0] += 1
        return closest(*rest, **more)

    monkeypatch.setattr(difflib, "get_close_matches", counting)
    (tmp_path / "case.yaml").write_text(SMALL + "".join(f"k{number}: 1\n" for number in range(10_000)))
    found = told(tmp_path / "case.yaml")
    assert len(found) == 100
    assert "k99: unknown key; there are 9,900 more in this mapping" in found[-1]
    assert asked[0] <= 30
    zones = ", ".join(f"Europe/Berln{number}" for number in range(10_000))
    text = SMALL.replace("separation: 2", f"time_zone: [{zones}]")
    (tmp_path / "case.yaml").write_text(text)
    found = told(tmp_path / "case.yaml")
    assert found[-1] == "error: there are 9,900 more mistakes"
    assert "did you mean 'Europe/Berlin'?" in found[0]
    assert asked[0] <= 60


@pytest.mark.parametrize("start", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z", "1899-12-31T23:00:00Z"])
def test_a_start_that_no_calendar_reaches_is_refused(tmp_path: Path, start: str) -> None:
    (tmp_path / "case.yaml").write_text(SMALL + f"start: {start}\n")
    assert "start: must lie between 1900 and 2200, not" in told(tmp_path / "case.yaml")[0]


@pytest.mark.parametrize("index", ["²", "9" * 900, "-1", "٣"])
def test_what_is_no_index_is_refused_in_paths(tmp_path: Path, index: str) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(SMALL)
    with pytest.raises(ScenarioError, match="is none of its items"):
        Scenario.load(path, [f"population[{index}].devices=3"])
    path.write_text(SMALL + f"sweep: {{grid: {{'population[{index}].devices': [3]}}}}\n")
    with pytest.raises(ScenarioError, match="is none of its items"):
        points_of(Scenario.load(path))


def test_a_path_has_so_many_levels(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(SMALL)
    with pytest.raises(ScenarioError, match="leads through 5,000 levels; 100 are possible"):
        Scenario.load(path, [".".join("a" * 5_000) + "=1"])


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(ScenarioError, match="cannot be the name of a file"):
        Scenario.load("a\0b")
