"""Ask the service questions, each in a session of its own: `python ask.py 200`."""

from __future__ import annotations

import sys
from uuid import uuid4

import httpx

QUESTIONS = ["How many passengers does the Gannet carry?", "Must dogs be on a lead?", "What costs a motorcycle?"]

answered = 0
with httpx.Client(base_url="http://127.0.0.1:8080", timeout=60) as client:
    for number in range(int(sys.argv[1])):
        question = {"question": QUESTIONS[number % len(QUESTIONS)], "session_id": str(uuid4())}
        answered += client.post("/ask", json=question).is_success
print(f"{answered} answered")
