"""Makes the pages of `reports/` again, and the measured numbers of the documentation.

A region of a document stands between ``<!-- measured: NAME -->`` and ``<!-- end -->``; its text is a template of
`studies.md.jinja`, rows of `paper.md.jinja`, or a table that is made here.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, select_autoescape
from markupsafe import Markup

from fedsim import Scenario, participation_theory
from fedsim.common.formatting import capitalized, count
from fedsim.common.markup import escape
from fedsim.pages.answer import NEXT, Answer, Sentence
from fedsim.pages.page import entry, write_answer
from fedsim.pages.render import picture
from fedsim.theory import mixing
from reports.make import placeholders, tournament, which_r, which_separation, words
from reports.make.kept import REPORTS, ROOT, SCENARIOS, Kept, load
from reports.make.runs import make_page
from reports.make.words import table

DOCUMENTS = (
    *("docs/paper-results.md", "docs/learning.md", "docs/validation.md"),
    *("reports/README.md", "reports/claims.md", "reports/studies.md"),
)
REGION = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
HEAD = ("the paper says", "measured", "from", "over", "holds")
CHECKS = ("id", "the paper says", "holds", "in two minutes", "in full")
TEMPLATES = {
    name: body
    for file in ("paper.md.jinja", "studies.md.jinja")
    for name, body in re.findall(
        r"(?s)<!-- measured: ([\w-]+) -->\n(.*?)<!-- end -->", Path(__file__).with_name(file).read_text("utf-8")
    )
}
TEMPLATES["reports"] = Path(__file__).with_name("reports.md.jinja").read_text("utf-8")


def rendered(name: str, kept: Kept, **more: object) -> str:
    """Return a template with its numbers."""
    environment = Environment(
        autoescape=select_autoescape(default_for_string=False),  # Markdown
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["wrap"] = words.wrap
    numbers = placeholders.Placeholders(kept)
    names = {each: getattr(numbers, each) for each in dir(numbers) if not each.startswith("_")}
    names |= vars(placeholders) | vars(words)
    names |= {"tournament": tournament, "which_separation": which_separation, "which_r": which_r}
    names |= {"chain": participation_theory, "mixing": mixing}
    return environment.from_string(TEMPLATES[name]).render(names | more)


def claims(kept: Kept, *names: str) -> list[list[str]]:
    """Return the paper's statements: what it says, the number, its source, over what, and the verdict."""
    return [each[1:6] for each in rows(kept, *names)]


def rows(kept: Kept, *names: str) -> list[list[str]]:
    """Return the cells of the statements: an id, those of `claims`, and how to check it, quickly and in full."""
    return [line[2:-2].split(" | ") for name in names for line in rendered(name, kept).splitlines()]


def checks(kept: Kept) -> str:
    """Return the table of docs/paper-results.md: a row with an anchor for each statement."""
    statements = rows(kept, "theory", "theorems", "experiments", "foreseen", "open")
    return table(CHECKS, [(f'<a id="{i}"></a>{i}', says, *rest) for i, says, _, _, _, *rest in statements])


def measured(kept: Kept, *names: str) -> str:
    """Return the table of what was measured of some statements, for a page in the folder of the reports."""
    statements = [(f"[{i}](../docs/paper-results.md#{i})", *rest) for i, *rest, _, _ in rows(kept, *names)]
    return from_reports(table(("id", *HEAD), statements))


def from_reports(text: str) -> str:
    """Return a text of docs/paper-results.md with its links as they are from the folder of the reports."""
    return re.sub(r"\]\((?!\.\./|https?:)", "](../docs/", text).replace("](../reports/", "](")


def verdicts(kept: Kept) -> str:
    """Return the table of what came of the paper's figures, with links from the folder of the reports."""
    text = table(HEAD, claims(kept, "experiments", "foreseen"))
    text = re.sub(r"\(\.\./scenarios/paper/([\w-]+)\.fedsim\.yaml\)", r"(\1.html)", text)
    return re.sub(r"\]\((?!\.\./|https?:|[\w-]+\.html)", "](../docs/", text).replace("](../reports/", "](")


def validation(kept: Kept) -> str:
    """Return the table of published and simulated figures, and how many of the free comparisons agree."""
    text = rendered("validation", kept)
    rows = [line for line in text.splitlines() if " | yes | " in line or " | **no**" in line]
    free = [line for line in rows if " | free | " in line]
    agreed = sum(" | yes | " in line for line in free)
    return f"{text}{len(free)} of {len(rows)} comparisons are free; {agreed} of these agree.\n\n"


