"""Whatever stands in a scenario file, it is a scenario or a list of mistakes: never a traceback."""

import re
import resource
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fedsim.common.errors import Mistake, ScenarioError
from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario, starter
from tests.command import fedsim

ANSWERED, READ = 1_000, 600
"""Files that commands answer, and that are read alone, which takes a tenth of the time and finds most mistakes."""
MOST_DEVICES = 20_000
MOST_RUN = 300
MOST_MEMORY = 8 * 2**30
TEXTS = [file.read_text(encoding="utf-8") for file in sorted(Path("scenarios").rglob("*.fedsim.yaml"))]
TEXTS += [starter("case", "fleet")]

_LISTED = """
0 | -1 | 1.5 | 1e400 | -.inf | .nan | 1_000_000_000_000 | 0x | 0o9 | 12:30 | true | no | null | ~ | '' | " | ' | []
{} | [[[[ | } | > | @ | ` | % | # | : | a: | *a | &a | !!set | <<: | &a [*a] | !!int x | ? x | - - - | {a: 1, a: 2}
[1, 2, 3] | 5m | PT8H | -5m | 30 | 1d12h | 0s | 2026-01-05 | 2026-01-05T00:00:00Z | Europe/Berlin | always | habits
é ± 漢 | \t | \0 | groups | midzuno | skip | fedavg | [fedavg, fedavg] | os:system | no.such:Thing
../x.csv | /dev/zero | /etc/passwd | {kind: torch, module: os}
!!python/object:os.system x | {kind: renewal, on: 0s, off: 1s} | {kind: trace, file: x.csv} | {kind: zipf, exponent: 9}
{kind: uniform, low: 3, high: 1} | {kind: column, file: ../../../etc/passwd, column: p} | {grid: {seed: [1, 2]}}
rounds.count < 5 | [rounds.count <] | {check: a.b == 1 +- } | [1 < 2] | {figures: [x], fingerprint: [rounds]}
5MB | 5 MB | 0MB | 1e9GB | 20Mbps | {jetson-nano: 1} | {iphone-5s: 0} | {model: 5MB} | {down: 1bps, up: 0bps} | 400g
{kind: fedavg, x: 1} | synthetic.fedsim.yaml | case.fedsim.yaml | [../paper/synthetic.fedsim.yaml] | {kind: lognormal}
"""
VALUES = [
    *_LISTED.strip("\n").replace("\n", " | ").split(" | "),
    "9" * 400,
    "9" * 5000,
    "9" * 30 + "h",
    "0x" + "f" * 5000,
    "[" * 500,
    "{a: " * 200,
]
KEYS = [
    *(
        "seed",
        "stop",
        "population",
        "server",
        "learning",
        "expect",
        "drift",
        "replicates",
        "extends",
        "sweep",
        "decide",
    ),
    *("prices", "needs", "device", "link", "samples", "model", "joins", "leaves", "secure_aggregation"),
    *("records", "theory", "devices", "weight", "separation", "availability", "session", "cohort", "selection"),
]
ACCIDENTS = ("value", "value", "value", "key", "delete", "double", "indent", "insert", "cut", "swap")


def small(text: str) -> str:
    """Return a scenario with few devices, so that a case takes milliseconds."""
    return re.sub(r"devices: [\d_]+", "devices: 40", re.sub(r"cohort: [\d_]+", "cohort: 2", text))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Draw a scenario file of the repository with a few accidents in it."""
    lines = small(draw(st.sampled_from(TEXTS))).splitlines()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        match draw(st.sampled_from(ACCIDENTS)):
            case "value":
                lines[at] = f"{line.partition(':')[0]}: {draw(st.sampled_from(VALUES))}"
            case "key":
                lines.insert(at, f"{draw(st.sampled_from(KEYS))}: {draw(st.sampled_from(VALUES))}")
            case "delete" if len(lines) > 1:
                del lines[at]
            case "double":
                lines.insert(at, line)
            case "indent":
                lines[at] = line[1:] if draw(st.booleans()) else f"  {line}"
            case "insert":
                column = draw(st.integers(0, len(line)))
                inserted = draw(st.one_of(st.sampled_from(VALUES), st.text(max_size=8)))
                lines[at] = line[:column] + inserted + line[column:]
            case "cut":
                lines[at] = line[: draw(st.integers(0, len(line)))]
            case "swap":
                other = draw(st.integers(0, len(lines) - 1))
                lines[at], lines[other] = lines[other], line
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 19)) == 0:
        content = content[: draw(st.integers(0, len(content)))] + draw(st.binary(max_size=4))
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the scenarios, beside which the cases are written; meanwhile memory has a limit."""
    copy = tmp_path_factory.mktemp("fuzz") / "scenarios"
    shutil.copytree("scenarios", copy)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY if hard < 0 else min(MOST_MEMORY, hard), hard))
    yield copy / "paper"
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# What a command may answer: `validate` does not run anything, and theory judges no limits.
CODES = {"validate": {0, 2}, "chain": {0, 2}, "plan": {0, 2}, "run": {0, 1, 2, 3}}
BRIEFLY = ["--set", "stop={rounds: 3, duration: 30m}", "--set", "replicates=1"]


@pytest.mark.filterwarnings("ignore")  # what the mutations make numbers do is not this test's business
@pytest.mark.campaign
@settings(max_examples=ANSWERED)
@given(content=mutated(), dice=st.integers(0, 9))
def test_a_mutated_file_gets_an_answer(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, dice: int
) -> None:
    """Every case is validated; of those that are scenarios, theory is asked of some, and some are planned or run."""
    path = folder / "case.fedsim.yaml"
    path.write_bytes(content)
    done = fedsim("validate", path)  # whatever it raises but an exit fails the test
    code, said = done.returncode, done.stderr
    event(f"validate: {code}")
    assert code in CODES["validate"], said
    assert code == 0 or re.search(r"case.fedsim.yaml(:\d+:\d+)?: error: |: error: ", said), said
    further = {0: "run", 1: "plan", 2: "chain", 3: "chain", 4: "chain"}.get(dice)
    if code or further is None or Scenario.load(path).devices > MOST_RUN:
        return
    monkeypatch.setattr("fedsim.trials.plan.LocalProcesses", ThreadPoolExecutor)  # where memory has its limit, too
    out = ["--out", tmp_path / "out"] if further != "chain" else []
    done = fedsim(further, path, *BRIEFLY, *out)
    code, said = done.returncode, done.stderr
    event(f"{further}: {code}")
    assert code in CODES[further], said
    assert not code or "rror" in said or code == 1, said
    assert "Traceback" not in said


@pytest.mark.long
@settings(max_examples=READ)
@given(content=mutated())
def test_a_mutated_file_is_a_scenario_or_mistakes(folder: Path, content: bytes) -> None:
    path = folder / "case.fedsim.yaml"
    path.write_bytes(content)
    mistakes: list[Mistake] = []
    try:
        scenario = Scenario.load(path)
        if scenario.devices <= MOST_DEVICES:
            preflight(scenario)
    except ScenarioError as error:
        mistakes = list(error.mistakes)
    event(f"{min(len(mistakes), 3)} mistakes" if mistakes else "a scenario")
    for mistake in mistakes:
        assert mistake.message
        assert re.search(r":\d+:\d+$", mistake.place), mistake
