"""Worked examples of the RAGAS metrics."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._card import WorkedExample

FAITHFULNESS: Final = WorkedExample(
    row={
        "contexts": ["42CrMo4 is a tempered steel of 900-1100 MPa and 28-34 HRC.", "It can be welded when preheated."],
        "response": "42CrMo4 has 900-1100 MPa and 28-34 HRC, can be welded when preheated, and does not rust.",
    },
    replies={
        "claims": {
            "items": [
                "42CrMo4 has a tensile strength of 900-1100 MPa.",
                "42CrMo4 has a hardness of 28-34 HRC.",
                "42CrMo4 can be welded when preheated.",
                "42CrMo4 does not rust.",
            ]
        },
        "entailment": {"1": 1, "2": 1, "3": 1, "4": 0},
    },
    value=0.75,
    steps="The response makes 4 claims. The passages support all but the last: 3 / 4 = 0.75.",
)
ANSWER_RELEVANCY: Final = WorkedExample(
    row={
        "query": "How do I tune a PID controller?",
        "response": "By the rules of Ziegler and Nichols, from the gain at which the loop starts to swing.",
    },
    replies={
        "answer_questions": {
            "items": [
                "How is a PID controller tuned by Ziegler and Nichols?",
                "From what do Ziegler and Nichols find the parameters?",
                "Who wrote tuning rules for controllers?",
            ]
        },
        "question_equivalence": {"1": 92, "2": 68, "3": 25},
    },
    value=0.6167,
    steps="The response answers three questions, which the judge compares with the query: (92 + 68 + 25) / 3 / 100 = 0.617.",
)
CONTEXT_PRECISION: Final = WorkedExample(
    row={
        "query": "How tall is the lighthouse of Northport?",
        "contexts": [
            "The lighthouse is 31 meters tall.",
            "Ferries leave at noon.",
            "It overlooks the bay by 31 meters.",
        ],
        "reference": "31 meters",
    },
    replies={"passage_relevance": (1, 0, 1)},
    value=0.8333,
    steps="Passages 1 and 3 are useful. The precision is 1/1 at rank 1 and 2/3 at rank 3: (1 + 0.667) / 2 = 0.833.",
)
CONTEXT_RECALL: Final = WorkedExample(
    row={
        "query": "Which defects does a weld have?",
        "contexts": ["Welds show porosity and undercut.", "Look for lack of fusion and for spatter."],
        "reference": "Porosity, undercut, lack of fusion, cracks, spatter and root defects.",
    },
    replies={
        "claims": {
            "items": [
                "Porosity is a defect of welds.",
                "Undercut is a defect of welds.",
                "Lack of fusion is a defect of welds.",
                "Cracks are a defect of welds.",
                "Spatter is a defect of welds.",
                "Root defects are defects of welds.",
            ]
        },
        "entailment": {"1": 1, "2": 1, "3": 1, "4": 0, "5": 1, "6": 0},
    },
    value=0.6667,
    steps="The reference makes 6 claims. The passages support 4, but not cracks and root defects: 4 / 6 = 0.667.",
)
