"""Takes the pictures of reports that README.md and docs/report.md show, after the reports were made.

It needs chromium, and playwright (extra `test`).
"""

import shutil

from playwright.sync_api import sync_playwright

from reports.make.kept import REPORTS, ROOT

IMAGES = ROOT / "docs" / "images"
WIDTH = 1100
MOVED_TO = 12
"""The separation to which the slider of the second picture is moved."""


def take() -> None:
    """Take the first screen of the synthetic run, and its slider after it was moved."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("chromium is needed: apt-get install chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = started.new_page(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
        page.goto((REPORTS / "synthetic.html").absolute().as_uri())
        top = page.locator("#what-if").bounding_box()
        assert top is not None
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": top["y"] - 10}
        page.screenshot(path=IMAGES / "report.png", clip=clip, full_page=True)
        slider = page.locator("#what-if input[type=range]").first
        slider.focus()
        for _ in range(MOVED_TO - int(slider.input_value())):
            slider.press("ArrowRight")
        page.locator("#what-if").screenshot(path=IMAGES / "what-if.png")
        started.close()
