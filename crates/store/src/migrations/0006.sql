-- How many of the tokens, read and written, the worker did not report: they are estimated.
ALTER TABLE usage ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;
