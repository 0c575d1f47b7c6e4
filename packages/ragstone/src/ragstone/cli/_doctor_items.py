"""Items of `ragstone doctor`: answers that are right or wrong, to find judges that do not distinguish them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Final

from ragstone._util.quantities import count
from ragstone.errors import JudgeError, JudgeUnavailableError
from ragstone.judges import Judge, NumberReply, Prompt, metered
from ragstone.stats import wilson_interval

LEAST_AGREED: Final = 19
"""Number of the 30 items on which a usable judge agrees at least.

A judge that is right on each item with probability 0.8 agrees on fewer with probability 0.0095. One that guesses agrees
on as many with probability 0.1002. If the probability differs between items, the first number holds for their mean
(Hoeffding 1956).
"""
_LEAST_CERTAIN: Final = 21
"""Agreements from which the 95% interval of kappa is above 0."""
_THRESHOLD: Final = 50
_TASK: Final = (
    "Rate if the response answers the query correctly according to the passage. 100: the passage states this answer. "
    "0: the passage contradicts it, or does not contain it."
)
# In each paragraph: a query, a passage, the right answer and a wrong one. All names and numbers are invented.
_TEXTS: Final = """
When does the Marlo Museum close on Fridays?
The Marlo Museum is open daily from 10:00 to 17:00. On Fridays it stays open until 20:00.
At 20:00. | At 17:00.

How long is the warranty of the Tarn 4 kettle?
The Tarn 3 kettle has a warranty of one year. The Tarn 4 kettle has a warranty of three years.
Three years. | One year.

Who designed the bridge in Ostvik?
The bridge in Ostvik was designed by the engineer Mira Dahl. Mayor Jon Reves opened it in 1962.
Mira Dahl designed it. | Jon Reves designed it.

Is the red trail on Mount Keld open in winter?
All trails on Mount Keld are open in summer. In winter only the blue trail is open.
No, only the blue trail is open in winter. | Yes, the red trail is open in winter.

How many seats does the Lindal theater have?
The Lindal theater has 240 seats in the hall and 60 seats on the balcony, which makes 300 seats in total.
It has 300 seats. | It has 240 seats.

What must be done before the filter of the P20 pump is removed?
Switch off the P20 pump and close the valve before you remove the filter. Afterwards, rinse the filter with water.
The pump must be switched off and the valve closed. | The filter must be rinsed with water.

Why was the ferry to Sandholm canceled on Monday?
The ferry to Sandholm was canceled on Monday because of strong wind. On Tuesday it was late because of a strike.
Because of strong wind. | Because of a strike.

In which year did Brenna Foods leave the city of Talmont?
Brenna Foods was founded in Talmont in 1931. It moved its last office from there to Vesk in 2004.
In 2004. | In 1931.

Can employees of Norvane carry over vacation days?
Employees of Norvane may carry over up to five vacation days to the next year. Sick days cannot be carried over.
Yes, up to five days. | No, they cannot be carried over.

Which river flows through both Amsel and Orlen?
The Drou flows through Amsel and joins the Iva there. The Iva flows through Amsel and Orlen to the sea.
The Iva. | The Drou.

What is the maximum weight of a parcel to the island of Fennay?
Parcels to the mainland may weigh up to 30 kg. Parcels to the islands, such as Fennay, may weigh up to 10 kg.
10 kg. | 30 kg.

Did the new catalyst make the reaction in the Tessel study faster?
In the Tessel study the new catalyst did not change the speed of the reaction, but it reduced the waste by a third.
No, the speed did not change. | Yes, it made the reaction a third faster.

Which of the two lamps, Alva or Benno, uses less power?
The lamp Alva uses 9 watts and costs 14 euros. The lamp Benno uses 6 watts and costs 25 euros.
Benno uses less power. | Alva uses less power.

Who may borrow maps from the Quill archive?
Books of the Quill archive may be borrowed by anyone with a card. Maps may be borrowed by members of staff only.
Only members of staff. | Anyone with a card.

