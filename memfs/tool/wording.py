"""What the memory tool answers, word for word. The words of the seed document are the default (CONTRACT.md 4)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wording:
    """Templates of every answer. ``missing`` is for view, ``no_file`` for str_replace, ``absent`` for the others."""

    directory: str
    file: str
    missing: str
    too_many_lines: str
    created: str
    exists: str
    replaced: str
    no_file: str
    not_found: str
    not_unique: str
    inserted: str
    absent_for_insert: str
    bad_line: str
    deleted: str
    absent: str
    renamed: str
    destination_exists: str
    other: str
    """Around every error that has no words of its own."""
    exact_sizes: bool
    """Whether a size that is a whole number of its unit has no decimal."""


SEED = Wording(
    directory=(
        "Here're the files and directories up to 2 levels deep in {path}, excluding hidden items and node_modules:"
    ),
    file="Here's the content of {path} with line numbers:",
    missing="The path {path} does not exist. Please provide a valid path.",
    too_many_lines="File {path} exceeds maximum line limit of 999,999 lines.",
    created="File created successfully at: {path}",
    exists="Error: File {path} already exists",
    replaced="The memory file has been edited.",
    no_file="Error: The path {path} does not exist. Please provide a valid path.",
    not_found="No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}.",
    not_unique=(
        "No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {lines}."
        " Please ensure it is unique"
    ),
    inserted="The file {path} has been edited.",
    absent_for_insert="Error: The path {path} does not exist",
    bad_line=(
        "Error: Invalid `insert_line` parameter: {insert_line}."
        " It should be within the range of lines of the file: [0, {count}]"
    ),
    deleted="Successfully deleted {path}",
    absent="Error: The path {path} does not exist",
    renamed="Successfully renamed {old_path} to {new_path}",
    destination_exists="Error: The destination {path} already exists",
    other="Error: {text}",
    exact_sizes=False,
)

SDK = Wording(
    directory="Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:",
    file=SEED.file,
    missing=SEED.missing,
    too_many_lines=SEED.too_many_lines,
    created=SEED.created,
    exists="File {path} already exists",
    replaced="The memory file has been edited. Here is the snippet showing the change (with line numbers):",
    no_file="The path {path} does not exist. Please provide a valid path.",
    not_found=SEED.not_found,
    not_unique=SEED.not_unique,
    inserted=SEED.inserted,
    absent_for_insert="The path {path} does not exist. Please provide a valid path.",
    bad_line="Invalid `insert_line` parameter: {insert_line}. It should be within the range [0, {count}].",
    deleted=SEED.deleted,
    absent="The path {path} does not exist",
    renamed=SEED.renamed,
    destination_exists="The destination {path} already exists",
    other="{text}",
    exact_sizes=True,
)
"""The words of the SDK's reference tool, for applications whose prompts were written for those."""

WORDINGS = {"seed": SEED, "sdk": SDK}
