"""Text in a scenario file that would command the terminal or the CI service, or break the page: it is shown instead."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.command import Done, fedsim
from tests.conftest import Write

NAME = r"\e[2J\x9b31m\u202e\0\ufffe"
HOSTILE = rf"""
name: "n{NAME}"
description: "d{NAME}\n::error::described"
stop: {{rounds: 30}}
population:
  - {{name: "g{NAME}", devices: 6, weight: {{kind: zipf, exponent: 1}}, separation: 1}}
  - {{name: "::error::group $\\frac{{$", devices: 6}}
server: {{cohort: 3}}
expect:
  - {{check: rounds.count > 99, why: "\e[2J\e[31mALL PASS\n::error::injected\n##[error]old \u202e"}}
"""
KEY = r'"x\n::stop-commands::tok\n::error file=README.md,line=1::spoofed\n\e]0;t\a": 1' + "\n"
BAD = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ufffe]")


def harmless(done: Done) -> None:
    for line in (done.stdout + done.stderr).splitlines():
        assert not BAD.search(line), line
        assert not line.lstrip().startswith("::") or re.match(
            r"::(error|warning) file=[\w./-]*case\.fedsim\.yaml,", line
        )
        assert "##[" not in line


@pytest.mark.parametrize("command", ["validate", "run", "replay", "chain"])
def test_a_key_is_no_command(write: Write, tmp_path: Path, command: str) -> None:
    done = fedsim(command, write(HOSTILE + KEY), GITHUB_ACTIONS="true", GITHUB_WORKSPACE=str(tmp_path))
    assert done.returncode == 2
    harmless(done)
    assert r"x\n::stop-commands::tok\n::error file" in done.stdout + done.stderr


@pytest.mark.long
def test_a_reason_is_no_command(write: Write, tmp_path: Path) -> None:
    file, junit = write(HOSTILE), tmp_path / "junit.xml"
    for command in (("run", file, "--out", tmp_path / "out"), ("replay", file, "--junit", junit)):
        done = fedsim(*command, GITHUB_ACTIONS="true", GITHUB_WORKSPACE=str(tmp_path))
        assert done.returncode == 1, done.stderr
        harmless(done)
        assert r"\x1b[31mALL PASS\n::error::injected" in done.stderr
    text = junit.read_text(encoding="utf-8")
    assert not BAD.search(text)
    assert ElementTree.fromstring(text).get("failures") == "1"


def test_a_page_and_a_summary_show_it(write: Write, tmp_path: Path) -> None:
    """A control character in a group's name ended the report once, when the simulation was over."""
    out = tmp_path / "out"
    fedsim("run", write(HOSTILE), "--out", out)
    page = (out / "report.html").read_text(encoding="utf-8")
    summary = fedsim("report", out, "--format", "md")
    assert summary.returncode == 0
    harmless(summary)
    for text in (page, summary.stdout, *(each.read_text(encoding="utf-8") for each in (out / "figures").glob("*.svg"))):
        assert not BAD.search(text)
    assert r"g\x1b[2J\x9b31m\u202e\x00\ufffe" in page
    for figure in (out / "figures").glob("*.svg"):
        ElementTree.fromstring(figure.read_bytes())


def test_a_long_key_is_shortened(write: Write) -> None:
    done = fedsim("validate", write(HOSTILE + "k" * 100_000 + ": 1\n"))
    assert done.returncode == 2
    assert len(done.stderr) < 3_000
