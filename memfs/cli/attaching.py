"""How a command is told which stores it gives, with which access, and to which session."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from memfs.cli.context import complete_store
from memfs.model.records import Access

Function = TypeVar("Function", bound=Callable[..., Any])


class AttachmentType(click.ParamType[tuple[str, Access]]):
    """STORE or STORE:read_only."""

    name = "store"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Access]:
        """What follows the last colon is part of the name unless it is an access mode. Raises click.BadParameter."""
        if isinstance(value, tuple):
            return value
        text = str(value)
        name, _, access = text.rpartition(":")
        chosen: Access = "read_write"
        if access == "read_only":
            chosen = "read_only"
        elif access != "read_write":
            name = text
        if not name:
            self.fail(f"{text!r} names no store: write STORE or STORE:read_only", param, ctx)
        return name, chosen


def stores_option(what: str) -> Callable[[Function], Function]:
    """The option ``-s``, repeated for each store; ``what`` begins its help."""
    return click.option(
        "-s",
        "--store",
        "stores",
        type=AttachmentType(),
        multiple=True,
        metavar="STORE[:read_only]",
        shell_complete=complete_store,
        help=f"{what}, by id, name or slug; at most 8. The default access is read_write.",
    )


def session_option(function: Function) -> Function:
    """The option ``--session``."""
    return click.option(
        "--session", "session_id", metavar="ID", help="Attribute changes to this session; else one is made."
    )(function)