REGIONS: Mapping[str, Callable[[Kept], str]] = {
    **{
        name: partial(rendered, name)
        for name in TEMPLATES
        if name not in {"theorems", "experiments", "foreseen", "open", "reports"}
    },
    "checks": checks,
    "theory": lambda kept: measured(kept, "theory"),
    "learning": lambda kept: measured(kept, "theorems", "experiments", "foreseen", "open"),
    "verdicts": verdicts,
    "validation": validation,
    "tournament": lambda _: table(tournament.HEAD, tournament.by_regime(tournament.results())),
    "tournament-debiased": lambda _: table(
        tournament.HEAD_DEBIASED, tournament.debiased(tournament.results("tournament-debiased"))
    ),
}


def with_regions(page: str, kept: Kept) -> str:
    """Return a page with what was measured in its regions."""
    return REGION.sub(lambda region: region[1] + REGIONS[region[2]](kept) + region[3], page)


def write_regions() -> None:
    """Write the regions of all pages anew, and say which of them changed."""
    kept = load()
    for name in DOCUMENTS:
        file = ROOT / name
        before = file.read_text(encoding="utf-8")
        after = with_regions(before, kept)
        if after != before:
            file.write_text(after, encoding="utf-8")
            sys.stderr.write(f"{name} has changed\n")


PAGES = {
    "Who takes part": (
        *("paper/synthetic", "studies/three-continents", "studies/night-charging", "studies/mixed-separation"),
        *("paper/bias-vs-separation", "paper/convergence"),
    ),
    "Pace, device time, privacy": ("studies/which-cooldown", "studies/separation-sweep", "studies/which-separation"),
    "Which method": (
        *("studies/tournament", "paper/three-methods-synthetic", "paper/three-methods-digits", "paper/mnist-sample"),
        *("paper/debiased-synthetic", "paper/debiased-digits", "paper/network-digits"),
    ),
    "What bias does to the model": ("paper/fedavg-synthetic", "paper/fedavg-digits", "paper/quadratic-bias"),
}
"""The scenarios that have pages, by what a reader needs: practical questions first."""


def readme() -> str:
    """Return the page that lists reports and claims; the verdicts are those of many draws."""
    kept, scenarios = load(), [scenario for pages in PAGES.values() for scenario in pages]
    files = {Path(each).name: SCENARIOS / f"{each}.fedsim.yaml" for each in scenarios}
    descriptions = {name: escape(" ".join(Scenario.load(file).description.split())) for name, file in files.items()}
    return with_regions(rendered("reports", kept, reports=descriptions), kept)


def claimed(kept: Kept) -> list[dict[str, Any]]:
    """Return the paper's claims for the list of all reports: those that a page shows, as they come out over draws."""
    cards = []
    for claim, figures, source, over, verdict in claims(kept, "experiments"):
        page = re.search(r"scenarios/paper/([\w-]+)\.fedsim\.yaml", source)
        if page is not None:
            agreed = verdict == "yes" or verdict.startswith("yes:")
            status = "pass" if agreed else "fail" if verdict.startswith("**no**") else "warn"
            plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", verdict).replace("**", "")
            entry = {"href": f"{page[1]}.html", "title": claim, "text": f"{capitalized(figures)}. Over {over}."}
            cards.append({**entry, "outcome": plain, "status": status, "claim": True, "over": over.partition(".")[0]})
    return cards


def make_pages(names: Sequence[str]) -> None:
    """Make the pages of these names; without any, all of them and the lists."""
    made = {
        title: [make_page(scenario) for scenario in pages if not names or Path(scenario).name in names]
        for title, pages in PAGES.items()
    }
    if not names:
        (REPORTS / "README.md").write_text(readme(), encoding="utf-8")
        write_list(claimed(load()), made)


