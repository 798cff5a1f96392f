"""The commands that run and sweep directories record, pasted into a shell in the same working folder."""

import html
import json
import re
import shlex
import shutil
import subprocess
import sys
from functools import reduce
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedsim.trials import sweep as sweeping
from tests.command import fedsim, variables
from tests.conftest import LIMIT_S
from tests.trials.sweeping import THREADS

CASE = """\
stop: {rounds: 20}
population: [{devices: 8, weight: {kind: zipf, exponent: 1}}]
server: {cohort: 2}
sweep: {grid: {server.cohort: [1, 2]}, seeds: 2}
"""
TIMED = ("manifest.json", "sweep.json")


def content(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder, but for the time that was taken, and whether a full path was typed."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for name in found.keys() & set(TIMED):
        other = dict.fromkeys(("wall_time_s", "scenario_file", "checksum", "checksums"))
        found[name] = json.dumps(json.loads(found[name]) | other).encode()
    return found


def pasted(command: str, folder: Path) -> None:
    """Run a command by a shell, as a person does who has copied it."""
    shell = f'fedsim() {{ {shlex.quote(sys.executable)} -m fedsim "$@"; }}\n{command}'
    with subprocess.Popen(["bash", "-c", shell], cwd=folder, env=variables({}), stderr=subprocess.PIPE) as started:
        _, said = started.communicate(timeout=LIMIT_S)
    assert started.returncode == 0, said


@pytest.mark.parametrize(
    ("arguments", "kept", "again"),
    [
        (["run", "FILE", "--set", "stop.rounds=9", "--seed", "4"], "runs/case-*", ""),
        (["run", "HERE/FILE", "--engine", "process"], "runs/case-*", ""),
        (["run", "FILE", "--out", "my runs/one"], "my runs/one", "runs/case"),
        (["sweep", "FILE", "--out", "my sweeps/it's", "--retries", "1"], "my sweeps/it's", ""),
        (["sweep", "HERE/FILE", "--out", "HERE/my sweeps/a", "--timeout", "1h", "--compact"], "my sweeps/a", ""),
        (["sweep", "FILE", "--out", "OUTSIDE/a", "--set", "sweep.seeds=[3]"], "OUTSIDE/a", ""),
        (["sweep", "FILE", "--seed", "5"], "sweeps/case", ""),
        (["replay", "FILE", "--out", "my runs"], "my runs/**/case", "runs/case"),
    ],
)
def test_pasted_it_writes_the_same_bytes(tmp_path: Path, arguments: list[str], kept: str, again: str) -> None:
    here, outside = tmp_path / "my folder", tmp_path / "out side"
    (here / "my cases").mkdir(parents=True)
    file = here / "my cases" / "case.fedsim.yaml"
    file.write_text(CASE + "name: case\n")

    def found(pattern: str) -> Path:
        (one,) = (outside.parent if "OUTSIDE" in pattern else here).glob(pattern.replace("OUTSIDE", "out side"))
        return one

    words = {"FILE": str(file.relative_to(here)), "HERE": str(here), "OUTSIDE": str(outside)}
    typed = [reduce(lambda word, name: word.replace(name, words[name]), words, word) for word in arguments]
    how = ["--executor", THREADS, "--workers", "1"] if arguments[0] == "sweep" else []
    assert (done := fedsim(*typed, *how, cwd=here)).returncode == 0, done.stderr
    first = tmp_path / "first"
    shutil.move(found(kept), first)
    command = next(json.loads((first / name).read_text())["command"] for name in TIMED if (first / name).exists())
    assert str(here) not in command
    assert shlex.quote("my cases/case.fedsim.yaml") in command
    pasted(command, here)
    assert content(first) == content(found(again or kept))


def test_the_commands_on_the_page_of_a_comparison_run_both_again(tmp_path: Path) -> None:
    (tmp_path / "my case.yaml").write_text(CASE)
    for name, cohort in (("it's", 1), ("b", 2)):
        fedsim("run", "my case.yaml", "--set", f"server.cohort={cohort}", "--out", f"my runs/{name}", cwd=tmp_path)
    assert fedsim("compare", "my runs/it's", "my runs/b", "--out", "page.html", cwd=tmp_path).returncode == 0
    commands = re.findall(r'again">([^<]*)<', (tmp_path / "page.html").read_text())
    for name, command in zip(("it's", "b"), map(html.unescape, commands), strict=True):
        pasted(command, tmp_path)
        (again,) = tmp_path.glob("runs/*")
        assert content(again) == content(tmp_path / "my runs" / name)
        shutil.rmtree(again)


def test_the_page_of_a_sweep_is_the_same_however_long_it_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "case.fedsim.yaml").write_text(CASE)
    pages = []
    for late in (0.0, 123.0):
        times = chain([1.0], repeat(2.0 + late))
        monkeypatch.setattr(sweeping, "time", SimpleNamespace(monotonic=lambda times=times: next(times)))
        assert fedsim("sweep", "case.fedsim.yaml", "--executor", THREADS, cwd=tmp_path).returncode == 0
        (made,) = tmp_path.glob("sweeps/*")
        pages.append(((made / "report.html").read_bytes(), json.loads((made / "sweep.json").read_text())))
        shutil.rmtree(made)
    assert [page[1]["wall_time_s"] for page in pages] == [1.0, 124.0]
    assert pages[0][0] == pages[1][0]


def test_a_name_that_looks_like_an_option_is_none_in_the_command(tmp_path: Path) -> None:
    (tmp_path / "-x.yaml").write_text(CASE)
    how = ["--out=-o", "--executor", THREADS, "--no-report"]
    assert (done := fedsim("sweep", "./-x.yaml", *how, cwd=tmp_path)).returncode == 0, done.stderr
    before = content(tmp_path / "-o")
    shutil.rmtree(tmp_path / "-o")
    pasted(json.loads(before["sweep.json"])["command"] + " --no-report", tmp_path)
    assert content(tmp_path / "-o") == before
