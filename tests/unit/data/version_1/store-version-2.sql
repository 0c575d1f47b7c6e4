PRAGMA application_id = 1380406100;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "counters" VALUES('captured',7);
INSERT INTO "counters" VALUES('duplicates',0);
CREATE TABLE drops (reason TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "drops" VALUES('queue_full',3);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "meta" VALUES('schema_version','1');
CREATE TABLE outbox (
            seq INTEGER PRIMARY KEY,
            outcome_id TEXT NOT NULL REFERENCES outcomes (outcome_id),
            sink TEXT NOT NULL,
            state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'skipped', 'dead')),
            attempts INTEGER NOT NULL DEFAULT 0,
            since REAL NOT NULL,  -- when it was put in line, last
            next_try REAL NOT NULL,
            last_error TEXT,
            UNIQUE (outcome_id, sink)
        );
INSERT INTO "outbox" VALUES(1,'d47b5fda-ea18-54dd-9eda-1b37f9ed486e','jsonl:a','sent',1,1.79535168339787817e+09,1.79535168339787817e+09,NULL);
INSERT INTO "outbox" VALUES(2,'d47b5fda-ea18-54dd-9eda-1b37f9ed486e','otlp','dead',1,1.79535168339787817e+09,1.79535168339787817e+09,'refused');
INSERT INTO "outbox" VALUES(3,'2782f7c8-ec51-54e8-8580-b1b9a0771e98','jsonl:a','skipped',1,1.79535168339787817e+09,1.79535168339787817e+09,'no place');
INSERT INTO "outbox" VALUES(4,'2782f7c8-ec51-54e8-8580-b1b9a0771e98','otlp','dead',1,1.79535168339787817e+09,1.79535168339787817e+09,'refused');
INSERT INTO "outbox" VALUES(5,'6c6d8138-d7a0-5ae0-b3bf-eb1ea2c66413','jsonl:a','dead',1,1.79535168339787817e+09,1.79535168339787817e+09,'400 bad request');
INSERT INTO "outbox" VALUES(6,'6c6d8138-d7a0-5ae0-b3bf-eb1ea2c66413','otlp','pending',0,1.79535168339787817e+09,1.79535168339787817e+09,NULL);
INSERT INTO "outbox" VALUES(7,'d3b14086-17fd-5c28-b582-ed1b864b2bff','jsonl:a','pending',0,1.79535168340108346944e+09,1.79535168340108346944e+09,NULL);
INSERT INTO "outbox" VALUES(8,'d3b14086-17fd-5c28-b582-ed1b864b2bff','otlp','pending',0,1.79535168340108346944e+09,1.79535168340108346944e+09,NULL);
INSERT INTO "outbox" VALUES(9,'2361fa6a-d27b-51eb-912f-df6cc9850f52','jsonl:a','pending',0,1.79535168340108346944e+09,1.79535168340108346944e+09,NULL);
INSERT INTO "outbox" VALUES(10,'2361fa6a-d27b-51eb-912f-df6cc9850f52','otlp','pending',0,1.79535168340108346944e+09,1.79535168340108346944e+09,NULL);
INSERT INTO "outbox" VALUES(11,'2a6055ec-2870-5fb5-afc6-16169f0d9d5a','jsonl:a','pending',0,1.79535168340108346944e+09,1.79535168340108346944e+09,NULL);
INSERT INTO "outbox" VALUES(12,'2a6055ec-2870-5fb5-afc6-16169f0d9d5a','otlp','pending',0,1.79535168340108346944e+09,1.79535168340108346944e+09,NULL);
INSERT INTO "outbox" VALUES(13,'999b85ea-4744-506d-bc18-2398eefb67f4','jsonl:a','pending',0,1.79535168340172958381e+09,1.79535168340172958381e+09,NULL);
INSERT INTO "outbox" VALUES(14,'999b85ea-4744-506d-bc18-2398eefb67f4','otlp','pending',0,1.79535168340172958381e+09,1.79535168340172958381e+09,NULL);
INSERT INTO "outbox" VALUES(15,'daee90c6-cd25-51f6-a84c-02f5d6bce85f','jsonl:a','pending',0,1.79535168340172958381e+09,1.79535168340172958381e+09,NULL);
INSERT INTO "outbox" VALUES(16,'daee90c6-cd25-51f6-a84c-02f5d6bce85f','otlp','pending',0,1.79535168340172958381e+09,1.79535168340172958381e+09,NULL);
INSERT INTO "outbox" VALUES(17,'ea77b6b7-f13e-5636-b84d-ba0ceb0b3fca','jsonl:a','pending',0,1.79535168340172958381e+09,1.79535168340172958381e+09,NULL);
INSERT INTO "outbox" VALUES(18,'ea77b6b7-f13e-5636-b84d-ba0ceb0b3fca','otlp','pending',0,1.79535168340172958381e+09,1.79535168340172958381e+09,NULL);
CREATE TABLE outcome_bodies (seq INTEGER PRIMARY KEY REFERENCES outcomes (seq), body TEXT NOT NULL);
INSERT INTO "outcome_bodies" VALUES(1,'{"schema_version":1,"sample_id":"t0","metric":"ccrs.cc","metric_version":"1","judge":"lexical baseline","judge_hash":"abc123","prompt_hash":null,"usage":null,"created_at":1760000010.0,"duration_s":0.25,"outcome":"score","value":0.75,"interval":{"low":0.5,"high":0.9,"level":0.95,"method":"exact"},"method":"exact","n":1,"explanation":null,"details":{},"raw":"75"}');
INSERT INTO "outcome_bodies" VALUES(2,'{"schema_version":1,"sample_id":"t0","metric":"crux_free.coverage","metric_version":"1","judge":"lexical baseline","judge_hash":"abc123","prompt_hash":null,"usage":null,"created_at":1760000010.0,"duration_s":0.25,"outcome":"score","value":0.5,"interval":{"low":0.1,"high":0.8,"level":0.9,"method":"wilson"},"method":"single_reply","n":2,"explanation":"one of two","details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(3,'{"schema_version":1,"sample_id":"t0","metric":"ragchecker.hallucination","metric_version":"1","judge":"lexical baseline","judge_hash":"abc123","prompt_hash":null,"usage":null,"created_at":1760000010.0,"duration_s":0.25,"outcome":"score","value":0.0,"interval":null,"method":"single_reply","n":1,"explanation":null,"details":{"borne_out":[true,false],"n_claims":2},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(4,'{"schema_version":1,"sample_id":"t1","metric":"ccrs.cc","metric_version":"1","judge":"lexical baseline","judge_hash":"abc123","prompt_hash":null,"usage":null,"created_at":1760000010.0,"duration_s":0.25,"outcome":"score","value":0.75,"interval":{"low":0.5,"high":0.9,"level":0.95,"method":"exact"},"method":"exact","n":1,"explanation":null,"details":{},"raw":"75"}');
INSERT INTO "outcome_bodies" VALUES(5,'{"schema_version":1,"sample_id":"t1","metric":"crux_free.coverage","metric_version":"1","judge":"lexical baseline","judge_hash":"abc123","prompt_hash":null,"usage":null,"created_at":1760000010.0,"duration_s":0.25,"outcome":"score","value":0.5,"interval":{"low":0.1,"high":0.8,"level":0.9,"method":"wilson"},"method":"single_reply","n":2,"explanation":"one of two","details":{},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(6,'{"schema_version":1,"sample_id":"t1","metric":"ragchecker.hallucination","metric_version":"1","judge":"lexical baseline","judge_hash":"abc123","prompt_hash":null,"usage":null,"created_at":1760000010.0,"duration_s":0.25,"outcome":"score","value":0.0,"interval":null,"method":"single_reply","n":1,"explanation":null,"details":{"borne_out":[true,false],"n_claims":2},"raw":null}');
INSERT INTO "outcome_bodies" VALUES(7,'{"schema_version":1,"sample_id":"t2","metric":"ccrs.cc","metric_version":"1","judge":"lexical baseline","judge_hash":"abc123","prompt_hash":null,"usage":null,"created_at":1760000010.0,"duration_s":0.25,"outcome":"not_applicable","reason":"the request failed","missing":["response"]}');
INSERT INTO "outcome_bodies" VALUES(8,'{"schema_version":1,"sample_id":"t2","metric":"crux_free.coverage","metric_version":"1","judge":"lexical baseline","judge_hash":"abc123","prompt_hash":null,"usage":null,"created_at":1760000010.0,"duration_s":0.25,"outcome":"failure","kind":"timeout","reason":"no answer within 10 s","details":{"bounds":[0.0,1.0]},"raw":""}');
INSERT INTO "outcome_bodies" VALUES(9,'{"schema_version":1,"sample_id":"t2","metric":"ragchecker.hallucination","metric_version":"1","judge":"lexical baseline","judge_hash":"abc123","prompt_hash":null,"usage":null,"created_at":1760000010.0,"duration_s":0.25,"outcome":"not_applicable","reason":"the request failed","missing":[]}');
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
INSERT INTO "outcomes" VALUES(1,'d47b5fda-ea18-54dd-9eda-1b37f9ed486e','t0','ccrs.cc','1','abc123','score',0.75,1.79535168339787817e+09);
INSERT INTO "outcomes" VALUES(2,'2782f7c8-ec51-54e8-8580-b1b9a0771e98','t0','crux_free.coverage','1','abc123','score',0.5,1.79535168339787817e+09);
INSERT INTO "outcomes" VALUES(3,'6c6d8138-d7a0-5ae0-b3bf-eb1ea2c66413','t0','ragchecker.hallucination','1','abc123','score',0.0,1.79535168339787817e+09);
INSERT INTO "outcomes" VALUES(4,'d3b14086-17fd-5c28-b582-ed1b864b2bff','t1','ccrs.cc','1','abc123','score',0.75,1.79535168340108346944e+09);
INSERT INTO "outcomes" VALUES(5,'2361fa6a-d27b-51eb-912f-df6cc9850f52','t1','crux_free.coverage','1','abc123','score',0.5,1.79535168340108346944e+09);
INSERT INTO "outcomes" VALUES(6,'2a6055ec-2870-5fb5-afc6-16169f0d9d5a','t1','ragchecker.hallucination','1','abc123','score',0.0,1.79535168340108346944e+09);
INSERT INTO "outcomes" VALUES(7,'999b85ea-4744-506d-bc18-2398eefb67f4','t2','ccrs.cc','1','abc123','not_applicable',NULL,1.79535168340172958381e+09);
INSERT INTO "outcomes" VALUES(8,'daee90c6-cd25-51f6-a84c-02f5d6bce85f','t2','crux_free.coverage','1','abc123','failure',NULL,1.79535168340172958381e+09);
INSERT INTO "outcomes" VALUES(9,'ea77b6b7-f13e-5636-b84d-ba0ceb0b3fca','t2','ragchecker.hallucination','1','abc123','not_applicable',NULL,1.79535168340172958381e+09);
CREATE TABLE plan (
            name TEXT PRIMARY KEY,
            version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            position INTEGER NOT NULL,
            finished_before INTEGER NOT NULL  -- traces that were finished without this metric when it joined
        ) WITHOUT ROWID
    ;
INSERT INTO "plan" VALUES('ccrs.cc','1','abc123',0,0);
INSERT INTO "plan" VALUES('crux_free.coverage','1','abc123',1,0);
INSERT INTO "plan" VALUES('ragchecker.hallucination','1','abc123',2,0);
CREATE TABLE segments (name TEXT PRIMARY KEY, next_offset INTEGER NOT NULL) WITHOUT ROWID
    ;
INSERT INTO "segments" VALUES('seg',100);
CREATE TABLE sinks (
            name TEXT PRIMARY KEY,
            stopped TEXT  -- why nothing is sent until the worker starts again
        ) WITHOUT ROWID
    ;
INSERT INTO "sinks" VALUES('jsonl:a',NULL);
INSERT INTO "sinks" VALUES('otlp',NULL);
CREATE TABLE trace_bodies (seq INTEGER PRIMARY KEY REFERENCES traces (seq), body TEXT NOT NULL);
INSERT INTO "trace_bodies" VALUES(1,'{"schema_version":1,"trace_id":"t0","name":"answer","source":"langchain","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"query":"What is the capital of France?","searches":[{"query":"capital of France","passages":[{"text":"Paris is the capital of France.","id":"d1","score":0.9,"rank":0,"relevance":null,"metadata":{"title":"France"}},{"text":"Lyon is a city in France.","id":"d2","score":0.4,"rank":1,"relevance":null,"metadata":{}}],"name":"faiss"},{"query":"France","passages":[{"text":"Lyon is a city in France.","id":"d2","score":0.4,"rank":1,"relevance":null,"metadata":{}}],"name":null}],"contexts":null,"response":"Paris.","reference":["Paris"],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1760000000.0,"ended_at":1760000001.5,"first_token_s":null,"model":null,"usage":{"input_tokens":120,"output_tokens":3,"calls":1,"cached":0,"cost_usd":null},"tags":["prod"],"metadata":{"release":"1.2"},"inclusion_probability":0.5,"truncated_fields":["searches.passages.text"]}');
INSERT INTO "trace_bodies" VALUES(2,'{"schema_version":1,"trace_id":"t1","name":"answer","source":"langchain","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"query":"What is the capital of France?","searches":[{"query":"capital of France","passages":[{"text":"Paris is the capital of France.","id":"d1","score":0.9,"rank":0,"relevance":null,"metadata":{"title":"France"}},{"text":"Lyon is a city in France.","id":"d2","score":0.4,"rank":1,"relevance":null,"metadata":{}}],"name":"faiss"},{"query":"France","passages":[{"text":"Lyon is a city in France.","id":"d2","score":0.4,"rank":1,"relevance":null,"metadata":{}}],"name":null}],"contexts":[{"text":"Paris is the capital of France.","id":"d1","score":null,"rank":null,"relevance":null,"metadata":{}}],"response":"Paris.","reference":["Paris"],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":1760000001.0,"ended_at":1760000002.5,"first_token_s":null,"model":null,"usage":{"input_tokens":120,"output_tokens":3,"calls":1,"cached":0,"cost_usd":null},"tags":["prod"],"metadata":{"release":"1.2"},"inclusion_probability":0.5,"truncated_fields":["searches.passages.text"]}');
INSERT INTO "trace_bodies" VALUES(3,'{"schema_version":1,"trace_id":"t2","name":"answer","source":"langchain","run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,"user_id":null,"query":"What is the capital of France?","searches":[],"contexts":null,"response":"Paris.","reference":["Paris"],"sub_questions":[],"qrels":null,"ratings":null,"status":"error","error":"TimeoutError: no reply","inner_errors":[],"started_at":1760000002.0,"ended_at":1760000003.5,"first_token_s":null,"model":null,"usage":{"input_tokens":120,"output_tokens":3,"calls":1,"cached":0,"cost_usd":null},"tags":["prod"],"metadata":{"release":"1.2"},"inclusion_probability":0.5,"truncated_fields":[]}');
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
        );
INSERT INTO "traces" VALUES(1,'t0','scored',0,'ok',1760000000.0,1.79535168339674806601e+09,0.5,'answer',NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,0.0);
INSERT INTO "traces" VALUES(2,'t1','scored',0,'ok',1760000001.0,1.79535168339674806601e+09,0.5,'answer',NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,0.0);
INSERT INTO "traces" VALUES(3,'t2','failed',0,'error',1760000002.0,1.79535168339674806601e+09,0.5,'answer',NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,0.0);
INSERT INTO "traces" VALUES(4,'t9','sampled_out',0,NULL,1760000009.0,1.79535168339674806601e+09,0.5,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,0.0);
CREATE INDEX traces_by_state ON traces (state);
CREATE INDEX traces_partial ON traces (trace_id) WHERE partial = 1;
CREATE INDEX outcomes_by_metric ON outcomes (metric, metric_version, judge_hash, kind, value);
CREATE INDEX outbox_due ON outbox (sink, next_try) WHERE state = 'pending';
CREATE INDEX outbox_by_state ON outbox (sink, state);
CREATE INDEX traces_by_time ON traces (started_at);
COMMIT;
