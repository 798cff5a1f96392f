"""Where a report's figures come from: what would have to be the same to get them again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from fedsim.common.files import portable
from fedsim.report.finished_run import FinishedRun, Json
from fedsim.report.formatting import NOTHING, count, cut, duration
from fedsim.report.stamp import scenario_version

SCENARIO_CHARACTERS = 100_000
"""Characters shown of the resolved scenario, which may hold a weight for every client."""


@dataclass(frozen=True)
class Provenance:
    """What was run, by what, and how to run it again.

    Parameters
    ----------
    facts
        (what, value) pairs.
    overrides
        Settings that replaced those of the file.
    fingerprints
        (table, hash) pairs.
    command
        Runs it again; None where the manifest has none.
    scenario
        The resolved scenario as JSON, which is YAML as well.
    omitted
        What of it is not shown; empty where all is.
    version
        That of the resolved scenario; see `fedsim.report.stamp`.
    """

    facts: tuple[tuple[str, str], ...]
    overrides: tuple[str, ...]
    fingerprints: tuple[tuple[str, str], ...]
    command: str | None
    scenario: str
    omitted: str
    version: str


def provenance(run: FinishedRun) -> Provenance:
    """Gather the provenance from the manifest; what it does not say shows as missing."""
    manifest, time_s = run.manifest, run.manifest.get("simulated_s")
    told = ("seed", "replicate", "status")
    facts = (
        ("Scenario file", portable(_text(manifest.get("scenario_file")))),
        *((key.replace("_", " ").capitalize(), _text(manifest.get(key))) for key in told),
        ("Simulated time", duration(time_s if isinstance(time_s, int | float) else None)),
        ("Versions", _versions(manifest)),
        ("Platform", _text(manifest.get("platform"))),
    )
    return _gathered(manifest, facts, manifest.get("scenario"), "manifest.json")


def sweep_provenance(meta: Mapping[str, Json]) -> Provenance:
    """Gather the provenance from `sweep.json`; what it does not say shows as missing."""
    told = [key for key in ("status", "seeds", "platform") if key in meta]
    facts = [("Scenario file", portable(_text(meta["scenario_file"])))] if "scenario_file" in meta else []
    facts += [(key.replace("_", " ").capitalize(), cut(_text(meta[key]), 301)) for key in told]
    versions = [("Versions", versions)] if (versions := _versions(meta)) else []
    return _gathered(meta, (*facts, *versions), meta, "sweep.json")


def _gathered(meta: Mapping[str, Json], facts: tuple[tuple[str, str], ...], resolved: Json, file: str) -> Provenance:
    overrides, command = meta.get("overrides"), meta.get("command")
    text = json.dumps(resolved, indent=2, ensure_ascii=False)
    left = len(text) - SCENARIO_CHARACTERS
    return Provenance(
        facts=facts,
        overrides=tuple(_text(override) for override in overrides) if isinstance(overrides, list) else (),
        fingerprints=_pairs(meta.get("fingerprints")),
        command=command if isinstance(command, str) and command else None,
        scenario=text[:SCENARIO_CHARACTERS],
        omitted=f"The other {count(left, 'character')} are in {file}." if left > 0 else "",
        version=scenario_version(meta.get("scenario")),
    )


def _versions(meta: Mapping[str, Json]) -> str:
    return ", ".join(f"{name} {version}" for name, version in _pairs(meta.get("versions")))


def _text(value: Json) -> str:
    return NOTHING if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pairs(value: Json) -> tuple[tuple[str, str], ...]:
    return tuple((key, _text(item)) for key, item in value.items()) if isinstance(value, Mapping) else ()
