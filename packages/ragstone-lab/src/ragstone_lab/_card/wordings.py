"""Other wordings of the task texts: two paraphrases of each, to measure how much the wording moves a judge's scores.

A paraphrase asks for the same as the task of the metric, in other words, in another order, and with the same scale. It
is used only here: metrics, their prompts and their versions do not change. If the meaning of a task changes, change its paraphrases too.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from ragstone.judges import Prompt
from ragstone.metrics import Task

N_WORDINGS: Final = 2
"""Number of paraphrases of each task."""


def _read(text: str) -> dict[str, tuple[str, str]]:
    """Return two paraphrases by key, from "[key]", the first, "---" and the second. An indented line continues another."""
    parts = re.split(r"^\[(\w+)\]\n", text, flags=re.MULTILINE)
    whole = [re.sub(r"\n +", " ", part).strip().partition("\n---\n") for part in parts]
    return {key: (first, second) for (key, *_), (first, _, second) in zip(whole[1::2], whole[2::2], strict=True)}


_PARAPHRASES: Final = _read("""
[contextual_coherence]
Task: check how well the contexts support the response. Go through the response one statement at a time.
Give 100 if every statement follows from the passages and no statement contradicts another one.
Give 50 if about half of the statements follow from the passages.
Give 0 if the response contradicts the passages, is unrelated to them, or is empty.
The passages count as true. It does not matter if the response answers the query.
---
How much of the response is supported by the passages in the contexts? Treat the passages as correct. Ignore whether
  the query is answered.
Nothing supported, contradictory, unrelated or empty is 0. About half supported is 50. Everything supported and
  consistent is 100.
[question_relevance]
Task: check if the response answers the query.
Give 100 if it answers the whole query directly.
Give 50 if it answers only a part, answers a similar query, or hides the answer among other text.
Give 0 if it is about another subject, refuses to answer, or is empty.
It does not matter if the answer is correct. Ignore the contexts.
---
How completely and directly does the response answer the query? Do not check facts or sources.
Empty, evasive or off the subject is 0. A partial or indirect answer is 50. A complete and direct answer is 100.
[information_density]
Task: compare the useful information in the response with its length.
Give 100 if the response has all information that the query needs, and every sentence is needed.
Give 50 if it is useful but repetitive or too long, or too short to contain the needed details.
Give 0 if it contains nothing useful for the query, or is empty.
The contexts show which details were available. It does not matter if the response is correct.
---
How efficiently does the response inform a person who asked this query? Do not check facts. Use the contexts only to
  see which details were available.
No useful information is 0. Useful but padded, or too brief, is 50. Complete without an unnecessary sentence is 100.
[answer_correctness]
Task: check if the statements of the response are correct. The reference is correct. If it has several parts, choose
  the part that is closest to the response.
Give 100 if every statement agrees with the reference. The words may differ.
Give 50 if some statements agree and others are wrong or not covered by the reference.
Give 0 if the answer is wrong, contradicts the reference, or is missing.
Missing details do not lower the number. Use the contexts only to understand names and terms.
---
How much of what the response states agrees with the reference (with its closest part, if there are several)? Do not
  subtract for omissions. The contexts only explain terms.
A wrong or missing answer is 0. Partly right is 50. Fully right, in any words, is 100.
[information_recall]
Task: find the important points of the reference, and check for each of them if the response states it correctly. If
  the reference has several parts, choose the part that is closest to the response.
Give 100 if the response contains every point. The words may differ.
Give 50 if it contains about half of the points.
Give 0 if it contains none of them, or is empty.
Additional statements do not change the number. Use the contexts only to understand names and terms.
---
Which share of the important points of the reference (of its closest part, if there are several) does the response
  state correctly? Ignore everything that the response adds. The contexts only explain terms.
None or an empty response is 0. Half is 50. All is 100.
[claims]
Task: list the factual statements in the text, one per item.
Write each as one short sentence with one fact that can be checked without the rest of the text. Replace pronouns by
  names, and add from the query what the text takes for granted.
Include wrong statements. Do not add anything. Leave out opinions, advice, questions, greetings, and remarks that
  something is unknown. The list may be empty. Keep the language of the text.
A block 'before' is only context. Do not list its statements.
---
Which facts does the text state? Return every fact as its own short sentence that a reader understands and can check
  without seeing the text or the query. Use names instead of pronouns.
Return facts whether or not they are true, and no fact that the text does not state. An opinion, advice, a question, a
  greeting or 'I do not know' is not a fact. If the text does not state any, return an empty list. Do not translate.
If there is a block 'before', use it to understand the text, and do not return its facts.
[support]
Task: decide for each numbered claim if the evidence supports it.{what}
Give 1 if the whole claim is stated in the evidence or follows from it{part}. Words and language may differ.
Give 0 if the evidence contradicts the claim, does not mention it, or supports only a part of it.
Use only the evidence, not your own knowledge. Decide about each claim separately.
---
Which of the numbered claims follow completely from the evidence alone?{what} Do not use other knowledge, and do not
  let one claim influence another.
A claim that follows{part}, in whatever words, is 1. A claim that is contradicted, missing or only partly supported is 0.
[questions]
Task: write {what} that the response answers exactly as it is. {part} Use only information from the response, and its
  language. If the response does not answer anything (it refuses, asks back, or does not know), return an empty list.
---
Imagine that you see only the response, and write {what} that it could be the answer to. {part}
Do not translate or add information. Return an empty list if the response is evasive or says that the answer is unknown.
[equivalence]
Task: compare each numbered question with the query.
Give 100 if the same answer is right for both.
Give 50 if they overlap, or one asks for much more than the other.
Give 0 if an answer to one does not help with the other, even if they share words.
Ignore wording, language and tone. Compare each question separately.
---
Does each numbered question ask for the same information as the query? Only the requested information matters, not its
  form or language. Rate each question independently of the others.
