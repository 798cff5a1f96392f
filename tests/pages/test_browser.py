"""Reports opened in a real browser, from disk and offline: on a phone and on a desk, by day and by night.

Needs Debian's chromium (or another one on the path) and the test extra; skipped with the reason where they are absent.
"""

from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest

from fedsim.common.formatting import NO_VALUE
from fedsim.pages import report_directories, write_report
from fedsim.trials.decision import L1, UPDATES

from .conftest import IN_A_BROWSER, Open, Scheme
from .runs import DEGENERATE, SCENARIO, report_comparison, write_manifest, write_run
from .sweeps import COHORT, SEPARATION, write_points, write_sweep

KINDS = ("run", "sweep", "comparison", "decision")

VIEWS = [(width, scheme) for width in (375, 1280) for scheme in ("light", "dark")]
SHOWN = [pytest.param(*view, marks=() if view == VIEWS[0] else pytest.mark.long) for view in VIEWS]
"""The views, of which the quick set takes the first, and a desk by night only of a run."""
HOSTILE = "<script>alert(1)</script>"
VERDICT = [
    {
        "check": "participation.l1_chain < 0.05",
        "severity": "error",
        "why": HOSTILE,
        "observed": 0.07,
        "limit": 0.05,
        "margin": -0.02,
        "status": "fail",
        "place": "a-rather-long/path/to/a.fedsim.yaml:12:5",
    },
    {"check": "rounds.per_day > 100", "observed": 960.0, "limit": 100.0, "margin": 860.0, "status": "pass"},
    {"check": "rounds.duration.p95 <= 1m", "observed": 90.0, "limit": 60.0, "margin": -30.0, "status": "warn"},
]

pytestmark = IN_A_BROWSER


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write one report of each kind, with hostile names; the run has a verdict."""
    folder = tmp_path_factory.mktemp("reports")
    run, other = write_run(folder / "run", rounds=120), write_run(folder / "other", rounds=60)
    named = {"name": HOSTILE, "scenario": SCENARIO | {"name": HOSTILE}}
    write_manifest(run, command=f"fedsim run {HOSTILE}", verdict=VERDICT, **named)
    report_directories([run, other], "html", folder / "all")
    return {
        "index": folder / "all" / "index.html",
        "run": write_report(run),
        "sweep": write_report(write_sweep(folder / "sweep", name=HOSTILE, crash=True)),
        "comparison": report_comparison(run, other, folder / "comparison"),
        "decision": write_report(write_decision(folder / "final"), folder / "decision.html"),
    }


def write_decision(folder: Path) -> Path:
    """Write the last sweep of a decision over R and cohort, by a private model's loss."""

    def measure(index: int, seed: int) -> dict[str, float]:
        loss = 0.4 / (1 + index) + 0.01 * (seed * (index + 1) % 3)
        learnt = {"learning.fedavg.above_optimum": loss, "learning.fedavg.bias_loss": 0.7 * loss}
        return {L1: 0.8 / (1 + index), UPDATES: 400.0 - 20 * index, "sessions.device_hours": 90.0, **learnt}

    points = [{SEPARATION: r, COHORT: cohort} for r in (0, 10, 40) for cohort in (20, 40)]
    scenario = {"decide": {"minimize": "learning.fedavg.above_optimum"}, "question": "Which R, and which cohort?"}
    return write_points(folder, points, measure, name=HOSTILE, seeds=(1, 2, 3, 4), scenario=scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_phone_shows_headline_checks_and_figures_at_once(pages: dict[str, Path], visit: Open, kind: str) -> None:
    page = visit(pages[kind], 390, "light")
    tops = [page.locator(each).first.bounding_box()["y"] for each in ("h1", ".strip", ".tiles:visible, .first .card")]
    assert tops == sorted(tops)
    assert tops[-1] < 844


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [390, 1440])
def test_a_page_reads_without_scripts(pages: dict[str, Path], browser: Any, kind: str, width: int) -> None:
    """All cards are there, none on another, chips and what is folded away open, and the page is no wider than it is."""
    context = browser.new_context(java_script_enabled=False, offline=True, viewport={"width": width, "height": 900})
    page = context.new_page()
    page.goto(pages[kind].resolve().as_uri())
    for each in page.locator(".chip summary, .more > summary").all():
        each.click()
    assert page.locator(".chip p").first.is_visible()
    boxes = [each.bounding_box() for each in page.locator(".grid .card").all()]
    assert all(box and box["width"] > 250 and box["x"] + box["width"] <= width for box in boxes)
    for one, other in combinations(boxes, 2):
        across = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
        assert across or one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
    context.close()


