CREATE SCHEMA ragstone;
CREATE TABLE ragstone.alarms (
    number bigint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    body text NOT NULL,
    CONSTRAINT alarms_state_check CHECK ((state = ANY (ARRAY['open'::text, 'recovered'::text, 'accepted'::text])))
);
CREATE TABLE ragstone.canaries (
    trace_id text NOT NULL COLLATE pg_catalog."C",
    chosen_at double precision NOT NULL
);
CREATE TABLE ragstone.canary_scores (
    metric text NOT NULL COLLATE pg_catalog."C",
    metric_version text NOT NULL COLLATE pg_catalog."C",
    judge_hash text NOT NULL COLLATE pg_catalog."C",
    scored_at double precision NOT NULL,
    trace_id text NOT NULL COLLATE pg_catalog."C",
    value double precision NOT NULL
);
CREATE TABLE ragstone.counters (
    name text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL
);
CREATE TABLE ragstone.drops (
    reason text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL
);
CREATE TABLE ragstone.feedback (
    seq bigint NOT NULL,
    request_id text NOT NULL COLLATE pg_catalog."C",
    trace_id text COLLATE pg_catalog."C",
    value double precision NOT NULL,
    comment text,
    given_at double precision NOT NULL,
    received_at double precision NOT NULL,
    CONSTRAINT feedback_value_check CHECK (((value >= (0)::double precision) AND (value <= (1)::double precision)))
);
ALTER TABLE ragstone.feedback ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ragstone.feedback_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
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
CREATE TABLE ragstone.outcome_counts (
    metric text NOT NULL COLLATE pg_catalog."C",
    metric_version text NOT NULL COLLATE pg_catalog."C",
    judge_hash text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL
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
    backfilled double precision,
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
CREATE TABLE ragstone.spend (
    day text NOT NULL COLLATE pg_catalog."C",
    calls bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    usd double precision NOT NULL
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
    slices text,
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
    value double precision,
    backfilled integer DEFAULT 0 NOT NULL
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
INSERT INTO ragstone.counters VALUES ('captured', 6);
INSERT INTO ragstone.counters VALUES ('state:pending', 1);
INSERT INTO ragstone.counters VALUES ('state:scored', 5);
INSERT INTO ragstone.meta VALUES ('version', '7');
INSERT INTO ragstone.meta VALUES ('schema_version', '3');
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (2, 'outcome', '9ba4d210-bb12-5e7b-adb0-600d1e3c32b7', 'gone', 'pending', 0, 1790000000, 1790000000, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (1, 'outcome', '74668472-1735-54ac-b49a-c9cd448e4656', 'gone', 'sent', 1, 1790000000, 1790000000, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (15, 'outcome', '791fbae6-c84f-58a1-970b-85a141fa9119', 'jsonl', 'pending', 0, 1790000014, 1790000014, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (16, 'outcome', '791fbae6-c84f-58a1-970b-85a141fa9119', 'otlp', 'pending', 0, 1790000014, 1790000014, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (17, 'outcome', 'f9c6b0a4-3085-5595-97ff-298b8677f945', 'jsonl', 'pending', 0, 1790000014, 1790000014, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (18, 'outcome', 'f9c6b0a4-3085-5595-97ff-298b8677f945', 'otlp', 'pending', 0, 1790000014, 1790000014, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (3, 'outcome', 'fc1c8527-73bc-514e-8c53-feb54ee0eece', 'jsonl', 'sent', 1, 1790000011, 1790000011, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (5, 'outcome', '773debc6-d90d-54a2-9d36-921e518d7690', 'jsonl', 'sent', 1, 1790000011, 1790000011, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (13, 'outcome', 'de3ccacb-b36c-52f3-8b40-9ac21281b7f6', 'jsonl', 'sent', 1, 1790000013, 1790000013, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (7, 'outcome', '2bebb92b-b0de-5c7b-9f5d-e9d5beb64e01', 'jsonl', 'failed', 1, 1790000012, 1790000012, 'refused');
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (9, 'outcome', '7de402af-d4c7-594c-af7a-dfb442cf9737', 'jsonl', 'skipped', 1, 1790000012, 1790000012, 'no span');
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (11, 'outcome', 'c468726f-1f8e-5eea-b8e6-ca58c82db139', 'jsonl', 'pending', 1, 1790000013, 1790000074, '503');
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (4, 'outcome', 'fc1c8527-73bc-514e-8c53-feb54ee0eece', 'otlp', 'sent', 1, 1790000011, 1790000011, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (6, 'outcome', '773debc6-d90d-54a2-9d36-921e518d7690', 'otlp', 'sent', 1, 1790000011, 1790000011, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (8, 'outcome', '2bebb92b-b0de-5c7b-9f5d-e9d5beb64e01', 'otlp', 'sent', 1, 1790000012, 1790000012, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (10, 'outcome', '7de402af-d4c7-594c-af7a-dfb442cf9737', 'otlp', 'sent', 1, 1790000012, 1790000012, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (12, 'outcome', 'c468726f-1f8e-5eea-b8e6-ca58c82db139', 'otlp', 'sent', 1, 1790000013, 1790000013, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (14, 'outcome', 'de3ccacb-b36c-52f3-8b40-9ac21281b7f6', 'otlp', 'sent', 1, 1790000013, 1790000013, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (19, 'outcome', '74668472-1735-54ac-b49a-c9cd448e4656', 'otlp', 'pending', 0, 1790000014, 1790000014, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (20, 'outcome', '9ba4d210-bb12-5e7b-adb0-600d1e3c32b7', 'otlp', 'pending', 0, 1790000014, 1790000014, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (22, 'alarm', '2:opened', 'jsonl', 'pending', 0, 1790000014, 1790000014, NULL);
INSERT INTO ragstone.outbox OVERRIDING SYSTEM VALUE VALUES (21, 'alarm', '1:opened', 'jsonl', 'sent', 1, 1790000014, 1790000014, NULL);
INSERT INTO ragstone.outcome_bodies VALUES (1, '{"schema_version":3,"sample_id":"early","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.5,"interval":null,"method":"exact","n":1,"explanation":"It rains. é","details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (2, '{"schema_version":3,"sample_id":"early","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
INSERT INTO ragstone.outcome_bodies VALUES (3, '{"schema_version":3,"sample_id":"one","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.5,"interval":null,"method":"exact","n":1,"explanation":"It rains. é","details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (4, '{"schema_version":3,"sample_id":"one","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
INSERT INTO ragstone.outcome_bodies VALUES (5, '{"schema_version":3,"sample_id":"two","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.5,"interval":null,"method":"exact","n":1,"explanation":"It rains. é","details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (6, '{"schema_version":3,"sample_id":"two","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
INSERT INTO ragstone.outcome_bodies VALUES (7, '{"schema_version":3,"sample_id":"three","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.5,"interval":null,"method":"exact","n":1,"explanation":"It rains. é","details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (8, '{"schema_version":3,"sample_id":"three","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
INSERT INTO ragstone.outcome_bodies VALUES (9, '{"schema_version":3,"sample_id":"four","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.5,"interval":null,"method":"exact","n":1,"explanation":"It rains. é","details":{},"raw":null}');
INSERT INTO ragstone.outcome_bodies VALUES (10, '{"schema_version":3,"sample_id":"four","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
INSERT INTO ragstone.outcome_counts VALUES ('grounded', '1', 'j1', 'score', 5);
INSERT INTO ragstone.outcome_counts VALUES ('recall', '1', '', 'not_applicable', 5);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (1, '74668472-1735-54ac-b49a-c9cd448e4656', 'early', 'grounded', '1', 'j1', 'score', 0.5, 1790000000, NULL);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (2, '9ba4d210-bb12-5e7b-adb0-600d1e3c32b7', 'early', 'recall', '1', '', 'not_applicable', NULL, 1790000000, NULL);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (3, 'fc1c8527-73bc-514e-8c53-feb54ee0eece', 'one', 'grounded', '1', 'j1', 'score', 0.5, 1790000011, NULL);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (4, '773debc6-d90d-54a2-9d36-921e518d7690', 'one', 'recall', '1', '', 'not_applicable', NULL, 1790000011, NULL);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (5, '2bebb92b-b0de-5c7b-9f5d-e9d5beb64e01', 'two', 'grounded', '1', 'j1', 'score', 0.5, 1790000012, NULL);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (6, '7de402af-d4c7-594c-af7a-dfb442cf9737', 'two', 'recall', '1', '', 'not_applicable', NULL, 1790000012, NULL);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (7, 'c468726f-1f8e-5eea-b8e6-ca58c82db139', 'three', 'grounded', '1', 'j1', 'score', 0.5, 1790000013, NULL);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (8, 'de3ccacb-b36c-52f3-8b40-9ac21281b7f6', 'three', 'recall', '1', '', 'not_applicable', NULL, 1790000013, NULL);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (9, '791fbae6-c84f-58a1-970b-85a141fa9119', 'four', 'grounded', '1', 'j1', 'score', 0.5, 1790000014, NULL);
INSERT INTO ragstone.outcomes OVERRIDING SYSTEM VALUE VALUES (10, 'f9c6b0a4-3085-5595-97ff-298b8677f945', 'four', 'recall', '1', '', 'not_applicable', NULL, 1790000014, NULL);
INSERT INTO ragstone.plan VALUES ('grounded', '1', 'j1', 0, 0);
INSERT INTO ragstone.plan VALUES ('recall', '1', '', 1, 0);
INSERT INTO ragstone.segments VALUES ('m', 2);
INSERT INTO ragstone.sinks VALUES ('jsonl', NULL);
INSERT INTO ragstone.sinks VALUES ('otlp', '401');
INSERT INTO ragstone.trace_bodies VALUES (1, '{"schema_version":3,"trace_id":"early","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1790000000.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (2, '{"schema_version":3,"trace_id":"one","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1790000010.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (3, '{"schema_version":3,"trace_id":"two","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1790000010.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (4, '{"schema_version":3,"trace_id":"three","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1790000010.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (5, '{"schema_version":3,"trace_id":"four","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1790000010.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.trace_bodies VALUES (6, '{"schema_version":3,"trace_id":"waits","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1790000010.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (1, 'early', 'scored', 0, 'ok', 1790000000, 1790000000, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'bot', NULL, NULL, 0, NULL, 0, NULL, NULL);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (6, 'waits', 'pending', 0, 'ok', 1790000010, 1790000010, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'bot', NULL, NULL, 0, NULL, 0, NULL, NULL);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (2, 'one', 'scored', 0, 'ok', 1790000010, 1790000010, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'bot', NULL, NULL, 0, NULL, 0, NULL, NULL);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (3, 'two', 'scored', 0, 'ok', 1790000010, 1790000010, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'bot', NULL, NULL, 0, NULL, 0, NULL, NULL);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (4, 'three', 'scored', 0, 'ok', 1790000010, 1790000010, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'bot', NULL, NULL, 0, NULL, 0, NULL, NULL);
INSERT INTO ragstone.traces OVERRIDING SYSTEM VALUE VALUES (5, 'four', 'scored', 0, 'ok', 1790000010, 1790000010, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'bot', NULL, NULL, 0, NULL, 0, NULL, NULL);
INSERT INTO ragstone.watch_queue OVERRIDING SYSTEM VALUE VALUES (1, 'early', 'bot', 'early', 1790000000, 1, 'grounded', '1', 'j1', 0.5, 0);
INSERT INTO ragstone.watch_queue OVERRIDING SYSTEM VALUE VALUES (2, 'one', 'bot', 'one', 1790000010, 1, 'grounded', '1', 'j1', 0.5, 0);
INSERT INTO ragstone.watch_queue OVERRIDING SYSTEM VALUE VALUES (3, 'two', 'bot', 'two', 1790000010, 1, 'grounded', '1', 'j1', 0.5, 0);
INSERT INTO ragstone.watch_queue OVERRIDING SYSTEM VALUE VALUES (4, 'three', 'bot', 'three', 1790000010, 1, 'grounded', '1', 'j1', 0.5, 0);
INSERT INTO ragstone.watch_queue OVERRIDING SYSTEM VALUE VALUES (5, 'four', 'bot', 'four', 1790000010, 1, 'grounded', '1', 'j1', 0.5, 0);
SELECT pg_catalog.setval('ragstone.feedback_seq_seq', 1, false);
SELECT pg_catalog.setval('ragstone.labels_seq_seq', 1, false);
SELECT pg_catalog.setval('ragstone.outbox_seq_seq', 22, true);
SELECT pg_catalog.setval('ragstone.outcomes_seq_seq', 10, true);
SELECT pg_catalog.setval('ragstone.streams_id_seq', 1, false);
SELECT pg_catalog.setval('ragstone.traces_seq_seq', 6, true);
SELECT pg_catalog.setval('ragstone.watch_queue_seq_seq', 5, true);
SELECT pg_catalog.setval('ragstone.watch_units_seq_seq', 1, false);
ALTER TABLE ONLY ragstone.alarms
    ADD CONSTRAINT alarms_pkey PRIMARY KEY (number);
ALTER TABLE ONLY ragstone.canaries
    ADD CONSTRAINT canaries_pkey PRIMARY KEY (trace_id);
ALTER TABLE ONLY ragstone.canary_scores
    ADD CONSTRAINT canary_scores_pkey PRIMARY KEY (metric, metric_version, judge_hash, scored_at, trace_id);
ALTER TABLE ONLY ragstone.counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (name);
ALTER TABLE ONLY ragstone.drops
    ADD CONSTRAINT drops_pkey PRIMARY KEY (reason);
ALTER TABLE ONLY ragstone.feedback
    ADD CONSTRAINT feedback_pkey PRIMARY KEY (seq);
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
ALTER TABLE ONLY ragstone.outcome_counts
    ADD CONSTRAINT outcome_counts_pkey PRIMARY KEY (metric, metric_version, judge_hash, kind);
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
ALTER TABLE ONLY ragstone.spend
    ADD CONSTRAINT spend_pkey PRIMARY KEY (day);
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
CREATE INDEX feedback_by_trace ON ragstone.feedback USING btree (trace_id) WHERE (trace_id IS NOT NULL);
CREATE INDEX feedback_waiting ON ragstone.feedback USING btree (request_id) WHERE (trace_id IS NULL);
CREATE INDEX outbox_by_state ON ragstone.outbox USING btree (sink, state);
CREATE INDEX outcomes_by_metric ON ragstone.outcomes USING btree (metric, metric_version, judge_hash, kind, value);
CREATE INDEX sessions_pending ON ragstone.traces USING btree (session_id) WHERE (state = 'pending'::text);
CREATE INDEX traces_by_app ON ragstone.traces USING btree (app, started_at);
CREATE INDEX traces_by_otel_id ON ragstone.traces USING btree (otel_trace_id) WHERE (otel_trace_id IS NOT NULL);
CREATE INDEX traces_by_state ON ragstone.traces USING btree (state);
CREATE INDEX traces_by_time ON ragstone.traces USING btree (started_at);
CREATE INDEX traces_leased ON ragstone.traces USING btree (lease_owner) WHERE ((state = 'pending'::text) AND (lease_owner IS NOT NULL));
CREATE INDEX traces_partial ON ragstone.traces USING btree (trace_id) WHERE (partial = 1);
CREATE INDEX traces_pending ON ragstone.traces USING btree (seq) WHERE (state = 'pending'::text);
CREATE INDEX traces_sampled ON ragstone.traces USING btree (started_at) WHERE ((inclusion_probability < (1)::double precision) AND (state <> 'sampled_out'::text));
CREATE INDEX traces_with_text ON ragstone.traces USING btree (started_at) WHERE ((text_removed_at IS NULL) AND (state = ANY (ARRAY['scored'::text, 'not_applicable'::text, 'failed'::text])));
CREATE INDEX watch_queue_by_session ON ragstone.watch_queue USING btree (app, session, requested_at);
CREATE INDEX watch_units_by_session ON ragstone.watch_units USING btree (session, closed_at);
CREATE INDEX watch_units_by_time ON ragstone.watch_units USING btree (stream, closed_at);
ALTER TABLE ONLY ragstone.canaries
    ADD CONSTRAINT canaries_trace_id_fkey FOREIGN KEY (trace_id) REFERENCES ragstone.traces(trace_id);
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
