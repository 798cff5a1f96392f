"""Makes the pages of `reports/` again: figures of the paper, runs, sweeps, and the lists of them all.

Runs of the learning figures are kept in ``runs/reports``; pages can be redrawn from them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from fedsim import Scenario
from fedsim.common.files import name_of_file
from fedsim.common.markup import escape
from fedsim.report.document import ReportDocument, charts_of
from fedsim.report.page import write_document
from fedsim.report.render import picture
from reports.make import tournament
from reports.make.figures import FIGURES, Claim, figure_page
from reports.make.kept import REPORTS, SCENARIOS, Kept, load, read_store, write_store
from reports.make.regions import claims, rendered, with_regions
from reports.make.runs import kept_sweep_page, make_run, read_run, run_directory, run_page, sweep_page, write_page

CHAIN: Mapping[str, Callable[[str], ReportDocument]] = dict.fromkeys(
    ("paper/synthetic", "paper/bias-vs-separation", "paper/convergence"), run_page
)
STUDIES: Mapping[str, Callable[[str], ReportDocument]] = {
    **dict.fromkeys(("studies/night-charging", "studies/three-continents", "studies/mixed-separation"), run_page),
    "studies/separation-sweep": sweep_page,
    **dict.fromkeys(("studies/which-separation", "studies/which-cooldown"), kept_sweep_page),
    "studies/tournament": lambda _: write_page(tournament.page()),
}


def readme(seconds: Mapping[str, Mapping[str, float]]) -> str:
    """Return the page that lists reports and claims; the verdicts are those of many draws."""
    kept = load()
    files = {Path(each).name: SCENARIOS / f"{each}.fedsim.yaml" for each in (*CHAIN, *STUDIES)}
    reports = {name: escape(" ".join(Scenario.load(file).description.split())) for name, file in files.items()}
    slowest = {name: max(by_r.values()) for name, by_r in seconds.items()}
    return with_regions(rendered("reports", kept, reports=reports, slowest=slowest), kept)


def overall(kept: Kept) -> list[Claim]:
    """Return the claims of the list of all reports: those that a figure shows, as they come out over many draws."""
    found = []
    for claim, measured, source, over, verdict in claims(kept, "experiments", "foreseen"):
        figure = re.search(r"scenarios/paper/([\w-]+)\.fedsim\.yaml", source)
        if figure is not None:
            agreed = verdict == "yes" or verdict.startswith("yes:")
            status = "pass" if agreed else "fail" if verdict.startswith("**no**") else "warn"
            plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", verdict).replace("**", "")
            found.append(Claim(claim, figure[1], f"{measured} ({over})", plain, status))
    return found


def make_figures(names: Sequence[str]) -> list[ReportDocument]:
    """Make the learning figures of these names, and the page that lists all; return the figures."""
    kept: dict[str, Any] = read_store("measured", {})
    made = []
    for name in names:
        runs = {separation: read_run(name, separation) for separation in FIGURES[name]}
        results = {r: metrics for r, (metrics, _, _) in runs.items()}
        made.append(write_page(figure_page(name, results, {r: table for r, (_, table, _) in runs.items()})))
        kept[name] = {"metrics": results, "seconds": {str(r): seconds for r, (_, _, seconds) in runs.items()}}
        write_store("measured", kept, sort_keys=True)
    seconds = {name: kept[name]["seconds"] for name in FIGURES if name in kept}
    (REPORTS / "README.md").write_text(readme(seconds), encoding="utf-8")
    return made


def make_pages(names: Sequence[str], *, redraw: bool = False) -> None:
    """Make the pages of these names; without any, all of them and the list."""

    def made(pages: Mapping[str, Callable[[str], ReportDocument]]) -> list[ReportDocument]:
        return [make(scenario) for scenario, make in pages.items() if not names or Path(scenario).name in names]

    figures = [name for name in FIGURES if not names or name in names]
    runs = [(name, r) for name in figures for r in FIGURES[name]]
    missing = [each for each in runs if not redraw or not (run_directory(*each) / "manifest.json").exists()]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for run in [pool.submit(make_run, *each) for each in missing]:
            run.result()
    studies, chain, learned = made(STUDIES), made(CHAIN), make_figures(figures)
    if not names:
        sections = {"The paper's learning figures": learned, "The paper's chain": chain, "Studies": studies}
        write_list(overall(load()), sections)


def write_list(claims: Sequence[Claim], sections: Mapping[str, Sequence[ReportDocument]]) -> None:
    """Write the page that lists reports, after the paper's claims, each with the number and the figure that show it."""
    met, partly, missed = (sum(claim.status == status for claim in claims) for status in ("pass", "warn", "fail"))
    told = (
        f"Of {len(claims)} claims that were tested {met} hold{'s' * (met == 1)}, {partly} in part, and {missed} "
        f"{'does' if missed == 1 else 'do'} not."
    )
    about = (
        "What the paper (Sun et al., arXiv:2410.01209) claims of participation with a minimum separation R, and what "
        "was measured over many draws; a page shows one run of each. docs/paper-results.md has every statement of the "
        "paper. Made by make reports."
    )
    charts = {each.name: next(iter(charts_of(each)), None) for listed in sections.values() for each in listed}
    table = []
    for claim in claims:
        chart = charts.get(claim.figure)  # drawn again under a name of its own
        own = None if chart is None else picture(replace(chart, name=name_of_file(claim.claim, claim.figure)))
        table.append({**vars(claim), "href": f"{claim.figure}.html", "picture": own})
    shown = [(title, [(f"{each.name}.html", each) for each in listed]) for title, listed in sections.items()]
    context = {"claims": table, "sections": shown}
    document = ReportDocument("index", "what the paper claims", told, about, context=context)
    write_document(document, REPORTS / "index.html")
