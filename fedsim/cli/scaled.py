"""What ``fedsim plan --scale 1/K`` does: the smaller scenario as a file, and what it keeps."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fedsim.common.messages import complain, say

if TYPE_CHECKING:
    from fedsim.scenario import Scenario

_KEPT = (
    "while cohorts are not small, these are kept but for chance: shares of groups, outcomes and time available, L1, "
    "gaps, coverage, rounds per day; divided are counts of sessions and device-hours; extremes and the spread over "
    "seeds are not kept (docs/scaling.md has measurements)"
)


def write_scaled(scenario: "Scenario", scale: str, file: Path, out: Path | None) -> None:
    """Write the smaller scenario to a file, and say what it keeps and what not."""
    from fedsim.common.files import write_text
    from fedsim.common.yaml_text import as_yaml
    from fedsim.experiment.preflight import preflight
    from fedsim.experiment.scaled import parse_scale, scaled

    if out is None:
        raise typer.BadParameter("is needed with --scale: the file to write", param_hint="--out")
    try:
        factor = parse_scale(scale)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--scale") from None
    if out.absolute().parent != scenario.folder.absolute() and (
        named := _file_in(scenario.as_written, scenario.folder)
    ):
        message = f"must be in the folder of {file}, since the scenario names {named}, which is found from there"
        raise typer.BadParameter(message, param_hint="--out")
    if out.exists():
        raise typer.BadParameter(f"{out} is there already", param_hint="--out")
    found = scaled(scenario, factor)
    preflight(found.scenario)
    write_text(out, as_yaml(found.scenario.as_written) + "\n")
    for note in found.notes:
        complain(f"note: {note}")
    complain(f"note: {_KEPT}")
    small, large = found.scenario, scenario
    say(
        f"{out}: {small.devices:,} devices for {large.devices:,}, {small.server.wanted:,} selected at a time for "
        f"{large.server.wanted:,}"
    )


def _file_in(data: Any, folder: Path) -> str:
    """Return a text somewhere in plain data that is a file in the folder; empty, if there is none."""
    if isinstance(data, dict | list):
        inner = data.values() if isinstance(data, dict) else data
        return next((found for each in inner if (found := _file_in(each, folder))), "")
    return (
        data if isinstance(data, str) and 0 < len(data) < 256 and "\0" not in data and (folder / data).is_file() else ""
    )
