"""The page: self-contained, escaped, accessible, the same every time, and there for the oddest of runs."""

import re
import shutil
from collections import Counter
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

import fedsim
from fedsim import simulate
from fedsim.common.formatting import number
from fedsim.log import fingerprint
from fedsim.pages import write_report
from fedsim.pages.answer import Answer, Check, Grade, Section
from fedsim.pages.charts import RUN_CHARTS
from fedsim.pages.html import MOST_CARDS, render, strip
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.run import run_answer
from fedsim.pages.tables import Table, cost_parts, cost_table, ending_table
from fedsim.run.check import CHECKED
from tests.conftest import Load

from .runs import DEGENERATE, SCENARIO, one_client, rewrite, write_manifest, write_run

VOID = {"meta", "link", "br", "hr", "img", "input", "use", "wbr"}
HOSTILE = "<script>alert(1)</script>"

_WAYS = ("groups", "zones", "weights", "availability", "speed", "over-time")
_OTHERS = {"loss-noise", "cost", "staleness", "steps", "optimum", "hours", "week", "one-round"}
_OTHERS |= {f"who-{way}" for way in _WAYS}
NAMES = tuple(name for name in RUN_CHARTS if name not in _OTHERS)
"""What the report of a run in rounds shows: one time zone, always available, no optimum, time with the rounds."""


