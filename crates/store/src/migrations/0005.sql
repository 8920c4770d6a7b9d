-- The time that retention goes by: one row, from the first sweep on. A file that is older begins with its newest row, so that the
-- first start after an update cannot take a wrong clock for the time either.
CREATE TABLE clock (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    trusted_at INTEGER NOT NULL
) STRICT;
INSERT INTO clock (id, trusted_at)
SELECT 1, newest FROM (
    SELECT max(at) AS newest FROM (
        SELECT max(created_at) AS at FROM responses
        UNION ALL SELECT max(at) FROM audit
        UNION ALL SELECT max(used_at) FROM threads
        UNION ALL SELECT max(at) FROM tool_audit
    )
) WHERE newest IS NOT NULL;

-- Threads have retention too: the oldest are looked for, and what still needs each of them.
CREATE INDEX threads_by_use ON threads (used_at);
CREATE INDEX responses_by_thread ON responses (thread);
CREATE INDEX parked_calls_waiting_by_thread ON parked_calls (thread) WHERE state = 'waiting';