@pytest.mark.parametrize("kind", KINDS)
def test_cards_leave_no_holes_and_lie_on_none(pages: dict[str, Path], visit: Open, kind: str) -> None:
    page = visit(pages[kind], 1440, "light")
    boxes = page.evaluate(
        """[...document.querySelectorAll('.grid > .part > .card')].filter(each => each.checkVisibility()).map(each => {
             const box = each.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom] })"""
    )
    for one, other in combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    covered = sum((right - left + 14) * (bottom - top + 14) for left, top, right, bottom in boxes)
    whole = (1440 - 2 * 24 + 14) * (max(box[3] for box in boxes) - min(box[1] for box in boxes) + 14)
    assert covered > 0.9 * whole


def test_what_is_folded_away_fills_room_and_goes_back_where_there_is_none(written: Path, visit: Open) -> None:
    """A phone has one column, without room to fill; the summary names what is still folded away."""
    page = visit(write_report(written, written / "unfolded.html"), 1440, "light")
    every = page.locator(".grid .card").count()
    left = {}
    for width in (1440, 390, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(100)
        left[width] = page.locator(".more > .grid .card").count()
        named = [each for each in page.locator(".more > summary span").inner_text().split(" · ") if each]
        assert len(named) == left[width]
        assert page.locator(".grid .card").count() == every
    assert left[1440] < left[390]


def test_checks_open_and_tables_sort(pages: dict[str, Path], visit: Open) -> None:
    page = visit(pages["run"], 1280, "light")
    missed = page.locator(".chip", has_text="expectations")
    assert not missed.get_by_text("Of 3 expectations, 1 missed, 1 missed with a warning and 1 met").first.is_visible()
    missed.locator("summary").click()
    assert missed.get_by_text("Of 3 expectations, 1 missed, 1 missed with a warning and 1 met").first.is_visible()
    table = page.locator("table.sortable").first
    before = table.locator("tbody tr td:first-child").all_inner_texts()
    for way in ("ascending", "descending"):
        table.locator("th button").first.click()
        assert table.locator("th").first.get_attribute("aria-sort") == way
    after = table.locator("tbody tr td:first-child").all_inner_texts()
    assert sorted(before) == sorted(after)


def shown(tip: Any) -> list[str]:
    """Return the values that stand beside the pointer, each after its name."""
    return [line.rpartition(": ")[2] for line in tip.inner_text().splitlines()]


def test_a_chart_shows_its_values_to_a_pointer_and_to_keys(pages: dict[str, Path], visit: Open) -> None:
    page = visit(pages["run"], 1280, "light")
    page.locator(".more > summary").click()
    figures = page.locator("figure:has(svg[data-places])")
    assert figures.count() >= 3
    for figure in figures.all():
        svg, tip = figure.locator("svg"), figure.locator(".tip")
        every = figure.locator("tbody tr").evaluate_all("all => all.map(row => [...row.cells].map(c => c.textContent))")
        rows = [[each for each in row if each not in {"", NO_VALUE}] for row in every]
        assert len(svg.get_attribute("data-places").split()) == 1 + len(rows)
        assert not tip.is_visible()
        svg.hover()
        assert shown(tip) in rows
        for key, row in (("End", rows[-1]), ("Home", rows[0]), ("ArrowDown", rows[1])):
            svg.press(key)
            assert shown(tip) == row
        svg.press("Escape")
        assert not tip.is_visible()


def test_what_is_pointed_at_is_where_it_is_drawn(pages: dict[str, Path], visit: Open) -> None:
    """The marks of a chart with rows stand at the places that the pointer asks for."""
    page = visit(pages["run"], 1280, "light")
    svg = page.locator('svg[data-places^="y "]').first
    places = [float(each) for each in svg.get_attribute("data-places").split()[1:]]
    names = [row.split("\t")[0] for row in svg.locator("xpath=..").locator("tbody tr").all_text_contents()]
    texts = svg.locator("text").evaluate_all("all => all.map(t => [t.textContent, t.getBBox().y, t.getBBox().height])")
    assert len(places) == len(names)
    for place in places:
        assert any(y <= place + 2 <= y + height + 4 for _, y, height in texts)


@pytest.mark.parametrize("form", ["SVG", "PNG", "CSV"])
def test_a_chart_is_given_as_a_file(pages: dict[str, Path], tab: Any, form: str) -> None:
    tab.goto(pages["run"].resolve().as_uri())
    figure = tab.locator("figure:has(svg[data-places])").first
    with tab.expect_download() as found:
        figure.locator(".files button", has_text=form).click()
    assert found.value.suggested_filename == f"{figure.get_attribute('id')}.{form.lower()}"
    content = Path(found.value.path()).read_bytes()
    if form == "CSV":
        header, *lines = content.decode().splitlines()
        assert len(header.split(",")) == figure.locator("thead th").count()
        assert len(lines) == figure.locator("tbody tr").count()
    elif form == "PNG":
        assert content.startswith(b"\x89PNG")
        assert int.from_bytes(content[16:20], "big") > 600
    else:
        assert figure.locator("svg text").first.text_content() in content.decode()
        assert "var(--" not in content.decode()
        ElementTree.fromstring(content)


def check_page(page: Any) -> None:
    """Check what must hold for every report: as it opens, and with everything unfolded."""
    check_width(page)
    check_figures(page)
    check_headings(page)
    check_anchors(page)
    assert violations(page) == []
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    check_width(page)


def check_width(page: Any) -> None:
    """Nothing makes the page scroll sideways."""
    sizes = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert sizes[0] <= sizes[1]


def violations(page: Any) -> list[str]:
    """Return what axe-core finds."""
    import axe_playwright_python

    if not page.evaluate("typeof axe !== 'undefined'"):
        page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}" for each in found]


