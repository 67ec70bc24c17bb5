"""What schemathesis is told beside the document; it loads this by the name in schemathesis.toml."""

import re
from typing import Any

import schemathesis
from schemathesis.specs.openapi.checks import positive_data_acceptance

UNTELLABLE = {
    "page must be the next_page of an answer to the same request": "a token is opaque",
    r"the store .* is archived: it can only be read": "depends on what was done before",
    r"the store .* is archived and cannot be attached": "depends on what was done before",
    r"the store .* is named twice: attach it once": "depends on another item of the list",
    r"the version .* is what .* holds now: .*": "depends on what was done before",
    r"metadata has at most 16 pairs, this one \d+": "depends on the pairs that there are already",
    r"a path's segment may not be '\.{1,2}'": "a regular expression for it would need a lookahead, which not all have",
    r"the name .* holds U\+[0-9A-F]{4,6}, a control, format or separator character": "classes of Unicode",
    r"the name .* is not in Unicode Normalization Form C": "no keyword for it",
    r"a path has at most 1024 bytes: .*": "the document counts characters",
    r"the content has \d+ bytes, and a memory at most 102400: split it": "the document counts characters",
}
"""Refusals of what the document allows, by their message, with why it cannot say so; all others are faults."""


@schemathesis.check
def valid_data_acceptance(
    ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> bool | None:
    """``positive_data_acceptance``, but for what no schema can say."""
    if response.status_code == 400:
        message = response.json()["error"]["message"]
        if any(re.fullmatch(untellable, message, re.DOTALL) for untellable in UNTELLABLE):
            return None
    return positive_data_acceptance(ctx, response, case)
