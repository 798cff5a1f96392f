"""What the studies measured, as JSON files in `reports/`, and what pages read from them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from fedsim import Scenario, __version__
from fedsim.common.json_files import as_json
from fedsim.scenario.sweep import WITHOUT_EFFECT
from fedsim.trials.trials import Trials

REPORTS = Path(__file__).parent.parent
ROOT = REPORTS.parent
SCENARIOS = ROOT / "scenarios"
STORES = ("draws", "figure-3", "networks", "rates", "what-ifs")
UNIFORM = "fedavg_uniform"  # the optimizer that is trained over uniform participation

Kept = Mapping[str, Any]
Record = dict[str, Any]


def read_store(name: str) -> Any:
    """Return the contents of a store."""
    return json.loads((REPORTS / f"{name}.json").read_text(encoding="utf-8"))


def write_store(name: str, contents: Any, *, sort_keys: bool = False) -> None:
    """Write the contents of a store."""
    text = json.dumps(contents, indent=1, sort_keys=sort_keys, default=float)
    (REPORTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def made_by(scenario: Scenario) -> dict[str, str]:
    """Return what a stored result says of itself: the version of fedsim, and a hash of what was simulated."""
    written = {key: each for key, each in scenario.as_written.items() if key not in WITHOUT_EFFECT}
    return {"version": __version__, "scenario": sha256(as_json(written).encode()).hexdigest()[:16]}


def load() -> dict[str, Any]:
    """Return the contents of every store, by its name."""
    return {name: read_store(name) for name in STORES}


@cache
def kept_sweep(name: str) -> Trials:
    """Read one of the sweeps that are kept in ``reports/sweeps``."""
    return Trials.read(REPORTS / "sweeps" / name)


def of(records: Iterable[Record], optimizer: str, separation: int | None = None) -> list[Record]:
    """Return the records of an optimizer, at one separation if one is given."""
    return [each for each in records if each["optimizer"] == optimizer and separation in {None, each.get("separation")}]


def above_uniform(
    records: Sequence[Record], optimizer: str, separation: int | None = None, what: str = "average_loss"
) -> np.ndarray:
    """Return by how much losses lie above that of the uniform run of the same draw or participation, or of the one."""
    uniform, runs = of(records, UNIFORM), of(records, optimizer, separation)
    if len(uniform) == 1:
        return np.array([each[what] - uniform[0][what] for each in runs])
    key = "draw" if "draw" in uniform[0] else "participation"
    level = {each[key]: each[what] for each in uniform}
    return np.array([each[what] - level[each[key]] for each in runs])


def above_by_separation(records: Sequence[Record], optimizer: str, what: str = "average_loss") -> dict[int, np.ndarray]:
    """Return `above_uniform` over draws of the data, or participations, by separation."""
    separations = sorted({each["separation"] for each in records if each["separation"] is not None})
    return {r: above_uniform(records, optimizer, r, what) for r in separations}