def check_figures(page: Any) -> None:
    """Every picture that is not hidden has a name and a description, and its data beside it."""
    alternatives = page.evaluate(
        """[...document.querySelectorAll('svg')].filter(svg => !svg.closest('[aria-hidden=true]')).map(svg => [
             svg.getAttribute('role'), svg.getAttribute('aria-label'), svg.querySelector('title')?.textContent,
             document.getElementById(svg.getAttribute('aria-describedby'))?.textContent,
             svg.closest('figure')?.querySelectorAll('details table tbody tr').length,
             svg.getBoundingClientRect().width])"""
    )
    for role, name, title, description, rows, width in alternatives:
        assert role == "img"
        assert name
        assert title == name
        assert len(description) > 20
        assert rows > 0
        assert width > 250


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [320, 1280])
def test_every_text_of_a_chart_can_be_read(pages: dict[str, Path], visit: Open, kind: str, width: int) -> None:
    """At least 9 pixels tall as it is shown, and within its picture but for what a wide font needs."""
    page = visit(pages[kind], width, "light")
    texts = page.evaluate(
        """[...document.querySelectorAll('figure svg text')].map(text => {
             const scale = text.getScreenCTM(), size = parseFloat(getComputedStyle(text).fontSize);
             const inside = text.getBoundingClientRect(), whole = text.ownerSVGElement.getBoundingClientRect();
             return [Math.hypot(scale.a, scale.b) * size, inside.right - whole.right, whole.left - inside.left,
                     text.textContent] })"""
    )
    assert len(texts) > 10
    assert [text for size, _, _, text in texts if size < 9] == []
    assert [text for _, right, left, text in texts if max(right, left) > 12] == []


