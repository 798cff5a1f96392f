"""A page that lists reports: each with its verdict and the first sentence of its answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsim.common.files import write_text
from fedsim.report.document import Document, render
from fedsim.report.verdict import Verdict

INDEX = "index.html"


@dataclass(frozen=True)
class Entry:
    """A report in the list.

    Parameters
    ----------
    href
        Where its page lies, relative to the list.
    document
        The report.
    """

    href: str
    document: Document

    @property
    def verdict(self) -> Verdict | None:
        """Its verdict; None where the scenario has no expectations."""
        found = self.document.context["verdict"]
        return found if isinstance(found, Verdict) else None


def write_index(path: Path, title: str, description: str, sections: Sequence[tuple[str, Sequence[Entry]]]) -> Path:
    """Write the list.

    Parameters
    ----------
    path
        The page.
    title, description
        What is listed.
    sections
        (heading, entries) each.

    Raises
    ------
    RunError
        It cannot be written.
    """
    context = {"description": description, "status": "", "sections": sections}
    write_text(path, render(Document(title, "index.html.jinja", context, {}, (), ""), {}))
    return path
