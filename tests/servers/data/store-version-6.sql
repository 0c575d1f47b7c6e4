CREATE SCHEMA ragstone;
CREATE TABLE ragstone.alarms (
    number bigint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    body text NOT NULL,
    CONSTRAINT alarms_state_check CHECK ((state = ANY (ARRAY['open'::text, 'recovered'::text, 'accepted'::text])))
);
CREATE TABLE ragstone.counters (
    name text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL
);
CREATE TABLE ragstone.drops (
    reason text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL
);
CREATE TABLE ragstone.label_frame (
    trace_id text NOT NULL COLLATE pg_catalog."C",
    probability double precision NOT NULL,
    "position" bigint,
    CONSTRAINT label_frame_probability_check CHECK (((probability > (0)::double precision) AND (probability <= (1)::double precision)))
);
CREATE TABLE ragstone.labels (
    seq bigint NOT NULL,
    trace_id text NOT NULL COLLATE pg_catalog."C",
    author text NOT NULL COLLATE pg_catalog."C",
    value double precision NOT NULL,
    labeled_at double precision NOT NULL,
    CONSTRAINT labels_value_check CHECK (((value >= (0)::double precision) AND (value <= (1)::double precision)))
);
ALTER TABLE ragstone.labels ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ragstone.labels_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE ragstone.meta (
    key text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL
);
CREATE TABLE ragstone.outbox (
    seq bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    item_id text NOT NULL COLLATE pg_catalog."C",
    sink text NOT NULL COLLATE pg_catalog."C",
    state text DEFAULT 'pending'::text NOT NULL COLLATE pg_catalog."C",
    attempts bigint DEFAULT 0 NOT NULL,
    since double precision NOT NULL,
    next_try double precision NOT NULL,
    last_error text,
    CONSTRAINT outbox_kind_check CHECK ((kind = ANY (ARRAY['outcome'::text, 'alarm'::text]))),
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
CREATE TABLE ragstone.streams (
    id bigint NOT NULL,
    app text NOT NULL COLLATE pg_catalog."C",
    metric text NOT NULL COLLATE pg_catalog."C",
    metric_version text NOT NULL COLLATE pg_catalog."C",
    judge_hash text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    state text,
    CONSTRAINT streams_kind_check CHECK ((kind = ANY (ARRAY['score'::text, 'failures'::text])))
);
ALTER TABLE ragstone.streams ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ragstone.streams_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
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
    app text,
    release text,
    environment text,
    attempts bigint DEFAULT 0 NOT NULL,
    lease_owner text,
    lease_until double precision DEFAULT 0 NOT NULL,
    text_removed_at double precision,
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
CREATE TABLE ragstone.watch_queue (
    seq bigint NOT NULL,
    trace_id text NOT NULL COLLATE pg_catalog."C",
    app text NOT NULL,
    session text NOT NULL,
    requested_at double precision NOT NULL,
    probability double precision NOT NULL,
    metric text NOT NULL COLLATE pg_catalog."C",
    metric_version text NOT NULL COLLATE pg_catalog."C",
    judge_hash text NOT NULL COLLATE pg_catalog."C",
    value double precision
);
ALTER TABLE ragstone.watch_queue ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ragstone.watch_queue_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE ragstone.watch_units (
    seq bigint NOT NULL,
    stream bigint NOT NULL,
    session text NOT NULL,
    closed_at double precision NOT NULL,
    value double precision,
    weight double precision NOT NULL,
    failed_weight double precision NOT NULL,
    p_min double precision NOT NULL,
    gap_s double precision,
    worst_trace text NOT NULL COLLATE pg_catalog."C",
    worst_value double precision,
    labels text
);
ALTER TABLE ragstone.watch_units ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ragstone.watch_units_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
INSERT INTO ragstone.alarms VALUES (1, 'open', '{"x": 1}');
INSERT INTO ragstone.alarms VALUES (2, 'open', '{"x": 2}');
INSERT INTO ragstone.counters VALUES ('captured', 11);
INSERT INTO ragstone.counters VALUES ('duplicates', 1);
INSERT INTO ragstone.counters VALUES ('ignored:only embeddings', 2);
INSERT INTO ragstone.drops VALUES ('queue full', 3);
INSERT INTO ragstone.label_frame VALUES ('scored', 0.5, 0);
INSERT INTO ragstone.labels OVERRIDING SYSTEM VALUE VALUES (1, 'scored', 'ann', 1, 60);
INSERT INTO ragstone.meta VALUES ('version', '6');
INSERT INTO ragstone.meta VALUES ('schema_version', '3');
INSERT INTO ragstone.meta VALUES ('ignored:only embeddings', 'trace 1');
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (5, 'outcome', 'cb803fdd-938e-52eb-95cb-ccd57102d8b0', 'gone', 'pending', 0, 1790000010, 1790000010, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (7, 'outcome', '748428f0-53bf-586e-97ca-6b1d885c6489', 'gone', 'pending', 0, 1790000010, 1790000010, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (8, 'outcome', '748428f0-53bf-586e-97ca-6b1d885c6489', 'jsonl:a', 'pending', 0, 1790000010, 1790000010, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (11, 'outcome', 'aff74ee6-9dc5-556a-b7a7-8bdf68039b48', 'jsonl:a', 'pending', 0, 1790000020, 1790000020, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (12, 'outcome', 'aff74ee6-9dc5-556a-b7a7-8bdf68039b48', 'otlp', 'pending', 0, 1790000020, 1790000020, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (14, 'outcome', 'a281fc3e-ee55-5e22-a930-d268b51011b4', 'otlp', 'pending', 0, 1790000020, 1790000020, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (16, 'outcome', '070b4d12-f1d2-5fe3-9f4a-656782c6c91b', 'otlp', 'pending', 0, 1790000020, 1790000020, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (17, 'outcome', '2228e1e8-50e7-5f6d-b56b-7db2ee057150', 'jsonl:a', 'pending', 0, 1790000020, 1790000020, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (18, 'outcome', '2228e1e8-50e7-5f6d-b56b-7db2ee057150', 'otlp', 'pending', 0, 1790000020, 1790000020, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (19, 'outcome', 'f91bb208-7caa-5668-9638-3cae7867e63e', 'jsonl:a', 'pending', 0, 1790000020, 1790000020, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (20, 'outcome', 'f91bb208-7caa-5668-9638-3cae7867e63e', 'otlp', 'pending', 0, 1790000020, 1790000020, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (21, 'outcome', '50314e05-a280-5771-b671-e2f656f75830', 'jsonl:a', 'pending', 0, 1790000020, 1790000020, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (22, 'outcome', '50314e05-a280-5771-b671-e2f656f75830', 'otlp', 'pending', 0, 1790000020, 1790000020, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (2, 'outcome', '5fc87866-5ed6-555b-b887-66e9aa81bf99', 'jsonl:a', 'sent', 1, 1790000000, 1790000000, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (4, 'outcome', 'e7c700e2-890d-5aae-b41a-a0bc2d185d3c', 'jsonl:a', 'sent', 1, 1790000000, 1790000000, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (9, 'outcome', '5dd066e4-ab8d-5af6-b27e-861f0ca518cc', 'jsonl:a', 'sent', 1, 1790000020, 1790000020, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (1, 'outcome', '5fc87866-5ed6-555b-b887-66e9aa81bf99', 'gone', 'sent', 1, 1790000000, 1790000000, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (3, 'outcome', 'e7c700e2-890d-5aae-b41a-a0bc2d185d3c', 'gone', 'sent', 1, 1790000000, 1790000000, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (6, 'outcome', 'cb803fdd-938e-52eb-95cb-ccd57102d8b0', 'jsonl:a', 'pending', 1, 1790000010, 1790000060, '503');
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (13, 'outcome', 'a281fc3e-ee55-5e22-a930-d268b51011b4', 'jsonl:a', 'pending', 1, 1790000020, 1790000060, '503');
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (15, 'outcome', '070b4d12-f1d2-5fe3-9f4a-656782c6c91b', 'jsonl:a', 'failed', 1, 1790000020, 1790000020, 'refused');
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (10, 'outcome', '5dd066e4-ab8d-5af6-b27e-861f0ca518cc', 'otlp', 'skipped', 1, 1790000020, 1790000020, 'no span');
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (24, 'alarm', '2:opened', 'jsonl:a', 'pending', 0, 1790000030, 1790000030, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (23, 'alarm', '1:opened', 'jsonl:a', 'sent', 1, 1790000030, 1790000030, NULL);
INSERT INTO ragstone.outcome_bodies VALUES (3, '{"schema_version":3,"sample_id":"before2","metric":"grounded","metric_version":"0","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":1790000010.0,"duration_s":null,"outcome":"failure","kind":"timeout","reason":"no answer within 30 s","details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (4, '{"schema_version":3,"sample_id":"before2","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1790000010.0,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":["reference"]}');
INSERT INTO ragstone.outcome_bodies VALUES (5, '{"schema_version":3,"sample_id":"scored","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"score","value":0.75,"interval":null,"method":"exact","n":1,"explanation":"It rains.","details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (6, '{"schema_version":3,"sample_id":"scored","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"score","value":1.0,"interval":null,"method":"exact","n":1,"explanation":"It rains.","details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (7, '{"schema_version":3,"sample_id":"failed","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"failure","kind":"timeout","reason":"no answer within 30 s","details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (8, '{"schema_version":3,"sample_id":"failed","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":["reference"]}');
INSERT INTO ragstone.outcome_bodies VALUES (9, '{"schema_version":3,"sample_id":"na","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":["reference"]}');
INSERT INTO ragstone.outcome_bodies VALUES (10, '{"schema_version":3,"sample_id":"na","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":["reference"]}');
INSERT INTO ragstone.outcome_bodies VALUES (11, '{"schema_version":3,"sample_id":"partial","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"score","value":0.5,"interval":null,"method":"exact","n":1,"explanation":"It rains.","details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (1, '{"schema_version":3,"sample_id":"before","metric":"grounded","metric_version":"0","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":1790000000.0,"duration_s":null,"outcome":"score","value":0.25,"interval":null,"method":"exact","n":1,"explanation":null,"details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (2, '{"schema_version":3,"sample_id":"before","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1790000000.0,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":["reference"]}');
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (1, '5fc87866-5ed6-555b-b887-66e9aa81bf99', 'before', 'grounded', '0', 'j1', 'score', 0.25, 1790000000);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (2, 'e7c700e2-890d-5aae-b41a-a0bc2d185d3c', 'before', 'recall', '1', '', 'not_applicable', NULL, 1790000000);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (3, 'cb803fdd-938e-52eb-95cb-ccd57102d8b0', 'before2', 'grounded', '0', 'j1', 'failure', NULL, 1790000010);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (4, '748428f0-53bf-586e-97ca-6b1d885c6489', 'before2', 'recall', '1', '', 'not_applicable', NULL, 1790000010);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (5, '5dd066e4-ab8d-5af6-b27e-861f0ca518cc', 'scored', 'grounded', '1', 'j1', 'score', 0.75, 1790000020);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (6, 'aff74ee6-9dc5-556a-b7a7-8bdf68039b48', 'scored', 'recall', '1', '', 'score', 1, 1790000020);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (7, 'a281fc3e-ee55-5e22-a930-d268b51011b4', 'failed', 'grounded', '1', 'j1', 'failure', NULL, 1790000020);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (8, '070b4d12-f1d2-5fe3-9f4a-656782c6c91b', 'failed', 'recall', '1', '', 'not_applicable', NULL, 1790000020);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (9, '2228e1e8-50e7-5f6d-b56b-7db2ee057150', 'na', 'grounded', '1', 'j1', 'not_applicable', NULL, 1790000020);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (10, 'f91bb208-7caa-5668-9638-3cae7867e63e', 'na', 'recall', '1', '', 'not_applicable', NULL, 1790000020);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (11, '50314e05-a280-5771-b671-e2f656f75830', 'partial', 'grounded', '1', 'j1', 'score', 0.5, 1790000020);
INSERT INTO ragstone.plan VALUES ('grounded', '1', 'j1', 0, 2);
INSERT INTO ragstone.plan VALUES ('recall', '1', '', 1, 0);
INSERT INTO ragstone.segments VALUES ('main', 2);
INSERT INTO ragstone.sinks VALUES ('jsonl:a', NULL);
INSERT INTO ragstone.sinks VALUES ('otlp', '401');
INSERT INTO ragstone.trace_bodies VALUES (2, '{"schema_version":3,"trace_id":"before2","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":null,"release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":"Because.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1789999900.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (3, '{"schema_version":3,"trace_id":"scored","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":"s1","user_id":null,"app":"bot","release":"7","environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":"Because.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1789999920.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (4, '{"schema_version":3,"trace_id":"failed","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":"Because.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1789999920.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":0.5,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (5, '{"schema_version":3,"trace_id":"na","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":null,"release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":"Because.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1789999920.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (6, '{"schema_version":3,"trace_id":"partial","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":null,"release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":"Because.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1789999920.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (7, '{"schema_version":3,"trace_id":"pending","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":null,"release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":"Because.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1789999920.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (2, 'before2', 'failed', 0, 'ok', 1789999900, 1790000000, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, NULL);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (7, 'pending', 'pending', 0, 'ok', 1789999920, 1790000020, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, NULL);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (8, 'out', 'sampled_out', 0, NULL, 1790000015, 1790000020, 0.25, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, NULL);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (3, 'scored', 'scored', 0, 'ok', 1789999920, 1790000020, 1, NULL, NULL, NULL, NULL, NULL, 's1', NULL, 'bot', '7', NULL, 0, NULL, 0, NULL);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (4, 'failed', 'failed', 0, 'ok', 1789999920, 1790000020, 0.5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'bot', NULL, NULL, 0, NULL, 0, NULL);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (5, 'na', 'not_applicable', 0, 'ok', 1789999920, 1790000020, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, NULL);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (1, 'before', 'scored', 0, 'ok', 1781000000, 1790000000, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, 1790000030);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (6, 'partial', 'pending', 1, 'ok', 1789999920, 1790000020, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, 'worker-x', 1790000090, NULL);
INSERT INTO ragstone.watch_queue OVERRIDING SYSTEM VALUE VALUES (1, 'before', '', 'before', 1781000000, 1, 'grounded', '0', 'j1', 0.25);
INSERT INTO ragstone.watch_queue OVERRIDING SYSTEM VALUE VALUES (2, 'before2', '', 'before2', 1789999900, 1, 'grounded', '0', 'j1', NULL);
INSERT INTO ragstone.watch_queue OVERRIDING SYSTEM VALUE VALUES (3, 'scored', 'bot', 's1', 1789999920, 1, 'grounded', '1', 'j1', 0.75);
INSERT INTO ragstone.watch_queue OVERRIDING SYSTEM VALUE VALUES (4, 'scored', 'bot', 's1', 1789999920, 1, 'recall', '1', '', 1);
INSERT INTO ragstone.watch_queue OVERRIDING SYSTEM VALUE VALUES (5, 'failed', 'bot', 'failed', 1789999920, 0.5, 'grounded', '1', 'j1', NULL);
INSERT INTO ragstone.watch_queue OVERRIDING SYSTEM VALUE VALUES (6, 'partial', '', 'partial', 1789999920, 1, 'grounded', '1', 'j1', 0.5);
SELECT pg_catalog.setval('ragstone.labels_seq_seq', 1, true);
SELECT pg_catalog.setval('ragstone.outbox_seq_seq', 24, true);
SELECT pg_catalog.setval('ragstone.outcomes_seq_seq', 11, true);
SELECT pg_catalog.setval('ragstone.streams_id_seq', 1, false);
SELECT pg_catalog.setval('ragstone.traces_seq_seq', 8, true);
SELECT pg_catalog.setval('ragstone.watch_queue_seq_seq', 6, true);
SELECT pg_catalog.setval('ragstone.watch_units_seq_seq', 1, false);
ALTER TABLE ONLY ragstone.alarms
    ADD CONSTRAINT alarms_pkey PRIMARY KEY (number);
ALTER TABLE ONLY ragstone.counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (name);
ALTER TABLE ONLY ragstone.drops
    ADD CONSTRAINT drops_pkey PRIMARY KEY (reason);
ALTER TABLE ONLY ragstone.label_frame
    ADD CONSTRAINT label_frame_pkey PRIMARY KEY (trace_id);
ALTER TABLE ONLY ragstone.label_frame
    ADD CONSTRAINT label_frame_position_key UNIQUE ("position");
ALTER TABLE ONLY ragstone.labels
    ADD CONSTRAINT labels_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY ragstone.labels
    ADD CONSTRAINT labels_trace_id_author_key UNIQUE (trace_id, author);
ALTER TABLE ONLY ragstone.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (key);
ALTER TABLE ONLY ragstone.outbox
    ADD CONSTRAINT outbox_kind_item_id_sink_key UNIQUE (kind, item_id, sink);
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
ALTER TABLE ONLY ragstone.streams
    ADD CONSTRAINT streams_app_metric_metric_version_judge_hash_kind_key UNIQUE (app, metric, metric_version, judge_hash, kind);
ALTER TABLE ONLY ragstone.streams
    ADD CONSTRAINT streams_pkey PRIMARY KEY (id);
ALTER TABLE ONLY ragstone.trace_bodies
    ADD CONSTRAINT trace_bodies_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY ragstone.traces
    ADD CONSTRAINT traces_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY ragstone.traces
    ADD CONSTRAINT traces_trace_id_key UNIQUE (trace_id);
ALTER TABLE ONLY ragstone.watch_queue
    ADD CONSTRAINT watch_queue_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY ragstone.watch_units
    ADD CONSTRAINT watch_units_pkey PRIMARY KEY (seq);
CREATE INDEX due_deliveries ON ragstone.outbox USING btree (sink, next_try, seq) WHERE (state = 'pending'::text);
CREATE INDEX outbox_by_state ON ragstone.outbox USING btree (sink, state);
CREATE INDEX outcomes_by_metric ON ragstone.outcomes USING btree (metric, metric_version, judge_hash, kind, value);
CREATE INDEX sessions_pending ON ragstone.traces USING btree (session_id) WHERE (state = 'pending'::text);
CREATE INDEX traces_by_app ON ragstone.traces USING btree (app, started_at);
CREATE INDEX traces_by_state ON ragstone.traces USING btree (state);
CREATE INDEX traces_by_time ON ragstone.traces USING btree (started_at);
CREATE INDEX traces_leased ON ragstone.traces USING btree (lease_owner) WHERE ((state = 'pending'::text) AND (lease_owner IS NOT NULL));
CREATE INDEX traces_partial ON ragstone.traces USING btree (trace_id) WHERE (partial = 1);
CREATE INDEX traces_pending ON ragstone.traces USING btree (seq) WHERE (state = 'pending'::text);
CREATE INDEX traces_with_text ON ragstone.traces USING btree (started_at) WHERE ((text_removed_at IS NULL) AND (state = ANY (ARRAY['scored'::text, 'not_applicable'::text, 'failed'::text])));
CREATE INDEX watch_queue_by_session ON ragstone.watch_queue USING btree (app, session, requested_at);
CREATE INDEX watch_units_by_session ON ragstone.watch_units USING btree (session, closed_at);
CREATE INDEX watch_units_by_time ON ragstone.watch_units USING btree (stream, closed_at);
ALTER TABLE ONLY ragstone.outcome_bodies
    ADD CONSTRAINT outcome_bodies_seq_fkey FOREIGN KEY (seq) REFERENCES ragstone.outcomes(seq);
ALTER TABLE ONLY ragstone.outcomes
    ADD CONSTRAINT outcomes_sample_id_fkey FOREIGN KEY (sample_id) REFERENCES ragstone.traces(trace_id);
ALTER TABLE ONLY ragstone.trace_bodies
    ADD CONSTRAINT trace_bodies_seq_fkey FOREIGN KEY (seq) REFERENCES ragstone.traces(seq);
ALTER TABLE ONLY ragstone.watch_queue
    ADD CONSTRAINT watch_queue_trace_id_fkey FOREIGN KEY (trace_id) REFERENCES ragstone.traces(trace_id);
ALTER TABLE ONLY ragstone.watch_units
    ADD CONSTRAINT watch_units_stream_fkey FOREIGN KEY (stream) REFERENCES ragstone.streams(id);
