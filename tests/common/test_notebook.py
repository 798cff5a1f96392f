"""What a notebook shows: all of it text, whoever wrote it, in a fragment that touches nothing outside."""

from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

import fedsim
from tests.conftest import Load

HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m'\"&"


class Reader(HTMLParser):
    """Collects the cells, and checks that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, _attrs: Any) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def shown(value: Any) -> Reader:
    """Read what a notebook shows of a value."""
    reader = Reader()
    reader.feed(value._repr_html_())
    assert reader.open == []
    assert reader.tags <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    return reader


def test_a_scenario(small: Load) -> None:
    scenario = small("stop.rounds=1200", "learning={problem: quadratic, optimizers: [fedavg], step_size: 0.1}")
    rows = dict(shown(scenario).rows)
    assert rows["stop"] == "{rounds: 1200}"
    assert rows["population[0]"].endswith("separation: {kind: constant, value: 2}}")
    assert "1,200 rounds" in scenario._repr_html_()
    assert "learning" not in dict(shown(small()).rows)


@pytest.mark.parametrize("key", ["name", "question", "description"])
def test_texts_of_a_scenario_are_escaped(small: Load, key: str) -> None:
    html = small().with_values({key: HOSTILE})._repr_html_()
    assert "&lt;script&gt;" in html
    assert not any(each in html for each in ("<script", "\u202e", "\x1b"))


def test_answers_of_theory(small: Load) -> None:
    """The table has what the answers have, and a single answer shows itself alike."""
    answers = fedsim.participation_theory(small(), separation=[0, 2])
    head, *rows = shown(answers).rows
    assert head[0] == "R"
    assert [row[:3] for row in rows] == [
        [str(each.separation), each.method, f"{each.l1_uniform:.6f}"] for each in answers
    ]
    assert shown(answers[1]).rows[1:] == rows[1:]
    own = small("population.0.separation=[0,0,0,0,0,0,1,1,1,1,1,1]")
    field = fedsim.participation_theory(own, method="mean-field")
    assert shown(field).rows[1][:2] == ["per client", "mean-field"]
    assert field.caveats[0] in unescape(field._repr_html_())


def test_answers_are_short_in_a_line_and_whole_as_a_frame(small: Load) -> None:
    answers = fedsim.participation_theory(small(), separation=[0, 2])
    assert "array" not in repr(answers)
    assert len(repr(answers[0])) < 200
    frame = answers.to_frame()
    assert frame["separation"].to_list() == [0, 2]
    assert frame["tv_uniform"].to_list() == [each.tv_uniform for each in answers]
    assert answers[1].to_frame()["pi"].to_list() == answers[1].pi.tolist()
    own = fedsim.participation_theory(small("population.0.separation=[0,0,0,0,0,0,1,1,1,1,1,1]"), separation=None)
    assert type(answers)([own]).to_frame()["separation"][0] is None
    promised = fedsim.privacy_guarantees(small("privacy={epsilon: 8, delta: 1.0e-8}"), separation=[0, 2])
    assert promised.to_frame()["epsilon"].to_list() == [row.as_dict()["epsilon"] for row in promised]


def test_guarantees(small: Load) -> None:
    private = small("privacy={epsilon: 8, delta: 1.0e-8}")
    promised = fedsim.privacy_guarantees(private, separation=[0, 2])
    rows = shown(promised).rows[1:]
    assert [(row[0], row[2], row[3]) for row in rows] == [("0", "1", "60"), ("2", "3", "20")]
    assert promised[0].caveats == [] or promised[0].caveats[0] in promised._repr_html_()
    assert shown(fedsim.privacy_guarantees(private)).rows[1][0] == "2"
