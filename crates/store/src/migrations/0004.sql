-- Which key created which. A key without a row was created before this table existed.
CREATE TABLE key_origins (
    key TEXT NOT NULL PRIMARY KEY CHECK (key <> ''),
    parent TEXT, principal TEXT NOT NULL CHECK (principal <> ''),
    sum INTEGER NOT NULL
) STRICT;

-- Links that decide an approval. A link cannot be made from what is here: only the SHA-256 of its token is stored.
CREATE TABLE decision_links (
    approval TEXT NOT NULL CHECK (approval <> ''),
    verdict TEXT NOT NULL CHECK (verdict IN ('allow', 'deny', 'cancel')),
    hash TEXT NOT NULL UNIQUE CHECK (length(hash) = 64 AND hash NOT GLOB '*[^0-9a-f]*'),
    shown_hash TEXT NOT NULL, expires_at INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    PRIMARY KEY (approval, verdict)
) STRICT;

-- Retention removes links together with their approval.
CREATE TRIGGER approvals_remove_links AFTER DELETE ON approvals
BEGIN
    DELETE FROM decision_links WHERE approval = old.id;
END;
