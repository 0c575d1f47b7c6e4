"""Secrets are taken out, in linear time, and nothing else is."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import make_trace
from ragstone.capture import _redaction, redact_secrets, redact_trace
from ragstone.schema import Passage

JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
SEPARATORS = (
    " ",
    ".",
    "-",
    "\t",
    "\n",
    "\r\n",
    "\u00a0",
    "\u2007",
    "\u2009",
    "\u202f",
    "\u2011",
    "\u2013",
    "\u2014",
    "\u3000",
)
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow==\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ada@example.org", "[email]"),
        ("Write to Ada.Lovelace+uk@mail.example.co.uk.", "Write to [email]."),
        ("<ada@example.org>, 'bob@example.com'", "<[email]>, '[email]'"),
        ("?to=ada%40example.org&x=1", "?to=[email]&x=1"),
        ("jürgen@müller.example", "[email]"),
        ("postgres://app:s3cret@db.example.com/x", "postgres://app:[email]/x"),
        ("4111111111111111", "[card]"),
        ("card 4111 1111 1111 1111, please", "card [card], please"),
        ("5555-5555-5555-4444", "[card]"),
        ("3782 822463 10005", "[card]"),
        ("order 1234 4111 1111 1111 1111", "order 1234 [card]"),
        ("Authorization: Bearer abcdef0123456789ABCDEF", "Authorization: Bearer [token]"),
        ("Authorization: Basic YWRhOnNlY3JldA==", "Authorization: Basic [token]"),
        ('{"authorization": "Token 0123456789abcdef"}', '{"authorization": "Token [token]"}'),
        (f"token={JWT};", "token=[token];"),
        (f"Bearer {JWT}", "Bearer [token]"),
        ("sk-proj-Abc123Def456Ghi789", "[key]"),
        ("sk-ant-api03-Abc123Def456Ghi789", "[key]"),
        ("OPENAI_API_KEY=sk-0123456789abcdefghij", "OPENAI_API_KEY=[key]"),
        ("AKIAIOSFODNN7EXAMPLE", "[key]"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "[key]"),
        ("github_pat_11ABCDEFG0abcdefghijklmnop", "[key]"),
        ("xoxb-123456789012-abcdefGHIJKL", "[key]"),
        ("AIzaSyA0123456789abcdefghijklmnopqrstuv", "[key]"),
        ("sk_live_0123456789abcdef", "[key]"),
        ("hf_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefgh", "[key]"),
        (f"before {PEM} after", "before [key] after"),
        *((f"card 4111{blank}1111{blank}1111{blank}1111.", "card [card].") for blank in SEPARATORS),
        ("\uff14" + "\uff11" * 15, "[card]"),
        ("\u0664\u0661\u0661\u0661 " + " ".join(["\u0661" * 4] * 3), "[card]"),
        ("Bearer\nabcdef0123456789ABCDEF", "Bearer [token]"),
        ("Bearer: abcdef0123456789ABCDEF", "Bearer [token]"),
        ("Authorization: Bearer\r\n abcdef0123456789ABCDEF", "Authorization: Bearer [token]"),
        ("Authorization: 0123456789abcdefABCDEF", "Authorization: [token]"),
        *(
            (f"{name}: 0123456789abcdef", f"{name}: [token]")
            for name in ("x-api-key", "X-Api-Key", "X-API-KEY", "api-key")
        ),
        ('{"x-api-key": "0123456789abcdefABCDEF"}', '{"x-api-key": "[token]"}'),
        *((f"card 4111{blank * 2}1111{blank * 2}1111{blank * 2}1111.", "card [card].") for blank in " \t-\u2009"),
        ('{"Authorization": "0123456789abcdefABCDEF"}', '{"Authorization": "[token]"}'),
        ("https://hooks.slack.com/services/T01234567/B01234567/abcdefghijABCDEF0123", "https://[key]"),
        ("cut -----BEGIN PRIVATE KEY-----\nMIIEow", "cut [key]"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQdG", "[key]"),
    ],
)
def test_secret_is_replaced(text, expected):
    """The secret goes, what is around it stays, and a second time changes nothing."""
    assert expected == redact_secrets(text)
    assert expected == redact_secrets(expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a plain sentence, 42 words long @ 7 o'clock",
        "npm install react@18.2.0-beta1",
        "user@localhost",
        "4111111111111112",  # fails the Luhn check
        "score 0.4111111111111111",  # the decimals of a number
        "at 1700000000000 ms",
        "41111111111111111111111",  # longer than any card
        "2015\t2016\t2017\t2018",  # years that pass the Luhn check
        "20230105144207",  # so does this time
        "the bearer\nresponsibilities-without-digits",
        "Authorization: responsibilities-without-digits",
        "x-api-key: the-key-of-your-account",
        "x-api-key: 0123",
        "4111   1111   1111   1111",
        "sk-learn-compatible-estimators",
        "pplx-70b-online",
        "dapi_0123456789abcdef0123456789abcdef",
        "https://hooks.slack.com/services",
        "the bearer of this letter is hereby authorised",
        "task-force-on-long-hyphenated-words",
        "authorization: required for everybody",
        "AKIA is a prefix, sk- another, eyJ a third",
        "-----BEGIN CERTIFICATE-----\nMIIEow==\n-----END CERTIFICATE-----",
        "0123456789abcdef0123456789abcdef",
    ],
)
def test_what_is_no_secret_stays(text):
    """A redactor that eats the text makes the scores wrong."""
    assert text == redact_secrets(text)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a",
            "1",
            "1 ",
            "4111 ",
            "4111-1111 ",
            "41111111111111112 ",
            "@",
            "a@",
            "a@a.",
            "a@a",
            "-",
            " ",
            "%40",
            "a%40",
        ),
        *("-----BEGIN PRIVATE KEY-----", "PRIVATE KEY-----BEGIN ", "eyJ", "eyJ-", "eyJaaaaaaaa.", "bearer ", "sk-"),
        *("Bearer aaaaaaaaaaaaaaaa", "SG.", "SG.aaaaaaaaaaaaaaaaa", "xox", "authorization: ", "authorization:basic "),
        *('"', "\\", '\\"', "\\n", "\\u00a0", '"\\u0040', '"\\n"', '["a@b.org",', '{"a@b.org":', "\\n4111"),
    ],
)
@pytest.mark.timeout(60)
def test_hostile_megabyte_ends(unit):
    """A pattern that took quadratic time would need hours for one of these, not a second."""
    triggers = "@ eyJ sk- PRIVATE KEY earer uthorization"  # no pattern is skipped
    for before, after in (("", triggers), ("{", "}"), ('["', '"]')):
        redact_secrets(before + unit * (1_000_000 // len(unit)) + after)


@pytest.mark.parametrize("owner", _redaction.KEYS)
@given(st.data())
def test_each_key_of_the_list_is_replaced(owner, data):
    """A key of its form is replaced as a whole, and one that is too short or within a word stays."""
    needles, pattern = _redaction.KEYS[owner]
    key = data.draw(st.from_regex(pattern, fullmatch=True).filter(str.isascii))
    assert "Use [key]." == redact_secrets(f"Use {key}.")
    assert any(needle in key for needle in needles)
    for text in (f"Use {key[:10]}.", f"Use x{key[:20]}."):
        assert text == redact_secrets(text)


_PIECES = st.sampled_from(
    [
        *("ada@example.org", "4111 1111 1111 1111", JWT, PEM, "sk-0123456789abcdefghij", "Bearer ", "-----BEGIN "),
        "%40",
        "@",
    ]
)


@given(st.lists(_PIECES | st.text(max_size=8), max_size=12).map(" ".join))
def test_redacting_twice_changes_nothing_more(text):
    """What is redacted once is redacted: replacements are no secrets, and make none of the words around them."""
    once = redact_secrets(text)
    assert once == redact_secrets(once)


def test_a_trace_without_secrets_is_not_copied():
    """And the redaction of one leaves nothing to the garbage collector."""
    trace = make_trace(
        "t", query="Why?", response="Because.", contexts=[Passage(text="A reason.", metadata={"page": 1})]
    )
    secret = trace.model_copy(update={"response": "Ask ada@example.org."})
    gc.collect()
    gc.disable()
    try:
        assert redact_trace(trace, redact_secrets) is trace
        assert redact_trace(secret, redact_secrets).response == "Ask [email]."
        assert 0 == gc.collect()
    finally:
        gc.enable()


def test_a_long_text_with_a_secret_is_redacted_each_time():
    """Only texts without secrets are remembered."""
    redact = _redaction.SecretRedactor()
    text = "Write soon. " * 50
    for _ in range(3):
        assert (text, f"{text}[email]") == (redact(text), redact(f"{text}ada@example.org"))


@pytest.mark.parametrize("rule", _redaction._RULES, ids=lambda rule: rule.needles[0])
def test_each_needle_is_found_by_its_mark(rule):
    """A needle without a mark, or behind one that it does not contain, would not be looked for."""
    marked = {needle: mark for mark, needles in _redaction._MARKED_NEEDLES for needle in needles}
    assert all(marked[needle] in needle for needle in rule.needles)
    assert all(_redaction._has_needle(f"some text {needle} more") for needle in rule.needles)


@pytest.mark.parametrize("digits", ["2" * 12, "4111 1111 1111", "2222 2222", "", "4111-1111-1111-111"])
def test_fewer_than_13_digits_are_no_card(digits):
    """The other digits of a text count as well, so texts with many numbers are looked at closer."""
    assert _redaction._has_card_digits(f"{digits}.") == (len([d for d in digits if d.isdigit()]) >= 13)
