"""docs/permissions.md is what the templates say."""

from tools.permissions import PAGE, page


def test_the_page_is_generated_from_the_templates(assembly):
    assert PAGE.read_text(encoding="utf-8") == page(assembly), "run `make permissions`"
