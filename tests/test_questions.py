"""What the pages on questions conclude is so in what they print."""

import re
from pathlib import Path

import pytest

import fedsim
from fedsim.scenario import starter
from tests.consoles import consoles

FOLDER = Path("docs/questions")


def printed(name: str) -> list[str]:
    """Return what each command of a page prints, in order."""
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    blocks = [found["text"] for found in consoles.BLOCK.finditer(text) if found["kind"] == "console"]
    return ["\n".join(command.shown) for block in blocks for command in consoles.commands(block)]


def figure(text: str, pattern: str) -> float:
    """Return the number that a pattern finds."""
    found = re.search(pattern, text)
    assert found is not None, f"{pattern} is not in\n{text}"
    return float(found[1])


def test_every_page_is_listed() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"({page.name})" in index for page in FOLDER.glob("*.md") if page.name != "README.md")


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_has_at_most_400_words(page: Path) -> None:
    """As `wc` counts, with all that stands in tables and examples."""
    assert len(page.read_text(encoding="utf-8").split()) <= 400


def test_jobs() -> None:
    """The more devices the second job takes, the more biased the first one is, beyond chance, at the same pace."""
    (sweep,) = printed("jobs")
    distances = [figure(sweep, rf"\n{places} .*?([\d.]+) ± [\d.]+\.\.\.") for places in (1, 10, 20)]
    assert distances == sorted(distances)
    for places in (10, 20):
        apart, half = (figure(sweep, rf"\n{places} .*\+{one}") for one in (r"([\d.]+) ±", r"[\d.]+ ± ([\d.]+)"))
        assert apart > half > 0


def test_cool_down(tmp_path: Path) -> None:
    """A longer separation evens out and costs less noise, and the R that is found is the smallest."""
    theory, target, privacy = printed("cool-down")
    distances = [float(line.split()[3]) for line in theory.splitlines()[1:]]
    errors = [float(line.split()[8]) for line in privacy.splitlines()[1:4]]
    assert distances == sorted(distances, reverse=True)
    assert errors == sorted(errors, reverse=True)
    smallest = int(target.splitlines()[1].split()[0])
    page = (FOLDER / "cool-down.md").read_text(encoding="utf-8")
    scenario = next(found for found in consoles.BLOCK.finditer(page) if found["name"])
    (tmp_path / scenario["name"]).write_text(scenario["text"], encoding="utf-8")
    before, found = fedsim.participation_theory(tmp_path / scenario["name"], separation=[smallest - 1, smallest])
    assert found.tv_uniform <= 0.05 < before.tv_uniform


def test_night() -> None:
    """Each of the three ways out shortens the waiting."""
    first, *others = (figure(text, r"rounds waited for clients\s+([\d.]+)%") for text in printed("night"))
    assert len(others) == 3
    assert all(each < first for each in others)


def test_never() -> None:
    """A rest for the others raises the share of the seldom, and leaves more of them out; a weaker requirement helps."""
    never, share = (
        [figure(text, rf"{name} [<>].*observed ([\d.]+)") for text in printed("never")]
        for name in (r"group\.seldom\.participation\.never_share", r"group\.seldom\.share")
    )
    assert never[2] < never[0] < never[1]
    assert share[0] < share[1] < share[2]


def test_debias() -> None:
    """FedAvg alone is biased under the short separation; neither is under the long one; losses lie below uniform's."""
    short, long = (
        [re.search(rf": (\w+): learning\.{name}\.bias", text)[1] for name in ("fedavg", "debiased_fedavg")]  # type: ignore[index]
        for text in printed("debias")
    )
    assert (short, long) == (["warning", "pass"], ["pass", "pass"])
    rare = printed("debias")[1]
    assert figure(rare, r"loss of debiased_fedavg\s+([\d.]+)") < figure(rare, r"loss of fedavg_uniform\s+([\d.]+)")


def test_log() -> None:
    """What was planted lies in the intervals that are printed."""
    *_, found = printed("log")
    for pattern, planted in (
        (r"median [\d.]+ \(([\d.]+) to ([\d.]+)\)", 240),
        (r"session \(([\d.]+) to ([\d.]+)\)", 0.5 + 1.0),  # the end of availability, and failures
    ):
        ends = re.search(pattern, found)
        assert ends is not None
        assert float(ends[1]) < planted < float(ends[2])


def test_decide() -> None:
    """What the page shows of the template's file is in it, and the choice is the row that is the best."""
    page = (FOLDER / "decide.md").read_text(encoding="utf-8")
    shown = next(found["text"] for found in consoles.BLOCK.finditer(page) if found["kind"] == "yaml")
    assert shown in starter("choice", "decide")
    printed_text = next(found["text"] for found in consoles.BLOCK.finditer(page) if found["kind"] == "text")
    rows = {tuple(line.split()[:2]): line.split()[2] for line in printed_text.splitlines()[1:3]}
    choice = re.search(r"^Choose R = (\d+), cohort = (\d+): it has the lowest ", printed_text, re.MULTILINE)
    assert choice is not None
    assert rows[choice.groups()] == "best"


@pytest.mark.long
def test_stragglers(tmp_path: Path) -> None:
    """The table has what the template's runs say, of each method, without partial reports and with them."""
    (tmp_path / "s.fedsim.yaml").write_text(starter("s", "stragglers"), encoding="utf-8")
    page = (FOLDER / "stragglers.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (.*?) \| (.*?)\s*\|$", page, re.MULTILINE))
    shown = [[figure(cell, r"([\d.]+)") for cell in rows[name].split("|")] for name in list(rows)[1:]]
    scenario = fedsim.Scenario.load(tmp_path / "s.fedsim.yaml")
    runs = [fedsim.simulate(scenario.with_values({"server.partial": each})) for each in (False, True)]
    names = ["fedavg", "fednova", "debiased_by_reports", "debiased_by_steps", "feddyn"]
    found = [[round(run.metrics[f"learning.{name}.bias"], 2) for run in runs] for name in names]
    assert found == shown
    assert f"{runs[1].metrics['group.slow.sessions.steps_mean']:.1f} of the 10 steps" in page.replace("\n", " ")
