CREATE SCHEMA ragstone;
CREATE TABLE ragstone.counters (
    name text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL
);
CREATE TABLE ragstone.drops (
    reason text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL
);
CREATE TABLE ragstone.meta (
    key text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL
);
CREATE TABLE ragstone.outbox (
    seq bigint NOT NULL,
    outcome_id text NOT NULL COLLATE pg_catalog."C",
    sink text NOT NULL COLLATE pg_catalog."C",
    state text DEFAULT 'pending'::text NOT NULL COLLATE pg_catalog."C",
    attempts bigint DEFAULT 0 NOT NULL,
    since double precision NOT NULL,
    next_try double precision NOT NULL,
    last_error text,
    CONSTRAINT outbox_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'sent'::text, 'skipped'::text, 'failed'::text])))
);
ALTER TABLE ragstone.outbox ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ragstone.outbox_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE ragstone.outcome_bodies (
    seq bigint NOT NULL,
    body text NOT NULL
);
CREATE TABLE ragstone.outcomes (
    seq bigint NOT NULL,
    outcome_id text NOT NULL COLLATE pg_catalog."C",
    sample_id text NOT NULL COLLATE pg_catalog."C",
    metric text NOT NULL COLLATE pg_catalog."C",
    metric_version text NOT NULL COLLATE pg_catalog."C",
    judge_hash text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    value double precision,
    stored_at double precision NOT NULL,
    CONSTRAINT outcomes_check CHECK (((value IS NULL) = (kind <> 'score'::text))),
    CONSTRAINT outcomes_kind_check CHECK ((kind = ANY (ARRAY['score'::text, 'not_applicable'::text, 'failure'::text])))
);
ALTER TABLE ragstone.outcomes ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ragstone.outcomes_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE ragstone.plan (
    name text NOT NULL COLLATE pg_catalog."C",
    version text NOT NULL COLLATE pg_catalog."C",
    judge_hash text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    finished_before bigint NOT NULL
);
CREATE TABLE ragstone.segments (
    name text NOT NULL COLLATE pg_catalog."C",
    next_offset bigint NOT NULL
);
CREATE TABLE ragstone.sinks (
    name text NOT NULL COLLATE pg_catalog."C",
    stopped text
);
CREATE TABLE ragstone.trace_bodies (
    seq bigint NOT NULL,
    body text NOT NULL
);
CREATE TABLE ragstone.traces (
    seq bigint NOT NULL,
    trace_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    partial integer DEFAULT 0 NOT NULL,
    status text,
    started_at double precision NOT NULL,
    received_at double precision NOT NULL,
    inclusion_probability double precision NOT NULL,
    name text,
    run_id text,
    otel_trace_id text,
    otel_span_id text,
    otel_sampled boolean,
    session_id text,
    user_id text,
    attempts bigint DEFAULT 0 NOT NULL,
    lease_owner text,
    lease_until double precision DEFAULT 0 NOT NULL,
    CONSTRAINT traces_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'scored'::text, 'not_applicable'::text, 'failed'::text, 'sampled_out'::text])))
);
ALTER TABLE ragstone.traces ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ragstone.traces_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
INSERT INTO ragstone.counters VALUES ('captured', 9);
INSERT INTO ragstone.counters VALUES ('duplicates', 0);
INSERT INTO ragstone.counters VALUES ('ignored:no request', 2);
INSERT INTO ragstone.drops VALUES ('queue_full', 3);
INSERT INTO ragstone.meta VALUES ('version', '2');
INSERT INTO ragstone.meta VALUES ('schema_version', '3');
INSERT INTO ragstone.meta VALUES ('ignored:no request', 'span 7');
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (2, 'ad596e52-1f6e-5705-8534-c5fa032610b5', 'otlp', 'pending', 0, 1795000002, 1795000002, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (4, 'f507ad3c-c190-592a-80ec-4fbb265842f0', 'otlp', 'pending', 0, 1795000002, 1795000002, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (6, '6730c38f-0494-59c0-96a5-4c9c10ccfdc8', 'otlp', 'pending', 0, 1795000003, 1795000003, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (8, '43b8418f-07b8-56f8-a2d4-ba77eb603833', 'otlp', 'pending', 0, 1795000003, 1795000003, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (10, '0cdb2b00-0b82-5960-b7ca-221d4e40ab1e', 'otlp', 'pending', 0, 1795000004, 1795000004, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (11, '4cb72465-e752-5845-8668-629f3dea9984', 'jsonl:a', 'pending', 0, 1795000004, 1795000004, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (12, '4cb72465-e752-5845-8668-629f3dea9984', 'otlp', 'pending', 0, 1795000004, 1795000004, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (13, 'f33b3a4c-4d46-5f50-b418-9c4857dd49cd', 'jsonl:a', 'pending', 0, 1795000005, 1795000005, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (14, 'f33b3a4c-4d46-5f50-b418-9c4857dd49cd', 'otlp', 'pending', 0, 1795000005, 1795000005, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (1, 'ad596e52-1f6e-5705-8534-c5fa032610b5', 'jsonl:a', 'sent', 1, 1795000002, 1795000002, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (3, 'f507ad3c-c190-592a-80ec-4fbb265842f0', 'jsonl:a', 'sent', 1, 1795000002, 1795000002, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (5, '6730c38f-0494-59c0-96a5-4c9c10ccfdc8', 'jsonl:a', 'skipped', 1, 1795000003, 1795000003, 'no target');
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (7, '43b8418f-07b8-56f8-a2d4-ba77eb603833', 'jsonl:a', 'failed', 1, 1795000003, 1795000003, '400 bad request');
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (9, '0cdb2b00-0b82-5960-b7ca-221d4e40ab1e', 'jsonl:a', 'pending', 1, 1795000004, 1795000036, '503');
INSERT INTO ragstone.outcome_bodies VALUES (1, '{"schema_version":3,"sample_id":"t0","metric":"ccrs.cc","metric_version":"2","judge":"judge-1","judge_hash":"j","prompt_hash":"p","usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"score","value":0.75,"interval":{"low":0.5,"high":0.9,"confidence_level":0.9,"method":"betting"},"method":"single_reply","n":1,"explanation":null,"details":{},"raw":"75"}');
INSERT INTO ragstone.outcome_bodies VALUES (2, '{"schema_version":3,"sample_id":"t0","metric":"exact","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"score","value":1.0,"interval":null,"method":"exact","n":1,"explanation":null,"details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (3, '{"schema_version":3,"sample_id":"t1","metric":"ccrs.cc","metric_version":"2","judge":"judge-1","judge_hash":"j","prompt_hash":"p","usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"failure","kind":"timeout","reason":"60 s","details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (4, '{"schema_version":3,"sample_id":"t1","metric":"exact","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"score","value":0.0,"interval":null,"method":"exact","n":1,"explanation":null,"details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (5, '{"schema_version":3,"sample_id":"t2","metric":"ccrs.cc","metric_version":"2","judge":"judge-1","judge_hash":"j","prompt_hash":"p","usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"not_applicable","reason":"no contexts","missing":["contexts"]}');
INSERT INTO ragstone.outcome_bodies VALUES (6, '{"schema_version":3,"sample_id":"t2","metric":"exact","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":["reference"]}');
INSERT INTO ragstone.outcome_bodies VALUES (7, '{"schema_version":3,"sample_id":"t3","metric":"exact","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"score","value":0.25,"interval":null,"method":"exact","n":1,"explanation":null,"details":{},"raw":null}');
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (1, 'ad596e52-1f6e-5705-8534-c5fa032610b5', 't0', 'ccrs.cc', '2', 'j', 'score', 0.75, 1795000002);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (2, 'f507ad3c-c190-592a-80ec-4fbb265842f0', 't0', 'exact', '1', '', 'score', 1, 1795000002);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (3, '6730c38f-0494-59c0-96a5-4c9c10ccfdc8', 't1', 'ccrs.cc', '2', 'j', 'failure', NULL, 1795000003);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (4, '43b8418f-07b8-56f8-a2d4-ba77eb603833', 't1', 'exact', '1', '', 'score', 0, 1795000003);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (5, '0cdb2b00-0b82-5960-b7ca-221d4e40ab1e', 't2', 'ccrs.cc', '2', 'j', 'not_applicable', NULL, 1795000004);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (6, '4cb72465-e752-5845-8668-629f3dea9984', 't2', 'exact', '1', '', 'not_applicable', NULL, 1795000004);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (7, 'f33b3a4c-4d46-5f50-b418-9c4857dd49cd', 't3', 'exact', '1', '', 'score', 0.25, 1795000005);
INSERT INTO ragstone.plan VALUES ('exact', '1', '', 0, 0);
INSERT INTO ragstone.plan VALUES ('ccrs.cc', '2', 'j', 1, 0);
INSERT INTO ragstone.segments VALUES ('segment-1', 900);
INSERT INTO ragstone.sinks VALUES ('jsonl:a', NULL);
INSERT INTO ragstone.sinks VALUES ('otlp', '401');
INSERT INTO ragstone.trace_bodies VALUES (1, '{"schema_version":3,"trace_id":"t0","name":"qa","source":"langchain","run_id":null,"parent_run_id":null,"otel_trace_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","otel_span_id":"bbbbbbbbbbbbbbbb","otel_sampled":true,"session_id":"s0","user_id":"u","query":"Question 0?","standalone_query":null,"retrievals":[{"query":"q","passages":[{"text":"Passage 0.","id":"p0","score":null,"rank":null,"relevance":null,"metadata":{}}],"name":null,"stages":[]}],"contexts":null,"response":"Answer 0.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1795000000.0,"ended_at":1795000000.0,"first_token_s":null,"model":null,"usage":null,"tags":["blue"],"metadata":{"topic":"tea","release":"2.4"},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (2, '{"schema_version":3,"trace_id":"t1","name":"qa","source":"langchain","run_id":null,"parent_run_id":null,"otel_trace_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","otel_span_id":"bbbbbbbbbbbbbbbb","otel_sampled":true,"session_id":"s1","user_id":"u","query":"Question 1?","standalone_query":null,"retrievals":[{"query":"q","passages":[{"text":"Passage 1.","id":"p1","score":null,"rank":null,"relevance":null,"metadata":{}}],"name":null,"stages":[]}],"contexts":null,"response":"Answer 1.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999940.0,"ended_at":1795000000.0,"first_token_s":null,"model":null,"usage":null,"tags":["blue"],"metadata":{"topic":"tea","release":"2.4"},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (3, '{"schema_version":3,"trace_id":"t2","name":"qa","source":"langchain","run_id":null,"parent_run_id":null,"otel_trace_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","otel_span_id":"bbbbbbbbbbbbbbbb","otel_sampled":true,"session_id":"s0","user_id":"u","query":"Question 2?","standalone_query":null,"retrievals":[{"query":"q","passages":[{"text":"Passage 2.","id":"p2","score":null,"rank":null,"relevance":null,"metadata":{}}],"name":null,"stages":[]}],"contexts":null,"response":"Answer 2.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999880.0,"ended_at":1795000000.0,"first_token_s":null,"model":null,"usage":null,"tags":["blue"],"metadata":{"topic":"tea","release":"2.4"},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (4, '{"schema_version":3,"trace_id":"t3","name":"qa","source":"langchain","run_id":null,"parent_run_id":null,"otel_trace_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","otel_span_id":"bbbbbbbbbbbbbbbb","otel_sampled":true,"session_id":"s1","user_id":"u","query":"Question 3?","standalone_query":null,"retrievals":[{"query":"q","passages":[{"text":"Passage 3.","id":"p3","score":null,"rank":null,"relevance":null,"metadata":{}}],"name":null,"stages":[]}],"contexts":null,"response":"Answer 3.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999820.0,"ended_at":1795000000.0,"first_token_s":null,"model":null,"usage":null,"tags":["blue"],"metadata":{"topic":"tea","release":"2.4"},"inclusion_probability":0.5,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (5, '{"schema_version":3,"trace_id":"t4","name":"qa","source":"langchain","run_id":null,"parent_run_id":null,"otel_trace_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","otel_span_id":"bbbbbbbbbbbbbbbb","otel_sampled":true,"session_id":"s0","user_id":"u","query":"Question 4?","standalone_query":null,"retrievals":[{"query":"q","passages":[{"text":"Passage 4.","id":"p4","score":null,"rank":null,"relevance":null,"metadata":{}}],"name":null,"stages":[]}],"contexts":null,"response":"Answer 4.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999760.0,"ended_at":1795000000.0,"first_token_s":null,"model":null,"usage":null,"tags":["blue"],"metadata":{"topic":"tea","release":"2.4"},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (5, 't4', 'pending', 0, 'ok', 1794999760, 1795000001, 1, 'qa', NULL, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbb', true, 's0', 'u', 0, NULL, 0);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (6, 't9', 'sampled_out', 0, NULL, 1795000000, 1795000001, 0.5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (1, 't0', 'scored', 0, 'ok', 1795000000, 1795000001, 1, 'qa', NULL, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbb', true, 's0', 'u', 0, NULL, 0);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (2, 't1', 'failed', 0, 'ok', 1794999940, 1795000001, 1, 'qa', NULL, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbb', true, 's1', 'u', 0, NULL, 0);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (3, 't2', 'not_applicable', 0, 'ok', 1794999880, 1795000001, 1, 'qa', NULL, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbb', true, 's0', 'u', 0, NULL, 0);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (4, 't3', 'pending', 1, 'ok', 1794999820, 1795000001, 0.5, 'qa', NULL, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbb', true, 's1', 'u', 1, 'worker-1', 1795000067);
SELECT pg_catalog.setval('ragstone.outbox_seq_seq', 14, true);
SELECT pg_catalog.setval('ragstone.outcomes_seq_seq', 7, true);
SELECT pg_catalog.setval('ragstone.traces_seq_seq', 6, true);
ALTER TABLE ONLY ragstone.counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (name);
ALTER TABLE ONLY ragstone.drops
    ADD CONSTRAINT drops_pkey PRIMARY KEY (reason);
ALTER TABLE ONLY ragstone.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (key);
ALTER TABLE ONLY ragstone.outbox
    ADD CONSTRAINT outbox_outcome_id_sink_key UNIQUE (outcome_id, sink);
ALTER TABLE ONLY ragstone.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY ragstone.outcome_bodies
    ADD CONSTRAINT outcome_bodies_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY ragstone.outcomes
    ADD CONSTRAINT outcomes_outcome_id_key UNIQUE (outcome_id);
ALTER TABLE ONLY ragstone.outcomes
    ADD CONSTRAINT outcomes_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY ragstone.outcomes
    ADD CONSTRAINT outcomes_sample_id_metric_metric_version_judge_hash_key UNIQUE (sample_id, metric, metric_version, judge_hash);
ALTER TABLE ONLY ragstone.plan
    ADD CONSTRAINT plan_pkey PRIMARY KEY (name);
ALTER TABLE ONLY ragstone.segments
    ADD CONSTRAINT segments_pkey PRIMARY KEY (name);
ALTER TABLE ONLY ragstone.sinks
    ADD CONSTRAINT sinks_pkey PRIMARY KEY (name);
ALTER TABLE ONLY ragstone.trace_bodies
    ADD CONSTRAINT trace_bodies_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY ragstone.traces
    ADD CONSTRAINT traces_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY ragstone.traces
    ADD CONSTRAINT traces_trace_id_key UNIQUE (trace_id);
CREATE INDEX due_deliveries ON ragstone.outbox USING btree (sink, next_try, seq) WHERE (state = 'pending'::text);
CREATE INDEX outbox_by_state ON ragstone.outbox USING btree (sink, state);
CREATE INDEX outcomes_by_metric ON ragstone.outcomes USING btree (metric, metric_version, judge_hash, kind, value);
CREATE INDEX traces_by_state ON ragstone.traces USING btree (state);
CREATE INDEX traces_by_time ON ragstone.traces USING btree (started_at);
CREATE INDEX traces_leased ON ragstone.traces USING btree (lease_owner) WHERE ((state = 'pending'::text) AND (lease_owner IS NOT NULL));
CREATE INDEX traces_partial ON ragstone.traces USING btree (trace_id) WHERE (partial = 1);
CREATE INDEX traces_pending ON ragstone.traces USING btree (seq) WHERE (state = 'pending'::text);
ALTER TABLE ONLY ragstone.outbox
    ADD CONSTRAINT outbox_outcome_id_fkey FOREIGN KEY (outcome_id) REFERENCES ragstone.outcomes(outcome_id);
ALTER TABLE ONLY ragstone.outcome_bodies
    ADD CONSTRAINT outcome_bodies_seq_fkey FOREIGN KEY (seq) REFERENCES ragstone.outcomes(seq);
ALTER TABLE ONLY ragstone.outcomes
    ADD CONSTRAINT outcomes_sample_id_fkey FOREIGN KEY (sample_id) REFERENCES ragstone.traces(trace_id);
ALTER TABLE ONLY ragstone.trace_bodies
    ADD CONSTRAINT trace_bodies_seq_fkey FOREIGN KEY (seq) REFERENCES ragstone.traces(seq);
