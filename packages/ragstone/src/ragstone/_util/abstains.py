"""Detection of answers that decline: "I do not know", "not in the documents"."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from ragstone._util.words import first_sentence, normalize_case, split_sentences

_LONGEST: Final = 400
"""Longer answers contain more than a refusal."""
_KNOW: Final = r"(?:know|have (?:enough |any |sufficient |the )?(?:information|details|data|context))"
_CAN: Final = (
    r"(?:can(?:not|'t| not)|could(?: not|n't)|am (?:not able|unable) to|was (?:not able|unable) to|are unable to)"
)
_MEDIUM: Final = (
    r"(?:contexts?|documents?|passages?|texts?|sources?|handbook|information|material|article|manual|data|excerpts?|"
    r"knowledge base)(?: provided| given| above)?"
)
_SAY: Final = r"(?:contain|mention|say|state|provide|include|specify|give|cover|answer)"
_FOUND: Final = r"(?:mentioned|stated|specified|found|given|provided|contained|included|available)"
_NO: Final = r"no (?:information|answer|mention|relevant (?:information|passages?|documents?))"
_PATTERNS: Final = (
    rf"\b(?:i|we) (?:do not|don't|did not|didn't) {_KNOW}",
    rf"\b(?:i|we) {_CAN} (?:find|answer|determine|tell|provide|locate|say)\b",  # codespell:ignore
    r"\bi(?:'m| am) (?:not sure|not certain|unsure|uncertain|sorry, but i)",
    r"\bi have no (?:information|idea|answer)",
    r"^(?:it is|it's|this is|the answer is) (?:unclear|unknown|not (?:clear|known|stated|specified|mentioned))\b",
    r"^(?:sorry, (?:but )?)?unable to (?:answer|determine|find|tell|say)\b",  # codespell:ignore tell
    r"\b(?:insufficient|not enough) (?:information|context|data)\b",
    rf"\bn(?:one|either) of the {_MEDIUM} {_SAY}",
    rf"\b{_MEDIUM} (?:do not|does not|did not|don't|doesn't|didn't) {_SAY}",
    rf"\bnot {_FOUND} in (?:the |this |these |my )?(?:provided |given |available )?{_MEDIUM}",
    rf"\b{_NO} (?:is|was|were|are|can|could|about|on|available|found|in)\b",
    r"^(?:no[- ]response|no answer|unknown|unanswerable|not answerable|n/?a|none)[.!]?$",
    r"^(?:this|the) question (?:can(?:not|'t)|could not) be answered",
    # German (after case folding), French, Spanish, Italian, Portuguese, Dutch.
    r"\bweiss (?:ich |es )*(?:leider )?nicht\b|\bkann (?:ich )?(?:diese |die )?frage (?:leider )?nicht beantworten",
    r"\bkeine (?:informationen|angaben?) (?:dazu|darüber|zu|über|gefunden|enthalten)",
    r"\bje ne (?:sais|trouve) pas|\bne (?:contient|contiennent|mentionne|mentionnent) pas (?:d'|cette |l')?information",
    r"\bno (?:lo )?s[eé]\b.{0,20}$|\bno (?:encuentro|tengo) (?:esa |esta |la |suficiente )?(?:informaci[oó]n|respuesta)",
    r"\bnon (?:lo so|ho trovato|posso rispondere)\b",
    r"\bn[aã]o (?:sei|encontrei)\b",
    r"\bweet (?:ik )?het niet\b",
    r"\bnicht (?:erwähnt|angegeben|genannt|beschrieben|enthalten|bekannt)\b|\bkonnte ich\b.{0,80}\b(?:nicht|nichts) finden\b",
    r"\bsteht nicht in\b|\b(?:text|dokumente?n?|unterlagen|passagen?|quellen?|kontext)\b.{0,40}\bkeine\b",
    # Polish, Turkish.
    r"\bnie wiem\b|\bnie (?:znalaz|mogę (?:odpowiedzieć|znaleźć))|\bbrak informacji\b",
    r"\bbilmiyorum\b|\bbulamad|\bbilgi (?:yok|bulunm)|\bbelirtilmemiş",
)
_OTHER_SCRIPTS: Final = (
    # Japanese, Chinese, Korean.
    r"(?:分|わ)かりません|(?:見つか|見当た)りません|(?:お)?答えできません|(?:記載|情報|言及|説明).{0,8}(?:ありません|ございません|いません)",
    r"不知道|不清楚|[无無]法(?:回答|确定|確定|找到|判断|判斷)|(?:没有|沒有|未)(?:相关|相關|提到|提及|找到|足够|足夠|说明|說明|任何信息|任何資訊)",
    r"모르겠|알 수 없|찾을 수 없|답(?:변)?할 수 없|정보가? 없|(?:언급|나와|명시)[가-힣]* 있지 않",
    # Arabic, Russian, Hindi.
    r"لا (?:أعرف|أعلم|أدري)|لا (?:يمكنني|أستطيع) (?:الإجابة|العثور|تحديد)|لم (?:أجد|أعثر)|لا (?:توجد|تتوفر|تحتوي)|غير (?:مذكور|متوفر)|لم (?:يذكر|يرد)",
    r"\bне (?:знаю|могу (?:ответить|найти|определить)|указан|упомина|содерж|найден)|\bне удалось найти|\bнет (?:информации|данных|ответа)",  # noqa: RUF001
    r"(?:नहीं पता|नहीं जानत|जानकारी (?:नहीं|उपलब्ध नहीं))",
)
_APOLOGY: Final = re.compile(r"(?:(?:i am|i'm|we are|very|so|sorry|apologies|unfortunately|regrettably)\b[\s,.]*)*")
_CONTRAST: Final = re.compile(
    r"\b(?:but|however|though|although|aber|mais|pero|ma|mas|maar|но|ale)\b|لكن|しかし|が、|但|可是|하지만|지만"
)


def answer_abstains(answer: str, *, whole: bool = False) -> bool:
    """Return whether an answer declines to answer.

    The rule looks for typical phrases in a short answer: many in English, some in eight other European languages, Japanese,
    Chinese, Korean, Arabic, Turkish and Hindi. A phrase before a contrast does not count, because an answer may follow ("I am
    not sure, but it is Oslo").

    Args:
        answer: The answer.
        whole: Whether each sentence must decline, and not state something else before it does ("It is Oslo, but I am not
            sure"). Otherwise the first sentence decides, as in a diagnosis.

    Examples:
        >>> answer_abstains("I could not find this in the handbook."), answer_abstains("She carries 24 cars.")
        (True, False)
        >>> answer_abstains("I don't know the year. It was spring.", whole=True)
        False
        >>> answer_abstains("It was spring, but I am not sure.", whole=True)
        False
    """
    text = normalize_case(answer).replace("\u2019", "'").strip()
    if not text or len(text) > _LONGEST:
        return not text
    sentences = split_sentences(text) if whole else [first_sentence(text) or text]
    return all(_declines(sentence.strip(" \"'*_"), whole=whole) for sentence in sentences or [text])


@cache
def _abstentions(*, ascii_only: bool) -> re.Pattern[str]:
    """Return the pattern of all phrases, compiled at its first use, because this takes longer than most imports.

    Args:
        ascii_only: Whether the text is ASCII, in which no phrase of another script can be. Most texts are, and are searched
            twice as fast.
    """
    return re.compile("|".join(_PATTERNS if ascii_only else _PATTERNS + _OTHER_SCRIPTS))


def _declines(sentence: str, *, whole: bool = False) -> bool:
    found = _abstentions(ascii_only=sentence.isascii()).search(sentence)
    if found is None:
        return False
    if whole and (before := _CONTRAST.search(sentence, 0, found.start())) is not None:
        stated = sentence[: before.start()].strip(" ,;")
        if not _APOLOGY.fullmatch(stated) and not _declines(stated, whole=True):
            return False
    contrast = _CONTRAST.search(sentence, found.end())
    return contrast is None or _declines(sentence[contrast.end() :].strip())
