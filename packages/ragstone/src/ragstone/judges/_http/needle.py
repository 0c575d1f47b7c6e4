"""Check of an endpoint with one long prompt: does the model read the beginning of it?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ragstone.errors import JudgeError
from ragstone.judges._http.errors import RequestRefusedError
from ragstone.judges._http.whole_prompts import least_tokens
from ragstone.judges._render import Message

_LINES: Final = (1000, 100)
"""Lengths of the prompt in lines of 6 words: about 8,000 tokens, which exceeds the default limits of Ollama (2,048 and
4,096), and 800 tokens if the server refuses the first length."""
_CODE: Final = "marlin"

Chat = Callable[[list[Message]], Awaitable[Mapping[str, Any]]]


async def check_whole_prompts(chat: Chat) -> tuple[bool | None, str]:
    """Return whether a long prompt is read from its beginning (None if that is unknown), and what was observed.

    The beginning contains a code word, and the end asks for it. The number of tokens that the reply counts decides if
    the model does not repeat the code word, because small models fail at this too. Costs one request of about 8,000 tokens.
    """
    for n_lines in _LINES:
        content = _prompt(n_lines)
        try:
            reply = await chat([{"role": "user", "content": content}])
        except RequestRefusedError:
            continue
        except JudgeError as error:
            if error.kind != "prompt_truncated":
                raise
            return False, str(error)
        text = str(reply["choices"][0]["message"].get("content") or "")
        n = (reply.get("usage") or {}).get("prompt_tokens")
        counted = f"{n} tokens counted" if isinstance(n, int) and n > 0 else "tokens are not counted"
        if _CODE in text.lower():
            return True, f"the model repeated a word from the beginning of a long prompt ({counted})"
        if isinstance(n, int) and n >= least_tokens(content):
            return True, f"{counted}, but the model did not repeat a word from the beginning ({text!r:.40})"
        return None, f"the model did not repeat a word from the beginning of a long prompt ({counted})"
    return True, "longer prompts are refused with an error"


def _prompt(n_lines: int) -> str:
    lines = "\n".join("nothing to remember in this line" for _ in range(n_lines))
    return f"The code word is {_CODE}.\n{lines}\nWhich code word is in the first line? Reply with this word only."
