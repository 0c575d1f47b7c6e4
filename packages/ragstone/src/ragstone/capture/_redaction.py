"""Removal of secrets from texts, and from whole traces, before they reach a disk.

Every pattern runs in time linear in the text: quantifiers are possessive or bounded, and a look-behind prevents a
second start inside a run on which the pattern has already failed. Most texts do not hold a secret, so cheaper tests
than any pattern come first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ragstone._util.unicode import replace_surrogates
from ragstone._util.variables import suppress_capture
from ragstone.capture._encoded import Redactor, redact_encoded, redact_json
from ragstone.errors import RagstoneError
from ragstone.schema import Passage, Retrieval, Trace


def redact_secrets(text: str) -> str:
    """Replace e-mail addresses, card numbers, tokens and API keys by `[email]`, `[card]`, `[token]` and `[key]`.

    It detects:

    - E-mail addresses (also with `%40`).
    - Payment card numbers of 13 to 19 digits that pass the Luhn check, in one piece or in the groups printed on cards,
      which one or two blanks, tabs, line breaks, points or dashes separate. The digits may be those of any script.
    - Credentials after `Bearer`, `Authorization` and `api-key` (also `x-api-key`), and JSON Web Tokens.
    - Keys of API providers by their published prefixes. docs/how-to/redaction.md has the list.
    - Private keys in PEM.

    In JSON, also within JSON, it decodes the strings. It does not decode Base64, percent-encoding or HTML.
    It does not detect names, postal addresses, phone numbers or passwords, because they do not have a fixed form.

    Examples:
        >>> redact_secrets("Write to ada@example.org, card 4111 1111 1111 1111.")
        'Write to [email], card [card].'
    """
    if "\\" not in text and text[:1] not in _ENCODED:
        return _apply_rules(text)
    if _has_needle(text) or _has_card_digits(text) or _HIDDEN.search(text):
        return redact_encoded(text, _redact_plain)
    return text


def _redact_plain(text: str) -> str:
    """Return a text without secrets. If it was encoded and then cut, escapes may be before a secret and within it."""
    if "\\" in text:
        decoded, redacted = _decode_hidden(text), _redact_after_escapes(text)
        if decoded != text and (found := _redact_after_escapes(decoded)) not in (decoded, _decode_hidden(redacted)):
            redacted = found
        text = redacted
    return _apply_rules(text)


def _decode_hidden(text: str) -> str:
    return _DECODED.sub(lambda match: match[2] or chr(int(match[1], 16)), text)


def _redact_after_escapes(text: str) -> str:
    return _MARKED.sub(r"\1", _apply_rules(_ESCAPE.sub("\\g<0>\0", text)))


def _apply_rules(text: str) -> str:
    if _has_needle(text):
        for rule in _RULES:
            if any(needle in text for needle in rule.needles):
                text = rule.pattern.sub(rule.replacement, text)
    return _redact_cards(text) if _has_card_digits(text) else text


_ENCODED: Final = frozenset('{[" \t\n\r')
"""First characters of a text that may be JSON."""
_HIDDEN: Final = re.compile(
    r"\\(?:(?:u00|x)(?:[2-7]|[aA]0)|u(?:0[^0]|1|2[02]|3000|[aA][6-9aA]|[fF]{2}1|[dD]8)|(?<=\d\\)\\*+[tnr])"
)
"""An escape of a character that secrets contain: also of a blank after a digit, and of digits, blanks and dashes beyond
ASCII."""
_DECODED: Final = re.compile(r"\\(?<!\\\\)\\*+(?:(?:u00|x)((?!22|27|5[cC])[2-7][0-9A-Fa-f]|[aA]0)|(/))")
"""The same, and an escape of a slash, with all backslashes before it. Quotes and backslashes stay encoded."""
_ESCAPE: Final = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|[bfnrtv0])")
"""An escape of JSON or Python that ends with a letter or a digit."""
_MARKED: Final = re.compile(rf"({_ESCAPE.pattern})\0")


class RedactionError(RagstoneError):
    """An error if a redactor raises or does not return text. What it was given must not be written."""


def safe_redactor(redact: Redactor) -> Redactor:
    """Return a redactor that redacts encoded text too, and never returns anything but valid text."""
    return redact if redact is redact_secrets or isinstance(redact, _SAFE) else _SafeRedactor(redact)


class _SafeRedactor:
    __slots__ = ("_function",)

    def __init__(self, function: Redactor) -> None:
        self._function = function

    def __call__(self, text: str) -> str:
        """Return the redacted text. Raise RedactionError if the function fails."""
        return redact_encoded(text, self._call, also_whole=True) if text else text

    def _call(self, text: str) -> str:
        try:
            # A redactor may call a model. Capturing that call would recurse without end.
            with suppress_capture():
                redacted: object = self._function(text)
        except Exception as error:  # noqa: BLE001 - a function of the user, whose message may contain the text
            raise RedactionError(f"the redactor raised {type(error).__name__}") from None
        if not isinstance(redacted, str):
            raise RedactionError(f"the redactor must return text, got {type(redacted).__name__}")
        return replace_surrogates(str(redacted))


class SecretRedactor:
    """`redact_secrets` with a bounded memory of texts that it leaves unchanged, because passages repeat.

    It keeps 16 bytes of the hash of each text, at most 8 MB in all.
    """

    __slots__ = ("_older", "_recent")

    def __init__(self) -> None:
        # Two generations instead of an order: the older one is forgotten as a whole.
        self._recent: set[bytes] = set()
        self._older: set[bytes] = set()

    def __call__(self, text: str) -> str:
        """Return what `redact_secrets` returns."""
        if len(text) < _MIN_REMEMBERED:
            return redact_secrets(text)
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if digest in self._recent:
            return text
        if digest not in self._older:
            redacted = redact_secrets(text)
            if redacted != text:
                return redacted
        if len(self._recent) >= _MAX_REMEMBERED // 2:
            self._recent, self._older = set(), self._recent
        self._recent.add(digest)
        return text


_SAFE: Final = (SecretRedactor, _SafeRedactor)
_MIN_REMEMBERED: Final = 200
"""Length, in characters, below which a text is redacted faster than it is hashed and remembered."""
_MAX_REMEMBERED: Final = 60_000
"""Hashes of a `SecretRedactor`, about 130 bytes each with their share of the set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    needles: tuple[str, ...]
    """Literals: every text that the pattern matches contains at least one of them."""
    pattern: re.Pattern[str]
    replacement: str | Callable[[re.Match[str]], str]


