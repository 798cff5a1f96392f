"""Reports of runs, sweeps and comparisons: one self-contained HTML page, a summary, figures as files.

From a directory, and from nothing else, comes a page that answers in its first screen: whether expectations were met,
who took part, how far that lies from uniform and from the theory, at what cost, and what it did to the model.
Everything behind that follows: charts with their data, tables, provenance. The page needs no network and no
JavaScript, and is made of the same bytes every time::

    finished run, sweep -+-> charts (data, then drawing) -> render (SVG) ----+-> answer -> page -> report.html
                         `-> verdict, answer, tables, provenance (as text) --'          |-> markdown
                                                                                        `-> figure files
"""

from fedsim.pages.page import FigureStyle, figure_style, report_directories, report_figures, write_report

__all__ = ["FigureStyle", "figure_style", "report_directories", "report_figures", "write_report"]