class Page(HTMLParser):
    """The elements of a page in order, and the text in each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data.strip()))

    def find(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def inside(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]


def check(text: str) -> Page:
    """Check what must hold for every page."""
    page = Page(text)
    assert page.open == []
    assert len(re.findall(r'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; ', text)) == 1
    assert not [attributes for _, attributes in page.elements if "style" in attributes]
    scripts = page.find("script")
    assert all(attributes.keys() <= {"id", "type"} for attributes in scripts)
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in page.elements}
    identities = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert [name for name, times in Counter(identities).items() if times > 1] == []
    for tag, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        assert "src" not in attributes
        for name in ("href", "xlink:href"):
            target = attributes.get(name, "#answer")
            assert target.startswith("#")
            assert target[1:] in identities
        for target in re.findall(r"url\(([^)]*)\)", " ".join(attributes.values())):
            assert target[1:] in identities
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(attributes.get(name, "").split()) <= set(identities)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert [pair for pair in pairwise(levels) if pair[1] > pair[0] + 1] == []
    style = "".join(page.inside("style"))
    assert "url(" not in style
    assert "@import" not in style
    for svg in page.find("svg"):
        assert svg["role"] == "img"
        assert svg["aria-label"]
    assert all(svg["aria-describedby"] in identities for svg in page.find("svg"))
    assert len(page.inside("title")) == len(page.find("svg")) + 1
    assert len(text.encode()) < 2_000_000
    return page


def test_colours_stand_out_from_what_is_behind_them() -> None:
    """By the contrast ratio of WCAG 2: 4.5 for text, 3 for lines, by day and by night."""
    css = (files("fedsim.pages") / "templates" / "report.css").read_text(encoding="utf-8")

    def luminance(color: str) -> float:
        parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    schemes = [dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", part)) for part in css.split("@media screen", 1)]
    for colors in (schemes[0], schemes[0] | schemes[1]):
        for front in ("ink", "muted", "link", "warn", "bad", "good", *(f"series-{at}" for at in range(1, 7))):
            for back in ("paper", "card", "wash"):
                light, dark = sorted((luminance(colors[each]) for each in (front, back)), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= (3 if "series" in front else 4.5), (front, back)


def test_the_page_is_self_contained_and_accessible(page: str) -> None:
    shown = check(page)
    figures = [figure["id"] for figure in shown.find("figure")]
    assert sorted(figures) == sorted(NAMES)
    assert figures[0] == "loss"
    assert {"answer", "bias", "learning", "rounds", "provenance"} <= {
        attributes.get("id") for _, attributes in shown.elements
    }
    assert shown.find("html") == [{"lang": "en"}]


def test_the_title_is_the_finding_and_the_name_stands_above(page: str) -> None:
    shown = Page(page)
    found = "Only “fedavg” stays biased: it ends 0.48\N{NARROW NO-BREAK SPACE}% above unbiased training, "
    head = '<h1 id="answer-head" class="long">Only “<bdi>fedavg</bdi>” stays biased: it ends 0.48'
    assert head in page
    assert shown.inside("title")[0].startswith(f"paper-synthetic: {found}")
    assert shown.inside("title")[0].endswith(" · fedsim report")
    assert "fedsim run · paper-synthetic" in shown.inside("p")


@pytest.mark.long
def test_the_question_stands_above_the_answer(page: str, run_directory: Path) -> None:
    assert 'class="question"' not in page
    write_manifest(run_directory, scenario=SCENARIO | {"question": f"Who wins? {HOSTILE}"})
    text = write_report(run_directory).read_text(encoding="utf-8")
    assert f"Who wins? {HOSTILE}" in check(text).inside("p")
    assert text.index('id="answer"') < text.index('class="question"') < text.index("<h1")


def test_where_nothing_was_trained_nothing_leads_to_learning(page: str, run_directory: Path) -> None:
    assert 'id="learning"' in page
    one_client(run_directory)
    shown = check(write_report(run_directory).read_text(encoding="utf-8"))
    assert "learning" not in {attributes.get("id") for _, attributes in shown.elements}


def test_how_rounds_ended_is_shown_where_they_ended_differently(page: str) -> None:
    assert "How rounds ended" not in Page(page).inside("span")
    table = ending_table("rounds", pl.DataFrame({"outcome": ["target", "exhausted"], "len": [9, 1]}))
    assert table is not None
    assert table.note.startswith("Target: enough clients reported;")


@pytest.mark.long
def test_expectations_that_are_met_unfold_from_the_strip(run_directory: Path) -> None:
    met = {"check": "rounds.count > 5", "status": "pass", "observed": 60, "limit": 5, "margin": 55, "place": "a:1:2"}
    write_manifest(run_directory, verdict=[met] * 3)
    shown = Page(write_report(run_directory).read_text(encoding="utf-8"))
    assert any(text == "Of 3 expectations, 3 met." for text in shown.inside("p"))
    assert any("observed 60" in text for text in shown.inside("span"))
    assert "a:1:2" in shown.inside("code")


def test_the_page_names_no_other_place(page: str) -> None:
    text = re.sub(r'<meta http-equiv="[^>]*>|/\*.*?\*/', "", page, flags=re.DOTALL)
    assert "http" not in text
    assert "//" not in text


def test_every_chart_has_its_data(page: str) -> None:
    shown = check(page)
    captions = shown.inside("span")
    for caption in ("Who takes part, by", "Distance from uniform", "Loss: loss", "How long rounds took: share"):
        assert any(text.startswith(caption) for text in captions)
    assert [text for text in shown.inside("summary") if text == "Notes and data"] == ["Notes and data"] * len(NAMES)


def test_provenance_is_all_there(written: Path, page: str) -> None:
    shown = Page(page)
    assert "fedsim run synthetic.fedsim.yaml --set 'population.*.separation=8' --seed 1" in shown.inside("pre")
    assert "population.*.separation=8" in shown.inside("code")
    assert fingerprint(pl.read_parquet(written / "rounds.parquet")) in shown.inside("code")
    assert any('"kind": "groups"' in text for text in shown.inside("pre"))
    assert "fedsim 0.1.0, python 3.11.2, numpy 2.4.6" in shown.inside("dd")


@pytest.mark.long
def test_names_are_text_everywhere(run_directory: Path) -> None:
    """Scenario, groups, optimizers, overrides, platform, command: none becomes markup, or breaks a figure."""
    write_manifest(
        run_directory,
        name=HOSTILE,
        command=HOSTILE,
        overrides=[HOSTILE],
        platform=HOSTILE,
        status=HOSTILE,
        scenario=SCENARIO | {"description": HOSTILE, "name": HOSTILE},
    )
    names = {"fedavg": HOSTILE, "debiased_fedavg": '_$x_1$ " id="answer', "fedavg_uniform": "</svg></style>联邦"}
    rewrite(run_directory / "learning.parquet", lambda rows: rows.with_columns(pl.col("optimizer").replace(names)))
    rewrite(run_directory / "clients.parquet", lambda rows: rows.with_columns(group=pl.lit(HOSTILE)))
    rewrite(run_directory / "rounds.parquet", lambda rows: rows.with_columns(outcome=pl.lit(HOSTILE)))
    shown = check(write_report(run_directory).read_text(encoding="utf-8"))
    assert shown.inside("title")[0].startswith(HOSTILE)
    assert any(HOSTILE in text and text.startswith("fedsim run · ") for text in shown.inside("p"))
    assert any(text.startswith(HOSTILE) for text in shown.inside("text"))  # a line under another names that too
    assert HOSTILE in shown.inside("td")
    assert any("</svg></style>联邦" in text for text in shown.inside("p"))


def contents(directory: Path) -> dict[str, bytes]:
    return {"report.html": (directory / "report.html").read_bytes()}


@pytest.mark.long
def test_twice_made_the_bytes_are_the_same(written: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(written, copy, ignore=shutil.ignore_patterns("report.html"))
    write_report(written)
    write_report(copy)
    assert contents(written) == contents(copy)


def test_the_strip_counts_the_checks_that_hold_and_names_the_others_the_gravest_first() -> None:
    kinds = ("ended", "even", "theory", "trained", "seeds")
    states = (Grade.OK, Grade.CAUTION, Grade.NONE, Grade.BAD, Grade.OK)
    checks = [Check(name, state, f"Of {name}.") for name, state in zip(kinds, states, strict=True)]
    chips = strip(Answer("run", "made", "It is.", checks=checks))
    assert [(chip.words, chip.state) for chip in chips] == [
        (CHECKED["trained"], Grade.BAD),
        (CHECKED["even"], Grade.CAUTION),
        ("2 of 4 checks hold", Grade.OK),
    ]
    assert [each.text for each in chips[-1].checks] == ["Of ended.", "Of seeds."]
    assert [chip.words for chip in strip(Answer("run", "made", "It is.", checks=checks[:1]))] == ["1 check holds"]


def test_every_check_has_words() -> None:
    sources = "".join(file.read_text(encoding="utf-8") for file in Path(fedsim.__file__).parent.rglob("*.py"))
    assert {*re.findall(r'Check[(,]\s*"(\w+)"', sources)} - {*CHECKED} == set()


def test_of_many_cards_the_first_are_unfolded_and_the_rest_is_named() -> None:
    tables = [Table(f"table {at}", ("A", "B"), (("a", "1"),) * 5, aside=at == 1) for at in range(MOST_CARDS + 2)]
    page = render(Answer("run", "made", "It is.", sections=[Section("made", "Made", (), tables)]))
    before, _, more = page.partition('<details class="more">')
    assert before.count("<caption>") == MOST_CARDS - 1
    assert "<span>table 1 · table 8 · table 9</span>" in more
    check(page)


@pytest.mark.long
@pytest.mark.parametrize("name", DEGENERATE)
def test_odd_runs_have_a_report(run_directory: Path, name: str) -> None:
    DEGENERATE[name](run_directory)
    shown = check(write_report(run_directory).read_text(encoding="utf-8"))
    assert not any(re.search(r"\bnan\b", text, re.IGNORECASE) for _, text in shown.texts)


@pytest.mark.long
def test_a_million_clients_fit_into_a_small_page(tmp_path: Path) -> None:
    directory = write_run(tmp_path / "run")
    rewrite(
        directory / "clients.parquet",
        lambda clients: pl.concat([clients] * 10_000).with_columns(
            client=pl.int_range(1_000_000), frequency=pl.col("frequency") / 10_000, pi=pl.col("pi") / 10_000
        ),
    )
    assert len(check(write_report(directory).read_text(encoding="utf-8")).find("svg")) == len(NAMES) - 1


def test_what_a_fleet_costs_is_on_its_page(small: Load) -> None:
    """In all and for each update; where the scenario has prices, tile and picture have the money, else the bytes."""
    session = "{model: 5MB, update: 1MB, samples: 100, device: raspberry-pi-4, link: {down: 8Mbps, up: 8Mbps}}"
    work = [f"population.*.session={session}"]
    priced = simulate(small(*work, "prices={gigabyte: 100, kilowatt_hour: 1, carbon: 400g}"))
    table, updates = cost_table(priced), int((priced.rounds["reported"] > 0).sum())
    assert table is not None
    assert [row[0] for row in table.rows][-1] == "Cost by the scenario's prices"
    own = wording_of("fleet.bytes_down")
    cells = (own.write(priced.known[own.metric]), own.write(priced.known[own.metric] / updates))
    assert ("Bytes that devices downloaded", *cells) in table.rows
    (tile,) = (each for each in run_answer(priced).tiles if each.label.startswith("cost"))
    assert tile.value == number(priced.known["fleet.cost"], 3)
    assert "down" in tile.detail
    answer, parts = run_answer(priced), cost_parts(priced)
    assert sum(part.cost for part in parts.values()) == pytest.approx(priced.known["fleet.cost"])
    assert answer.tiles[0] == tile
    assert answer.first_picture is not None
    assert (answer.first_picture.name, "at 100 a GB" in answer.first_picture.finding) == ("cost", True)
    free = simulate(small(*work))
    assert not cost_parts(free)
    assert "down" in next(each for each in run_answer(free).tiles if each.label == "what sessions took").value
    assert cost_table(simulate(small())) is None


def test_what_is_of_interest_to_few_is_shown_where_there_is_nothing_else() -> None:
    """And tables without rows nowhere."""
    few = Table("How rounds ended", ("Outcome", "Rounds"), (("late", "9"),), aside=True)
    others = {"": [], "a table": [Table("A", ("B", "C"), (("d", "1"),))], "none of rows": [Table("A", ("B", "C"), ())]}
    for what, more in others.items():
        page = render(Answer("run", "made", "It is.", sections=[Section("made", "Made", (), [few, *more])]))
        assert ('<details class="more">' in page) == (what == "a table")
        assert page.count("<caption>") == 1 + (what == "a table")
        check(page)


def test_the_first_step_stands_alone_and_the_others_are_folded() -> None:
    checks = [Check(f"c{at}", Grade.NONE, "So.", remedy=f"Do {at}.", command=f"do {at}") for at in range(3)]
    for some in (checks, checks[:1]):
        page = render(Answer("run", "made", "It is.", checks=some))
        before, _, others = page.partition("<summary>Other steps (2)</summary>")
        assert ("Do 1." in before, "Do 1." in others) == (False, len(some) > 1)
        assert "Do 0." in before
        check(page)