def _email(match: re.Match[str]) -> str:
    # A top-level domain begins with letters: "package@1.2.3-beta1" is a version, not an address.
    return "[email]" if any(len(label) > 1 and label[:2].isalpha() for label in match[0].split(".")[1:]) else match[0]


_CREDENTIAL: Final = "[A-Za-z0-9._~+/=-]"
_DIGIT: Final = "[A-Za-z._~+/=-]{0,100}+[0-9]"
"""A credential with a digit. Long words do not have one."""
KEYS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "OpenAI, Anthropic and others": (("sk-",), r"sk-(?=[A-Za-z_-]{0,100}+[0-9])[A-Za-z0-9_-]{16,}+"),
    "AWS": (("AKIA", "ASIA", "ABIA", "ACCA"), r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    "Databricks": (("dapi",), r"dapi[0-9a-f]{32}(?![A-Za-z0-9])"),
    "GitHub": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_[A-Za-z0-9_]{20,}+",
    ),
    "GitLab": (("glpat-",), r"glpat-[A-Za-z0-9_-]{16,}+"),
    "Google": (("AIza", "ya29."), r"AIza[A-Za-z0-9_-]{30,}+|ya29\.[A-Za-z0-9_-]{20,}+"),
    "Groq": (("gsk_",), r"gsk_[A-Za-z0-9]{20,}+"),
    "Hugging Face": (("hf_",), r"hf_[A-Za-z0-9]{30,}+"),
    "LangSmith": (("lsv2_",), r"lsv2_[a-z]{2}_[A-Za-z0-9_]{20,}+"),
    "npm": (("npm_",), r"npm_[A-Za-z0-9]{30,}+"),
    "NVIDIA": (("nvapi-",), r"nvapi-[A-Za-z0-9_-]{20,}+"),
    "Perplexity": (("pplx-",), r"pplx-[A-Za-z0-9]{20,}+"),
    "Pinecone": (("pcsk_",), r"pcsk_[A-Za-z0-9_]{20,}+"),
    "PyPI": (("pypi-",), r"pypi-[A-Za-z0-9_-]{30,}+"),
    "Replicate": (("r8_",), r"r8_[A-Za-z0-9]{30,}+"),
    "SendGrid": (("SG.",), r"SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"),
    "Slack": (
        ("xox", "xapp-", "hooks.slack"),
        r"xox[a-z]-[A-Za-z0-9-]{10,}+|xapp-[A-Za-z0-9-]{10,}+|hooks\.slack(?:-gov)?\.com/[a-z]{1,20}/[A-Za-z0-9/]{20,}+",
    ),
    "Standard Webhooks": (("whsec_",), r"whsec_[A-Za-z0-9+/=]{16,}+"),
    "Stripe": (("sk_live_", "rk_live_", "sk_test_", "rk_test_"), r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+"),
    "Vault": (("hvs.", "hvb.", "hvr."), r"hv[sbr]\.[A-Za-z0-9_-]{20,}+"),
    "xAI": (("xai-",), r"xai-[A-Za-z0-9]{20,}+"),
}
"""Keys by their owner: texts of which each key contains one, and the pattern."""

