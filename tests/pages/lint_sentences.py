"""The numbers in the sentences of a run's page, computed anew: which words say which figure."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from scipy.stats import binom

from .lint_figures import Measured

_N = r"([<\u2212]? ?\d[\d.,]*(?:e[\u2212+]?\d+)?)"  # a number
_P = rf"({_N[1:-1]} ?%)"
_T = r"(\d[\d.,]* ?(?:ms|s|min|h|d|w)\b)"  # a time
_ROUND = "(?:round|version)"
RULES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (rf"^(?:What happens )?Over {_N} {_ROUND}", ("rounds.count",)),
    (rf"{_N} of {_N} clients (?:took part|reported) \({_P}\)", ("took", "clients", "coverage")),
    (rf"all {_N} clients (?:took part|reported)", ("clients",)),
    (rf"{_N} times on average and {_N} at most", ("mean", "most")),
    (rf"; {_P} never did", ("never_share",)),
    (rf"{_P} only once", ("once_share",)),
    (rf"equal chances would leave out {_P}", ("never by chance",)),
    (rf"{_N} clients on average", ("rounds.selected_mean of all",)),
    (rf"{_N} of {_N} rounds selected nobody", ("empty rounds", "rounds.count")),
    (rf"; {_N} did so often", ("capped",)),
    (rf"{_N} device-hours", ("sessions.device_hours",)),
    (rf"{_P} of that (?:without a report|wasted)", ("sessions.wasted_share",)),
    (rf"{_N} {_ROUND}s? per simulated day", ("rounds.per_day",)),
    (rf"median {_ROUND} took {_T}", ("rounds.duration.p50",)),
    (rf"Rounds spent {_P} of the time waiting", ("rounds.waiting_share",)),
    (rf", the longest {_T}\)", ("rounds.wait.max",)),
    (rf"{_P} of the rounds failed", ("rounds.failed_share",)),
    (rf"{_P} of all rounds closed with the reports", ("rounds.target_share",)),
    (rf"{_P} of the sessions ended with a report", ("sessions.reported_share",)),
    (rf"{_P} missed the deadline", ("sessions.late_share",)),
    (rf"As it was measured, with noise, the distance is {_P}", ("tv",)),
    (rf"equal chances (?:alone )?would give {_P}", ("tv by chance",)),
    (rf"pull on the model.*, is {_P} from uniform", ("participation.pull_tv_uniform",)),
    (rf"{_N} of {_N} clients were selected", ("selected", "clients")),
    (rf"clients were selected, {_P} from uniform", ("participation.tv_uniform",)),
    (rf"it is {_P} away from uniform \(total variation", ("tv",)),
    (rf"Participation is {_P} away from uniform \(total variation distance\), [^:]*: more even", ("tv",)),
    (rf"distance from uniform, {_P} \(total variation\)", ("tv",)),
    (rf"busiest tenth gives {_P} of the reports", ("busiest tenth",)),
    (rf"Participation is {_P} away from uniform \(total variation\)", ("tv|tv corrected",)),
    (rf"^from uniform \(total variation\): {_P}", ("tv|tv corrected",)),
    (rf"equal chances: {_P}", ("tv by chance",)),
    (rf"^of clients (?:took part|reported): {_P}", ("coverage",)),
    (rf"^of clients (?:took part|reported): .* {_P} never", ("never_share",)),
    (rf"^of the time spent waiting: {_P}", ("rounds.waiting_share",)),
    (rf"^{_ROUND}s?: {_N}", ("rounds.count",)),
    (rf"^{_ROUND}s?: .* {_N} a day", ("rounds.per_day",)),
    (rf"^{_P} of the clients never take part", ("never_share",)),
    (rf"{_P} of the clients never take part", ("never_share",)),
    (rf"heaviest (?:tenth|client|group) takes part {_N} times as often as the lightest", ("heaviest to lightest",)),
)


class Said:
    """The figures that sentences name, of a run of which reports count where not every session ended with one."""

    def __init__(self, run: Measured) -> None:
        self._run = run
        self._of_reports = bool((run.selections != run.reports).any())
        self._counts = run.reports if self._of_reports else run.selections

    @cached_property
    def figures(self) -> dict[str, float]:
        """All of them, by the names that the rules use, in the units of metrics."""
        run, counts = self._run, self._counts
        taken, clients = int(counts.sum()), len(counts)
        prefix = "participation.reported_" if self._of_reports else "participation."
        own = {name.removeprefix(prefix): value for name, value in run.figures.items() if name.startswith(prefix)}
        found = run.figures | {name: value for name, value in own.items() if "." not in name}
        found |= {"clients": clients, "took": int((counts > 0).sum()), "selected": int((run.selections > 0).sum())}
        found |= {"empty rounds": int((run.rounds["selected"] == 0).sum()), "capped": self._capped()}
        if len(run.rounds):
            found["rounds.selected_mean of all"] = float(run.rounds["selected"].to_numpy().mean())
        if not taken:
            return found
        found["tv"] = own["tv_uniform"]
        corrected = run.metrics.get(f"{prefix}tv_uniform_corrected")
        found |= {} if corrected is None else {"tv corrected": corrected}
        found["never by chance"] = (1 - 1 / clients) ** taken
        many = np.arange(taken + 1)
        away = np.abs(many - taken / clients) @ binom.pmf(many, taken, 1 / clients)
        found["tv by chance"] = float(away) * clients / taken / 2
        size = max(1, clients // 10)
        found["busiest tenth"] = float(np.sort(counts)[-size:].sum() / taken)
        weight = run.clients["weight"].to_numpy()
        order = np.argsort(-weight, kind="stable")
        size = clients // 10 if clients >= 20 else 1
        if run.server.get("selection") in ("groups", {"kind": "groups"}):
            size = int(run.server["cohort"])
        high, low = counts[order[:size]].sum(), counts[order[-size:]].sum()
        if low:
            found["heaviest to lightest"] = float(high / low)
        for group in run.groups:
            mine = run.group == group
            found[f"share of {group}"] = float(counts[mine].sum() / taken / np.mean(mine))
        return found

    def _capped(self) -> int:
        """Return how many clients have reached their caps, where these are constant."""
        run = self._run
        counts = run.reports if run.server.get("cooldown_from") == "reported" else run.selections
        return sum(int((counts[run.group == name] >= most).sum()) for name, most in run.caps.items())

    def wrong(self, sentence: str, right: Counter[str]) -> Iterator[str]:
        """Yield what a sentence says wrongly; `right` counts the numbers that are right."""
        for pattern, names in self._rules(sentence):
            for found in re.finditer(pattern, sentence):
                for text, name in zip(found.groups(), names, strict=True):
                    known = [self.figures[each] for each in name.split("|") if each in self.figures]
                    if known and any(shows(text, value) for value in known):
                        right["by the tables"] += 1
                    elif known:
                        yield f"{name} is {known[0]:.6g}, but: {sentence[:200]}"

    def _rules(self, sentence: str) -> Iterator[tuple[str, Sequence[str]]]:
        yield from RULES
        groups = [name for name in self._run.groups if name in sentence]
        if "Participation share over fair share" in sentence:
            for name in groups:
                yield rf"“{re.escape(name)}” {_N}", (f"share of {name}",)
        for name in groups:
            yield rf"device of “{re.escape(name)}” takes part {_N} times its fair share", (f"share of {name}",)
        for name in {name.split(".")[1] for name in self.figures if name.startswith("learning.")}:
            if len(name.split()) == 1:
                yield rf"loss of “?{re.escape(name)}”? ends at {_N}", (f"learning.{name}.loss",)
                yield rf"lowest loss is that of “?{re.escape(name)}”?, {_N}", (f"learning.{name}.loss",)
        yield from self._contrasts(groups)

    def _contrasts(self, groups: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
        for high in groups:
            for low in groups:
                least = self.figures.get(f"share of {low}")
                if high != low and least:
                    name = f"{high} to {low}"
                    self.figures[name] = self.figures[f"share of {high}"] / least
                    words = rf"device of “{re.escape(high)}” (?:takes part|trains) {_N} times as often"
                    yield rf"{words} as one of “{re.escape(low)}”", (name,)


_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "%": 0.01}


def shows(text: str, value: float) -> bool:
    """Whether a number with its unit is a value, rounded to the digits that are shown."""
    found = re.fullmatch(
        r"(< ?)?([\u2212-]?)(\d[\d,]*(?:\.\d+)?)(?:e([\u2212+-]?\d+))?\.? ?([a-z%]*)", text.strip(" .,")
    )
    if found is None:
        return False
    below, sign, digits, power, unit = found.groups()
    scale = _SECONDS.get(unit, 1.0) * 10.0 ** int((power or "0").replace("\u2212", "-"))
    shown = float(digits.replace(",", "")) * (-1 if sign else 1) * scale
    last = 10.0 ** -len(digits.partition(".")[2]) * scale
    whole = digits.replace(",", "")
    if "." not in digits and len(whole) > 3 and not unit:
        last = 10.0 ** min(len(whole) - 3, len(whole) - len(whole.rstrip("0")))  # 12,300 to three digits
    return value <= shown + last if below else abs(shown - value) <= 0.5001 * last + 1e-9 * abs(value)
