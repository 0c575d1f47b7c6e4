"""Texts that are not English: sentences, abstentions, and prompts that ask for the language of the text."""

from __future__ import annotations

import asyncio
import re

import pytest

from builders import make_sample
from ragstone._util.abstains import answer_abstains
from ragstone._util.words import find_sentences, split_sentences
from ragstone.judges.lexical import LexicalJudge
from ragstone.metrics import resolve_metrics
from ragstone.schema import Score
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge


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
        # The application has nothing.
        "Sorry, I do not have that information.",
        "I don’t have specific information about the cost of the service.",
        "I apologize, but I cannot confirm or deny that.",
        "I'm afraid I have no record of that meeting.",
        "Désolé, je n'ai pas trouvé d'information à ce sujet.",
        "Lo siento, no tengo acceso a esa información.",
        "Mi dispiace, ma non ho informazioni sulla durata della batteria.",
        "Não consegui localizar instruções sobre a troca do fusível no manual.",
        "Sorry, dat weet ik niet.",
        "Tyvärr har jag ingen information om avkalkning.",
        "Nevím.",
        # A source does not say it.
        "The passages you supplied say nothing about hail damage. You may want to call your insurance agent.",
        "The excerpt describes the trial's funding, but it does not specify which vaccine was used.",
        "In den Dokumenten steht nicht, wann die Brücke gebaut wurde.",
        "Les documents ne précisent pas quand le pont a été construit.",
        "La fecha no aparece en los fragmentos.",
        "Dal brano non si evince chi abbia tradotto il romanzo.",
        "O contexto fala de tecidos e não contém a resposta para essa pergunta.",
        "Het gevraagde nummer komt niet voor in de kennisbank.",
        "Artikeln förklarar inte varför rektorn stängdes av.",
        "W dokumentach nie ma wzmianki o tym, kto zaprojektował dworzec.",
        "V dokumentech není uvedeno, kdo nádraží navrhl.",
        "Bağlam bu konuyu kapsamıyor.",
        "В документах не сказано, кто спроектировал вокзал.",
        "السياق المعطى لا يغطي هذا الموضوع.",
        "मैनुअल टायर के दबाव के विषय में मौन है।",
        "报道没有交代校长被停职的原因。",
        "本文からは訳者が誰なのか読み取れません。",
        "기사는 교장이 정직된 이유를 밝히지 않았습니다.",
        # It cannot be found out, and replies that consist of a phrase.
        "Based on the provided context, it is not possible to determine who chaired the committee.",
        "Anhand der Unterlagen lässt sich nicht feststellen, wer das Projekt leitete.",
        "D'après le contexte fourni, il est impossible de déterminer qui dirigeait le comité.",
        "Nelze odpovědět",
        "Empty Response",
        "**Answer:** Not found in the provided documents.",
        "Keine Ahnung.",
    ],
)
def test_abstentions(answer):
    """The application, a source or nobody says it, in the words of the language."""
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
        # A negation that is the answer.
        "No, the warranty does not cover water damage.",
        "According to the documents, refunds are not included.",
        "You cannot find the setting in the menu; use the command line.",
        "The text field does not accept emojis.",
        "We never sell your data to third parties.",
        "That is not true. The tool chain is available there.",
        "Nein, die Montage ist im Preis nicht enthalten.",
        "Non, le vol du vélo n'est pas couvert.",
        "Infelizmente, depois de 60 dias não há reembolso.",
        "Server stránku nenašel.",
        "Att servern inte kunde hitta sidan.",
        "手机应用里不能修改，请到网页版设置。",
        # Under a condition, about somebody else, or quoted.
        "If you do not know the password, click Reset.",
        "Users who do not have enough data should wait.",
        "He was released because the police could not find enough evidence.",
        '"I don\'t know who fired the shot," the witness told the court.',
        "Wenn Sie Ihr Kennwort nicht wissen, klicken Sie auf Zurücksetzen.",
        "Der Zeuge sagte: „Ich weiß nicht, wer am Steuer saß.“",
        "證人說：「我不知道。」",
        "यदि एलर्जी की जानकारी उपलब्ध नहीं है, तो पर्ची पर लिखें।",
        # A refusal before a contrast.
        "The passage doesn't give an exact figure, but it says that more than 200 people died.",
        "Le texte ne donne pas de nombre exact, mais il parle de dizaines de blessés.",
    ],
)
def test_answers(answer):
    """An answer, also if it is negative, quotes a refusal, or continues after a phrase of doubt."""
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


def test_a_fact_before_a_refusal_is_not_a_refusal_as_a_whole():
    """The last clause decides if an answer declines. A text without any fact declines in all of its clauses."""
    text = "The tower was built in 1884, but I don't know its height."
    assert answer_abstains(text)
    assert not answer_abstains(text, whole=True)
    assert answer_abstains("I don't know its height, but I could not find its age in the documents either.", whole=True)


def test_a_reason_is_not_read_as_a_refusal():
    """What follows "because" explains the answer."""
    assert not answer_abstains("It closes at noon because the manual does not mention the evening.")
    assert answer_abstains("I don't know because the manual does not mention it.")


def test_a_long_text_is_more_than_a_refusal():
    """Above 400 characters, an answer has content, whatever it repeats."""
    sentence = "I don't know how tall the tower is. "
    assert answer_abstains(sentence * 11)
    assert not answer_abstains(sentence * 12)
