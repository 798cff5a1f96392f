"""Pages of random scenarios, read by a linter; and the linter, which must find what is wrong and nothing else.

`make lint-pages` reads 200; FEDSIM_PAGES is how many, FEDSIM_PAGES_FROM the first.
"""

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fedsim.pages.finding import as_plain
from fedsim.pages.page import document_of

from .conftest import IN_A_BROWSER, Open
from .lint import Fault, check_form, check_words, lint, numbers, read_page, says
from .lint_browser import browser_faults
from .lint_cases import Case, draw_case
from .runs import comparison_of

FAULTY = (
    6077,
    6172,
    7156,
    8015,
    8034,
    8133,
    9009,
    9082,
    9133,
    10181,
    11097,
    12032,
)  # had lines too long, dust, no cost, other seeds
PAGES, FIRST = int(os.environ.get("FEDSIM_PAGES", "20")), int(os.environ.get("FEDSIM_PAGES_FROM", "0"))


def _in_a_browser(test: Any) -> Any:
    for mark in IN_A_BROWSER:
        test = mark(test)
    return test


def faults_of(case: Case, right: Counter[str]) -> list[Fault]:
    """Return the faults of the page of a case, which is of what its directories hold."""
    if case.kind == "comparison":
        document = comparison_of(case.directories[0], case.directories[1])
    else:
        document = document_of(case.directories[0])
    return lint(case.page, case.directories, [dict(as_plain(each)) for each in document.answer], right)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_pages_have_no_faults(tmp_path: Path) -> None:
    """Every number is right and said, and nothing is dust."""
    faulty, right = list[str](), Counter[str]()
    for number in dict.fromkeys((*FAULTY, *range(FIRST, FIRST + PAGES))):
        case = draw_case(number, tmp_path)
        faulty += [f"{case.page.relative_to(tmp_path)}: {fault}" for fault in faults_of(case, right)]
    sys.stdout.write(f"lint: {PAGES + len(FAULTY)} pages, {right.total()} findings right, {len(faulty)} faults\n")
    assert not faulty, "\n".join(faulty)


@_in_a_browser
@pytest.mark.long
@pytest.mark.timeout(7200)
def test_pages_have_no_faults_in_a_browser(tmp_path: Path, visit: Open) -> None:
    """A dozen of 200 pages: nothing is wider than a phone or too small for it, and axe-core has no complaint."""
    faulty, pages = list[str](), max(3, PAGES * 12 // 200)
    for number in range(FIRST, FIRST + pages):
        case = draw_case(number, tmp_path)
        found = browser_faults(visit(case.page, 1440, "light"))
        faulty += [f"{case.page.relative_to(tmp_path)}: {fault}" for fault in found]
    sys.stdout.write(f"lint: {pages} pages in a browser, {len(faulty)} faults\n")
    assert not faulty, "\n".join(faulty)


def words(text: str, *names: str) -> list[str]:
    """Return what the linter says of one sentence."""
    return [fault.kind for fault in check_words(read_page(f"<section id='a'><p>{text}</p></section>"), names)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("It fell by 960 to 961 (\u22121.14e\u221213).", "a number that is rounding"),
        ("The loss rose to 1.44e271.", "a number beyond sense"),
        ("Group 1 takes part up to 1.00 times as often.", "a ratio of 1"),
        ("From 960 to 960 rounds a day.", "a range of two equal ends"),
        ("Chance keeps it between 0.5 and 0.5 of that.", "a range of two equal ends"),
        ("It waits 0 % at 12:00, 0 % at 12:00.", "the same twice"),
        ("The loss of fedavg is nan.", "not a number"),
        ("It changed by \u22120.0 %.", "minus zero"),
        ("It changed by -5.6 points.", "a hyphen as a minus"),
        ("A third of all turns go to others.", "banned word \u201cturns\u201d"),
        ("The pace was 1 versions per day.", "one of many"),
        ("It compares population[0].separation = 2 with 3.", "a path of a setting"),
        ("a device of free takes part twice as often.", "a name without quotation marks"),
    ],
)
def test_dust_is_found(text: str, kind: str) -> None:
    assert kind in words(text, "a device of free")


@pytest.mark.parametrize(
    "text",
    [
        "Clients of \u201ca device of free\u201d take part 2.1 times as often (95 %: 1.9 to 2.3).",
        "Participation is 40 \u00b1 4 % away from uniform (TV) over 1,000 rounds; the loss fell by \u22125.6e\u22125.",
        "Shares are 0.5, 1.0, 1.5 and 1.5; pages 3\u201330; 1 of 3 expectations is missed.",
    ],
)
def test_plain_sentences_pass(text: str) -> None:
    assert words(text, "a device of free") == []


def test_form_is_checked() -> None:
    page = read_page(
        "<h1>Title.</h1><section id='a'><h2>One</h2></section><section id='b'><h2>One</h2><p id='a'>text</p></section>"
    )
    kinds = {fault.kind for fault in check_form(page, 300_000)}
    assert kinds == {"a doubled id", "a doubled heading", "an empty section", "a page too large"}


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("It is 40 \u00b1 4 % of that.", 0.4012, True),
        ("It is 41.0 % of that.", 0.4012, False),
        ("Half of all reports.", 0.51, True),
        ("The median round took 1.5 h.", 5400.0, True),
        ("It took 960 rounds per day.", 960.2, True),
        ("The loss fell by \u22120.0032.", -0.00321, True),
        ("The loss fell by \u22120.0032.", 0.0049, False),
    ],
)
def test_a_sentence_says_a_value(text: str, value: float, said: bool) -> None:
    assert says(text, value) is said


def test_numbers_are_read() -> None:
    assert [(value, unit) for value, _, unit in numbers("1,234 rounds, \u22125.6e\u22125 and 3 %")] == [
        (1234.0, "rounds"),
        (-5.6e-5, "%"),
        (3.0, "%"),
    ]
