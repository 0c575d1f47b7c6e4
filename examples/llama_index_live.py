"""Capture a LlamaIndex query engine live, and look at what was scored. Needs no model, no key and no network."""

from __future__ import annotations

from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode

from llama_index.observability.ragstone import RagstoneInstrumentor
from ragstone import Monitor

LIBRARY = [
    "The lighthouse on Gull Rock was lit for the first time in 1874.",
    "The ferry to Gull Rock leaves at nine and at three.",
]

# Your application, as it is. Replace the stand-ins by your embeddings and your model.
index = VectorStoreIndex([TextNode(text=text) for text in LIBRARY], embed_model=MockEmbedding(embed_dim=4))
query_engine = index.as_query_engine(MockLLM(max_tokens=8), similarity_top_k=2)

with Monitor(judge="lexical", metrics=["ccrs"], store="ragstone.db", app="gull-rock") as monitor:
    # One instrumentor for the whole process, before the first request.
    instrumentor = RagstoneInstrumentor(monitor)
    instrumentor.start_registering()

    with instrument_tags({"session_id": "ada"}):
        print(query_engine.query("When was the lighthouse lit?"))
        print(query_engine.query("When does the ferry leave?"))
    instrumentor.stop_registering()

    monitor.drain(timeout_s=30)
    total = monitor.ledger().total
    print(f"captured {total.captured}, scored {total.scored}, failed {total.failed}, pending {total.pending}")