_RULES: Final = (
    _Rule(
        needles=("PRIVATE KEY-----", "PRIVATE KEY BLOCK-----"),
        # A chunk of a document may end within the key. Then the rest of the text is part of the key.
        pattern=re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]{0,40}-----|\Z)", re.DOTALL
        ),
        replacement="[key]",
    ),
    _Rule(
        needles=("eyJ",),
        # JSON Web Tokens: two parts at least (cut short, a token still has its claims), five at most (encrypted).
        pattern=re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]++){1,4}+"),
        replacement="[token]",
    ),
    _Rule(
        needles=("earer", "EARER"),
        pattern=re.compile(
            rf"\b((?i:bearer))(?:[ \t]{{1,8}}{_CREDENTIAL}{{16,}}+|(?:%20|:\s{{0,8}}|\s{{1,8}})(?={_DIGIT}){_CREDENTIAL}{{16,}}+)"
        ),
        replacement=r"\1 [token]",
    ),
    _Rule(
        needles=("uthorization", "UTHORIZATION", "pi-key", "pi-Key", "PI-KEY"),
        pattern=re.compile(
            r"\b((?i:authorization|api-key)[\"']?\s{0,4}[:=]\s{0,4}[\"']?"
            rf"(?:(?i:basic|token|digest|apikey)\s{{1,8}}(?={_CREDENTIAL}{{8}})|(?={_DIGIT})(?={_CREDENTIAL}{{16}}))){_CREDENTIAL}++"
        ),
        replacement=r"\1[token]",
    ),
    _Rule(
        needles=tuple(needle for needles, _ in KEYS.values() for needle in needles),
        pattern=re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(pattern for _, pattern in KEYS.values())})"),
        replacement="[key]",
    ),
    _Rule(
        needles=("@", "%40"),
        pattern=re.compile(r"(?<![\w.+-])[\w.+-]++(?:@|%40)[\w-]++(?:\.[\w-]++)++"),
        replacement=_email,
    ),
)

_SEPARATOR: Final = r"(\r\n|[ .\t\n\-\u00a0\u2000-\u200a\u2010-\u2015\u202f\u205f\u2212\u3000]{1,2})"
"""Blanks, points and dashes between the groups of a card number, one or two."""
_CARD: Final = re.compile(
    rf"""(?<!\d)(?<!\d\.)  # not in the middle of a number, nor the decimals of one
    (?: (?![0-17-9]) (?: \d{{13,19}} | \d{{4}} {_SEPARATOR} \d{{4}} \1 \d{{4}} \1 \d{{4}} )
      | (?![0-24-9]) \d{{4}} {_SEPARATOR} \d{{6}} \2 \d{{4,5}}
    ) (?!\d)""",
    re.VERBOSE,
)


_MARKS: Final = "JZ%@_KGBRCSxz9-vkpe"
"""One of these characters is in each needle, the rarest in prose first. A search for one is ten times faster than for a
needle."""


