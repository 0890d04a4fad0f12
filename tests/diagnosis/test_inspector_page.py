"""The credit inspector in a real browser (Debian's chromium), offline: what a person sees and presses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import channels, chromium, contrast
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from slca.credit import METHODS, Settings
from slca.diagnosis.inspect import page_data, write_page
from slca.diagnosis.records import Recorded, read_recorded

HOSTILE = "</script><b>&amp;\u2028東京\n"

ROWS: list[dict[str, Any]] = [
    {"id": "a/0", "group": "a", "tool_reward": 1.0, "summary_reward": 0.0, "labels": [1, 1, 0, 2],
     "tokens": ["call", " x", HOSTILE, "no"]},
    {"id": "a/1", "group": "a", "tool_reward": 0.0, "summary_reward": 1.0, "labels": [1, 0, 2], "tokens": ["call", "=", "yes"]},
    {"id": "a/2", "group": "a", "tool_reward": None, "summary_reward": 1.0, "labels": [2], "tokens": ["?"]},
    {"id": "b/0", "group": "b", "tool_reward": 0.5, "summary_reward": 0.5, "labels": [2], "tokens": ["hm"], "kind": "abstain"},
]  # fmt: skip


def recorded(folder: Path, rows: list[dict[str, Any]]) -> Recorded:
    path = folder / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return read_recorded(path)


def test_the_data_hold_the_advantages_of_every_method(tmp_path: Path) -> None:
    source = recorded(tmp_path, ROWS)
    data = page_data("file", source, Settings())
    assert list(data["methods"]) == ["grpo", "slca", "gdpo", "routed_joint"]  # nothing is known of single calls
    for method, entry in data["methods"].items():
        advantages = METHODS[method](source.groups, Settings())
        assert [row[0] for row in entry["credit"]] == pytest.approx(advantages.tool.tolist(), abs=1e-6)
        assert [row[1] for row in entry["credit"]] == pytest.approx(advantages.summary.tolist(), abs=1e-6)
    assert [data["texts"][token] for token in data["rollouts"][0]["tokens"]] == ROWS[0]["tokens"]
    assert [rollout["masked"] for rollout in data["rollouts"]] == [False, False, True, False]


def test_equal_input_gives_an_equal_page(tmp_path: Path) -> None:
    source = recorded(tmp_path, ROWS)
    for name in ("one.html", "two.html"):
        write_page(tmp_path / name, "file", source, Settings())
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with chromium() as chrome:
        yield chrome


def open_page(browser: webdriver.Chrome, folder: Path, rows: list[dict[str, Any]]) -> None:
    write_page(folder / "credit.html", "rollouts.jsonl", recorded(folder, rows), Settings())
    browser.get("about:blank")
    browser.get((folder / "credit.html").as_uri())


def tokens(browser: webdriver.Chrome, rollout: str) -> list[tuple[str, str, float]]:
    """Text, class and advantage of each token of a rollout on screen."""
    for article in browser.find_elements(By.TAG_NAME, "article"):
        if article.find_element(By.TAG_NAME, "h2").text.startswith(rollout):
            spans = article.find_elements(By.CSS_SELECTOR, ".tokens span")
            return [
                (
                    str(span.get_property("textContent")),
                    str(span.get_attribute("class")),
                    float(str(span.get_attribute("data-advantage"))),
                )
                for span in spans
            ]
    raise AssertionError(f"{rollout} is not on screen")


def shades(browser: webdriver.Chrome) -> list[str]:
    return [span.value_of_css_property("background-color") for span in browser.find_elements(By.CSS_SELECTOR, ".tokens span")]


@pytest.mark.slow
def test_tokens_show_segment_and_advantage_and_the_estimator_changes_them(browser: webdriver.Chrome, tmp_path: Path) -> None:
    open_page(browser, tmp_path, ROWS)
    # slca: both rewards are 1 and 0, so each advantage is 0.5 / sqrt(0.5) = 0.707 up or down.
    first = tokens(browser, "a/0")
    assert [(name, place) for _, name, place in first] == [
        ("s1", pytest.approx(0.7071, abs=1e-3)), ("s1", pytest.approx(0.7071, abs=1e-3)),
        ("s0", 0), ("s2", pytest.approx(-0.7071, abs=1e-3)),
    ]  # fmt: skip
    assert first[2][0] == HOSTILE.replace("\n", "\u23ce\n")
    before = shades(browser)
    browser.find_element(By.CSS_SELECTOR, "label:has(input[value='grpo'])").click()
    # grpo: both sums are 1, so nobody is better.
    assert [advantage for *_, advantage in tokens(browser, "a/0")] == [0, 0, 0, 0]
    assert shades(browser) != before
    assert "grpo" in browser.find_element(By.ID, "facts").text
    assert "masked" in str(browser.find_elements(By.TAG_NAME, "article")[2].get_attribute("class"))


@pytest.mark.slow
def test_everything_can_be_done_by_keyboard(browser: webdriver.Chrome, tmp_path: Path) -> None:
    open_page(browser, tmp_path, ROWS)
    body = browser.find_element(By.TAG_NAME, "body")
    group = Select(browser.find_element(By.ID, "group"))
    body.send_keys("j")
    assert group.first_selected_option.text == "b" and tokens(browser, "b/0")
    body.send_keys("j")  # there is no further group
    assert group.first_selected_option.text == "b"
    body.send_keys("k")
    assert group.first_selected_option.text == "a"
    body.send_keys("1")
    assert "grpo" in browser.find_element(By.ID, "facts").text
    body.send_keys("/")
    focused = browser.switch_to.active_element
    assert focused.get_attribute("id") == "filter"
    focused.send_keys("b")
    assert [option.text for option in group.options] == ["b"] and tokens(browser, "b/0")
    focused.send_keys(Keys.BACKSPACE, "zzz")
    assert not group.options and not browser.find_elements(By.TAG_NAME, "article")
    focused.send_keys(Keys.BACKSPACE * 3)
    reached = set()
    for _ in range(12):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        element = browser.switch_to.active_element
        reached.add(element.get_attribute("id") or element.get_attribute("name") or element.tag_name)
    assert {"group", "previous", "next", "method", "summary"} <= reached


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background_in_light_and_dark(browser: webdriver.Chrome, scheme: str, tmp_path: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    open_page(browser, tmp_path, ROWS)
    page = channels(browser.find_element(By.TAG_NAME, "body").value_of_css_property("background-color"))
    assert (sum(page[:3]) > 600) == (scheme == "light")
    for span in browser.find_elements(By.CSS_SELECTOR, ".tokens span"):
        red, green, blue, opacity = channels(span.value_of_css_property("background-color"))
        behind = [opacity * over + (1 - opacity) * under for over, under in zip((red, green, blue), page, strict=False)]
        # WCAG 2.2, 1.4.3: at least 4.5 to 1.
        assert contrast(channels(span.value_of_css_property("color"))[:3], behind) >= 4.5, span.text


@pytest.mark.slow
def test_thousands_of_rollouts_open_at_the_asked_group_without_a_request_or_an_error(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    rows = [
        {"id": f"g{row // 8}/{row % 8}", "group": f"g{row // 8}", "tool_reward": row % 3 / 2, "summary_reward": row % 2,
         "labels": [1] * 60 + [0] * 20 + [2] * 40, "tokens": [f" w{n % 50}" for n in range(120)]}
        for row in range(4000)
    ]  # fmt: skip
    open_page(browser, tmp_path, rows)
    browser.get(f"{(tmp_path / 'credit.html').as_uri()}#group=g499&method=grpo")
    browser.refresh()
    assert len(Select(browser.find_element(By.ID, "group")).options) == 500
    assert len(browser.find_elements(By.TAG_NAME, "article")) == 8 and len(tokens(browser, "g499/7")) == 120
    assert "grpo" in browser.find_element(By.ID, "facts").text
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    # The document holds one group's tokens, however many the file has.
    assert browser.execute_script("return document.getElementsByTagName('span').length") < 8 * 120 + 50
