-- What a tool server offered last, so that its tools can be listed while it is restarted.
CREATE TABLE tool_lists (
    server TEXT NOT NULL PRIMARY KEY CHECK (server <> ''),
    hash TEXT NOT NULL, version TEXT NOT NULL, body TEXT NOT NULL, at INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

CREATE TABLE tool_audit (
    id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
    at INTEGER NOT NULL, key TEXT NOT NULL, caller TEXT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL,
    took_ms INTEGER NOT NULL, request_bytes INTEGER NOT NULL, result_bytes INTEGER NOT NULL,
    outcome TEXT NOT NULL
        CHECK (outcome IN ('succeeded', 'failed', 'input_required', 'refused', 'cancelled', 'timed_out', 'lost')),
    detail TEXT, approval TEXT,
    sum INTEGER NOT NULL
) STRICT;
CREATE INDEX tool_audit_by_server ON tool_audit (server, id);
CREATE INDEX tool_audit_by_time ON tool_audit (at);
