"""Run directories: the names of their files and the schemas of their tables, what a run was made from, and by what."""

import hashlib
import json
import platform
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import polars as pl

from fedsim._version import __version__
from fedsim.common.arguments import path_of
from fedsim.common.errors import RunError
from fedsim.common.files import LOCK_FILE, About, name_of_file
from fedsim.common.json_files import as_json, checksum, read_object
from fedsim.common.regular_files import check_replaceable
from fedsim.log import CLIENTS, GAUGES, PARTICIPATIONS, ROUNDS, TRANSITIONS
from fedsim.scenario import Scenario, as_argument
from fedsim.scenario.document import override_options
from fedsim.scenario.permissions import NOTHING, Permissions

MANIFEST, METRICS, MODELS, PAGE = "manifest.json", "metrics.json", "models.npz", "report.html"
FACTS_FILE, SERIES_FOLDER = "facts.parquet", "series"
"""The facts, and the folder of the series."""
UNFINISHED = "log.partial"
"""Folder in a run directory whose run has not ended: its journal, and the identity of the run."""
JOBS = "jobs"
"""Folder in the run directory of several jobs, with a run directory for each by its name."""
CHECKSUMS = "checksums"
NOT_COUNTED = (CHECKSUMS, "wall_time_s")
"""What a manifest's own checksum leaves out."""
WIDE: Mapping[type[pl.DataType], pl.DataType] = {pl.Int32: pl.Int64(), pl.Enum: pl.String()}
"""The types of version 0.2 in place of some of today's. Words of an `Enum` may come later, so that any fits another."""
SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "rounds": ROUNDS,
    "participations": PARTICIPATIONS,
    "clients": {name: dtype for name, dtype in CLIENTS.items() if name not in {"reported", "pull"}},  # new in 0.3
    "gauges": GAUGES,
    "transitions": TRANSITIONS,
    "learning": pl.Schema(
        {
            "round": pl.Int32,  # the row has the model after its step; -1: the initial model
            "closed_s": pl.Float64,  # when the round closed
            "optimizer": pl.String,  # name of the optimizer
            "loss": pl.Float64,  # F of the model; further evaluations of the problem follow, such as grad_norm
        }
    ),
    "convergence": pl.Schema(
        {
            "separation": pl.Int64,  # R
            "round": pl.Int64,  # rounds since the start
            "tv": pl.Float64,  # total variation distance of that round's law from the long-run law
            "noise_floor": pl.Float64,  # what sampling alone would give; null where the law is exact
        }
    ),
}


ALWAYS = ("rounds", "participations", "clients", "gauges")
"""Names of the tables that every run has."""
AT_TIMES = ("learning", "transitions", "convergence")
"""Names of those that some runs have."""

_WHOLE = (METRICS, MODELS, PAGE)
_OURS = (MANIFEST, *_WHOLE, "*.parquet", f"{SERIES_FOLDER}/*.parquet", "figures/*", ".*.partial", "figures/.*.partial")
"""Patterns of the files that a run writes."""
_LIBRARIES = ("numpy", "polars", "pydantic", "scipy", "simpy")
_MOST_DIFFERENCES = 3
ABSENT = "(absent)"
Change = tuple[str, Any, Any]
"""Path, value in one configuration, value in another."""


@dataclass(frozen=True)
class Provenance:
    """How a run or a sweep was asked for, how long it took, and why it ended before its stop if it did.

    `overrides` are ``path=value``, `seed` is the option.
    """

    file: str = ""
    overrides: Sequence[str] = ()
    seed: int | None = None
    wall_time_s: float | None = None
    stalled: str = ""
    permissions: Permissions = NOTHING

    def command(self, verb: str = "run", *more: str) -> str:
        """Return the command that does this again in the same working folder; nothing, if there is no file."""
        asked = [*override_options(self.overrides, self.seed), *self.permissions.words]
        return shlex.join(["fedsim", verb, as_argument(self.file), *more, *asked]) if self.file else ""


