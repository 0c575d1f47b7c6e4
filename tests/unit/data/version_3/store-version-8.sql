PRAGMA application_id = 1380406100;
PRAGMA user_version = 8;
BEGIN TRANSACTION;
CREATE TABLE alarms (
            number INTEGER PRIMARY KEY,
            state TEXT NOT NULL CHECK (state IN ('open', 'recovered', 'accepted')),
            body TEXT NOT NULL
        );
INSERT INTO "alarms" VALUES(1,'open','{"x": 1}');
INSERT INTO "alarms" VALUES(2,'open','{"x": 2}');
CREATE TABLE canaries (trace_id TEXT PRIMARY KEY REFERENCES traces (trace_id), chosen_at REAL NOT NULL) WITHOUT ROWID
    ;
CREATE TABLE canary_scores (
            metric TEXT NOT NULL,
            metric_version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            scored_at REAL NOT NULL,  -- time of the round
            trace_id TEXT NOT NULL,
            value REAL NOT NULL,
            PRIMARY KEY (metric, metric_version, judge_hash, scored_at, trace_id)
        ) WITHOUT ROWID
    ;
CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "counters" VALUES('captured',6);
INSERT INTO "counters" VALUES('state:pending',1);
INSERT INTO "counters" VALUES('state:scored',5);
CREATE TABLE drops (reason TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID
    ;
CREATE TABLE feedback (
            seq INTEGER PRIMARY KEY,
            request_id TEXT NOT NULL,  -- ours, or the OpenTelemetry trace id
            trace_id TEXT,             -- NULL before the request arrives
            value REAL NOT NULL CHECK (value BETWEEN 0 AND 1),
            comment TEXT,
            given_at REAL NOT NULL,
            received_at REAL NOT NULL
        );
CREATE TABLE label_frame (
            trace_id TEXT PRIMARY KEY,
            probability REAL NOT NULL CHECK (probability > 0 AND probability <= 1),  -- of being drawn
            position INTEGER UNIQUE  -- NULL if not drawn
        ) WITHOUT ROWID
    ;
CREATE TABLE labels (
            seq INTEGER PRIMARY KEY,
            trace_id TEXT NOT NULL,
            author TEXT NOT NULL,
            value REAL NOT NULL CHECK (value BETWEEN 0 AND 1),
            labeled_at REAL NOT NULL,
            UNIQUE (trace_id, author)
        );
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "meta" VALUES('schema_version','3');
CREATE TABLE outbox (
            seq INTEGER PRIMARY KEY,
            kind TEXT NOT NULL CHECK (kind IN ('outcome', 'alarm')),
            item_id TEXT NOT NULL,  -- of the outcome or the alarm
            sink TEXT NOT NULL,
            state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'skipped', 'failed')),
            attempts INTEGER NOT NULL DEFAULT 0,
            since REAL NOT NULL,  -- when it was put in line, last
            next_try REAL NOT NULL,
            last_error TEXT,
            UNIQUE (kind, item_id, sink)
        );
