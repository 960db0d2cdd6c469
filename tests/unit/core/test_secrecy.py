"""What looks like a token, and what is left of it where it must not be seen."""

from __future__ import annotations

import secrets

from hypothesis import given
from hypothesis import strategies as st

from board.core.secrecy import hide_tokens, hide_tokens_in, holds_token, token_of

TOKENS = st.builds(
    lambda id_, secret: token_of(id_.hex(), secret),
    st.binary(min_size=4, max_size=4),
    st.text("ABCxyz019-_", min_size=43, max_size=43),
)


@given(TOKENS, st.text(), st.text(), st.integers(16, 55))
def test_a_token_is_hidden_wherever_it_stands(token: str, before: str, after: str, shown: int) -> None:
    """In any text, whole or cut, nothing of a token's secret is left, and its id is."""
    text = before + token[:shown] + " " + after
    secret = token[12:shown]
    for hidden in (
        hide_tokens(text),
        hide_tokens_in(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass"),
    ):
        assert token[:12] + "(hidden)" in hidden
        assert token[:12] + secret not in hidden
    assert holds_token(before + token + after)


@given(st.text())
def test_other_text_stays_as_it_is(text: str) -> None:
    """What holds no token is not touched."""
    if not holds_token(text) and "bt_" not in text:
        assert hide_tokens(text) == text


def test_what_is_made_is_found() -> None:
    """Tokens as the board makes them are found."""
    for _ in range(100):
        assert holds_token(f"see {token_of(secrets.token_hex(4), secrets.token_urlsafe(32))}.")