Different information is 0. Overlapping or wider information is 50. The same information is 100.
[useful]
Task: check if the passage contributes to {what}.
Give 1 if the passage contains {part}, or a fact that leads to it.
Give 0 if it does not. A common subject or common words are not sufficient. Do not give other numbers.
---
Could a person use this passage to find or write at least a part of {what}?
{part} in the passage, or a step to it, is 1. Only a shared subject, names or words is 0. Other numbers are not allowed.
[relevance]
Task: suppose that a person reads only this passage. Check if this person could give {what}.
Give 1 if the passage states it, or it follows from the passage alone.
Give 0 otherwise, also if the passage contains only a part of it or has the same subject.
Do not give other numbers. Give 0 if you are not sure.
---
Is this passage alone sufficient to arrive at {what}?
Sufficient, in whatever words, is 1. A part of it, or only the same subject, names or words, is 0, also in case of
  doubt. Other numbers are not allowed.
[sentence_relevance]
Task: the numbered sentences form a passage. Check for each sentence if it contributes to an answer to the query.
Give 1 if the sentence contains the answer, a part of it, or a fact that is necessary to find it.
Give 0 if the answer does not need the sentence. A common subject or common words are not sufficient.
---
Which of the numbered sentences, read in order as one passage, would you keep in order to answer the query?
A sentence with the answer, a part of it or a necessary fact is 1. Every other sentence is 0, also if it has the same
  subject.
[sub_questions]
Task: write at most 10 questions {what}.
Every question asks for a different single fact, is understandable without the {part} (names instead of pronouns), does
  not reveal its answer, and is in the language of the {part}.
Prefer few questions without overlap. One question may be sufficient.
---
Which questions, 10 at most, would you write {what}?
Ask for one thing per question and for each thing once. A person who has not seen the {part} must understand the
  question, and it must not give away the answer. Do not translate, and do not pad the list.
[answerability]
Task: rate for each numbered sub-question how completely the evidence answers it. Use only the evidence, not your own
  knowledge.
Give 5 for a complete and exact answer, 4 for an answer with a small gap or mistake, 3 if the main answer is there but
  something important is missing or unclear, 2 for a part that does not allow an answer, 1 if the subject is only
  mentioned, and 0 if the question is not answered.
Shared names and words do not count. Rate each sub-question separately.
---
How much of the answer to each numbered sub-question is in the evidence? Other knowledge and shared words do not
  count, and the ratings must not influence each other.
0: nothing. 1: the subject is only mentioned. 2: a fragment. 3: the main answer, incomplete or vague. 4: the answer
  with a small gap. 5: the complete and exact answer.
""")
"""Paraphrases by the name of the task, or by the construct of a task without a name."""

_SAME: Final = {
    "cited_support": "support",
    "support_in_answer": "support",
    "relevance_with_reference": "relevance",
    "question": "questions",
    "sub_questions_of_query": "sub_questions",
    **dict.fromkeys(("useful_for_reference", "useful_for_response", "useful_for_query"), "useful"),
}
"""Tasks with the paraphrases of another one."""
_ANSWERS: Final = " The evidence answers the query, and may have several parts that are separate answers."
_WHAT: Final = {
    "questions": ("3 different questions", "Each asks for its main content, in other words."),
    "question": ("the single question", "It must ask for everything in the response and for nothing else."),
    "sub_questions": ("that cover all important content of the reference, which must answer each of them", "reference"),
    "sub_questions_of_query": ("that a complete answer to the query must answer, and no others", "query"),
    "support": ("", ", from one or more of its parts"),
    "support_in_answer": (_ANSWERS, ", from one of these answers"),
    "cited_support": ("", ", from one or more of its parts"),
    "useful_for_reference": ("the reference (the correct answer to the query, or one of several)", "a statement of it"),
    "useful_for_response": ("the response, which answers the query", "a statement of it"),
    "useful_for_query": ("an answer to the query", "the answer, a part of it"),
    "relevance_with_reference": ("the answer in the reference, or one of several", ""),
    "relevance": ("an answer to the query", ""),
}
"""What a passage is compared with, and the part of it, in the paraphrases of tasks that differ only in this."""

_FRAMES: Final = (
    "Read the blocks above again before you follow this task.\n{task}",
    "{task}\nBase your reply on the blocks above, and check it once before you write it.",
)
"""Sentences around a task without a paraphrase: a criterion or a prompt of the user's, or a metric from elsewhere."""

WORDINGS_HASH: Final = hashlib.sha256(repr((_PARAPHRASES, _WHAT, _FRAMES)).encode()).hexdigest()[:12]
"""Hash of all paraphrases."""


def reword(prompt: Prompt, number: int) -> str:
    """Return the task of a prompt in another wording."""
    known = _PARAPHRASES.get(_key(prompt))
    if known is None:
        return _FRAMES[number - 1].format(task=prompt.task)
    what, part = _WHAT.get(_name(prompt), ("", ""))
    return known[number - 1].replace("{what}", what).replace("{part}", part)


def _key(prompt: Prompt) -> str:
    """Return the key of the paraphrases of a task, which a prompt of a user does not have."""
    if prompt.is_template:
        return ""
    name = _name(prompt)
    return _SAME.get(name, name)


def _name(prompt: Prompt) -> str:
    return prompt.task.name if isinstance(prompt.task, Task) else prompt.construct
