"""The run directories of the tests of reports."""

from tests.report.conftest import run_directory, written

__all__ = ["run_directory", "written"]
