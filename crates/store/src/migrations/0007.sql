-- How long the wall clock has been behind the remembered time without a break, in milliseconds.
ALTER TABLE clock ADD COLUMN behind_ms INTEGER NOT NULL DEFAULT 0;