def about_tables(scenario: Scenario, replicate: int) -> About:
    """Return what each table says of itself in its metadata, under ``fedsim``."""
    constants = {
        "fedsim": __version__,
        "name": scenario.name,
        "start": scenario.model_dump(mode="json")["start"],
        "seed": scenario.seed,
        "replicate": replicate,
    }

    def about(columns: Sequence[str]) -> dict[str, str]:
        text = json.dumps({**constants, "units": {name: "s" for name in columns if name.endswith("_s")}})
        return {"fedsim": text}

    return about


def identity(scenario: Scenario, replicate: int) -> dict[str, Any]:
    """Return everything that determines a run: scenario, replicate, versions, and hashes of the files it reads."""
    resolved = scenario.model_dump(mode="json")
    return {
        "scenario": resolved,
        "replicate": replicate,
        "versions": {
            "fedsim": __version__,
            "python": platform.python_version(),
            **{library: metadata.version(library) for library in _LIBRARIES},
        },
        "inputs": scenario.files(),
    }


def check_identity(folder: Path, file: Path, wanted: Mapping[str, Any]) -> None:
    """Raise a `RunError` that says what differs if the run whose `identity` is in a file is another one."""
    there = read_object(file)
    here = json.loads(as_json(wanted))
    differences = [
        f"{path.removeprefix('scenario.')} is {_short(theirs)} there and {_short(ours)} here"
        for path, theirs, ours in changes({key: there.get(key) for key in here}, here)
    ]
    if differences:
        shown = "; ".join(differences[:_MOST_DIFFERENCES])
        more = f"; and {len(differences) - _MOST_DIFFERENCES} more" if len(differences) > _MOST_DIFFERENCES else ""
        raise RunError(
            f"{folder} holds another run, which this one cannot go on with: {shown}{more}. Choose another folder with "
            "--out, or leave out --resume to replace it"
        )


def default_directory(scenario: Scenario, *, changed: bool = False) -> Path:
    """Return where a run is kept unless another folder is asked for: ``runs/NAME``, with a hash if it is `changed`."""
    name = name_of_file(scenario.name, "run")
    if changed:
        resolved = json.dumps(scenario.model_dump(mode="json"), sort_keys=True)
        name += "-" + hashlib.sha256(resolved.encode()).hexdigest()[:8]
    return Path("runs") / name


def open_run_directory(directory: str | Path) -> Path:
    """Make a run directory ready to be written: new, or emptied of an earlier run's files.

    It is a `RunError` if it is not a folder, or holds files but no manifest, so that it is not a run's to replace.
    """
    folder = path_of("directory", directory, "the folder to write")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        manifest = folder / MANIFEST
        left = {*_WHOLE, "figures", SERIES_FOLDER, JOBS, LOCK_FILE, ".parquet", ".partial"}  # by a run that was killed
        if not manifest.exists() and any({path.name, path.suffix}.isdisjoint(left) for path in folder.iterdir()):
            raise RunError(f"{folder} holds files that are not a run's; choose another folder with --out")
        old = [path for pattern in _OURS for path in folder.glob(pattern)]
        for path in old:
            check_replaceable(path)
        for path in old:
            path.unlink()
        for name in (UNFINISHED, JOBS):
            if (folder / name).is_dir():
                shutil.rmtree(folder / name)
    except OSError as error:
        raise RunError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from None
    return folder


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."


def changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    """Yield (path, value in a, value in b) wherever two configurations differ, in the order of a, then of b."""
    ours, theirs = dict(_leaves(a)), dict(_leaves(b))
    for path in dict.fromkeys([*ours, *theirs]):
        pair = ours.get(path, ABSENT), theirs.get(path, ABSENT)
        if pair[0] != pair[1] or isinstance(pair[0], bool) != isinstance(pair[1], bool):
            yield path, *pair


def _leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list) and data and any(isinstance(item, Mapping | list) for item in data):
        for index, value in enumerate(data):
            yield from _leaves(value, f"{path}[{index}]")
    else:
        yield path, data


def checksums(manifest: Mapping[str, Any], metrics: str) -> dict[str, str]:
    """Return the checksums that a manifest holds: its own, and that of the figures as they are written."""
    return {MANIFEST: checksum(manifest, *NOT_COUNTED), METRICS: hashlib.sha256(metrics.encode()).hexdigest()}
