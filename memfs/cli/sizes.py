"""Sizes as people write them on a command line."""

import re

import click

_SIZE = re.compile(r"(\d+)\s*([KMG]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class SizeType(click.ParamType[int]):
    """A number of bytes with an optional unit, powers of 1,024; at least 4K."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Raises click.BadParameter."""
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(str(value))
        size = int(found[1]) * _UNITS[found[2].upper()] if found else 0
        if size < 4096:
            self.fail(f"{value!r} is no size of at least 4K: write 64M, 512K or 1G", param, ctx)
        return size
