CREATE TABLE approvals (
    id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
    "group" TEXT NOT NULL, worker TEXT NOT NULL, thread TEXT NOT NULL, turn TEXT NOT NULL, item TEXT,
    request TEXT NOT NULL, method TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
    params TEXT NOT NULL, shown_hash TEXT NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('pending', 'allowed', 'denied', 'cancelled', 'expired', 'orphaned', 'resolved')),
    verdict TEXT, reason TEXT, decided_by TEXT,
    created_at INTEGER NOT NULL, deadline_at INTEGER, decided_at INTEGER,
    sum INTEGER NOT NULL
) STRICT;
CREATE INDEX approvals_by_state ON approvals (state, created_at);
CREATE INDEX approvals_by_thread ON approvals (thread);
CREATE INDEX approvals_ended_by_time ON approvals (created_at) WHERE state <> 'pending';

-- Decided once: whatever asks for it, what has ended stays as it ended.
CREATE TRIGGER approvals_end_once BEFORE UPDATE ON approvals
WHEN old.state <> 'pending' AND (new.state <> old.state OR new.verdict IS NOT old.verdict)
BEGIN
    SELECT raise(ABORT, 'the approval has ended already');
END;

CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    approval TEXT NOT NULL, at INTEGER NOT NULL, step TEXT NOT NULL, by TEXT NOT NULL, detail TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_by_approval ON audit (approval);
CREATE INDEX audit_by_time ON audit (at);

CREATE TABLE parked_calls (
    id TEXT NOT NULL CHECK (id <> ''),
    key TEXT NOT NULL, "group" TEXT NOT NULL, worker TEXT NOT NULL, thread TEXT NOT NULL, turn TEXT NOT NULL,
    request TEXT NOT NULL, namespace TEXT, tool TEXT NOT NULL, arguments TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'answered', 'expired', 'orphaned')),
    created_at INTEGER NOT NULL, deadline_at INTEGER,
    sum INTEGER NOT NULL,
    PRIMARY KEY (id, key, thread)
) STRICT;

CREATE TABLE threads (
    id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
    owner TEXT NOT NULL, "group" TEXT NOT NULL, worker TEXT, cwd TEXT NOT NULL, key TEXT NOT NULL,
    profile TEXT, model TEXT, last_turn TEXT,
    last_turn_state TEXT CHECK (last_turn_state IN ('running', 'ended')),
    history_hash TEXT, unsaid TEXT NOT NULL,
    created_at INTEGER NOT NULL, used_at INTEGER NOT NULL, archived INTEGER NOT NULL CHECK (archived IN (0, 1)),
    sum INTEGER NOT NULL
) STRICT;
CREATE INDEX threads_by_history ON threads (history_hash) WHERE history_hash IS NOT NULL;

CREATE TABLE responses (
    id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
    key TEXT NOT NULL, thread TEXT NOT NULL, turn TEXT NOT NULL, previous TEXT, status TEXT NOT NULL,
    body TEXT NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER,
    sum INTEGER NOT NULL
) STRICT;
CREATE INDEX responses_by_time ON responses (created_at);
CREATE INDEX responses_by_end ON responses (expires_at) WHERE expires_at IS NOT NULL;

-- A secret cannot be kept here by mistake: only a SHA-256 in hex looks like one.
CREATE TABLE keys (
    id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE CHECK (length(hash) = 64 AND hash NOT GLOB '*[^0-9a-f]*'),
    scopes TEXT NOT NULL, profiles TEXT NOT NULL, limits TEXT NOT NULL,
    created_at INTEGER NOT NULL, last_used_at INTEGER, revoked_at INTEGER,
    sum INTEGER NOT NULL
) STRICT;

CREATE TABLE usage (
    key TEXT NOT NULL, thread TEXT NOT NULL, day TEXT NOT NULL,
    input INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL, reasoning INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    PRIMARY KEY (key, thread, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_by_day ON usage (day);

-- Written and emptied again to learn whether there is room.
CREATE TABLE probe (id INTEGER PRIMARY KEY, filling BLOB NOT NULL) STRICT;
