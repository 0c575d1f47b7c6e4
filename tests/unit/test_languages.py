"""Texts that are not English: sentences, abstentions, and prompts that ask for the language of the text."""

from __future__ import annotations

import asyncio
import re

import pytest

from ragstone._util.abstains import answer_abstains
from ragstone._util.words import find_sentences, split_sentences
from ragstone.judges import LexicalJudge
from ragstone.metrics import resolve_metrics
from ragstone.schema import Score
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge, make_sample


@pytest.mark.parametrize(
    "sentences",
    [
        ["Das ist z. B. Stahl, d. h. hart.", "Dr. Meier kam am 3. März 1920.", "Er blieb ca. 40 Jahre."],
        ["Siehe Nr. 5.", "Danach Abb. 3 usw. im Anhang.", "Es waren 12.", "Mehr nicht."],
        ["»Er ist hoch.«", "Sie ging.", "„Er ist alt.“", "Ende."],
        ["J. S. Bach lived there.", "It is 3.5 m, e.g. here.", "Mr. Orm left in 1890.", "The tower stayed."],
        ['He said "It is tall."', "She left.", "(It is old.)", "Yes"],
        ["Take vitamin C.", "It helps.", "Say yes or no.", "5 of them did."],
        ["A.", "B."],
    ],
    ids=lambda sentences: sentences[0],
)
def test_sentences_between_spaces(sentences):
    """Abbreviations, initials and dates do not end a sentence; closing quotes belong to it."""
    text = " ".join(sentences)
    assert sentences == split_sentences(text)
    assert sentences == [text[start:end] for start, end in find_sentences(text)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["塔は高い。", "「本当だ。」と彼は言った。", "「はい。」", "終わり！？", "次"],
        ["这座塔高31米。", "它建于1884年！", "真的吗？", "是"],
    ],
)
def test_sentences_without_spaces(sentences):
    """Full-width marks end a sentence, also in quotes, unless the quoting sentence continues."""
    assert sentences == split_sentences("".join(sentences))


@pytest.mark.parametrize(
    "sentences",
    [
        ["هل البرج طويل؟", "نعم، طوله 31 متراً.", "بني عام 1884."],
        ["یہ اونچا ہے۔", "یہ پرانا ہے۔"],
        ["यह ऊँचा है।", "यह पुराना है।"],
    ],
)
def test_sentences_of_other_scripts(sentences):
    """The marks of Arabic, Urdu and Hindi."""
    assert sentences == split_sentences(" ".join(sentences))


@pytest.mark.parametrize(
    "answer",
    [
        "Das weiß ich leider nicht.",
        "Im Dokument ist das nicht angegeben.",
        "Der Text enthält dazu keine Angaben.",
        "Dazu konnte ich in den Unterlagen leider nichts finden.",
        "申し訳ありませんが、わかりません。",
        "文書に記載がありません。他の資料をご覧ください。",
        "抱歉，我无法回答这个问题。",
        "문서에서 해당 정보를 찾을 수 없습니다.",
        "لا أعرف الإجابة.",
        "لا توجد معلومات في النص عن ذلك.",
        "Я не знаю.",
        "Nie wiem.",
        "Bunu bilmiyorum.",
        "मुझे नहीं पता।",
    ],
)
def test_abstentions(answer):
    """Typical phrases."""
    assert answer_abstains(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "Der Turm ist 31 Meter hoch.",
        "In den Unterlagen steht 31 Meter.",
        "Es kostet keine 5 Euro.",
        "塔は31メートルです。わかりません。",
        "正確にはわかりませんが、31メートルです。",
        "塔高31米。",
        "탑은 31미터입니다.",
        "البرج طوله 31 متراً.",
        "Высота башни 31 метр.",
        "Wieża ma 31 metrów.",
        "Kule 31 metredir.",
    ],
)
def test_answers(answer):
    """An answer, also if it continues after a phrase of doubt."""
    assert not answer_abstains(answer)


TEXTS = [
    ("Wie hoch ist der Turm?", "Der Turm ist z. B. 31 Meter hoch. Er ist rot.", "Der Turm ist 31 Meter hoch."),
    ("塔の高さは？", "塔の高さは31メートルです。屋根と窓が青い。", "塔の高さは31メートルです。"),
    ("ما ارتفاع البرج؟", "ارتفاع البرج 31 متراً. لونه أحمر؟", "ارتفاع البرج 31 متراً."),
]


@pytest.mark.parametrize(("query", "response", "passage"), TEXTS)
def test_claims_and_sentences_in_any_language(query, response, passage):
    """The baseline splits the response into two sentences, of which the passage supports the first."""
    sample = make_sample(query=query, response=response, contexts=(passage,), reference=passage)
    names = ["ragas.faithfulness", "vera.groundedness", "ragas.context_recall"]
    outcomes = asyncio.run(Scorer(resolve_metrics(names), LexicalJudge()).score(sample))
    assert all(isinstance(outcome, Score) for outcome in outcomes)
    assert [0.5, 0.5, 1.0] == [outcome.value for outcome in outcomes]


@pytest.mark.parametrize(
    ("names", "construct"),
    [
        (["ragas.faithfulness"], "claims"),
        (["ragas.answer_relevancy", "vera.answer_relevance"], "answer_questions"),
        (["crux.coverage", "crux_reference_free.coverage"], "sub_questions"),
    ],
)
def test_the_judge_writes_in_the_language_of_the_text(names, construct):
    """Wherever it writes text that is compared with texts of the sample."""
    judge = FakeJudge()
    asyncio.run(Scorer(resolve_metrics(names), judge).score(make_sample()))
    tasks = {prompt.task for prompt in judge.prompts if prompt.construct == construct}
    assert len(names) == len(tasks)
    assert all(re.search(r"(?:in|Use) the language of the (?:text|response|query|reference)", task) for task in tasks)


def test_judges_compare_across_languages():
    """Verdicts do not depend on the language: each task says so, or an example shows it."""
    judge = FakeJudge()
    names = ["ragas", "ragchecker", "vera.retrieval_precision", "crux", "judged.precision@5", "citation"]
    sample = make_sample(response="It is tall [1].").model_copy(update={"sub_questions": ("How tall?",)})
    asyncio.run(Scorer(resolve_metrics(names), judge).score(sample))
    verdicts = {
        p.task
        for p in judge.prompts
        if p.construct in ("entailment", "passage_relevance", "answerability", "sentence_relevance")
    }
    assert len(verdicts) >= 6
    assert [] == [task for task in verdicts if "language" not in task]
