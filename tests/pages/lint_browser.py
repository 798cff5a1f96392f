"""What only a browser sees of a page: sizes of texts, width, where the first picture is, what axe-core says."""

from collections.abc import Iterator
from typing import Any

from .lint import Fault
from .test_browser import serious

LEAST_PX = 9.0  # of a text, on a phone of 320 pixels
HIGHEST_PX = 600.0  # at which the first picture begins
VIEWS = ((320, 568), (390, 844), (1440, 900))

_SMALL = """() => [...document.querySelectorAll('body *')].filter(each =>
    [...each.childNodes].some(node => node.nodeType == 3 && node.textContent.trim()) && each.getClientRects().length
    && getComputedStyle(each).visibility == 'visible' && each.getBoundingClientRect().width > 1).map(each => {
        const scale = each.ownerSVGElement && each.getScreenCTM ? each.getScreenCTM() : {a: 1, b: 0};
        const size = parseFloat(getComputedStyle(each).fontSize);
        return [Math.hypot(scale.a, scale.b) * size, each.textContent.trim()] })"""
_FIRST = """() => { const seen = [...document.querySelectorAll('main svg, main canvas, header svg')].filter(each =>
    !each.closest('[aria-hidden=true]') && each.getBoundingClientRect().height > 60);
    return seen.length ? seen[0].getBoundingClientRect().top + scrollY : null }"""


def browser_faults(page: Any) -> Iterator[Fault]:
    """Yield the faults of a page that is open."""
    for width, height in VIEWS:
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("scrollTo(0, 0)")
        top = page.evaluate(_FIRST)
        if width > 320 and top is not None and top >= HIGHEST_PX:
            yield Fault("a first picture too low", f"{top:.0f} px at {width} x {height}")
    for opened in (False, True):
        if opened:
            page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        for width, height in VIEWS:
            page.set_viewport_size({"width": width, "height": height})
            whole, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
            if whole > seen:
                yield Fault("a page wider than the screen", f"{whole} px at {width}, details open: {opened}")
            if width == VIEWS[0][0]:
                small = [(size, text) for size, text in page.evaluate(_SMALL) if size < LEAST_PX]
                for size, text in small[:3]:
                    yield Fault("a text too small", f"{size:.1f} px: {text[:60]}")
    page.set_viewport_size({"width": 390, "height": 844})
    yield from (Fault("axe", each) for each in serious(page))
