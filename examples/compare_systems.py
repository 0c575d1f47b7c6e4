"""Two prompts, one data set: is the new one better, and may it be shipped? Needs no model, no key and no network."""

from __future__ import annotations

import ragstone

LIGHTHOUSES = (
    # Where it is, when it was lit, who keeps it, when the ferry leaves, and what a ticket costs.
    ("Gull Rock", "1874", "a foundation from Northport", "nine and at three", "twelve"),
    ("Seal Point", "1902", "the harbour office", "ten and at four", "nine"),
    ("Long Reef", "1931", "two retired captains", "noon", "fifteen"),
)
FACTS = {
    question: passage
    for place, year, keeper, times, price in LIGHTHOUSES
    for question, passage in (
        (f"When was the lighthouse on {place} lit?", f"The lighthouse on {place} was first lit in {year}."),
        (f"Who keeps the lighthouse on {place}?", f"The lighthouse on {place} is kept by {keeper}."),
        (f"When does the ferry to {place} leave?", f"The ferry to {place} leaves at {times}."),
        (f"What does the ferry to {place} cost?", f"A return ticket for the ferry to {place} costs {price} crowns."),
    )
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
        {"id": question, "query": question, "contexts": [passage], "response": answer(question, passage)}
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