How many children did the painter Ilse Marren have?
Ilse Marren grew up with four brothers. She married in 1888, had two daughters, and painted until her death.
Two. | Four.
"""
ITEMS: Final = tuple(tuple(re.split(r"\n| \| ", paragraph)) for paragraph in _TEXTS.strip().split("\n\n"))
"""Query, passage, right answer and wrong answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsResult:
    """The ratings of a judge for all items."""

    n: int
    n_agreed: int
    """Right answers above the middle of the scale and wrong ones below it."""
    n_unusable: int
    """Items without a usable reply, which do not agree."""
    n_forced: int
    """Replies that were constrained to a number."""
    n_ordered: int
    """Pairs whose right answer has the higher rating."""
    n_reversed: int
    """Pairs whose wrong answer has the higher rating."""
    calls: int
    seconds: float

    @property
    def is_usable(self) -> bool:
        """Return whether the judge rates right answers above wrong ones more often than by chance."""
        # The second condition is a sign test of the pairs: a judge that guesses meets it with a probability below 0.01.
        return self.n_agreed >= LEAST_AGREED or self.n_ordered >= 7 + 3 * self.n_reversed

    @property
    def kappa(self) -> tuple[float, float, float]:
        """Cohen's kappa with the labels, of which half are right, and its 95% interval."""
        share = wilson_interval(self.n_agreed, self.n)
        return 2 * share.value - 1, 2 * share.low - 1, 2 * share.high - 1

    def as_text(self) -> str:
        """Return the result as one line."""
        value, low, high = self.kappa
        notes = f"; {self.n_unusable} without a usable reply" if self.n_unusable else ""
        notes += f"; {self.n_forced} forced to a number" if self.n_forced else ""
        return (
            f"agrees on {self.n_agreed} of {self.n} (kappa {value:.2f} [{low:.2f}, {high:.2f}]{notes}): "
            f"{self._verdict()} ({count(self.calls, 'call')}, {self.seconds:.1f} s)"
        )

    def _verdict(self) -> str:
        if not self.is_usable:
            return "not better than chance. Use another judge"
        if self.n_agreed < LEAST_AGREED:
            return (
                f"rates {self.n_ordered} of {self.n // 2} right answers above the wrong one, but not on two sides of "
                f"{_THRESHOLD}. Compare its scores, and do not read them as shares of correct answers"
            )
        if self.n_agreed < _LEAST_CERTAIN:
            return "this could be chance. Check it with labels of your own (ragstone lab judge-card)"
        return "better than chance"


async def rate_items(judge: Judge) -> ItemsResult:
    """Ask a judge to rate the answers of all items.

    Raise JudgeUnavailableError if the endpoint does not reply to one of them.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    with metered() as meter:
        replies = await asyncio.gather(
            *(_rate(judge, query, passage, answer) for query, passage, *answers in ITEMS for answer in answers)
        )
    pairs = list(zip(replies[::2], replies[1::2], strict=True))
    ratings = [(right.value, wrong.value) for right, wrong in pairs if right and wrong]
    return ItemsResult(
        n=len(replies),
        n_agreed=sum(
            (right is not None and right.value > _THRESHOLD) + (wrong is not None and wrong.value < _THRESHOLD)
            for right, wrong in pairs
        ),
        n_unusable=replies.count(None),
        n_forced=sum(reply is not None and reply.method.startswith("forced") for reply in replies),
        n_ordered=sum(right > wrong for right, wrong in ratings),
        n_reversed=sum(right < wrong for right, wrong in ratings),
        calls=meter.total.calls,
        seconds=round(loop.time() - started, 1),
    )


async def _rate(judge: Judge, query: str, passage: str, answer: str) -> NumberReply | None:
    fields = {"passage": passage, "query": query, "response": answer}
    try:
        return await judge.ask_number(Prompt(construct="correctness", task=_TASK, fields=fields))
    except JudgeUnavailableError:
        raise
    except JudgeError:
        return None
