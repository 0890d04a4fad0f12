"""A real browser (Debian's chromium) for the pages that this project writes, and how well a text on them can be read."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from selenium import webdriver


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Headless and offline; skips the test where it is not installed."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (binary and driver):
        pytest.skip("needs Debian's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in ("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking", "disable-sync"):
        options.add_argument(f"--{flag}")
    options.add_argument("--window-size=1280,900")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield chrome
    finally:
        chrome.quit()


def channels(colour: str) -> list[float]:
    """Red, green, blue (0..255) and opacity (0..1) of a computed colour."""
    values = [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")]
    return values if len(values) == 4 else [*values, 1.0]


def contrast(one: list[float], other: list[float]) -> float:
    """WCAG 2.2's ratio of two opaque colours, 1..21."""

    def luminance(rgb: list[float]) -> float:
        linear = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb[:3]]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
