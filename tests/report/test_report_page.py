"""results.html: the same text as results.md, in one file; in a real browser (Debian's chromium), offline."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browsing import channels, chromium, contrast
from selenium import webdriver
from selenium.webdriver.common.by import By

from slca.errors import DataError
from slca.report import page

FIGURE = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>'
TEXT = """# Results

## In short

A <script>alert(1)</script> & more, [see](#what-a-100--sure-one-says).

| method | success |
| :-- | --: |
| <b>slca</b> | 0.9 |

![two "methods" & more](figures/success.svg)

## What a 100 % sure one says

Nothing.
"""


class Reader(HTMLParser):
    """What a page holds: tags with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/success.svg").write_text(FIGURE)
    return tmp_path


def test_figures_are_inside_and_links_lead_to_headings(folder):
    read = Reader(page.render(TEXT, folder))
    (image,) = read.all("img")
    assert image["alt"] == 'two "methods" & more' and image["src"].startswith("data:image/svg+xml;base64,")
    ids = [attributes["id"] for attributes in read.all("h2")]
    assert ids == ["in-short", "what-a-100--sure-one-says"]
    links = [attributes["href"] for attributes in read.all("a")]
    assert links == ["#content", "#in-short", "#what-a-100--sure-one-says", "#what-a-100--sure-one-says"]
    assert "{" + "body}" not in read.words and read.all("table")


def test_markup_in_the_text_is_shown_and_not_run(folder):
    read = Reader(page.render(TEXT, folder))
    assert not read.all("script") and not read.all("b")
    assert "<script>alert(1)</script>" in read.words and "<b>slca</b>" in read.words


def test_a_missing_figure_is_named(tmp_path):
    with pytest.raises(DataError, match=r"figures/success\.svg does not exist"):
        page.render(TEXT, tmp_path)


def test_the_page_says_what_the_markdown_says(reported):
    read = Reader((reported.root / "reports/results.html").read_text())
    said = re.findall(r"[\w.]+", read.words.split("In short", 2)[2])
    text = (reported.root / "reports/results.md").read_text().split("## In short")[1]
    text = re.sub(r"!\[[^]]*\]\([^)]*\)|\]\([^)]*\)|\| :--.*", " ", text)  # figures, targets of links, rules of tables
    assert said == re.findall(r"[\w.]+", text.replace("*", "").replace("`", ""))


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with chromium() as chrome:
        yield chrome


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 400])
def test_the_page_is_whole_on_every_screen_without_a_request_or_an_error(browser, reported, scheme, width):
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.get((reported.root / "reports/results.html").as_uri())
    images = browser.find_elements(By.TAG_NAME, "img")
    assert len(images) == 6 and all(image.get_property("naturalWidth") > 100 for image in images)
    assert all(image.size["width"] <= width for image in images)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width  # wide tables scroll by themselves
    links = browser.find_elements(By.CSS_SELECTOR, "nav a")
    assert len(links) == len(browser.find_elements(By.TAG_NAME, "h2")) > 10
    links[-1].click()
    assert browser.execute_script("return document.getElementById(location.hash.slice(1)).getBoundingClientRect().top") < 900
    for element, behind in (("body", "body"), ("nav a", "body"), ("th", "th"), ("code", "code")):
        colours = [
            browser.find_element(By.CSS_SELECTOR, one).value_of_css_property(name)
            for one, name in ((element, "color"), (behind, "background-color"))
        ]
        assert contrast(*map(channels, colours)) >= 4.5, element  # WCAG 2.2, 1.4.3
    assert (sum(channels(browser.find_element(By.TAG_NAME, "body").value_of_css_property("background-color"))[:3]) > 600) == (
        scheme == "light"
    )
    assert (
        browser.execute_script("return performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:')).length")
        == 0
    )
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
