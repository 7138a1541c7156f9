"""Every Python program of the guide runs, and prints what the guide shows."""

import doctest
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "guide").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_the_programs_of_a_page_print_what_it_shows(page, monkeypatch):
    # pages name files of the repository
    monkeypatch.chdir(ROOT)
    assert "+SKIP" not in page.read_text()
    # a fence ends a program as a blank line does
    text = page.read_text().replace("```", "\n")
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    test = doctest.DocTestParser().get_doctest(text, {}, page.stem, str(page), 0)
    printed = []
    failed = doctest.DocTestRunner(optionflags=flags).run(test, out=printed.append).failed
    assert not failed, "".join(printed)
