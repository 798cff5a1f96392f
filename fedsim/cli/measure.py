"""The command ``fedsim measure``: a production log as a run directory, with the page of a run."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from fedsim.cli import options
from fedsim.cli.recording import record_and_tell
from fedsim.cli.trace import pairs_option

LogFile = Annotated[Path, Argument(metavar="LOG", help="Sessions, a row for each: CSV, also .gz, Parquet or NDJSON.")]
ColumnsOption = Annotated[
    str | None,
    Option(
        metavar="client=NAME,...",
        help="Which columns are client, selected, ended, outcome and, where there are such, round, class, time_zone, "
        "weight, staleness.",
    ),
]
OutcomesOption = Annotated[
    str | None,
    Option(metavar="reported=WORD|...,...", help="What words of the outcome mean: reported, dropped, late or cut."),
]
BaseOption = Annotated[str | None, Option(metavar="INSTANT", help="The instant of second 0, where times are relative.")]
UnitOption = Annotated[str | None, Option(help="Of times that are numbers: s, ms, us or ns; by default what fits.")]

CheckInsOption = Annotated[
    Path | None, Option(metavar="TRACE", help="When devices could take part: any file that trace import reads.")
]
CheckInColumnsOption = Annotated[
    str | None, Option(metavar="device=NAME,...", help="Its columns, as those of trace import.")
]


def log_of(file: Path, columns: str | None, outcomes: str | None, base: str | None, unit: str | None) -> dict[str, Any]:
    """Return the `log` of a scenario as the options of a command say it."""
    from fedsim.common.outcomes import HOWS
    from fedsim.scenario.log import LOG_ROLES

    meant = {
        word: how
        for how, words in (pairs_option(outcomes, HOWS, "--outcomes") or {}).items()
        for word in words.split("|")
    }
    settings = {"columns": pairs_option(columns, LOG_ROLES, "--columns"), "outcomes": meant, "base": base, "unit": unit}
    return {"file": str(file), **{key: value for key, value in settings.items() if value}}


def measure_command(
    log: LogFile,
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Run directory to write; by default runs/NAME of the log.")
    ] = None,
    columns: ColumnsOption = None,
    outcomes: OutcomesOption = None,
    clients: Annotated[
        Path | None,
        Option(metavar="FILE", help="All clients, with a column client and, where known, group, time_zone, weight."),
    ] = None,
    rounds: Annotated[
        Path | None, Option(metavar="FILE", help="The rounds: round, opened_s and closed_s, seconds from the base.")
    ] = None,
    check_ins: CheckInsOption = None,
    check_in_columns: CheckInColumnsOption = None,
    base: BaseOption = None,
    unit: UnitOption = None,
    override: options.Overrides = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure a production log: write a run directory with its tables, facts and page, for all that reads runs."""
    from fedsim.run.files import Provenance, default_directory
    from fedsim.scenario import Scenario
    from fedsim.scenario.document import Document
    from fedsim.scenario.log import CHECK_IN_ROLES
    from fedsim.scenario.permissions import Permissions

    asked = log_of(log, columns, outcomes, base, unit)
    files = {"clients": clients, "rounds": rounds, "check_ins": check_ins}
    asked |= {key: str(file) for key, file in files.items() if file is not None}
    if (named := pairs_option(check_in_columns, CHECK_IN_ROLES, "--check-in-columns")) is not None:
        asked["check_in_columns"] = named
    name = log.name.split(".")[0] or "log"
    document = Document({"name": name, "log": asked}, folder=Path(), permissions=Permissions(outside=True))
    for each in override or []:
        document.override(each)
    scenario = Scenario.of_document(document)
    directory = out if out is not None else default_directory(scenario)
    record_and_tell(scenario, directory, Provenance(), as_json=as_json, quiet=quiet)
