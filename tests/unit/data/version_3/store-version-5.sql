PRAGMA application_id = 1380406100;
PRAGMA user_version = 5;
BEGIN TRANSACTION;
CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "counters" VALUES('captured',6);
INSERT INTO "counters" VALUES('duplicates',0);
CREATE TABLE drops (reason TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID
    ;
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
INSERT INTO "outbox" VALUES(1,'outcome','56c0900d-fbcb-5c1c-9e5b-999ddcb207b6','jsonl:a','sent',1,1795000001.0,1795000001.0,NULL);
INSERT INTO "outbox" VALUES(2,'outcome','9223ebe4-f0ac-5b43-8919-6af443662b18','jsonl:a','pending',0,1795000001.0,1795000001.0,NULL);
INSERT INTO "outbox" VALUES(3,'outcome','ebc68d53-a84c-5fd3-8f0f-6835a3e1668f','jsonl:a','pending',0,1795000002.0,1795000002.0,NULL);
INSERT INTO "outbox" VALUES(4,'outcome','a29e6b7c-51e0-5c3a-81b2-c4c8c08582ef','jsonl:a','pending',0,1795000002.0,1795000002.0,NULL);
INSERT INTO "outbox" VALUES(5,'outcome','01eb1110-f615-5035-9b5e-d5c66677ac8a','jsonl:a','pending',0,1795000003.0,1795000003.0,NULL);
INSERT INTO "outbox" VALUES(6,'outcome','402be34f-113b-57b5-b480-e706142fb9d5','jsonl:a','pending',0,1795000003.0,1795000003.0,NULL);
INSERT INTO "outbox" VALUES(7,'outcome','871e83ae-8bdd-580a-b4d7-a6caa423063b','jsonl:a','pending',0,1795000004.0,1795000004.0,NULL);
INSERT INTO "outbox" VALUES(8,'outcome','0baef0d8-1259-58b7-8ae2-f71cdecfa73a','jsonl:a','pending',0,1795000004.0,1795000004.0,NULL);
INSERT INTO "outbox" VALUES(9,'outcome','05180c9b-7cff-5330-a89b-f5b951273d68','jsonl:a','pending',0,1795000005.0,1795000005.0,NULL);
CREATE TABLE outcome_bodies (seq INTEGER PRIMARY KEY REFERENCES outcomes (seq), body TEXT NOT NULL);
INSERT INTO "outcome_bodies" VALUES(1,'{"schema_version":3,"sample_id":"t0","metric":"ccrs.qr","metric_version":"1","judge":"j","judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.5,"interval":null,"method":"single_reply","n":1,"explanation":null,"details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(2,'{"schema_version":3,"sample_id":"t0","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
INSERT INTO "outcome_bodies" VALUES(3,'{"schema_version":3,"sample_id":"t1","metric":"ccrs.qr","metric_version":"1","judge":"j","judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.6,"interval":null,"method":"single_reply","n":1,"explanation":null,"details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(4,'{"schema_version":3,"sample_id":"t1","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
INSERT INTO "outcome_bodies" VALUES(5,'{"schema_version":3,"sample_id":"t2","metric":"ccrs.qr","metric_version":"1","judge":null,"judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"failure","kind":"refused","reason":"x","details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(6,'{"schema_version":3,"sample_id":"t2","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
INSERT INTO "outcome_bodies" VALUES(7,'{"schema_version":3,"sample_id":"t3","metric":"ccrs.qr","metric_version":"1","judge":"j","judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.8,"interval":null,"method":"single_reply","n":1,"explanation":null,"details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(8,'{"schema_version":3,"sample_id":"t3","metric":"recall","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":[]}');
INSERT INTO "outcome_bodies" VALUES(9,'{"schema_version":3,"sample_id":"t4","metric":"ccrs.qr","metric_version":"1","judge":"j","judge_hash":"j1","prompt_hash":null,"usage":null,"created_at":null,"duration_s":null,"outcome":"score","value":0.9,"interval":null,"method":"single_reply","n":1,"explanation":null,"details":{},"raw":null}');
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
INSERT INTO "outcomes" VALUES(1,'56c0900d-fbcb-5c1c-9e5b-999ddcb207b6','t0','ccrs.qr','1','j1','score',0.5,1795000001.0);
INSERT INTO "outcomes" VALUES(2,'9223ebe4-f0ac-5b43-8919-6af443662b18','t0','recall','1','','not_applicable',NULL,1795000001.0);
INSERT INTO "outcomes" VALUES(3,'ebc68d53-a84c-5fd3-8f0f-6835a3e1668f','t1','ccrs.qr','1','j1','score',0.6,1795000002.0);
INSERT INTO "outcomes" VALUES(4,'a29e6b7c-51e0-5c3a-81b2-c4c8c08582ef','t1','recall','1','','not_applicable',NULL,1795000002.0);
INSERT INTO "outcomes" VALUES(5,'01eb1110-f615-5035-9b5e-d5c66677ac8a','t2','ccrs.qr','1','j1','failure',NULL,1795000003.0);
INSERT INTO "outcomes" VALUES(6,'402be34f-113b-57b5-b480-e706142fb9d5','t2','recall','1','','not_applicable',NULL,1795000003.0);
INSERT INTO "outcomes" VALUES(7,'871e83ae-8bdd-580a-b4d7-a6caa423063b','t3','ccrs.qr','1','j1','score',0.8,1795000004.0);
INSERT INTO "outcomes" VALUES(8,'0baef0d8-1259-58b7-8ae2-f71cdecfa73a','t3','recall','1','','not_applicable',NULL,1795000004.0);
INSERT INTO "outcomes" VALUES(9,'05180c9b-7cff-5330-a89b-f5b951273d68','t4','ccrs.qr','1','j1','score',0.9,1795000005.0);
CREATE TABLE plan (
            name TEXT PRIMARY KEY,
            version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            position INTEGER NOT NULL,
            finished_before INTEGER NOT NULL  -- traces that were finished without this metric when it joined
        ) WITHOUT ROWID
    ;
INSERT INTO "plan" VALUES('ccrs.qr','1','j1',0,0);
INSERT INTO "plan" VALUES('recall','1','',1,0);
CREATE TABLE segments (name TEXT PRIMARY KEY, next_offset INTEGER NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "segments" VALUES('seg',100);
CREATE TABLE sinks (
            name TEXT PRIMARY KEY,
            stopped TEXT  -- why nothing is sent until the worker starts again
        ) WITHOUT ROWID
    ;
INSERT INTO "sinks" VALUES('jsonl:a',NULL);
CREATE TABLE trace_bodies (seq INTEGER PRIMARY KEY REFERENCES traces (seq), body TEXT NOT NULL);
INSERT INTO "trace_bodies" VALUES(1,'{"schema_version":3,"trace_id":"t0","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":"s0","user_id":null,"app":"qa-bot","release":"2.4.0","environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999000.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(2,'{"schema_version":3,"trace_id":"t1","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":"s0","user_id":null,"app":"qa-bot","release":"2.4.0","environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999060.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(3,'{"schema_version":3,"trace_id":"t2","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":"s1","user_id":null,"app":"qa-bot","release":"2.4.0","environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999120.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(4,'{"schema_version":3,"trace_id":"t3","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":"s1","user_id":null,"app":"qa-bot","release":"2.4.0","environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999180.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(5,'{"schema_version":3,"trace_id":"t4","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":"s2","user_id":null,"app":"qa-bot","release":"2.4.0","environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999240.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(6,'{"schema_version":3,"trace_id":"t5","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":"s2","user_id":null,"app":"qa-bot","release":"2.4.0","environment":null,"query":"Why?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999300.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
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
            lease_until REAL NOT NULL DEFAULT 0
        );
INSERT INTO "traces" VALUES(1,'t0','scored',0,'ok',1794999000.0,1795000000.0,1.0,NULL,NULL,NULL,NULL,NULL,'s0',NULL,'qa-bot','2.4.0',NULL,0,NULL,0.0);
INSERT INTO "traces" VALUES(2,'t1','scored',0,'ok',1794999060.0,1795000000.0,1.0,NULL,NULL,NULL,NULL,NULL,'s0',NULL,'qa-bot','2.4.0',NULL,0,NULL,0.0);
INSERT INTO "traces" VALUES(3,'t2','failed',0,'ok',1794999120.0,1795000000.0,1.0,NULL,NULL,NULL,NULL,NULL,'s1',NULL,'qa-bot','2.4.0',NULL,0,NULL,0.0);
INSERT INTO "traces" VALUES(4,'t3','scored',0,'ok',1794999180.0,1795000000.0,1.0,NULL,NULL,NULL,NULL,NULL,'s1',NULL,'qa-bot','2.4.0',NULL,0,NULL,0.0);
INSERT INTO "traces" VALUES(5,'t4','pending',1,'ok',1794999240.0,1795000000.0,1.0,NULL,NULL,NULL,NULL,NULL,'s2',NULL,'qa-bot','2.4.0',NULL,0,NULL,0.0);
INSERT INTO "traces" VALUES(6,'t5','pending',0,'ok',1794999300.0,1795000000.0,1.0,NULL,NULL,NULL,NULL,NULL,'s2',NULL,'qa-bot','2.4.0',NULL,0,NULL,0.0);
CREATE INDEX traces_by_state ON traces (state);
CREATE INDEX traces_partial ON traces (trace_id) WHERE partial = 1;
CREATE INDEX outcomes_by_metric ON outcomes (metric, metric_version, judge_hash, kind, value);
CREATE INDEX due_deliveries ON outbox (sink, next_try) WHERE state = 'pending';
CREATE INDEX outbox_by_state ON outbox (sink, state);
CREATE INDEX traces_by_time ON traces (started_at);
CREATE INDEX traces_by_app ON traces (app, started_at);
COMMIT;
