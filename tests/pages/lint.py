"""A linter of pages: what a page says, compared with the tables that it was made from, and with how it should say it.

`lint` returns the faults of a page. Figures are computed anew from the Parquet files by `tests.pages.lint_figures`,
which shares no code with `fedsim.pages`.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from .lint_figures import Measured, MeasuredSweep
from .lint_sentences import Said

MOST_BYTES = 250_000
MOST_TILES = 5
FEWEST_COUNTS = 30  # of either side of a ratio
TOLD = "told from chance"
LONGEST_LINE = 88  # characters of what the first screen says of one question
LONGEST_TITLE = 140

_BLOCKS = {"p", "li", "dt", "dd", "h1", "h2", "h3", "h4", "th", "td", "caption", "summary", "text", "title", "desc"}
_VOID = {"meta", "br", "input", "use", "path", "rect", "line", "circle", "link", "img", "hr", "col"}
_PROSE = {"p", "li", "h1", "h2", "h3", "h4", "dt", "dd", "title", "desc", "summary", "caption"}
_LITERAL = {"script", "style", "pre", "code", "textarea", "button", "select", "output"}


@dataclass
class Block:
    """A piece of text: what a person reads as one."""

    tag: str
    text: str
    section: str = ""  # the id of the section that it is in
    classes: str = ""
    folded: bool = False


@dataclass
class Page:
    """What a page says."""

    blocks: list[Block] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    sections: dict[str, list[str]] = field(default_factory=dict)  # what is in each: texts and figures, but headings
    tiles: int = 0

    def of(self, *tags: str) -> list[str]:
        """Return the texts of some kinds of elements."""
        return [block.text for block in self.blocks if block.tag in tags]

    @property
    def title(self) -> str:
        """The sentence of the page."""
        return next(iter(self.of("h1")), "")

    @property
    def key_figures(self) -> list[str]:
        """The tiles, each as ``label: value detail``."""
        pairs = zip(self.blocks, self.blocks[1:], strict=False)
        return [f"{one.text}: {two.text}" for one, two in pairs if (one.tag, two.tag) == ("dt", "dd")]

    @property
    def prose(self) -> list[str]:
        """The texts that are sentences, or parts of them."""
        return [block.text for block in self.blocks if block.tag in _PROSE]


class _Reader(HTMLParser):
    """Reads a page that is well-formed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self._open: list[tuple[str, str, str]] = []  # tag, id, class
        self._text: list[list[str]] = []  # of the blocks that are open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = {key: value or "" for key, value in attrs}
        if "id" in own:
            self.page.ids.append(own["id"])
        if tag in {"figure", "svg", "table", "canvas"} and (section := self._section()):
            self.page.sections[section].append(f"<{tag}>")
        if tag == "section":
            self.page.sections.setdefault(own.get("id", "?"), [])
        if tag in {"br", "span"} and self._text:
            self._text[-1].append(" ")
        self.page.tiles += tag == "div" and bool(self._open) and "tiles" in self._open[-1][2].split()
        if tag in _VOID:
            return
        self._open.append((tag, own.get("id", ""), own.get("class", "")))
        if tag in _BLOCKS:
            self._text.append([])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID or tag not in {each for each, *_ in self._open}:
            return
        while self._open:
            opened, _, classes = self._open.pop()
            if opened in _BLOCKS:
                self._close(opened, classes)
            if opened == tag:
                break

    def _close(self, tag: str, classes: str) -> None:
        text = " ".join("".join(self._text.pop()).split())
        if not text:
            return
        section = self._section()
        folded = any(each == "details" for each, *_ in self._open)
        self.page.blocks.append(Block(tag, text, section, classes, folded))
        if section and tag not in {"h1", "h2"}:
            self.page.sections[section].append(text)

    def handle_data(self, data: str) -> None:
        if self._text and self._open[-1][::2] == ("code", "key"):
            self._text[-1].append(f"`{data}`")
        elif self._text and not any(tag in _LITERAL for tag, *_ in self._open):
            self._text[-1].append(data)

    def _section(self) -> str:
        return next((own for tag, own, _ in reversed(self._open) if tag == "section"), "")


