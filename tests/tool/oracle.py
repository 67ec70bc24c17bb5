"""Which paths must be refused and which memories can have: written from CONTRACT.md (1 and 4), not from the code."""

import unicodedata


def percent_decoded(text: str) -> str:
    """Each ``%xx`` as a byte, what is no UTF-8 as something harmless."""
    data = text.encode(errors="surrogatepass")
    pieces = data.split(b"%")
    found = pieces[0]
    for piece in pieces[1:]:
        try:
            found += bytes([int(piece[:2].decode("ascii"), 16)]) + piece[2:] if piece[:2].isalnum() else b"%" + piece
        except ValueError:
            found += b"%" + piece
    return found.decode(errors="replace")


def leads_away(path: str) -> bool:
    """Whether a path, or what it is for somebody who decodes it however often, is not plainly below the root."""
    seen = set()
    while path not in seen:
        seen.add(path)
        if "\0" in path:
            return True
        if {"..", "."} & set(path.replace("\\", "/").split("/")):
            return True
        path = percent_decoded(path)
    return False


def possible(inside: str) -> bool:
    """Whether a memory can be at a path of a store (CONTRACT.md 1)."""
    segments = inside.split("/")[1:]
    return (
        inside.startswith("/")
        and 1 <= len(segments) <= 20
        and not {"", ".", ".."} & set(segments)
        and not any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in inside)
        and unicodedata.is_normalized("NFC", inside)
        and len(inside.encode()) <= 1024
    )
