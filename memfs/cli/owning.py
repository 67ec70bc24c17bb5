"""Who owns the files of a mount, where that is not who mounts: the options ``--uid``, ``--gid`` and ``--umask``."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

MAX_ID = 2**32 - 2
"""The largest number of a user or group: the one after it is the kernel's "no one" (chown(2))."""


class UmaskType(click.ParamType[int]):
    """Permission bits in octal."""

    name = "octal"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Raises click.BadParameter."""
        if isinstance(value, int):
            return value
        text = str(value)
        if not 1 <= len(text) <= 4 or not set(text) <= set("01234567") or int(text, 8) > 0o777:
            self.fail(f"{text!r} is no umask: write it in octal, 000 to 777, like 077", param, ctx)
        return int(text, 8)


def owner_options(function: Function) -> Function:
    """The options ``--uid``, ``--gid`` and ``--umask``."""
    number = click.IntRange(0, MAX_ID)
    decorators = (
        click.option("--uid", type=number, help="The user that owns every file, by number. Default: who mounts."),
        click.option("--gid", type=number, help="The group that owns every file, by number. Default: who mounts."),
        click.option(
            "--umask",
            type=UmaskType(),
            help="What nobody may, in octal; everything else everybody may, whatever a file's own bits say.",
        ),
    )
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def chosen_owner(uid: int | None, gid: int | None, umask: int | None, *, allow_other: bool) -> tuple[int, int] | None:
    """Who owns the files; None for who mounts.

    Raises click.UsageError where that would let nobody in, or where the kernel could not say who it is.
    """
    ours = (os.geteuid(), os.getegid())
    owner = (ours[0] if uid is None else uid, ours[1] if gid is None else gid)
    if (owner != ours or umask is not None) and not allow_other:
        raise click.UsageError(
            "--uid, --gid and --umask are for other users, and this mount lets none in: add --allow-other"
        )
    for option, number, known in (
        ("--uid", uid, Path("/proc/self/uid_map")),
        ("--gid", gid, Path("/proc/self/gid_map")),
    ):
        if number is not None and not _mapped(number, known):
            raise click.UsageError(
                f"{option} {number} is nobody in this user namespace: choose one of {known}, or mount outside"
            )
    return None if owner == ours else owner


def _mapped(number: int, known: Path) -> bool:
    """Whether a user or group has a number in our user namespace (user_namespaces(7)); else its files are broken."""
    for line in known.read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= number < first + count:
            return True
    return False
