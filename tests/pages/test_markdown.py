"""Summaries in Markdown: short, and no name in them becomes markup."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.common.markup import block, code, escape, table
from fedsim.pages.page import answer_of, report_directories
from fedsim.pages.summary import markdown_summary

from .runs import DEGENERATE, SCENARIO, write_manifest

HOSTILE = "<script>alert(1)</script> | @team `x` **b** [l](u)"


def test_names_are_text() -> None:
    assert escape(HOSTILE) == (
        "&lt;script&gt;alert\\(1\\)&lt;/script&gt; \\| @\N{WORD JOINER}team \\`x\\` \\*\\*b\\*\\* \\[l\\]\\(u\\)"
    )
    assert escape("two\nlines") == "two lines"


@given(st.text(max_size=40))
def test_escaped_text_has_no_bare_marks(text: str) -> None:
    """Whatever is put in: one line, and every character that Markdown or HTML gives a meaning has its backslash."""
    shown = escape(text)
    assert "\n" not in shown
    assert not {"<", ">"} & set(shown)
    assert re.search(r"(?<!\\)(?:\\\\)*[|`*_\[\]]", shown) is None


@given(st.text(alphabet="`ab |\n", max_size=20))
def test_code_is_fenced_by_more_backticks_than_it_has(text: str) -> None:
    shown = code(text)
    fence = re.match("`+", shown)
    assert fence is not None
    assert shown.endswith(fence[0])
    assert max((len(run) for run in re.findall("`+", " ".join(text.split()))), default=0) < len(fence[0])
    assert re.search(r"(?<!\\)\|", shown) is None


def test_blocks_and_tables() -> None:
    assert block("a ``` b").startswith("````\n")
    assert table(("a", "b"), [("1", "2")]) == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_the_summary_of_a_run_has_verdict_answer_figures_and_command(run_directory: Path) -> None:
    judged = [
        {"check": "rounds.count > 5", "status": "pass", "observed": 60, "limit": 5, "margin": 55, "place": "a:1:2"}
    ]
    named = {"name": HOSTILE, "scenario": SCENARIO | {"name": HOSTILE}}
    write_manifest(run_directory, command="fedsim run 'a b'", verdict=judged, **named)
    text = markdown_summary(answer_of(run_directory))
    assert text.startswith("### &lt;script&gt;alert\\(1\\)&lt;/script&gt;")
    assert "Of 1 expectation, 1 met." in text
    assert "| rounds that were opened above 5 (`rounds.count > 5`) | 60 | `a:1:2` |" in text
    assert "100 devices gave 300 reports" in text
    assert "⚠️ enough" in text
    assert "| rounds | **60** |" in text
    assert "fedsim run 'a b'" in text
    assert "<script" not in text


@pytest.mark.parametrize("name", DEGENERATE)
def test_odd_runs_have_a_summary(run_directory: Path, name: str) -> None:
    DEGENERATE[name](run_directory)
    answer = answer_of(run_directory)
    text = markdown_summary(answer)
    assert "nan" not in text.lower()
    assert text.startswith(f"### {escape(answer.name)} (run)")


def test_json_is_the_answer(run_directory: Path) -> None:
    (line,) = report_directories([run_directory], "json", None)
    assert json.loads(line) == json.loads(json.dumps(answer_of(run_directory).json()))
