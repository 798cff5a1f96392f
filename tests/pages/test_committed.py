"""The reports of the repository are those that would be made now."""

import re
from pathlib import Path

import pytest

from fedsim import Scenario
from fedsim.pages.html import page_version
from fedsim.pages.provenance import scenario_version

REPORTS = sorted(Path("reports").glob("*.html"))
STALE = "is out of date; `make reports` makes it again"


def stamp(page: str, name: str) -> str | None:
    """Return what a page says of what it was made from."""
    found = re.search(rf'<meta name="{name}" content="([^"]*)">', page)
    return found[1] if found else None


@pytest.mark.parametrize("report", REPORTS, ids=lambda path: path.stem)
def test_a_committed_report_is_not_older_than_what_makes_it(report: Path) -> None:
    page = report.read_text(encoding="utf-8")
    assert stamp(page, "generator") == f"fedsim pages {page_version()}", STALE
    if report.stem != "index":
        [file] = Path("scenarios").glob(f"*/{report.stem}.fedsim.yaml")
        resolved = Scenario.load(file).model_dump(mode="json")
        assert stamp(page, "scenario") == scenario_version(resolved), STALE


def test_versions_tell_scenarios_apart_and_not_the_order_of_their_keys() -> None:
    one = Scenario.load("scenarios/paper/synthetic.fedsim.yaml").model_dump(mode="json")
    assert scenario_version(one) == scenario_version(dict(reversed(one.items())))
    assert scenario_version(one) != scenario_version({**one, "seed": one["seed"] + 1})
