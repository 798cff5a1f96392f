"""How a run is shown to a person: the one module that asks a later room for something, the reports for their pages.

A report is made from a run directory and imports nothing of this room. But whoever holds a `Result` looks there for
``result.report("out.html")``, and a notebook for what to display; and a run directory is complete with its report.
"""

from collections.abc import Callable
from pathlib import Path


def write_report(
    directory: Path, page: Path | None = None, *, plugins: bool = False, tell: Callable[[str], None] = lambda _: None
) -> Path:
    """Write the report of a run directory: into it, or elsewhere; return the page.

    Charts of the scenario's own are drawn if `plugins` may run; `tell` is told which of them failed, and why. Errors
    are those of `fedsim.report.write_report`.
    """
    from fedsim import report

    return report.write_report(directory, page, plugins=plugins, tell=tell)


def notebook_html(directory: Path) -> str:
    """Return what a notebook shows of a run directory, as `fedsim.report.notebook.notebook_html` does."""
    from fedsim.report.notebook import notebook_html

    return notebook_html(directory)