INSERT INTO "outbox" VALUES(1,'outcome','74668472-1735-54ac-b49a-c9cd448e4656','gone','sent',1,1790000000.0,1790000000.0,NULL);
INSERT INTO "outbox" VALUES(2,'outcome','9ba4d210-bb12-5e7b-adb0-600d1e3c32b7','gone','pending',0,1790000000.0,1790000000.0,NULL);
INSERT INTO "outbox" VALUES(3,'outcome','fc1c8527-73bc-514e-8c53-feb54ee0eece','jsonl','sent',1,1790000011.0,1790000011.0,NULL);
INSERT INTO "outbox" VALUES(4,'outcome','fc1c8527-73bc-514e-8c53-feb54ee0eece','otlp','sent',1,1790000011.0,1790000011.0,NULL);
INSERT INTO "outbox" VALUES(5,'outcome','773debc6-d90d-54a2-9d36-921e518d7690','jsonl','sent',1,1790000011.0,1790000011.0,NULL);
INSERT INTO "outbox" VALUES(6,'outcome','773debc6-d90d-54a2-9d36-921e518d7690','otlp','sent',1,1790000011.0,1790000011.0,NULL);
INSERT INTO "outbox" VALUES(7,'outcome','2bebb92b-b0de-5c7b-9f5d-e9d5beb64e01','jsonl','failed',1,1790000012.0,1790000012.0,'refused');
INSERT INTO "outbox" VALUES(8,'outcome','2bebb92b-b0de-5c7b-9f5d-e9d5beb64e01','otlp','sent',1,1790000012.0,1790000012.0,NULL);
INSERT INTO "outbox" VALUES(9,'outcome','7de402af-d4c7-594c-af7a-dfb442cf9737','jsonl','skipped',1,1790000012.0,1790000012.0,'no span');
INSERT INTO "outbox" VALUES(10,'outcome','7de402af-d4c7-594c-af7a-dfb442cf9737','otlp','sent',1,1790000012.0,1790000012.0,NULL);
INSERT INTO "outbox" VALUES(11,'outcome','c468726f-1f8e-5eea-b8e6-ca58c82db139','jsonl','pending',1,1790000013.0,1790000074.0,'503');
INSERT INTO "outbox" VALUES(12,'outcome','c468726f-1f8e-5eea-b8e6-ca58c82db139','otlp','sent',1,1790000013.0,1790000013.0,NULL);
INSERT INTO "outbox" VALUES(13,'outcome','de3ccacb-b36c-52f3-8b40-9ac21281b7f6','jsonl','sent',1,1790000013.0,1790000013.0,NULL);
INSERT INTO "outbox" VALUES(14,'outcome','de3ccacb-b36c-52f3-8b40-9ac21281b7f6','otlp','sent',1,1790000013.0,1790000013.0,NULL);
INSERT INTO "outbox" VALUES(15,'outcome','791fbae6-c84f-58a1-970b-85a141fa9119','jsonl','pending',0,1790000014.0,1790000014.0,NULL);
INSERT INTO "outbox" VALUES(16,'outcome','791fbae6-c84f-58a1-970b-85a141fa9119','otlp','pending',0,1790000014.0,1790000014.0,NULL);
INSERT INTO "outbox" VALUES(17,'outcome','f9c6b0a4-3085-5595-97ff-298b8677f945','jsonl','pending',0,1790000014.0,1790000014.0,NULL);
INSERT INTO "outbox" VALUES(18,'outcome','f9c6b0a4-3085-5595-97ff-298b8677f945','otlp','pending',0,1790000014.0,1790000014.0,NULL);
INSERT INTO "outbox" VALUES(19,'outcome','74668472-1735-54ac-b49a-c9cd448e4656','otlp','pending',0,1790000014.0,1790000014.0,NULL);
INSERT INTO "outbox" VALUES(20,'outcome','9ba4d210-bb12-5e7b-adb0-600d1e3c32b7','otlp','pending',0,1790000014.0,1790000014.0,NULL);
INSERT INTO "outbox" VALUES(21,'alarm','1:opened','jsonl','sent',1,1790000014.0,1790000014.0,NULL);
INSERT INTO "outbox" VALUES(22,'alarm','2:opened','jsonl','pending',0,1790000014.0,1790000014.0,NULL);
CREATE TABLE outcome_bodies (seq INTEGER PRIMARY KEY REFERENCES outcomes (seq), body TEXT NOT NULL);
INSERT INTO "outcome_bodies" VALUES(1,'{"schema_version":3,"sample_id":"early","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.5,"interval":null,"method":"exact","n":1,"explanation":"It rains. é","details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(2,'{"schema_version":3,"sample_id":"early","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
INSERT INTO "outcome_bodies" VALUES(3,'{"schema_version":3,"sample_id":"one","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.5,"interval":null,"method":"exact","n":1,"explanation":"It rains. é","details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(4,'{"schema_version":3,"sample_id":"one","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
INSERT INTO "outcome_bodies" VALUES(5,'{"schema_version":3,"sample_id":"two","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.5,"interval":null,"method":"exact","n":1,"explanation":"It rains. é","details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(6,'{"schema_version":3,"sample_id":"two","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
INSERT INTO "outcome_bodies" VALUES(7,'{"schema_version":3,"sample_id":"three","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.5,"interval":null,"method":"exact","n":1,"explanation":"It rains. é","details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(8,'{"schema_version":3,"sample_id":"three","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
INSERT INTO "outcome_bodies" VALUES(9,'{"schema_version":3,"sample_id":"four","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.5,"interval":null,"method":"exact","n":1,"explanation":"It rains. é","details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(10,'{"schema_version":3,"sample_id":"four","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
CREATE TABLE outcome_counts (
            metric TEXT NOT NULL,
            metric_version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            kind TEXT NOT NULL,
            n INTEGER NOT NULL,
            PRIMARY KEY (metric, metric_version, judge_hash, kind)
        ) WITHOUT ROWID
    ;
INSERT INTO "outcome_counts" VALUES('grounded','1','j1','score',5);
INSERT INTO "outcome_counts" VALUES('recall','1','','not_applicable',5);
CREATE TABLE outcomes (
            seq INTEGER PRIMARY KEY,
            outcome_id TEXT NOT NULL UNIQUE,
            sample_id TEXT NOT NULL REFERENCES traces (trace_id),
            metric TEXT NOT NULL,
            metric_version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('score', 'not_applicable', 'failure')),
            value REAL CHECK ((value IS NULL) = (kind <> 'score')),
            stored_at REAL NOT NULL,
            backfilled REAL,  -- share of the requests that its backfill scored, NULL if it was scored when it arrived
            UNIQUE (sample_id, metric, metric_version, judge_hash)
        );
INSERT INTO "outcomes" VALUES(1,'74668472-1735-54ac-b49a-c9cd448e4656','early','grounded','1','j1','score',0.5,1790000000.0,NULL);
INSERT INTO "outcomes" VALUES(2,'9ba4d210-bb12-5e7b-adb0-600d1e3c32b7','early','recall','1','','not_applicable',NULL,1790000000.0,NULL);
INSERT INTO "outcomes" VALUES(3,'fc1c8527-73bc-514e-8c53-feb54ee0eece','one','grounded','1','j1','score',0.5,1790000011.0,NULL);
INSERT INTO "outcomes" VALUES(4,'773debc6-d90d-54a2-9d36-921e518d7690','one','recall','1','','not_applicable',NULL,1790000011.0,NULL);
INSERT INTO "outcomes" VALUES(5,'2bebb92b-b0de-5c7b-9f5d-e9d5beb64e01','two','grounded','1','j1','score',0.5,1790000012.0,NULL);
INSERT INTO "outcomes" VALUES(6,'7de402af-d4c7-594c-af7a-dfb442cf9737','two','recall','1','','not_applicable',NULL,1790000012.0,NULL);
INSERT INTO "outcomes" VALUES(7,'c468726f-1f8e-5eea-b8e6-ca58c82db139','three','grounded','1','j1','score',0.5,1790000013.0,NULL);
INSERT INTO "outcomes" VALUES(8,'de3ccacb-b36c-52f3-8b40-9ac21281b7f6','three','recall','1','','not_applicable',NULL,1790000013.0,NULL);
INSERT INTO "outcomes" VALUES(9,'791fbae6-c84f-58a1-970b-85a141fa9119','four','grounded','1','j1','score',0.5,1790000014.0,NULL);
INSERT INTO "outcomes" VALUES(10,'f9c6b0a4-3085-5595-97ff-298b8677f945','four','recall','1','','not_applicable',NULL,1790000014.0,NULL);
CREATE TABLE plan (
            name TEXT PRIMARY KEY,
            version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            position INTEGER NOT NULL,
            finished_before INTEGER NOT NULL  -- traces that were finished without this metric when it joined
        ) WITHOUT ROWID
    ;
INSERT INTO "plan" VALUES('grounded','1','j1',0,0);
INSERT INTO "plan" VALUES('recall','1','',1,0);
CREATE TABLE segments (name TEXT PRIMARY KEY, next_offset INTEGER NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "segments" VALUES('m',2);
CREATE TABLE sinks (
            name TEXT PRIMARY KEY,
            stopped TEXT  -- why nothing is sent until the worker starts again
        ) WITHOUT ROWID
    ;
INSERT INTO "sinks" VALUES('jsonl',NULL);
INSERT INTO "sinks" VALUES('otlp','401');
CREATE TABLE spend (
            day TEXT PRIMARY KEY,  -- of UTC, such as 2026-11-24
            calls INTEGER NOT NULL,
            input_tokens INTEGER NOT NULL,
            output_tokens INTEGER NOT NULL,
            usd REAL NOT NULL
        ) WITHOUT ROWID
    ;
CREATE TABLE streams (
            id INTEGER PRIMARY KEY,
            app TEXT NOT NULL,
            metric TEXT NOT NULL,
            metric_version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('score', 'failures')),
            state TEXT,
            UNIQUE (app, metric, metric_version, judge_hash, kind)
        );
CREATE TABLE trace_bodies (seq INTEGER PRIMARY KEY REFERENCES traces (seq), body TEXT NOT NULL);
INSERT INTO "trace_bodies" VALUES(1,'{"schema_version":3,"trace_id":"early","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1790000000.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(2,'{"schema_version":3,"trace_id":"one","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1790000010.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(3,'{"schema_version":3,"trace_id":"two","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1790000010.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(4,'{"schema_version":3,"trace_id":"three","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1790000010.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(5,'{"schema_version":3,"trace_id":"four","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1790000010.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(6,'{"schema_version":3,"trace_id":"waits","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1790000010.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
CREATE TABLE traces (
            seq INTEGER PRIMARY KEY,
            trace_id TEXT NOT NULL UNIQUE,
            state TEXT NOT NULL CHECK (state IN ('pending', 'scored', 'not_applicable', 'failed', 'sampled_out')),
            partial INTEGER NOT NULL DEFAULT 0,  -- pending, with some outcomes already
            status TEXT,                         -- NULL when sampled out
            started_at REAL NOT NULL,
            received_at REAL NOT NULL,
            inclusion_probability REAL NOT NULL,
            name TEXT,
            run_id TEXT,
            otel_trace_id TEXT,
            otel_span_id TEXT,
            otel_sampled INTEGER,
            session_id TEXT,
            user_id TEXT,
            app TEXT,
            release TEXT,
            environment TEXT,
            attempts INTEGER NOT NULL DEFAULT 0,
            lease_owner TEXT,
            lease_until REAL NOT NULL DEFAULT 0,
            text_removed_at REAL,
            slices TEXT
        );
INSERT INTO "traces" VALUES(1,'early','scored',0,'ok',1790000000.0,1790000000.0,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'bot',NULL,NULL,0,NULL,0.0,NULL,NULL);
INSERT INTO "traces" VALUES(2,'one','scored',0,'ok',1790000010.0,1790000010.0,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'bot',NULL,NULL,0,NULL,0.0,NULL,NULL);
INSERT INTO "traces" VALUES(3,'two','scored',0,'ok',1790000010.0,1790000010.0,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'bot',NULL,NULL,0,NULL,0.0,NULL,NULL);
INSERT INTO "traces" VALUES(4,'three','scored',0,'ok',1790000010.0,1790000010.0,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'bot',NULL,NULL,0,NULL,0.0,NULL,NULL);
INSERT INTO "traces" VALUES(5,'four','scored',0,'ok',1790000010.0,1790000010.0,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'bot',NULL,NULL,0,NULL,0.0,NULL,NULL);
INSERT INTO "traces" VALUES(6,'waits','pending',0,'ok',1790000010.0,1790000010.0,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'bot',NULL,NULL,0,NULL,0.0,NULL,NULL);
CREATE TABLE watch_queue (  -- outcomes of sessions that are not closed
            seq INTEGER PRIMARY KEY,
            trace_id TEXT NOT NULL REFERENCES traces (trace_id),
            app TEXT NOT NULL,
            session TEXT NOT NULL,  -- the trace, if it does not have one
            requested_at REAL NOT NULL,
            probability REAL NOT NULL,
            metric TEXT NOT NULL,
            metric_version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            value REAL,             -- NULL for a failure
            backfilled INTEGER NOT NULL DEFAULT 0  -- is not evidence for an alarm
        );
INSERT INTO "watch_queue" VALUES(1,'early','bot','early',1790000000.0,1.0,'grounded','1','j1',0.5,0);
INSERT INTO "watch_queue" VALUES(2,'one','bot','one',1790000010.0,1.0,'grounded','1','j1',0.5,0);
INSERT INTO "watch_queue" VALUES(3,'two','bot','two',1790000010.0,1.0,'grounded','1','j1',0.5,0);
INSERT INTO "watch_queue" VALUES(4,'three','bot','three',1790000010.0,1.0,'grounded','1','j1',0.5,0);
INSERT INTO "watch_queue" VALUES(5,'four','bot','four',1790000010.0,1.0,'grounded','1','j1',0.5,0);
CREATE TABLE watch_units (  -- closed sessions of the last 100 days
            seq INTEGER PRIMARY KEY,
            stream INTEGER NOT NULL REFERENCES streams (id),
            session TEXT NOT NULL,
            closed_at REAL NOT NULL,
            value REAL,
            weight REAL NOT NULL,
            failed_weight REAL NOT NULL,
            p_min REAL NOT NULL,
            gap_s REAL,  -- since the last unit of the session
            worst_trace TEXT NOT NULL,
            worst_value REAL,
            labels TEXT
        );
CREATE INDEX traces_by_state ON traces (state);
CREATE INDEX traces_partial ON traces (trace_id) WHERE partial = 1;
CREATE INDEX outcomes_by_metric ON outcomes (metric, metric_version, judge_hash, kind, value);
CREATE INDEX due_deliveries ON outbox (sink, next_try) WHERE state = 'pending';
CREATE INDEX outbox_by_state ON outbox (sink, state);
CREATE INDEX traces_by_time ON traces (started_at);
CREATE INDEX traces_by_app ON traces (app, started_at);
CREATE INDEX sessions_pending ON traces (session_id) WHERE state = 'pending';
CREATE INDEX watch_queue_by_session ON watch_queue (app, session, requested_at);
CREATE INDEX watch_units_by_time ON watch_units (stream, closed_at);
CREATE INDEX watch_units_by_session ON watch_units (session, closed_at);
CREATE INDEX traces_with_text ON traces (started_at)
    WHERE text_removed_at IS NULL AND state IN ('scored', 'not_applicable', 'failed')
;
CREATE INDEX traces_by_otel_id ON traces (otel_trace_id) WHERE otel_trace_id IS NOT NULL;
CREATE INDEX feedback_waiting ON feedback (request_id) WHERE trace_id IS NULL;
CREATE INDEX feedback_by_trace ON feedback (trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX traces_sampled ON traces (started_at) WHERE inclusion_probability < 1 AND state <> 'sampled_out';
COMMIT;