def _by_mark(needles: Iterable[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the needles by the rarest mark in them."""
    found: dict[str, list[str]] = {}
    for needle in needles:
        found.setdefault(next(mark for mark in _MARKS if mark in needle), []).append(needle)
    return tuple((mark, tuple(marked)) for mark, marked in found.items())


_MARKED_NEEDLES: Final = _by_mark(needle for rule in _RULES for needle in rule.needles)


def _has_needle(text: str) -> bool:
    """Return whether the pattern of any rule can match."""
    # Loops, because a generator for `any` costs more than the searches.
    for mark, needles in _MARKED_NEEDLES:
        if mark in text:
            for needle in needles:
                if needle in text:
                    return True
    return False


_CARD_CLASSES: Final = bytes(
    ord("0" if byte in b"0123456789" else " " if byte in b" .-\t\n" else "~" if byte == 13 else "x")
    for byte in range(256)
)
"""Classes of ASCII characters: digits `0`, separators of card numbers ` `, carriage returns `~`, others `x`."""


_NO_DIGITS: Final = bytes(byte for byte in range(256) if byte not in b"0123456789\xd9\xdb\xdf\xe0\xe1\xea\xef\xf0")
"""Bytes that no digit of UTF-8 begins with."""
_MIN_CARD_DIGITS: Final = 13
_CARD_GROUPS: Final = re.compile(rf"\d{{4}}{_SEPARATOR}?\d{{4}}")


def _has_card_digits(text: str) -> bool:
    """Return whether two groups of four digits follow each other, as in every card number."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) < _MIN_CARD_DIGITS or len(encoded.translate(None, _NO_DIGITS)) < _MIN_CARD_DIGITS:
        return False
    if len(encoded) > len(text):
        return _CARD_GROUPS.search(text) is not None
    classes = encoded.translate(_CARD_CLASSES)
    return any(groups in classes for groups in (b"00000000", b"0000 0000", b"0000  0000", b"0000~ 0000"))


def _redact_cards(text: str) -> str:
    parts: list[str] = []
    done = 0
    match = _CARD.search(text)
    while match is not None:
        start, end = match.span()
        if _is_card([int(character) for character in match[0] if character.isdecimal()]):
            parts += (text[done:start], "[card]")
            done = start = end
        else:  # the next group of digits may begin a card: "1234 4111 1111 1111 1111"
            start += 1
        match = _CARD.search(text, start)
    return "".join(parts) + text[done:] if parts else text


def _is_card(digits: list[int]) -> bool:
    """Return whether digits begin as those of a card, and not as a year, and pass the Luhn check."""
    if digits[0] not in range(2, 7) or digits[:2] in ([2, 0], [2, 1]):
        return False
    digits.reverse()
    return (sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])) % 10 == 0


def redact_trace(trace: Trace, redact: Redactor) -> Trace:
    """Return the trace with every text redacted, and the default rules applied to the names in it.

    Names are those of the request, its model and its retrievers. Ids are not redacted: users look requests up by them.
    Raise RedactionError if the function fails. A trace that cannot be redacted must not be stored.
    """
    redact = safe_redactor(redact)
    questions = dict.fromkeys((*trace.sub_questions, *(trace.ratings or ())))
    names = dict(zip(questions, redact_json(questions, redact), strict=True)) if questions else {}
    update: dict[str, Any] = {
        "name": _text(trace.name, redact_secrets),
        "model": _text(trace.model, redact_secrets),
        "query": _text(trace.query, redact),
        "standalone_query": _text(trace.standalone_query, redact),
        "history": tuple(turn.model_copy(update={"text": redact(turn.text)}) for turn in trace.history),
        "retrievals": tuple(_retrieval(found, redact) for found in trace.retrievals),
        "contexts": None if trace.contexts is None else _passages(trace.contexts, redact),
        "response": _text(trace.response, redact),
        "reference": tuple(map(redact, trace.reference)),
        "sub_questions": tuple([names[question] for question in trace.sub_questions]),
        "ratings": trace.ratings and {names[question]: rated for question, rated in trace.ratings.items()},
        "error": _text(trace.error, redact),
        "inner_errors": tuple(map(redact, trace.inner_errors)),
        "tags": tuple(map(redact, trace.tags)),
        "metadata": redact_json(trace.metadata, redact),
    }
    # Most texts are unchanged, and comparing them costs less than a copy of the trace.
    changed = {name: value for name, value in update.items() if value != getattr(trace, name)}
    return trace.model_copy(update=changed) if changed else trace


def _text(value: str | None, redact: Redactor) -> str | None:
    return None if value is None else redact(value)


def _passages(found: tuple[Passage, ...], redact: Redactor) -> tuple[Passage, ...]:
    return tuple([_passage(passage, redact) for passage in found])


def _passage(found: Passage, redact: Redactor) -> Passage:
    redacted = redact(found.text)
    metadata = redact_json(found.metadata, redact) if found.metadata else found.metadata
    if redacted == found.text and metadata == found.metadata:
        return found  # a copy costs more than the redaction of a known text
    return found.model_copy(update={"text": redacted, "metadata": metadata})


def _retrieval(found: Retrieval, redact: Redactor) -> Retrieval:
    return found.model_copy(
        update={
            "query": _text(found.query, redact),
            "name": _text(found.name, redact_secrets),
            "passages": _passages(found.passages, redact),
            "stages": tuple(_retrieval(stage, redact) for stage in found.stages),
        }
    )
