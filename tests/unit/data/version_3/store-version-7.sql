PRAGMA application_id = 1380406100;
PRAGMA user_version = 7;
BEGIN TRANSACTION;
CREATE TABLE alarms (
            number INTEGER PRIMARY KEY,
            state TEXT NOT NULL CHECK (state IN ('open', 'recovered', 'accepted')),
            body TEXT NOT NULL
        );
INSERT INTO "alarms" VALUES(1,'open','{"x": 1}');
INSERT INTO "alarms" VALUES(2,'open','{"x": 2}');
CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "counters" VALUES('captured',11);
INSERT INTO "counters" VALUES('duplicates',1);
INSERT INTO "counters" VALUES('ignored:only embeddings',2);
CREATE TABLE drops (reason TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "drops" VALUES('queue full',3);
CREATE TABLE label_frame (
            trace_id TEXT PRIMARY KEY,
            probability REAL NOT NULL CHECK (probability > 0 AND probability <= 1),  -- of being drawn
            position INTEGER UNIQUE  -- NULL if not drawn
        ) WITHOUT ROWID
    ;
INSERT INTO "label_frame" VALUES('scored',0.5,0);
CREATE TABLE labels (
            seq INTEGER PRIMARY KEY,
            trace_id TEXT NOT NULL,
            author TEXT NOT NULL,
            value REAL NOT NULL CHECK (value BETWEEN 0 AND 1),
            labeled_at REAL NOT NULL,
            UNIQUE (trace_id, author)
        );
INSERT INTO "labels" VALUES(1,'scored','ann',1.0,60.0);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "meta" VALUES('ignored:only embeddings','trace 1');
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
INSERT INTO "outbox" VALUES(1,'outcome','5fc87866-5ed6-555b-b887-66e9aa81bf99','gone','sent',1,1790000000.0,1790000000.0,NULL);
INSERT INTO "outbox" VALUES(2,'outcome','5fc87866-5ed6-555b-b887-66e9aa81bf99','jsonl:a','sent',1,1790000000.0,1790000000.0,NULL);
INSERT INTO "outbox" VALUES(3,'outcome','e7c700e2-890d-5aae-b41a-a0bc2d185d3c','gone','sent',1,1790000000.0,1790000000.0,NULL);
INSERT INTO "outbox" VALUES(4,'outcome','e7c700e2-890d-5aae-b41a-a0bc2d185d3c','jsonl:a','sent',1,1790000000.0,1790000000.0,NULL);
INSERT INTO "outbox" VALUES(5,'outcome','cb803fdd-938e-52eb-95cb-ccd57102d8b0','gone','pending',0,1790000010.0,1790000010.0,NULL);
INSERT INTO "outbox" VALUES(6,'outcome','cb803fdd-938e-52eb-95cb-ccd57102d8b0','jsonl:a','pending',1,1790000010.0,1790000060.0,'503');
INSERT INTO "outbox" VALUES(7,'outcome','748428f0-53bf-586e-97ca-6b1d885c6489','gone','pending',0,1790000010.0,1790000010.0,NULL);
INSERT INTO "outbox" VALUES(8,'outcome','748428f0-53bf-586e-97ca-6b1d885c6489','jsonl:a','pending',0,1790000010.0,1790000010.0,NULL);
INSERT INTO "outbox" VALUES(9,'outcome','5dd066e4-ab8d-5af6-b27e-861f0ca518cc','jsonl:a','sent',1,1790000020.0,1790000020.0,NULL);
INSERT INTO "outbox" VALUES(10,'outcome','5dd066e4-ab8d-5af6-b27e-861f0ca518cc','otlp','skipped',1,1790000020.0,1790000020.0,'no span');
INSERT INTO "outbox" VALUES(11,'outcome','aff74ee6-9dc5-556a-b7a7-8bdf68039b48','jsonl:a','pending',0,1790000020.0,1790000020.0,NULL);
INSERT INTO "outbox" VALUES(12,'outcome','aff74ee6-9dc5-556a-b7a7-8bdf68039b48','otlp','pending',0,1790000020.0,1790000020.0,NULL);
INSERT INTO "outbox" VALUES(13,'outcome','a281fc3e-ee55-5e22-a930-d268b51011b4','jsonl:a','pending',1,1790000020.0,1790000060.0,'503');
INSERT INTO "outbox" VALUES(14,'outcome','a281fc3e-ee55-5e22-a930-d268b51011b4','otlp','pending',0,1790000020.0,1790000020.0,NULL);
INSERT INTO "outbox" VALUES(15,'outcome','070b4d12-f1d2-5fe3-9f4a-656782c6c91b','jsonl:a','failed',1,1790000020.0,1790000020.0,'refused');
INSERT INTO "outbox" VALUES(16,'outcome','070b4d12-f1d2-5fe3-9f4a-656782c6c91b','otlp','pending',0,1790000020.0,1790000020.0,NULL);
INSERT INTO "outbox" VALUES(17,'outcome','2228e1e8-50e7-5f6d-b56b-7db2ee057150','jsonl:a','pending',0,1790000020.0,1790000020.0,NULL);
INSERT INTO "outbox" VALUES(18,'outcome','2228e1e8-50e7-5f6d-b56b-7db2ee057150','otlp','pending',0,1790000020.0,1790000020.0,NULL);
INSERT INTO "outbox" VALUES(19,'outcome','f91bb208-7caa-5668-9638-3cae7867e63e','jsonl:a','pending',0,1790000020.0,1790000020.0,NULL);
INSERT INTO "outbox" VALUES(20,'outcome','f91bb208-7caa-5668-9638-3cae7867e63e','otlp','pending',0,1790000020.0,1790000020.0,NULL);
INSERT INTO "outbox" VALUES(21,'outcome','50314e05-a280-5771-b671-e2f656f75830','jsonl:a','pending',0,1790000020.0,1790000020.0,NULL);
INSERT INTO "outbox" VALUES(22,'outcome','50314e05-a280-5771-b671-e2f656f75830','otlp','pending',0,1790000020.0,1790000020.0,NULL);
INSERT INTO "outbox" VALUES(23,'alarm','1:opened','jsonl:a','sent',1,1790000030.0,1790000030.0,NULL);
INSERT INTO "outbox" VALUES(24,'alarm','2:opened','jsonl:a','pending',0,1790000030.0,1790000030.0,NULL);
CREATE TABLE outcome_bodies (seq INTEGER PRIMARY KEY REFERENCES outcomes (seq), body TEXT NOT NULL);
INSERT INTO "outcome_bodies" VALUES(1,'{"schema_version":3,"sample_id":"before","metric":"grounded","metric_version":"0","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":1790000000.0,"duration_s":null,"outcome":"score","value":0.25,"interval":null,"method":"exact","n":1,"explanation":null,"details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(2,'{"schema_version":3,"sample_id":"before","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1790000000.0,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":["reference"]}');
INSERT INTO "outcome_bodies" VALUES(3,'{"schema_version":3,"sample_id":"before2","metric":"grounded","metric_version":"0","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":1790000010.0,"duration_s":null,"outcome":"failure","kind":"timeout","reason":"no answer within 30 s","details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(4,'{"schema_version":3,"sample_id":"before2","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1790000010.0,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":["reference"]}');
INSERT INTO "outcome_bodies" VALUES(5,'{"schema_version":3,"sample_id":"scored","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"score","value":0.75,"interval":null,"method":"exact","n":1,"explanation":"It rains.","details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(6,'{"schema_version":3,"sample_id":"scored","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"score","value":1.0,"interval":null,"method":"exact","n":1,"explanation":"It rains.","details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(7,'{"schema_version":3,"sample_id":"failed","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"failure","kind":"timeout","reason":"no answer within 30 s","details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(8,'{"schema_version":3,"sample_id":"failed","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":["reference"]}');
INSERT INTO "outcome_bodies" VALUES(9,'{"schema_version":3,"sample_id":"na","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":["reference"]}');
INSERT INTO "outcome_bodies" VALUES(10,'{"schema_version":3,"sample_id":"na","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":["reference"]}');
INSERT INTO "outcome_bodies" VALUES(11,'{"schema_version":3,"sample_id":"partial","metric":"grounded","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":1790000020.0,"duration_s":null,"outcome":"score","value":0.5,"interval":null,"method":"exact","n":1,"explanation":"It rains.","details":{},"raw":null}');
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
            UNIQUE (sample_id, metric, metric_version, judge_hash)
        );
INSERT INTO "outcomes" VALUES(1,'5fc87866-5ed6-555b-b887-66e9aa81bf99','before','grounded','0','j1','score',0.25,1790000000.0);
INSERT INTO "outcomes" VALUES(2,'e7c700e2-890d-5aae-b41a-a0bc2d185d3c','before','recall','1','','not_applicable',NULL,1790000000.0);
INSERT INTO "outcomes" VALUES(3,'cb803fdd-938e-52eb-95cb-ccd57102d8b0','before2','grounded','0','j1','failure',NULL,1790000010.0);
INSERT INTO "outcomes" VALUES(4,'748428f0-53bf-586e-97ca-6b1d885c6489','before2','recall','1','','not_applicable',NULL,1790000010.0);
INSERT INTO "outcomes" VALUES(5,'5dd066e4-ab8d-5af6-b27e-861f0ca518cc','scored','grounded','1','j1','score',0.75,1790000020.0);
INSERT INTO "outcomes" VALUES(6,'aff74ee6-9dc5-556a-b7a7-8bdf68039b48','scored','recall','1','','score',1.0,1790000020.0);
INSERT INTO "outcomes" VALUES(7,'a281fc3e-ee55-5e22-a930-d268b51011b4','failed','grounded','1','j1','failure',NULL,1790000020.0);
INSERT INTO "outcomes" VALUES(8,'070b4d12-f1d2-5fe3-9f4a-656782c6c91b','failed','recall','1','','not_applicable',NULL,1790000020.0);
INSERT INTO "outcomes" VALUES(9,'2228e1e8-50e7-5f6d-b56b-7db2ee057150','na','grounded','1','j1','not_applicable',NULL,1790000020.0);
INSERT INTO "outcomes" VALUES(10,'f91bb208-7caa-5668-9638-3cae7867e63e','na','recall','1','','not_applicable',NULL,1790000020.0);
INSERT INTO "outcomes" VALUES(11,'50314e05-a280-5771-b671-e2f656f75830','partial','grounded','1','j1','score',0.5,1790000020.0);
CREATE TABLE plan (
            name TEXT PRIMARY KEY,
            version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            position INTEGER NOT NULL,
            finished_before INTEGER NOT NULL  -- traces that were finished without this metric when it joined
        ) WITHOUT ROWID
    ;
INSERT INTO "plan" VALUES('grounded','1','j1',0,2);
INSERT INTO "plan" VALUES('recall','1','',1,0);
CREATE TABLE segments (name TEXT PRIMARY KEY, next_offset INTEGER NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "segments" VALUES('main',2);
CREATE TABLE sinks (
            name TEXT PRIMARY KEY,
            stopped TEXT  -- why nothing is sent until the worker starts again
        ) WITHOUT ROWID
    ;
INSERT INTO "sinks" VALUES('jsonl:a',NULL);
INSERT INTO "sinks" VALUES('otlp','401');
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
INSERT INTO "trace_bodies" VALUES(2,'{"schema_version":3,"trace_id":"before2","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":null,"release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":"Because.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1789999900.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(3,'{"schema_version":3,"trace_id":"scored","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":"s1","user_id":null,"app":"bot","release":"7","environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":"Because.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1789999920.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(4,'{"schema_version":3,"trace_id":"failed","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":"Because.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1789999920.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":0.5,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(5,'{"schema_version":3,"trace_id":"na","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":null,"release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":"Because.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1789999920.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(6,'{"schema_version":3,"trace_id":"partial","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":null,"release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":"Because.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1789999920.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(7,'{"schema_version":3,"trace_id":"pending","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":null,"release":null,"environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":"Because.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1789999920.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
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
            text_removed_at REAL  -- NULL while the text is there, or if it was never captured
        );
INSERT INTO "traces" VALUES(1,'before','scored',0,'ok',1781000000.0,1790000000.0,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,0.0,1790000030.0);
INSERT INTO "traces" VALUES(2,'before2','failed',0,'ok',1789999900.0,1790000000.0,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,0.0,NULL);
INSERT INTO "traces" VALUES(3,'scored','scored',0,'ok',1789999920.0,1790000020.0,1.0,NULL,NULL,NULL,NULL,NULL,'s1',NULL,'bot','7',NULL,0,NULL,0.0,NULL);
INSERT INTO "traces" VALUES(4,'failed','failed',0,'ok',1789999920.0,1790000020.0,0.5,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'bot',NULL,NULL,0,NULL,0.0,NULL);
INSERT INTO "traces" VALUES(5,'na','not_applicable',0,'ok',1789999920.0,1790000020.0,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,0.0,NULL);
INSERT INTO "traces" VALUES(6,'partial','pending',1,'ok',1789999920.0,1790000020.0,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,'worker-x',1790000090.0,NULL);
INSERT INTO "traces" VALUES(7,'pending','pending',0,'ok',1789999920.0,1790000020.0,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,0.0,NULL);
INSERT INTO "traces" VALUES(8,'out','sampled_out',0,NULL,1790000015.0,1790000020.0,0.25,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,0.0,NULL);
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
            value REAL              -- NULL for a failure
        );
INSERT INTO "watch_queue" VALUES(1,'before','','before',1781000000.0,1.0,'grounded','0','j1',0.25);
INSERT INTO "watch_queue" VALUES(2,'before2','','before2',1789999900.0,1.0,'grounded','0','j1',NULL);
INSERT INTO "watch_queue" VALUES(3,'scored','bot','s1',1789999920.0,1.0,'grounded','1','j1',0.75);
INSERT INTO "watch_queue" VALUES(4,'scored','bot','s1',1789999920.0,1.0,'recall','1','',1.0);
INSERT INTO "watch_queue" VALUES(5,'failed','bot','failed',1789999920.0,0.5,'grounded','1','j1',NULL);
INSERT INTO "watch_queue" VALUES(6,'partial','','partial',1789999920.0,1.0,'grounded','1','j1',0.5);
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
COMMIT;
