"""What a board admits: sizes, counts and times, each with its unit in its name.

The numbers are the contract's. A board may be created with others (`Settings`); every one of them is shown by
`GET /v1/boards/{board}`, and a refusal always names the one it ran into.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

import msgspec

Profile = Literal["default", "agensh"]

BOARD_NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9-]{0,62}$"
"""The slug that names a board."""

WORKER_NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
"""The name of a worker: ASCII, so that no two names look alike but for upper and lower case."""

PAGE_LIMIT: Final = 1000
"""The most notes or events that one page holds."""

BATCH_LIMIT: Final = 1000
"""The most notes that one batch holds."""

ACKED_AT_ONCE: Final = 10_000
"""The most seqs of one acknowledgement."""

CLAIM_LIFE_S: Final = 21_600
"""Seconds after which a claim ends however often it was renewed: six hours."""

SAME_TEXT_WINDOW_S: Final = 600
"""Seconds within which an identical FACT or FAIL is answered with the first one."""

RELATED_LIMIT: Final = 10
"""The most notes that the reply to a claim lists as related."""

SIMILAR_LIMIT: Final = 3
"""The most live claims of like intent that the reply to a claim lists."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One board's settings. Every size is inclusive: a value at the limit is admitted.

    `patch_chars` bounds the fields of a PATCH_SUMMARY together and is `None` where each has only its own bound.
    """

    profile: Profile = "default"
    case_insensitive: bool = False
    text_chars: int = 400
    patch_chars: int | None = None
    detail_bytes: int = 65_536
    targets: int = 64
    target_chars: int = 512
    files: int = 200
    refs: int = 32
    tags: int = 32
    tag_chars: int = 64
    recipients: int = 64
    name_chars: int = 128
    body_bytes: int = 1_048_576
    ttl_s_min: int = 1
    ttl_s_max: int = CLAIM_LIFE_S
    ttl_s_default: int = 600


PROFILES: Final[dict[Profile, Settings]] = {
    "default": Settings(),
    "agensh": Settings(profile="agensh", text_chars=100, patch_chars=300, ttl_s_default=3600),
}
"""`agensh` is the size that Agensh's own board gives a note (100 characters, 300 for a patch, one hour)."""


Size = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
"""A number in a new board's settings; which are admitted is `CEILINGS`."""


class SettingsDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a caller may say of a new board: a profile, and where it differs from that."""

    profile: Profile = "default"
    case_insensitive: bool | None = None
    text_chars: Size | None = None
    patch_chars: Size | None = None
    detail_bytes: Size | None = None
    targets: Size | None = None
    target_chars: Size | None = None
    files: Size | None = None
    refs: Size | None = None
    tags: Size | None = None
    tag_chars: Size | None = None
    recipients: Size | None = None
    name_chars: Size | None = None
    ttl_s_default: Size | None = None

    def resolve(self) -> Settings:
        """Give the whole settings: the profile's, with what this draft says in place of it."""
        said = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return msgspec.structs.replace(PROFILES[self.profile], **said)


CEILINGS: Final[dict[str, int]] = {
    "text_chars": 100_000,
    "patch_chars": 400_000,
    "detail_bytes": 1_048_576,
    "targets": 10_000,
    "target_chars": 4096,
    "files": 10_000,
    "refs": 1000,
    "tags": 1000,
    "tag_chars": 1000,
    "recipients": 10_000,
    "name_chars": 1000,
    "ttl_s_default": CLAIM_LIFE_S,
}
"""The most that a board may be set to, so that no setting makes one note larger than one request body."""

PROFILE_NAMES: Final[tuple[str, ...]] = get_args(Profile)
