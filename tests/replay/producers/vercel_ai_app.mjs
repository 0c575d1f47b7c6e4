// Vercel AI SDK: its own spans (`ai.*`) of a prompt with passages, an agent with a tool, streams and a failure.
// Packages are looked up from the working directory: ai, @ai-sdk/openai-compatible, zod and OpenTelemetry's SDK.
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";

const require = createRequire(`${process.cwd()}/`);
const { generateText, streamText, stepCountIs, tool } = require("ai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { z } = require("zod");
const { context } = require("@opentelemetry/api");
const { AsyncLocalStorageContextManager } = require("@opentelemetry/context-async-hooks");
const { JsonTraceSerializer } = require("@opentelemetry/otlp-transformer");
const { resourceFromAttributes } = require("@opentelemetry/resources");
const { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } = require("@opentelemetry/sdk-trace-base");

const PASSAGES = [
  { id: "doc-3", text: "The north tower of the lighthouse is 41 metres high and was built in 1902.", score: 0.875 },
  { id: "doc-9", text: "Its stairs have 196 steps up to the gallery, where the lift stops as well.", score: 0.5 },
  { id: "doc-5", text: "The lamp of the lighthouse was last replaced in the spring of 1987.", score: 0.25 },
];
const [TOWER, STAIRS, LAMP, FAILS] = [
  "How high is the north tower?",
  "How many steps lead to the gallery?",
  "When was the lamp replaced?",
  "When does the model fail?",
];

context.setGlobalContextManager(new AsyncLocalStorageContextManager());
const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({
  resource: resourceFromAttributes({ "service.name": "lighthouse" }),
  spanProcessors: [new SimpleSpanProcessor(exporter)],
});
const tracer = provider.getTracer("ai");
const openai = createOpenAICompatible({ name: "keeper", baseURL: process.env.OPENAI_BASE_URL, apiKey: "none" });
const model = openai("keeper-1");

const telemetry = (functionId) => ({
  isEnabled: true,
  functionId,
  tracer,
  metadata: { sessionId: "s-1", userId: "u-1", release: "2.0" },
});
const shelf = (result) => ({
  search_shelf: tool({
    description: "Search the shelf.",
    inputSchema: z.object({ query: z.string() }),
    execute: async () => result,
  }),
});
const prompt = (question) =>
  `Answer from these passages only.\n\n${PASSAGES[0].text}\n\n${PASSAGES[1].text}\n\nQuestion: ${question}`;

async function drained(result) {
  for await (const _ of result.textStream) {
  }
}

await generateText({ model, prompt: prompt(TOWER), experimental_telemetry: telemetry("prompt") });
const stopWhen = stepCountIs(4);
await generateText({
  model, stopWhen, system: "Answer from the shelf.", prompt: STAIRS,
  tools: shelf([PASSAGES[1], PASSAGES[0]]), experimental_telemetry: telemetry("agent"),
});
await drained(streamText({
  model, stopWhen, messages: [{ role: "user", content: LAMP }],
  tools: shelf(`${PASSAGES[2].text}\n\n${PASSAGES[0].text}`), experimental_telemetry: telemetry("stream"),
}));
try {
  await generateText({ model, prompt: FAILS, maxRetries: 0, experimental_telemetry: telemetry("fail") });
} catch (error) {
  if (!String(error).includes("lamp")) throw error;
}
// The application's own span around its steps is what makes them one trace.
await tracer.startActiveSpan("POST /api/chat", async (span) => {
  await drained(streamText({ model, prompt: prompt(TOWER), experimental_telemetry: telemetry("server") }));
  span.end();
});

const byTrace = new Map();
for (const span of exporter.getFinishedSpans()) {
  const { traceId } = span.spanContext();
  byTrace.set(traceId, [...(byTrace.get(traceId) ?? []), span]);
}
const decoder = new TextDecoder();
const lines = [...byTrace.values()].map((spans) => decoder.decode(JsonTraceSerializer.serializeRequest(spans)));
writeFileSync(process.env.RECORDING, lines.map((line) => `${line}\n`).join(""));
