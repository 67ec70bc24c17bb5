"""What requests carry. Only the form is checked here: the rules are the workspace's, which gives the reasons."""

from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator

from memfs.model.paths import MAX_PATH_BYTES, MAX_SEGMENTS
from memfs.model.records import MAX_ATTACHMENTS, MAX_CONTENT_BYTES, MAX_INSTRUCTIONS
from memfs.workspace.sessions import MAX_LABEL
from memfs.workspace.stores import (
    MAX_DESCRIPTION,
    MAX_METADATA,
    MAX_METADATA_KEY,
    MAX_METADATA_VALUE,
    MAX_NAME,
)


def _told(**schema: Any) -> Any:
    """A field whose limits the OpenAPI document tells; whoever breaks them gets the workspace's own words."""
    return Field(json_schema_extra=schema)


MAX_FIELDS = 100
"""More than any object of a request has."""

_CONTROLS = r"\u0000-\u001f\u007f-\u009f"
SEGMENT = f"/[^/{_CONTROLS}]+"
"""As a regular expression can tell it."""

_METADATA_KEY = {"minLength": 1, "maxLength": MAX_METADATA_KEY}
_METADATA_VALUE = {"type": "string", "maxLength": MAX_METADATA_VALUE}
_METADATA = f"At most {MAX_METADATA} pairs; values of at most {MAX_METADATA_VALUE} characters."

StoreName = Annotated[
    str,
    _told(
        minLength=1,
        maxLength=MAX_NAME,
        pattern=f"^[^{_CONTROLS}]*$",
        description="Without control characters.",
        examples=["User preferences"],
    ),
]
Description = Annotated[str, _told(maxLength=MAX_DESCRIPTION, description="What the store is for; agents are told.")]
Metadata = Annotated[
    dict[str, str],
    _told(
        maxProperties=MAX_METADATA,
        propertyNames=_METADATA_KEY,
        additionalProperties=_METADATA_VALUE,
        description=_METADATA,
        examples=[{"team": "search"}],
    ),
]
MetadataChange = Annotated[
    dict[str, str | None],
    _told(
        propertyNames=_METADATA_KEY,
        additionalProperties={"anyOf": [_METADATA_VALUE, {"type": "null"}]},
        description=f"A null value removes the key. {_METADATA}",
        examples=[{"team": "search", "owner": None}],
    ),
]
Path = Annotated[
    str,
    _told(
        maxLength=MAX_PATH_BYTES,
        pattern=f"^({SEGMENT}){{1,{MAX_SEGMENTS}}}$",
        description="Starts with /, 1 to 20 segments, none empty, . or ..; NFC, without control or format characters.",
        examples=["/preferences/formatting.md"],
    ),
]
Content = Annotated[
    str,
    _told(
        maxLength=MAX_CONTENT_BYTES,
        description=f"At most {MAX_CONTENT_BYTES:,} bytes of UTF-8.",
        examples=["Prefers short answers.\n"],
    ),
]
SHA256 = {"pattern": "^[0-9a-fA-F]{64}$", "examples": [sha256(b"Prefers short answers.\n").hexdigest()]}
Sha256 = Annotated[str, _told(**SHA256, description="Of the content's UTF-8 bytes.")]


class Body(BaseModel):
    """Nothing is taken for something else, and a misspelt field is no field: it might have been a precondition."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _check_size(cls, data: Any) -> Any:
        """Each field that is none would be a finding: a body may hold a hundred thousand."""
        if isinstance(data, dict) and len(data) > MAX_FIELDS:
            raise ValueError(f"an object here has at most {MAX_FIELDS} fields")
        return data


class StoreCreate(Body):
    """A new store."""

    name: StoreName
    description: Description | None = None
    metadata: Metadata | None = None


class StoreUpdate(Body):
    """Changes to a store; what is left out or null stays."""

    name: StoreName | None = None
    description: Description | None = None
    metadata: MetadataChange | None = None


class MemoryCreate(Body):
    """A new memory."""

    path: Path
    content: Content


class Precondition(Body):
    """What the memory must be now, or the update is refused with 409."""

    type: Literal["content_sha256"]
    content_sha256: Sha256


class MemoryUpdate(Body):
    """Changes to a memory; what is left out or null stays."""

    content: Content | None = None
    path: Path | None = None
    precondition: Precondition | None = None


class MemoryStoreResource(Body):
    """A store for a session."""

    type: Literal["memory_store"]
    memory_store_id: Annotated[str, _told(examples=["memstore_01M8NMQFRP7HNTABQQHZR3KZM6"])]
    access: Literal["read_write", "read_only"] | None = None
    instructions: (
        Annotated[str, _told(maxLength=MAX_INSTRUCTIONS, description="What the agent is to do with it.")] | None
    ) = None


_AGENT = {
    "anyOf": [
        {"type": "string", "maxLength": MAX_LABEL},
        {"type": "object", "properties": {"id": {"type": "string", "maxLength": MAX_LABEL}}, "required": ["id"]},
        {"type": "null"},
    ],
    "description": "An agent's id, or an object with its id.",
}


class SessionCreate(BaseModel):
    """A new session. Other fields that the hosted service knows are taken and mean nothing here."""

    model_config = ConfigDict(extra="ignore", strict=True)

    resources: Annotated[list[MemoryStoreResource], FailFast(), _told(minItems=1, maxItems=MAX_ATTACHMENTS)]
    title: Annotated[str, _told(maxLength=MAX_LABEL)] | None = None
    metadata: Metadata | None = None
    agent: Annotated[str | dict[str, Any] | None, _told(**_AGENT)] = None
    environment_id: Annotated[str, _told(maxLength=MAX_LABEL)] | None = None
