-- At a start those that were being made are looked for, and at each deletion those that went on from it.
CREATE INDEX responses_by_status ON responses (status, created_at);
CREATE INDEX responses_by_previous ON responses (previous, key) WHERE previous IS NOT NULL;