def read_page(text: str) -> Page:
    """Take a page apart."""
    reader = _Reader()
    reader.feed(re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL))
    return reader.page


@dataclass(frozen=True)
class Fault:
    """Something that a page should not say, or should."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


_DUST = {
    "a number that is rounding": r"\de[-\u2212]1\d\b|[\u00d7x] ?10[-\u2212\u207b]1\d",
    "a number beyond sense": r"(?<!\w)\d+(\.\d+)?e\+?(1[5-9]|[2-9]\d|\d{3})\b",
    "a ratio of 1": r"\b(up to|at least|by|at) 1(\.0+)? times",
    "not a number": r"\b(nan|inf|NaN|None|null|Infinity|undefined)\b",
    "minus zero": r"[\u2212-]0(\.0+)?(?![.\d])( %)?(?=[\s,;)]|$)",
    "an empty place": r"“”|\(\)|\bof \.|  |, \.|\.\.(?!\.)|;\.|,,|:\.$",
    "one of many": r"(?<![\d.,])(?<!= )\b1 (rounds|clients|reports|devices|participations|sessions|groups|versions|"
    r"seeds|points|times|runs|settings|hours|days)\b(?! [a-z]+ of)",
    "a path of a setting": r"population(\[|\.\*)",
}
_BANNED = (
    r"misplaced?\b|misplaces|\bturns?\b(?! out)|wrong (devices|clients)|told from chance by|thriftiest|"
    r"\bcame out\b|who takes part rests|nobody of|\bwhoever\b|\bof whom\b"
)
_EQUAL_ENDS = re.compile(
    r"(?<![\d.,])([\u2212-]?\d[\d.,]*)( ?%| [a-z]+)? ?(?:to|\u2013) ?\1(?![\d.,]*\d)"
    r"|between ([\u2212-]?\d[\d.,]*)( ?%| [a-z]+)? and \3(?![\d.,]*\d)"
)
_SAME_TWICE = re.compile(r"(\b\d[\d.,]* ?%) at ([\w:]+), \1 at \2")
_HYPHEN_MINUS = re.compile(r"(?<![\w\u2013-])-\d")
_RATIO = re.compile(r"(\d[\d.,]*)( ± [\d.,]+)? times as (often|much|many)")


def check_words(page: Page, names: Iterable[str]) -> Iterator[Fault]:
    """Refuse dust, banned words, minus signs of two kinds, and names that read as words of a sentence."""
    own = sorted({name for name in names if name}, key=len, reverse=True)
    for text in dict.fromkeys(page.prose):
        bare = without(text, own)
        for kind, pattern in _DUST.items():
            if found := re.search(pattern, bare):
                yield Fault(kind, _near(bare, found))
        if found := _EQUAL_ENDS.search(bare):
            yield Fault("a range of two equal ends", _near(bare, found))
        if found := _SAME_TWICE.search(bare):
            yield Fault("the same twice", _near(bare, found))
        if found := re.search(_BANNED, bare, re.IGNORECASE):
            yield Fault(f"banned word “{found[0]}”", _near(bare, found))
        if found := _HYPHEN_MINUS.search(bare):
            yield Fault("a hyphen as a minus", _near(bare, found))
    for text in dict.fromkeys(page.of("td", "th", "text")):
        bare = without(text, own) if text != "null" else ""  # a setting that is not there
        for kind in ("a number that is rounding", "a number beyond sense", "not a number", "minus zero"):
            if found := re.search(_DUST[kind], bare):
                yield Fault(f"{kind} in a chart or table", bare)
    for block in page.blocks:
        if block.tag in {"p", "li", "h1", "h2", "h3", "h4", "title", "desc"}:
            yield from _unquoted(block.text, own)


def without(text: str, names: Sequence[str]) -> str:
    """Return a text without the names that people gave."""
    for name in names:
        text = text.replace(f"“{name}”", "“X”").replace(f'"{name}"', '"X"')
        if len(name) > 3:
            text = text.replace(name, "X")
    return text


_WORDY = re.compile(r"[\s\"<>,]|^(all|best|none|each)$")


def _unquoted(text: str, names: Sequence[str]) -> Iterator[Fault]:
    """Refuse a name that could be read as words, unless it stands in quotation marks or alone."""
    for name in names:
        if not _WORDY.search(name):
            continue
        rest = text.replace(f"“{name}”", "").removeprefix(f"{name}: ")
        rest = re.sub(rf"(· |\b[AB]: ){re.escape(name)}|{re.escape(name)} (·|\u2014)", "", rest)
        if text != name and len(name) > 3 and name in rest:
            yield Fault("a name without quotation marks", text[:160])
            return


def _near(text: str, found: re.Match[str]) -> str:
    return f"…{text[max(0, found.start() - 60) : found.end() + 40]}…"


def check_form(page: Page, size: int) -> Iterator[Fault]:
    """Refuse doubled ids and headings, empty sections, sentences said twice, too many tiles, and large pages."""
    yield from (Fault("a doubled id", name) for name, many in Counter(page.ids).items() if many > 1)
    headings = [block.text for block in page.blocks if block.tag in {"h1", "h2", "h3", "h4"}]
    yield from (Fault("a doubled heading", text) for text, many in Counter(headings).items() if many > 1)
    yield from (Fault("an empty section", name) for name, held in page.sections.items() if not held)
    plain = [block for block in page.blocks if block.tag in {"p", "li"} and "note" not in block.classes]
    said = [sentence for block in plain for sentence in sentences(block.text)]
    said = [each for each in said if len(each.split()) > 5]
    yield from (Fault("a sentence said twice", text) for text, many in Counter(said).items() if many > 1)
    if page.tiles > MOST_TILES:
        yield Fault("too many tiles", str(page.tiles))
    if size > MOST_BYTES:
        yield Fault("a page too large", f"{size:,} bytes")
    if not page.title:
        yield Fault("no title", "")
    elif len(page.title) > LONGEST_TITLE:
        yield Fault("a long title", page.title)


def sentences(text: str) -> list[str]:
    """Cut a text into sentences."""
    return re.split(r"(?<=[.!?:]) (?=[A-Z“])", text)


def numbers(text: str) -> Iterator[tuple[float, float, str]]:
    """Yield the numbers of a text: value, half of the last digit that it shows, and the unit behind it."""
    for found in re.finditer(
        r"([\u2212+-])?(\d[\d,]*(?:\.\d+)?)(?:e([\u2212+-]?\d+))?(?=(?:,? (?:±|to|and|or) [\d.,]+)*( ?%| ?[a-zA-Z]+)?)",
        text,
    ):
        sign, digits, power, unit = found.groups()
        digits = digits.replace(",", "")
        scale = 10.0 ** int((power or "0").replace("\u2212", "-"))
        places = len(digits.partition(".")[2])
        value = float(digits) * scale * (-1 if sign in {"\u2212", "-"} else 1)
        zeros = len(digits) - len(digits.rstrip("0"))
        step = 10.0 ** (zeros if zeros > 3 and not places else -places)  # 3,900,000 shows two digits
        yield value, 0.5 * step * scale, (unit or "").strip()


_UNITS = {"%": 0.01, "ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "day": 86400.0}
_UNITS |= {"days": 86400.0, "hours": 3600.0, "hour": 3600.0, "minutes": 60.0, "minute": 60.0, "seconds": 1.0}
_UNITS |= {"points": 0.01, "w": 604800.0, "weeks": 604800.0}
_PARTS = {"half": 1 / 2, "third": 1 / 3, "quarter": 1 / 4, "fifth": 1 / 5, "tenth": 1 / 10, "all": 1.0, "every": 1.0}
_PARTS |= {"nobody": 0.0, "no": 0.0, "none": 0.0, "never": 0.0, "both": 2.0, "one": 1.0, "twice": 2.0, "nothing": 0.0}
_PARTS |= {"everyone": 1.0, "everybody": 1.0, "two": 2.0, "three": 3.0, "three quarters": 0.75, "two thirds": 2 / 3}


def says(text: str, value: float) -> bool:
    """Whether a text says a value: one of its numbers is it, rounded, in some unit, or a word for a share of it."""
    text = " ".join(text.split())
    for shown, slack, unit in numbers(text):
        for scale in {1.0, _UNITS.get(unit, 1.0)}:
            for meant in (value, -value):
                if abs(shown * scale - meant) <= 1.02 * slack * scale + 1e-9 * abs(meant):
                    return True
        # Numbers above 1,000 may be shown to three digits.
        if abs(shown) >= 100 and abs(abs(shown) - abs(value)) <= 0.006 * abs(shown):
            return True
        for scale in _UNITS.values():
            if unit in _UNITS and value and abs(shown * scale / value - 1) < 0.02:
                return True
    words = text.lower()
    if abs(value) >= 1e12 and re.search(r"(?:over|below) [\u2212-]?1e12", words):
        return True
    if re.search(r"(?:less than|<|under|below) 0?\.?\d", words) and abs(value) < 0.01:
        return True
    return any(re.search(rf"\b{word}\b", words) and abs(value - part) < 0.04 for word, part in _PARTS.items())


def check_ratios(page: Page, runs: Sequence[Measured]) -> Iterator[Fault]:
    """Refuse ratios of groups of which one has few counts, unless they are called a bound."""
    for text in dict.fromkeys(page.prose):
        for sentence in sentences(text):
            if not _RATIO.search(sentence) or re.search(r"at least|at most|no more than|more than", sentence):
                continue
            for run in runs:
                named = [name for name in run.groups if f"“{name}”" in sentence or _word(name, sentence)]
                few = [name for name in named if max(run.counts_of(name)) < FEWEST_COUNTS]
                if few and len(run.groups) > 1:
                    yield Fault("a ratio of few counts", f"{sentence[:140]} ({few[0]}: {run.counts_of(few[0])})")
                    break


def _word(name: str, text: str) -> bool:
    return len(name) > 3 and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def check_mentions(said: str, run: Measured) -> Iterator[Fault]:
    """Refuse an answer that is silent of settings that change what happens."""
    outcomes, server = set(map(str, run.rounds["outcome"])), run.server
    late = int((run.outcome == "late").sum())
    binding = {
        "caps": (_capped(run), r"\bcaps?\b|\bcapped\b|may take part|limit of \d+ participations"),
        "privacy": (bool(run.scenario.get("privacy")), r"privacy|private|epsilon"),
        "Poisson cohorts": (_law(server) == "poisson" and len(run.rounds) > 0, r"Poisson|on average|vary|varies|empty"),
        "a deadline": (late >= max(1, 0.005 * len(run.outcome)), r"\blate\b|deadline"),
        "failed rounds": ("failed" in outcomes, r"\bfailed\b|\bfail\b"),
        "skipped rounds": ("skipped" in outcomes, r"\bskipped\b|\bskip\b"),
        "shocks": (bool(run.scenario.get("shocks")) and len(run.rounds) > 0, r"shock|outage|server is down|was down"),
    }
    for what, (binds, words) in binding.items():
        if binds and not re.search(words, said, re.IGNORECASE):
            yield Fault("a setting that binds goes unmentioned", what)


def _law(server: Mapping[str, Any]) -> str:
    law = server.get("selection")
    return str(law.get("kind") if isinstance(law, Mapping) else law)


def _capped(run: Measured) -> bool:
    """Whether a client has reached its cap."""
    counts = run.selections if run.server.get("cooldown_from") == "selected" else run.reports
    return any((counts[run.group == name] >= most).any() for name, most in run.caps.items())


def check_findings(
    findings: Sequence[Mapping[str, Any]], run: Measured, right: Counter[str] | None = None
) -> Iterator[Fault]:
    """Compute the value of every finding anew, and see that its sentence says it; `right` counts those that do."""
    right = Counter() if right is None else right
    seen: dict[tuple[str, str], float] = {}
    for each in findings:
        value, quantity, scope = each.get("value"), each.get("quantity", ""), each.get("scope", "")
        if value is None:
            continue
        if seen.setdefault((quantity, scope), value) != value:
            yield Fault("two values of one quantity", f"{quantity} {scope}: {seen[quantity, scope]} and {value}")
        if value and not says(each["text"], value):
            yield Fault("a sentence without its value", f"{quantity} {scope} = {value}: {each['text']}")
        own, where = run.figure(quantity, scope, str(each.get("against", ""))), "by the tables"
        if own is None:
            own, where = run.metric(quantity, scope), "by metrics.json"
        if own is None:
            yield Fault("a quantity that the linter cannot compute", f"{quantity} {scope} = {value}: {each['text']}")
        elif not math.isclose(own, value, rel_tol=1e-6, abs_tol=1e-9):
            yield Fault("a wrong value", f"{quantity} {scope} = {value}, but {own} {where}")
        else:
            right[where] += 1


_DENIES = re.compile(
    r"\bno (participation )?(bias|skew)|hardly biased|as evenly as|not? (sign|evidence)", re.IGNORECASE
)


def check_lines(findings: Sequence[Mapping[str, Any]], run: Measured) -> Iterator[Fault]:
    """Refuse a run whose first screen leaves one of the questions without an answer."""
    asked = ["To the model", "At what cost", "Can I trust it", "Do this next"]
    asked += ["How biased"] if run.reports.sum() and len(run.clients) > 1 else []
    first = dict[str, str]()
    for each in findings:
        first.setdefault(str(each.get("about")), str(each["text"]))
    if len(run.rounds):
        yield from (Fault("a question without an answer", about) for about in asked if about not in first)


def check_length(findings: Sequence[Mapping[str, Any]]) -> Iterator[Fault]:
    """Refuse a line of the first screen that a phone has no room for."""
    first = dict[str, Mapping[str, Any]]()
    for each in findings:
        first.setdefault(str(each.get("about")), each)
    first.pop("What happens", None)  # which the title and what is below it say
    for each in first.values():
        text, brief = str(each["text"]), str(each.get("brief", ""))
        if len(text) > LONGEST_LINE and (not 0 < len(brief) <= LONGEST_LINE or brief.endswith("…")):
            yield Fault("a long line", brief or text)


def check_contradictions(
    page: Page, findings: Sequence[Mapping[str, Any]], runs: Sequence[Measured]
) -> Iterator[Fault]:
    """Refuse a title that denies what a sentence says, and the convergence of what diverged."""
    told = [each for each in findings if each.get("about") == "How biased" and each.get("certainty") == TOLD]
    if _DENIES.search(page.title):
        yield from (Fault("a title that denies a finding", f"{page.title} BUT {each['text']}") for each in told)
    for run in runs:
        for name, value in run.figures.items():
            if not name.endswith(".diverged") or not value:
                continue
            method = name.removeprefix("learning.").removesuffix(".diverged")
            for text in page.prose:
                for sentence in sentences(text):
                    settled = re.search(r"\bconverged|\bsettled", sentence) and not re.search(
                        r"not (converged|settled)|diverged", sentence, re.IGNORECASE
                    )
                    if settled and (method in sentence or "all methods" in sentence):
                        yield Fault("convergence of what diverged", sentence)


def check_sweep(findings: Sequence[Mapping[str, Any]], sweep: MeasuredSweep, right: Counter[str]) -> Iterator[Fault]:
    """See that the value of every finding of a sweep is the mean of its metric at a setting, and is said."""
    for each in findings:
        value, quantity = each.get("value"), str(each.get("quantity", ""))
        means = sweep.means(quantity)
        if value is None or not means:
            continue
        if not any(says(each["text"], scale * value) for scale in (1.0, 0.5, 100.0, 50.0)):
            yield Fault("a sentence without its value", f"{quantity} = {value}: {each['text']}")
        ends = list(means.values())
        known = [*ends, *sweep.differences(quantity)]
        if any(math.isclose(value, own, rel_tol=1e-6, abs_tol=1e-9) for own in known):
            right["by the results of runs"] += 1
        else:
            yield Fault("a wrong value", f"{quantity} = {value} at {each.get('scope')}, but settings have {ends}")


def check_difference(
    findings: Sequence[Mapping[str, Any]], ours: Measured, theirs: Measured, right: Counter[str]
) -> Iterator[Fault]:
    """See that the value of every finding of a comparison is the difference of a metric, and is said."""
    for each in findings:
        value, quantity = each.get("value"), str(each.get("quantity", ""))
        if value is None:
            continue
        ends = [
            run.figure(quantity) if run.figure(quantity) is not None else run.metric(quantity) for run in (ours, theirs)
        ]
        if ends[0] is None or ends[1] is None:
            yield Fault("a quantity that the linter cannot compute", f"{quantity} = {value}: {each['text']}")
        elif not math.isclose(value, ends[1] - ends[0], rel_tol=1e-6, abs_tol=1e-9):
            yield Fault("a wrong value", f"{quantity} = {value}, but it goes from {ends[0]} to {ends[1]}")
        elif not any(says(each["text"], scale * value) for scale in (1.0, 0.5, 100.0, 50.0)):
            yield Fault("a sentence without its value", f"{quantity} = {value}: {each['text']}")
        else:
            right["by the tables of both"] += 1


def lint(
    page: Path, directories: Sequence[Path], findings: Sequence[Mapping[str, Any]], right: Counter[str]
) -> list[Fault]:
    """Return the faults of a page of run directories, or of a sweep; `right` counts the findings that are right."""
    text = page.read_text(encoding="utf-8")
    read, runs = read_page(text), [Measured(each) for each in directories if (each / "manifest.json").exists()]
    sweeps = [MeasuredSweep(each) for each in directories if (each / "sweep.json").exists()]
    names = set().union(*(run.named for run in runs), *(sweep.named for sweep in sweeps)) | {
        each.parent.name for each in directories
    }
    found = [*check_words(read, names), *check_form(read, len(text.encode())), *check_ratios(read, runs)]
    found += [*check_contradictions(read, findings, runs), *check_length(findings)]
    for run in runs:
        found += check_mentions(" ".join(read.prose), run) if len(runs) == 1 else ()
        found += [Fault("a wrong metric", wrong) for wrong in run.wrong_metrics()]
    for sweep in sweeps:
        found += check_sweep(findings, sweep, right)
    if len(runs) == 2:
        found += check_difference(findings, runs[0], runs[1], right)
    if len(runs) == 1:
        found += check_findings(findings, runs[0], right)
        found += check_lines(findings, runs[0])
        said = Said(runs[0])
        texts = [
            read.title,
            *read.key_figures,
            *(str(each[key]) for each in findings for key in ("text", "brief") if key in each),
        ]
        parts = dict.fromkeys(part for text in texts for part in sentences(" ".join(text.split())))
        found += [Fault("a wrong number", wrong) for part in parts for wrong in said.wrong(part, right)]
    return found
