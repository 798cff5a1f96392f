"""The result of a simulation, and the run directory that holds it."""

import json
import math
import platform
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import polars as pl

from fedsim._version import __version__
from fedsim.errors import RunError
from fedsim.log import fingerprint, write_table, write_text
from fedsim.scenario import Scenario
from fedsim.scenario.permissions import NOTHING, Permissions
from fedsim.study.verdict import Judgement, judge

_LIBRARIES = ("numpy", "polars", "pydantic", "scipy", "simpy")


@dataclass(frozen=True)
class Provenance:
    """How a run came about: what its manifest says beside the result.

    Attributes
    ----------
    file
        The scenario file, as it was named.
    overrides
        ``path=value`` each.
    seed
        The seed given on the command line, if there was one.
    wall_time_s
        Seconds that the run took.
    permissions
        What the scenario was allowed.
    """

    file: str = ""
    overrides: Sequence[str] = ()
    seed: int | None = None
    wall_time_s: float | None = None
    permissions: Permissions = NOTHING

    @property
    def command(self) -> str:
        """The command that runs the scenario again."""
        words = ["fedsim", "run", self.file]
        for override in self.overrides:
            words += ["--set", override]
        if self.seed is not None:
            words += ["--seed", str(self.seed)]
        return shlex.join([*words, *self.permissions.words]) if self.file else ""


@dataclass(frozen=True)
class Result:
    """One run of a scenario.

    Attributes
    ----------
    scenario
        What was run.
    replicate
        Which repetition.
    rounds, participations, clients, gauges
        The log's tables, as polars frames; columns as documented in ``docs/run-directory.md``.
    learning
        Loss and gradient norm of each optimizer by round; None if the scenario trains nothing.
    transitions
        When the conditions of chosen devices changed; None if the scenario chooses none.
    convergence
        The table of `fedsim.theory.convergence_table`; None if the scenario asks for no such study.
    metrics
        Figures by name; `fedsim.analysis.METRICS` says what each means.
    simulated_s
        Simulated seconds from start to end.
    """

    scenario: Scenario
    replicate: int
    rounds: pl.DataFrame
    participations: pl.DataFrame
    clients: pl.DataFrame
    gauges: pl.DataFrame
    learning: pl.DataFrame | None
    transitions: pl.DataFrame | None
    convergence: pl.DataFrame | None
    metrics: dict[str, float]
    simulated_s: float

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables by the name of their file."""
        tables = {
            "rounds": self.rounds,
            "participations": self.participations,
            "clients": self.clients,
            "gauges": self.gauges,
        }
        extra = {"learning": self.learning, "transitions": self.transitions, "convergence": self.convergence}
        return tables | {name: table for name, table in extra.items() if table is not None}

    @property
    def verdict(self) -> list[Judgement]:
        """What became of the scenario's limits; those on several replicates stay unjudged."""
        return judge(self.scenario, [self.metrics])

    def save(self, directory: str | Path, provenance: Provenance | None = None) -> Path:
        """Write the run directory: tables, metrics, and last the manifest, which says that all is there.

        Every file is written under a temporary name and renamed, so a run that is killed leaves whole files or none.

        Raises
        ------
        RunError
            If it cannot be written, or holds files that are not a run's.
        """
        folder = open_run_directory(directory)
        for name, table in self.tables.items():
            write_table(folder / f"{name}.parquet", table)
        finite = {name: value if math.isfinite(value) else None for name, value in self.metrics.items()}
        write_text(folder / "metrics.json", _json(finite))
        write_text(folder / "manifest.json", _json(self._manifest(provenance or Provenance())))
        return folder

    def report(self, path: str | Path) -> Path:
        """Write the report of this run as one self-contained HTML file.

        Raises
        ------
        RunError
            If it cannot be written.
        """
        from fedsim.report.page import document_of, write_document

        with tempfile.TemporaryDirectory() as folder:
            document = document_of(self.save(Path(folder) / "run"))
            return write_document(document, Path(path), None)

    def _repr_html_(self) -> str:
        """Show the run in a notebook: the answer, key figures, and who took part."""
        from fedsim.report.notebook import notebook_html

        with tempfile.TemporaryDirectory() as folder:
            return notebook_html(self.save(Path(folder) / "run"))

    def _manifest(self, provenance: Provenance) -> dict[str, Any]:
        return {
            "name": self.scenario.name,
            "scenario_file": provenance.file,
            "scenario": self.scenario.model_dump(mode="json"),
            "overrides": list(provenance.overrides),
            "seed": self.scenario.seed,
            "replicate": self.replicate,
            "status": "complete",
            "versions": {
                "fedsim": __version__,
                "python": platform.python_version(),
                **{library: metadata.version(library) for library in _LIBRARIES},
            },
            "platform": platform.platform(),
            "verdict": [judgement.as_dict() for judgement in self.verdict],
            "fingerprints": {name: fingerprint(table) for name, table in self.tables.items()},
            "command": provenance.command,
            "wall_time_s": provenance.wall_time_s,
            "simulated_s": self.simulated_s,
        }


def open_run_directory(directory: str | Path) -> Path:
    """Make a run directory ready to be written: new, or emptied of an earlier run's files.

    Raises
    ------
    RunError
        If it is not a folder, or holds files but no manifest, so that it is not a run's to replace.
    """
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        manifest = folder / "manifest.json"
        if any(folder.iterdir()) and not manifest.exists() and not _only_leftovers(folder):
            raise RunError(f"{folder} holds files that are not a run's; choose another folder with --out")
        manifest.unlink(missing_ok=True)
        for pattern in ("*.parquet", "metrics.json", "report.html", "figures/*", ".*.partial", "figures/.*.partial"):
            for old in folder.glob(pattern):
                old.unlink()
    except OSError as error:
        raise RunError(f"{folder} cannot be written: {error.strerror or error}") from None
    return folder


def _only_leftovers(folder: Path) -> bool:
    """Say whether a folder holds nothing but what a run that was killed left behind."""
    ours = {"metrics.json", "report.html", "figures"}
    return all(path.name in ours or path.suffix in {".parquet", ".partial"} for path in folder.iterdir())


def _json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
