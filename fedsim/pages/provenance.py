"""Where a report's figures come from: what would have to be the same to get them again."""

import json
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from fedsim.common.files import portable
from fedsim.common.formatting import NO_VALUE, count, cut, duration
from fedsim.common.json_files import Json

_SCENARIO_CHARACTERS = 100_000  # characters shown of the resolved scenario, which may hold a weight for every client
_DIGITS = 16  # of the hash that tells a page that is out of date


def scenario_version(resolved: Json) -> str:
    """Return a hash of a resolved scenario, whatever the order of its keys."""
    return sha256(json.dumps(resolved, sort_keys=True).encode()).hexdigest()[:_DIGITS]


@dataclass(frozen=True)
class ReportProvenance:
    """What was run, by what, and how to run it again."""

    facts: tuple[tuple[str, str], ...]  # (what, value) pairs
    overrides: tuple[str, ...]  # settings that replaced those of the file
    fingerprints: tuple[tuple[str, str], ...]  # (table, hash) pairs
    command: str | None  # runs it again; None where the manifest has none
    scenario: str  # the resolved scenario as JSON, which is YAML as well
    omitted: str  # what of it is not shown; empty where all is
    version: str  # that of the resolved scenario


def run_provenance(manifest: Mapping[str, Json], command: str = "") -> ReportProvenance:
    """Gather the provenance from the manifest of a run, with the `command` of a log where it has none."""
    given = {**manifest, "command": manifest.get("command") or command}
    return _provenance(given, manifest.get("scenario"), "manifest.json")


def sweep_provenance(meta: Mapping[str, Json]) -> ReportProvenance:
    """Gather the provenance from `sweep.json`; what it does not say is left out."""
    # The same command writes the same page, however long it took, and wherever it is.
    shown = {key: value for key, value in meta.items() if key not in {"wall_time_s", "checksum", "points", "runs"}}
    shown |= {"scenario_file": _file(meta)} if "scenario_file" in meta else {}
    return _provenance(meta, shown, "sweep.json")


def _file(meta: Mapping[str, Json]) -> str:
    """Return the scenario file as the command names it, or without the folders that are only here."""
    with suppress(ValueError):  # what a shell cannot read
        words = shlex.split(_text(meta.get("command")))
        if words[:1] == ["fedsim"] and len(words) > 2:
            return words[2]
    return portable(_text(meta.get("scenario_file")))


def _provenance(meta: Mapping[str, Json], resolved: Json, file: str) -> ReportProvenance:
    facts = [("Scenario file", _file(meta))] if "scenario_file" in meta else []
    shown = [key for key in ("seed", "seeds", "replicate", "status", "platform") if key in meta]
    facts += [(key.capitalize(), cut(_text(meta[key]), 301)) for key in shown]
    if isinstance(time_s := meta.get("simulated_s"), int | float):
        facts.append(("Simulated time", duration(time_s)))
    if versions := ", ".join(f"{name} {version}" for name, version in _pairs(meta.get("versions"))):
        facts.append(("Versions", versions))
    overrides, command = meta.get("overrides"), meta.get("command")
    text = json.dumps(resolved, indent=2, ensure_ascii=False)
    left = len(text) - _SCENARIO_CHARACTERS
    return ReportProvenance(
        facts=tuple(facts),
        overrides=tuple(_text(override) for override in overrides) if isinstance(overrides, list) else (),
        fingerprints=_pairs(meta.get("fingerprints")),
        command=command if isinstance(command, str) and command else None,
        scenario=text[:_SCENARIO_CHARACTERS],
        omitted=f"The other {count(left, 'character')} are in {file}." if left > 0 else "",
        version=scenario_version(meta.get("scenario")),
    )


def _text(value: Json) -> str:
    return NO_VALUE if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pairs(value: Json) -> tuple[tuple[str, str], ...]:
    return tuple((key, _text(item)) for key, item in value.items()) if isinstance(value, Mapping) else ()
