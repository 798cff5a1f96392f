"""Run directories, and a browser, that several tests share."""

import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import pytest

from fedsim.report import write_report

from .runs import write_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage")
IN_A_BROWSER = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path: apt-get install chromium"),
    pytest.mark.skipif(find_spec("playwright") is None, reason="playwright is not installed: pip install '.[test]'"),
    pytest.mark.skipif(find_spec("axe_playwright_python") is None, reason="axe-playwright-python is not installed"),
]
"""What tests in a browser need."""

Scheme = Literal["light", "dark"]
Open = Callable[[Path, int, Scheme], Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start the browser once."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Open]:
    """Open a page, and see at the end that it asked for nothing and complained of nothing."""
    contexts: list[Any] = []
    requests: list[str] = []
    complaints: list[str] = []
    urls: list[str] = []

    def dismiss(dialog: Any) -> None:
        complaints.append(dialog.message)
        dialog.dismiss()

    def open_page(path: Path, width: int, scheme: Scheme) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 812}, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        url = path.resolve().as_uri()
        page.on("request", lambda request: requests.append(request.url.partition("#")[0]))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", dismiss)
        urls.append(url)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert requests == urls
    assert complaints == []


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run directory for every test that leaves it as it is."""
    return write_run(tmp_path_factory.mktemp("runs") / "paper")


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    """Write a run directory to be changed."""
    return write_run(tmp_path / "run", rounds=60)


@pytest.fixture(scope="session")
def page(written: Path) -> str:
    """Write the report of the shared run and read its page."""
    return write_report(written).read_text(encoding="utf-8")
