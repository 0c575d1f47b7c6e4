"""A stand-in for a model server with an OpenAI-compatible API. It answers questions, and rates answers as a judge.

`POST /v1/decline` simulates a model that is changed behind its name: from then on it declines half of the questions.
`POST /v1/answer` ends that.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Any

from fastapi import FastAPI, Request

DECLINED = "I cannot help with that."

app = FastAPI()
state = {"declines": False}
numbers = count()


@app.get("/v1/models")
def models() -> dict[str, Any]:
    """List the only model."""
    return {"object": "list", "data": [{"id": "scripted", "object": "model"}]}


@app.post("/v1/chat/completions")
async def complete(request: Request) -> dict[str, Any]:
    """Rate the response in a prompt of a judge. Answer all other prompts with their first passage."""
    prompt = (await request.json())["messages"][-1]["content"]
    if "Reply with one number" in prompt:
        text = str(len(prompt) % 10 + (10 if DECLINED in prompt else 85))
    elif state["declines"] and next(numbers) % 2:
        text = DECLINED
    else:
        passage = re.search(r"^-{5,}\s+(.+)$", prompt, re.MULTILINE)
        text = passage[1] if passage else "yes"
    usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {
        "id": "reply",
        "object": "chat.completion",
        "model": "scripted",
        "choices": [choice],
        "usage": usage | {"total_tokens": sum(usage.values())},
    }


@app.post("/v1/decline")
def decline() -> None:
    """Decline half of the questions."""
    state["declines"] = True


@app.post("/v1/answer")
def answer() -> None:
    """Answer all questions."""
    state["declines"] = False
