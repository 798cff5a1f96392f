"""Run directories, and a browser, that several tests share."""

import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import pytest

from fedsim.pages import write_report

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


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Start the browser once."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture(scope="package")
def tab(browser: Any) -> Iterator[Any]:
    """Open a tab once: a new one takes longer than most pages take to open in it."""
    context = browser.new_context(offline=True)
    yield context.new_page()
    context.close()


@pytest.fixture
def visit(tab: Any) -> Iterator[Open]:
    """Open a page anew in the tab, and see at the end that it asked for nothing and complained of nothing."""
    requests: list[str] = []
    complaints: list[str] = []
    urls: list[str] = []

    def dismiss(dialog: Any) -> None:
        complaints.append(dialog.message)
        dialog.dismiss()

    listeners: dict[str, Callable[[Any], None]] = {
        "request": lambda request: requests.append(request.url.partition("#")[0]),
        "console": lambda message: complaints.append(message.text),
        "pageerror": lambda error: complaints.append(str(error)),
        "dialog": dismiss,
    }

    def open_page(path: Path, width: int, scheme: Scheme) -> Any:
        tab.set_viewport_size({"width": width, "height": 812})
        tab.emulate_media(media="screen", color_scheme=scheme)
        urls.append(path.resolve().as_uri())
        tab.goto(urls[-1])
        return tab

    tab.goto("about:blank")
    for event, listener in listeners.items():
        tab.on(event, listener)
    yield open_page
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
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
