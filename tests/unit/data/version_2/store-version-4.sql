PRAGMA application_id=1380406100;
PRAGMA user_version=4;
BEGIN TRANSACTION;
CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "counters" VALUES('captured',10);
INSERT INTO "counters" VALUES('duplicates',0);
INSERT INTO "counters" VALUES('ignored:no request',2);
CREATE TABLE drops (reason TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "drops" VALUES('queue_full',3);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "meta" VALUES('ignored:no request','span 7');
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
INSERT INTO "outbox" VALUES(1,'outcome','ad596e52-1f6e-5705-8534-c5fa032610b5','jsonl:a','sent',1,1795000002.0,1795000002.0,NULL);
INSERT INTO "outbox" VALUES(2,'outcome','ad596e52-1f6e-5705-8534-c5fa032610b5','otlp','pending',0,1795000002.0,1795000002.0,NULL);
INSERT INTO "outbox" VALUES(3,'outcome','f507ad3c-c190-592a-80ec-4fbb265842f0','jsonl:a','sent',1,1795000002.0,1795000002.0,NULL);
INSERT INTO "outbox" VALUES(4,'outcome','f507ad3c-c190-592a-80ec-4fbb265842f0','otlp','pending',0,1795000002.0,1795000002.0,NULL);
INSERT INTO "outbox" VALUES(5,'outcome','6730c38f-0494-59c0-96a5-4c9c10ccfdc8','jsonl:a','skipped',1,1795000003.0,1795000003.0,'no target');
INSERT INTO "outbox" VALUES(6,'outcome','6730c38f-0494-59c0-96a5-4c9c10ccfdc8','otlp','pending',0,1795000003.0,1795000003.0,NULL);
INSERT INTO "outbox" VALUES(7,'outcome','43b8418f-07b8-56f8-a2d4-ba77eb603833','jsonl:a','failed',1,1795000003.0,1795000003.0,'400 bad request');
INSERT INTO "outbox" VALUES(8,'outcome','43b8418f-07b8-56f8-a2d4-ba77eb603833','otlp','pending',0,1795000003.0,1795000003.0,NULL);
INSERT INTO "outbox" VALUES(9,'outcome','0cdb2b00-0b82-5960-b7ca-221d4e40ab1e','jsonl:a','pending',1,1795000004.0,1795000036.0,'503');
INSERT INTO "outbox" VALUES(10,'outcome','0cdb2b00-0b82-5960-b7ca-221d4e40ab1e','otlp','pending',0,1795000004.0,1795000004.0,NULL);
INSERT INTO "outbox" VALUES(11,'outcome','4cb72465-e752-5845-8668-629f3dea9984','jsonl:a','pending',0,1795000004.0,1795000004.0,NULL);
INSERT INTO "outbox" VALUES(12,'outcome','4cb72465-e752-5845-8668-629f3dea9984','otlp','pending',0,1795000004.0,1795000004.0,NULL);
INSERT INTO "outbox" VALUES(13,'outcome','f33b3a4c-4d46-5f50-b418-9c4857dd49cd','jsonl:a','pending',0,1795000005.0,1795000005.0,NULL);
INSERT INTO "outbox" VALUES(14,'outcome','f33b3a4c-4d46-5f50-b418-9c4857dd49cd','otlp','pending',0,1795000005.0,1795000005.0,NULL);
CREATE TABLE outcome_bodies (seq INTEGER PRIMARY KEY REFERENCES outcomes (seq), body TEXT NOT NULL);
INSERT INTO "outcome_bodies" VALUES(1,'{"schema_version":3,"sample_id":"t0","metric":"ccrs.cc","metric_version":"2","judge":"judge-1","judge_hash":"j","prompt_hash":"p","usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"score","value":0.75,"interval":{"low":0.5,"high":0.9,"confidence_level":0.9,"method":"betting"},"method":"single_reply","n":1,"explanation":null,"details":{},"raw":"75"}');
INSERT INTO "outcome_bodies" VALUES(2,'{"schema_version":3,"sample_id":"t0","metric":"exact","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"score","value":1.0,"interval":null,"method":"exact","n":1,"explanation":null,"details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(3,'{"schema_version":3,"sample_id":"t1","metric":"ccrs.cc","metric_version":"2","judge":"judge-1","judge_hash":"j","prompt_hash":"p","usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"failure","kind":"timeout","reason":"60 s","details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(4,'{"schema_version":3,"sample_id":"t1","metric":"exact","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"score","value":0.0,"interval":null,"method":"exact","n":1,"explanation":null,"details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(5,'{"schema_version":3,"sample_id":"t2","metric":"ccrs.cc","metric_version":"2","judge":"judge-1","judge_hash":"j","prompt_hash":"p","usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"not_applicable","reason":"no contexts","missing":["contexts"]}');
INSERT INTO "outcome_bodies" VALUES(6,'{"schema_version":3,"sample_id":"t2","metric":"exact","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"not_applicable","reason":"no reference","missing":["reference"]}');
INSERT INTO "outcome_bodies" VALUES(7,'{"schema_version":3,"sample_id":"t3","metric":"exact","metric_version":"1","judge":null,"judge_hash":"","prompt_hash":null,"usage":null,"created_at":1795000001.0,"duration_s":null,"outcome":"score","value":0.25,"interval":null,"method":"exact","n":1,"explanation":null,"details":{},"raw":null}');
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
INSERT INTO "outcomes" VALUES(1,'ad596e52-1f6e-5705-8534-c5fa032610b5','t0','ccrs.cc','2','j','score',0.75,1795000002.0);
INSERT INTO "outcomes" VALUES(2,'f507ad3c-c190-592a-80ec-4fbb265842f0','t0','exact','1','','score',1.0,1795000002.0);
INSERT INTO "outcomes" VALUES(3,'6730c38f-0494-59c0-96a5-4c9c10ccfdc8','t1','ccrs.cc','2','j','failure',NULL,1795000003.0);
INSERT INTO "outcomes" VALUES(4,'43b8418f-07b8-56f8-a2d4-ba77eb603833','t1','exact','1','','score',0.0,1795000003.0);
INSERT INTO "outcomes" VALUES(5,'0cdb2b00-0b82-5960-b7ca-221d4e40ab1e','t2','ccrs.cc','2','j','not_applicable',NULL,1795000004.0);
INSERT INTO "outcomes" VALUES(6,'4cb72465-e752-5845-8668-629f3dea9984','t2','exact','1','','not_applicable',NULL,1795000004.0);
INSERT INTO "outcomes" VALUES(7,'f33b3a4c-4d46-5f50-b418-9c4857dd49cd','t3','exact','1','','score',0.25,1795000005.0);
CREATE TABLE plan (
            name TEXT PRIMARY KEY,
            version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            position INTEGER NOT NULL,
            finished_before INTEGER NOT NULL  -- traces that were finished without this metric when it joined
        ) WITHOUT ROWID
    ;
INSERT INTO "plan" VALUES('ccrs.cc','2','j',1,0);
INSERT INTO "plan" VALUES('exact','1','',0,0);
CREATE TABLE segments (name TEXT PRIMARY KEY, next_offset INTEGER NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "segments" VALUES('later',1);
INSERT INTO "segments" VALUES('segment-1',900);
CREATE TABLE sinks (
            name TEXT PRIMARY KEY,
            stopped TEXT  -- why nothing is sent until the worker starts again
        ) WITHOUT ROWID
    ;
INSERT INTO "sinks" VALUES('jsonl:a',NULL);
INSERT INTO "sinks" VALUES('otlp','401');
CREATE TABLE trace_bodies (seq INTEGER PRIMARY KEY REFERENCES traces (seq), body TEXT NOT NULL);
INSERT INTO "trace_bodies" VALUES(1,'{"schema_version":3,"trace_id":"t0","name":"qa","source":"langchain","run_id":null,"parent_run_id":null,"otel_trace_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","otel_span_id":"bbbbbbbbbbbbbbbb","otel_sampled":true,"session_id":"s0","user_id":"u","query":"Question 0?","standalone_query":null,"retrievals":[{"query":"q","passages":[{"text":"Passage 0.","id":"p0","score":null,"rank":null,"relevance":null,"metadata":{}}],"name":null,"stages":[]}],"contexts":null,"response":"Answer 0.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1795000000.0,"ended_at":1795000000.0,"first_token_s":null,"model":null,"usage":null,"tags":["blue"],"metadata":{"topic":"tea","release":"2.4"},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(2,'{"schema_version":3,"trace_id":"t1","name":"qa","source":"langchain","run_id":null,"parent_run_id":null,"otel_trace_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","otel_span_id":"bbbbbbbbbbbbbbbb","otel_sampled":true,"session_id":"s1","user_id":"u","query":"Question 1?","standalone_query":null,"retrievals":[{"query":"q","passages":[{"text":"Passage 1.","id":"p1","score":null,"rank":null,"relevance":null,"metadata":{}}],"name":null,"stages":[]}],"contexts":null,"response":"Answer 1.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999940.0,"ended_at":1795000000.0,"first_token_s":null,"model":null,"usage":null,"tags":["blue"],"metadata":{"topic":"tea","release":"2.4"},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(3,'{"schema_version":3,"trace_id":"t2","name":"qa","source":"langchain","run_id":null,"parent_run_id":null,"otel_trace_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","otel_span_id":"bbbbbbbbbbbbbbbb","otel_sampled":true,"session_id":"s0","user_id":"u","query":"Question 2?","standalone_query":null,"retrievals":[{"query":"q","passages":[{"text":"Passage 2.","id":"p2","score":null,"rank":null,"relevance":null,"metadata":{}}],"name":null,"stages":[]}],"contexts":null,"response":"Answer 2.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999880.0,"ended_at":1795000000.0,"first_token_s":null,"model":null,"usage":null,"tags":["blue"],"metadata":{"topic":"tea","release":"2.4"},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(4,'{"schema_version":3,"trace_id":"t3","name":"qa","source":"langchain","run_id":null,"parent_run_id":null,"otel_trace_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","otel_span_id":"bbbbbbbbbbbbbbbb","otel_sampled":true,"session_id":"s1","user_id":"u","query":"Question 3?","standalone_query":null,"retrievals":[{"query":"q","passages":[{"text":"Passage 3.","id":"p3","score":null,"rank":null,"relevance":null,"metadata":{}}],"name":null,"stages":[]}],"contexts":null,"response":"Answer 3.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999820.0,"ended_at":1795000000.0,"first_token_s":null,"model":null,"usage":null,"tags":["blue"],"metadata":{"topic":"tea","release":"2.4"},"inclusion_probability":0.5,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(5,'{"schema_version":3,"trace_id":"t4","name":"qa","source":"langchain","run_id":null,"parent_run_id":null,"otel_trace_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","otel_span_id":"bbbbbbbbbbbbbbbb","otel_sampled":true,"session_id":"s0","user_id":"u","query":"Question 4?","standalone_query":null,"retrievals":[{"query":"q","passages":[{"text":"Passage 4.","id":"p4","score":null,"rank":null,"relevance":null,"metadata":{}}],"name":null,"stages":[]}],"contexts":null,"response":"Answer 4.","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1794999760.0,"ended_at":1795000000.0,"first_token_s":null,"model":null,"usage":null,"tags":["blue"],"metadata":{"topic":"tea","release":"2.4"},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
INSERT INTO "trace_bodies" VALUES(7,'{"schema_version":3,"trace_id":"with-app","name":null,"source":"unknown","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"app":"bot","release":null,"environment":null,"query":"When?","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":null,"reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1700000000.0,"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":null}');
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
            attempts INTEGER NOT NULL DEFAULT 0,
            lease_owner TEXT,
            lease_until REAL NOT NULL DEFAULT 0
        , app TEXT, release TEXT, environment TEXT);
INSERT INTO "traces" VALUES(1,'t0','scored',0,'ok',1795000000.0,1795000001.0,1.0,'qa',NULL,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','bbbbbbbbbbbbbbbb',1,'s0','u',0,NULL,0.0,NULL,NULL,NULL);
INSERT INTO "traces" VALUES(2,'t1','failed',0,'ok',1794999940.0,1795000001.0,1.0,'qa',NULL,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','bbbbbbbbbbbbbbbb',1,'s1','u',0,NULL,0.0,NULL,NULL,NULL);
INSERT INTO "traces" VALUES(3,'t2','not_applicable',0,'ok',1794999880.0,1795000001.0,1.0,'qa',NULL,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','bbbbbbbbbbbbbbbb',1,'s0','u',0,NULL,0.0,NULL,NULL,NULL);
INSERT INTO "traces" VALUES(4,'t3','pending',1,'ok',1794999820.0,1795000001.0,0.5,'qa',NULL,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','bbbbbbbbbbbbbbbb',1,'s1','u',1,'worker-1',1795000067.0,NULL,NULL,NULL);
INSERT INTO "traces" VALUES(5,'t4','pending',0,'ok',1794999760.0,1795000001.0,1.0,'qa',NULL,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','bbbbbbbbbbbbbbbb',1,'s0','u',0,NULL,0.0,NULL,NULL,NULL);
INSERT INTO "traces" VALUES(6,'t9','sampled_out',0,NULL,1795000000.0,1795000001.0,0.5,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,0.0,NULL,NULL,NULL);
INSERT INTO "traces" VALUES(7,'with-app','pending',0,'ok',1700000000.0,1.79541398288010811811e+09,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,0.0,'bot',NULL,NULL);
CREATE INDEX traces_by_state ON traces (state);
CREATE INDEX traces_partial ON traces (trace_id) WHERE partial = 1;
CREATE INDEX outcomes_by_metric ON outcomes (metric, metric_version, judge_hash, kind, value);
CREATE INDEX traces_by_time ON traces (started_at);
CREATE INDEX due_deliveries ON outbox (sink, next_try) WHERE state = 'pending';
CREATE INDEX outbox_by_state ON outbox (sink, state);
CREATE INDEX traces_by_app ON traces (app, started_at);
COMMIT;
