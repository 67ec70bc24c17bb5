"""What the commands that offer the memory tool share: their options, and opening the memory."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memfs.cli.attaching import session_option, stores_option
from memfs.cli.context import Invocation
from memfs.model.records import Access

if TYPE_CHECKING:
    from memfs.tool import OpenMemory

Function = TypeVar("Function", bound=Callable[..., Any])

VIEW_CHARACTERS = 16_000
"""As in ``memfs.tool.commands``, which help does without (a test compares them)."""


def tool_options(function: Function) -> Function:
    """``-s``, ``--session``, ``--overwrite`` and ``--view-characters``."""
    options = (
        stores_option("A store to offer"),
        session_option,
        click.option(
            "--overwrite", is_flag=True, help="Let create replace a file that exists, which is an error else."
        ),
        click.option(
            "--view-characters",
            type=click.IntRange(min=1),
            default=VIEW_CHARACTERS,
            show_default=True,
            metavar="N",
            help="How much of a file view shows at once.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def open_tool(
    invocation: Invocation,
    stores: tuple[tuple[str, Access], ...],
    session_id: str | None,
    overwrite: bool,
    view_characters: int,
    wording: str = "seed",
) -> "OpenMemory":
    """Open the memory that the options describe."""
    from memfs.tool import OpenMemory
    from memfs.tool.wording import WORDINGS

    return OpenMemory.on(
        invocation.workspace(),
        stores,
        session_id=session_id,
        overwrite=overwrite,
        view_characters=view_characters,
        wording=WORDINGS[wording],
    )
