"""What is no secret although it stands where one would: variables, placeholders, names, words."""

import re

_STANDS_FOR_ANOTHER = re.compile(
    r"[$%<{\[(*!&]"  # ${VAR}, %s, <password>, {{ vault }}, [hidden], (see below), ****, !vault, &anchor
    r"|(?:https?|file|arn|op|vault|env|ref|secret|ssm|aws|gcp|azure|keyring|pass|sha\d+)[:/]"
    r"|\.{1,2}/|~/"
    r"|(?:none|null|nil|true|false|undefined|required|optional)\b",
    re.IGNORECASE,
)
_SAID_TO_BE_NONE = re.compile(
    r"your|example|change[-_ ]?(?:me|it|this)|placeholder|redacted|removed|masked|hidden|dummy|sample|insert|replace"
    r"|todo|fixme|xxxx|\*\*\*|\.\.\.|not[-_ ]set|goes[-_ ]here|1password|lastpass|keychain",
    re.IGNORECASE,
)
_NAME_IN_CODE = re.compile(
    r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+"  # settings.db.password
    r"|[a-z_]*(?:password|passwd|pwd|passphrase|secret|token|key|credential)s?[a-z_]*\d?"  # new_password2
    r"|[\w.-]+(?:/[\w.-]+)+\.\w{1,5}(?:::.*)?"  # tests/test_2.py::test_x
    r"|[\w.]+[(\[{<].*"  # get_token(user), tokens[0], Optional<String>
)
_TECHNICAL_WORD = re.compile(
    r"(?:sha|md|aes|rsa|base|utf|argon|oauth|ed|hmac|pbkdf|http|x|v|rc|p)-?\d+(?:[-./]\w+)*"
    r"|bcrypt\S*|scrypt\S*|varchar\S*|\w*-?(?:hashed|encoded|encrypted)",
    re.IGNORECASE,
)
_DATE_TIME_OR_VERSION = re.compile(r"v?\d{1,4}(?:[-./:]\d{1,4}){1,4}(?:T[\d:.]+Z?)?")
_PART_OF_A_NAME = re.compile(r"[A-Za-z]+\d{0,4}|\d{1,4}|[a-z]\d{1,2}[a-z]")  # prod, db2, 2024, k8s


def is_no_secret(value: str) -> bool:
    """Whether a value that stands where a secret would is something else: a variable, a placeholder, a reference."""
    return (
        len(set(value)) <= 2
        or _STANDS_FOR_ANOTHER.match(value) is not None
        or _SAID_TO_BE_NONE.search(value) is not None
        or _NAME_IN_CODE.fullmatch(value) is not None
        or _DATE_TIME_OR_VERSION.fullmatch(value) is not None
    )


def _is_words(value: str) -> bool:
    """Whether a value is words with dashes, dots or underscores between them: the name of something."""
    parts = [part for part in re.split(r"[-_./:+=]+", value) if part]
    return value.isalpha() or (len(parts) > 1 and all(_PART_OF_A_NAME.fullmatch(part) for part in parts))


def is_password(value: str, *, quoted: bool, assigned: bool) -> bool:
    """Whether a value after a word for password is one. ``assigned``: by ``=``, in code more than in prose.

    Without quotes it must have a digit, or a sign between letters, or every "password: required" would be one.
    """
    if not (4 if quoted else 6) <= len(value) <= 200 or is_no_secret(value) or _TECHNICAL_WORD.fullmatch(value):
        return False
    if value.startswith("/") or any(char.isspace() for char in value):
        return False  # a path; a sentence, or a text of a user interface
    if not quoted and "_" in value and _is_words(value):
        return False  # PASS: test_foo_1
    if any(char.isdigit() for char in value):
        return True
    if re.search(r"[^\W_][!@#$%^&*?+~=][^\W_]", value):
        return True
    # A constant's value may be a name: SET_PASSWORD = "SetPassword".
    return quoted and assigned and len(value) >= 8 and not re.search(r"pass|pwd|secret|_", value, re.IGNORECASE)


def is_key(value: str) -> bool:
    """Whether a value after a word for key, secret or token is one: long, and more random than a name."""
    return (
        16 <= len(value) <= 2000
        and re.fullmatch(r"[\w.~+/=:%@!$^&*#-]+", value) is not None
        and sum(char.isdigit() for char in value) >= 2
        and any(char.isalpha() for char in value)
        and not is_no_secret(value)
        and not _is_words(value)
    )