def check_headings(page: Any) -> None:
    """Nothing is painted over the heading of a figure."""
    covered = page.evaluate(
        """[...document.querySelectorAll('figure h3 a')].filter(each => each.checkVisibility()).filter(heading => {
             heading.scrollIntoView({block: 'center'});
             const box = heading.getClientRects()[0];
             const seen = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
             return !heading.contains(seen) }).map(heading => heading.textContent)"""
    )
    assert covered == []


def check_anchors(page: Any) -> None:
    """Every link leads to a place in the page, which comes into view, to a file beside it, or to another site."""
    links = page.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    assert links or not page.evaluate("document.querySelectorAll('figure').length")  # each chart has one
    for link in dict.fromkeys(links):
        if not link.startswith("#"):
            beside = Path(unquote(urlsplit(page.url).path)).parent / unquote(link)
            assert link.startswith("https://") or beside.is_file()
            continue
        page.evaluate("link => { location.hash = link }", link)
        seen = page.evaluate(
            """id => { const box = document.getElementById(id).getBoundingClientRect();
                       return box.top < innerHeight && box.bottom > 0 }""",
            link[1:],
        )
        assert seen, link


@pytest.mark.parametrize(
    ("kind", "width", "scheme"),
    [
        pytest.param(
            kind, *view, marks=() if view == VIEWS[0] or (kind, view) == ("run", VIEWS[-1]) else pytest.mark.long
        )
        for kind in KINDS
        for view in VIEWS
    ],
)
def test_a_report_reads_well_everywhere(
    pages: dict[str, Path], visit: Open, kind: str, width: int, scheme: Scheme
) -> None:
    page = visit(pages[kind], width, scheme)
    check_page(page)
    assert HOSTILE in page.locator("header").inner_text()
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(246, 247, 249)") == (scheme == "light")


@pytest.mark.parametrize(("width", "scheme"), SHOWN)
def test_a_list_of_reports_reads_well_everywhere(
    pages: dict[str, Path], visit: Open, width: int, scheme: Scheme
) -> None:
    page = visit(pages["index"], width, scheme)
    check_page(page)
    assert HOSTILE in page.locator("main").inner_text()


@pytest.mark.parametrize("kind", ["run", *(pytest.param(kind, marks=pytest.mark.long) for kind in KINDS[1:])])
def test_what_is_folded_away_is_accessible_too(pages: dict[str, Path], visit: Open, kind: str) -> None:
    page = visit(pages[kind], 375, "dark")
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert violations(page) == []


@pytest.mark.parametrize("width", [390, 1440])
def test_the_first_screen_has_the_headline_the_figures_and_the_picture(
    pages: dict[str, Path], visit: Open, width: int
) -> None:
    page = visit(pages["run"], width, "light")
    assert "Of 3 expectations, 1 missed, 1 missed with a warning and 1 met" in page.locator("h1").inner_text()
    boxes = {each: page.locator(each).first.bounding_box() for each in ("h1", ".tiles", ".first figure svg")}
    assert boxes["h1"]["y"] < boxes[".tiles"]["y"] < boxes[".first figure svg"]["y"] < 900
    assert page.locator(".tiles > div").count() <= 5
    assert page.locator(".chip").count() <= 8


def test_a_report_prints(pages: dict[str, Path], visit: Open) -> None:
    page = visit(pages["run"], 1280, "dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)"


@pytest.mark.long
@pytest.mark.parametrize("name", DEGENERATE)
def test_odd_runs_read_well_too(tmp_path: Path, visit: Open, name: str) -> None:
    directory = write_run(tmp_path / "run", rounds=40)
    DEGENERATE[name](directory)
    page = write_report(directory)
    for width, scheme in VIEWS:
        check_page(visit(page, width, scheme))  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(Path("reports").glob("**/*.html")), ids=str)
def test_committed_reports_read_well(visit: Open, path: Path) -> None:
    for width, scheme in VIEWS:
        check_page(visit(path, width, scheme))  # type: ignore[arg-type]
    assert path.stat().st_size <= 250 * 1024