TITLES = {
    "synthetic": "Start here: how far from uniform is participation at R = 4?",
    "three-methods-synthetic": "Synthetic data: which methods stay biased at R = 8?",
    "three-methods-digits": "Images of digits: which methods stay biased at R = 8?",
    "mnist-sample": "A sample of MNIST: which methods stay biased at R = 8?",
    "debiased-synthetic": "Synthetic data: does Debiased FedAvg reach the loss of uniform participation?",
    "debiased-digits": "Images of digits: does Debiased FedAvg reach the loss of uniform participation?",
    "fedavg-synthetic": "Synthetic data: is FedAvg less biased the longer clients wait?",
    "fedavg-digits": "Images of digits: is FedAvg less biased the longer clients wait?",
}
"""What the list calls pages whose questions are told apart late."""
SHOWN = {"synthetic": "distance"}
"""The chart that the list shows of a page, the first one of others."""
FIRST = "fedsim run scenarios/paper/synthetic.fedsim.yaml"
OTHERS = "For what training costs, several trainings on one fleet, or a log of your own, begin with a template:"
BEGIN = "fedsim init --template fleet\nfedsim init --template jobs\nfedsim measure LOG.csv"
FEDSIM = Markup(
    "fedsim simulates who takes part in federated learning, how far from uniform that is (TV: the share of the reports "
    "that would have to come from other clients), what it does to the model, and at what cost; R is how many rounds a "
    'device waits after it took part. “The paper” is <a href="https://arxiv.org/abs/2410.01209">Sun et al., “Debiasing '
    "federated learning with correlated client participation”, ICLR 2025</a>; "
    '<a href="../docs/paper-results.md">docs/paper-results.md</a> says how to check each of its claims.'
)
"""What the list says of itself, with links of its own."""
_OVER_RUNS = {"pass": "holds", "warn": "holds in part", "fail": "does not hold"}


def _card(answer: Answer, claimed: Sequence[Mapping[str, Any]] = ()) -> Mapping[str, object]:
    """Return what the list shows of a page: a chart, and beside what it misses its one claim."""
    chart = next((each for each in answer.charts if each.name == SHOWN.get(answer.name)), answer.first_picture)
    made = dict(entry(f"{answer.name}.html", answer))
    made["title"] = TITLES.get(answer.name, made["title"])
    if made["status"] == "fail" and len(over := [each for each in claimed if each["href"] == made["href"]]) == 1:
        here, draws = str(made["outcome"]).removesuffix("."), f"over {over[0]['over']} the claim"
        made["outcome"] = f"{here}; that is of this run: {draws} {_OVER_RUNS[over[0]['status']]}."
        if over[0]["status"] == "pass" and answer.verdict is not None:  # then one run that misses it is no alarm
            every = [each.status for each in (*answer.verdict.attention, *answer.verdict.met)]
            missed = "One" if every.count("fail") == 1 else str(every.count("fail"))
            who = f"{missed} of the {count(len(every), 'expectation')}" if every[1:] else "The expectation"
            verb = "is" if every.count("fail") == 1 else "are"
            made |= {"outcome": f"{who} {verb} missed in this run; {draws} holds.", "status": ""}
    if chart is None:
        return made
    return {**made, "picture": picture(replace(chart, name=f"{answer.name}-{chart.name}"))}  # under a name of its own


def write_list(claims_shown: Sequence[Mapping[str, Any]], sections: Mapping[str, Sequence[Answer]]) -> None:
    """Write the page that lists reports, by what a reader needs, and the paper's claims."""
    met, partly, missed = map([each["status"] for each in claims_shown].count, ("pass", "warn", "fail"))
    came = f"{met} hold{'s' * (met == 1)}, {partly} in part, {missed} {'does' if missed == 1 else 'do'} not"
    heading = f"The paper's claims: {came}"
    start = "Open “Start here” below, then run the same yourself."
    over = "A claim is judged over many runs; each page is of one run of it, which may miss what holds on average."
    draws = "A draw is a run whose data and participation are made anew; it has settled where all its losses converged."
    figures = "Above uniform: by how much a loss lies above that of uniform participation, "
    figures += (
        "\N{PLUS-MINUS SIGN} half of a 95\N{NARROW NO-BREAK SPACE}% interval; or a median, and in brackets the range."
    )
    sentences = [Sentence(start, NEXT, command=FIRST), Sentence(OTHERS, NEXT, command=BEGIN)]
    cards = {title: [_card(each, claims_shown) for each in some] for title, some in sections.items()}
    title = "Who takes part in federated learning, and what that does to the model"
    page = Answer("index", title, title, description=FEDSIM, sentences=sentences)
    listed = {**cards, heading: claims_shown}
    write_answer(page, REPORTS / "index.html", listed=listed, notes={heading: f"{over} {draws} {figures}"})
