"""Writes run directories; says what a run was made from, and how two configurations differ."""

import hashlib
import json
import platform
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from fedsim._version import __version__
from fedsim.common.arguments import path_of
from fedsim.common.errors import RunError
from fedsim.common.files import About, hash_of, name_of_file, write_arrays, write_table, write_text
from fedsim.common.json_files import as_json, finite, read_object
from fedsim.common.regular_files import check_replaceable
from fedsim.limits.verdict import judge
from fedsim.log import fingerprint
from fedsim.measure.metrics.own import Own, made_metrics
from fedsim.run.finished import CHECKSUMS, JOBS, MANIFEST, METRICS, MODELS, UNFINISHED, Outcome, checksums
from fedsim.scenario import Scenario, as_argument
from fedsim.scenario.component import words_of
from fedsim.scenario.document import override_options
from fedsim.scenario.permissions import NOTHING, CodeName, Permissions
from fedsim.selection import needs_feedback

_PARTIAL = (".*.partial", "figures/.*.partial")
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


def write_run(
    folder: Path,
    outcome: Outcome,
    provenance: Provenance,
    *,
    there: Collection[str] = (),
    known: Mapping[str, str] = MappingProxyType({}),
    own: Sequence[Own] | None = None,
) -> None:
    """Write tables, metrics, and last the manifest, which says that all is there.

    Every file is written under a temporary name and renamed, so a run that is killed leaves whole files or none. As far
    as they are known, `there` are the names of the tables that are written already, `known` the fingerprints of tables
    by name, and `own` the scenario's own metrics.
    """
    scenario, metrics, named = outcome.scenario, outcome.metrics, outcome.by_name()
    for name, table in named.items():
        if name not in there and isinstance(table, pl.DataFrame):
            write_table(folder / f"{name}.parquet", table, about=about_tables(scenario, outcome.replicate))
    figures = as_json(finite(metrics))
    write_text(folder / METRICS, figures)
    if outcome.models:
        write_arrays(folder / MODELS, outcome.models)
    own = made_metrics(scenario)[0] if own is None else own
    described = [vars(metric) for each in own for metric in each.metrics]
    manifest = {
        "name": scenario.name,
        "scenario_file": provenance.file,
        **identity(scenario, outcome.replicate),
        "overrides": list(provenance.overrides),
        "seed": scenario.seed,
        "status": "stalled" if provenance.stalled else "complete",
        **({"stalled": provenance.stalled} if provenance.stalled else {}),
        "platform": platform.platform(),
        "verdict": [judgement.as_dict() for judgement in judge(scenario, [metrics], own)],
        **({"own_metrics": described} if described else {}),
        "fingerprints": {name: known.get(name) or fingerprint(table) for name, table in named.items()},
        "command": provenance.command(),
        "wall_time_s": provenance.wall_time_s,
        "simulated_s": outcome.simulated_s,
    }
    sums = checksums(manifest, figures) | ({MODELS: hash_of(folder / MODELS)} if outcome.models else {})
    write_text(folder / MANIFEST, as_json({**manifest, CHECKSUMS: sums}))


def about_tables(scenario: Scenario, replicate: int) -> About:
    """Return what each table says of itself in its metadata, under ``fedsim``."""
    known = {
        "fedsim": __version__,
        "name": scenario.name,
        "start": scenario.model_dump(mode="json")["start"],
        "seed": scenario.seed,
        "replicate": replicate,
    }

    def about(columns: Sequence[str]) -> dict[str, str]:
        said = json.dumps({**known, "units": {name: "s" for name in columns if name.endswith("_s")}})
        return {"fedsim": said}

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


def only_trained_from(scenario: Scenario) -> set[str]:
    """Return the files, as keys of an `identity`, on which the training of a scenario depends and its log does not."""
    if not scenario.jobs and needs_feedback(scenario.server.selection):
        return set()
    files: dict[bool, set[str]] = {True: set(), False: set()}
    for path, word in words_of(scenario):
        if not isinstance(word, CodeName):
            files["learning" in (path[0], *(path[2:3] if path[0] == "jobs" else ()))].add(word)
    return {f"inputs.{name}" for name in files[True] - files[False]}


def check_identity(folder: Path, file: Path, own: Mapping[str, Any], may_differ: Collection[str] = ()) -> bool:
    """Raise a `RunError` that says what differs if the run whose `identity` is in a file is another one.

    Return whether something else differs, of the keys that may.
    """
    there = read_object(file)
    here = json.loads(as_json(own))
    different = [*changes({key: there.get(key) for key in here}, here)]
    found = [
        f"{path.removeprefix('scenario.')} is {_short(theirs)} there and {_short(ours)} here"
        for path, theirs, ours in different
        if path not in may_differ
    ]
    if found:
        shown = "; ".join(found[:_MOST_DIFFERENCES])
        more = f"; and {len(found) - _MOST_DIFFERENCES} more" if len(found) > _MOST_DIFFERENCES else ""
        raise RunError(
            f"{folder} holds another run, which this one cannot go on with: {shown}{more}. Choose another folder with "
            "--out, or leave out --resume to replace it"
        )
    return bool(different)


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
        left = {METRICS, MODELS, "report.html", "figures", JOBS, ".parquet", ".partial"}  # by a run that was killed
        if not manifest.exists() and any({path.name, path.suffix}.isdisjoint(left) for path in folder.iterdir()):
            raise RunError(f"{folder} holds files that are not a run's; choose another folder with --out")
        patterns = [MANIFEST, "*.parquet", METRICS, MODELS, "report.html", "figures/*", *_PARTIAL]
        old = [path for pattern in patterns for path in folder.glob(pattern)]
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
