"""Two prompts, one data set: is the new one better, and may it be shipped? Needs no model, no key and no network."""

from __future__ import annotations

import ragstone

FACTS = {
    "When was the lighthouse lit?": "The lighthouse on Gull Rock was lit for the first time in 1874.",
    "Who keeps the lighthouse?": "The lighthouse on Gull Rock is kept by a foundation from Northport.",
    "When does the ferry leave?": "The ferry to Gull Rock leaves at nine and at three.",
    "What does the ferry cost?": "A return ticket for the ferry costs twelve crowns.",
}


def old_prompt(question: str, passage: str) -> str:
    """Answer with the old prompt: wordy, and not always sure."""
    if question.startswith("Who"):
        return "I am afraid that I do not know."
    return f"Thank you for asking! As far as I know, {passage.split(' ', 1)[1]}"


def new_prompt(question: str, passage: str) -> str:  # noqa: ARG001 - an application sees the question
    """Answer with the new prompt: it quotes the passage."""
    return passage


def evaluate(answer: object) -> ragstone.Experiment:
    """Ask everything, and score the answers. An id that stays the same is what samples are matched by."""
    rows = [
        {"id": f"{house}: {question}", "query": question, "contexts": [passage], "response": answer(question, passage)}
        for house in ("north", "south", "east")
        for question, passage in FACTS.items()
    ]
    # "lexical" compares words; name a model server to have answers judged.
    return ragstone.evaluate(rows, ["ccrs.cc", "ccrs.qr"], judge="lexical")


old, new = evaluate(old_prompt), evaluate(new_prompt)

comparison = ragstone.compare({"old prompt": old, "new prompt": new})
print(comparison)

print("\nMay it be shipped?")
try:
    ragstone.assert_no_regression(old, new, ["ccrs.cc"], margin=0.05)
    print("Yes: it is shown to lose less than 5 points of coherence.")
except AssertionError as table:
    print(table)
