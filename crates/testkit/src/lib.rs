//! Test code only: the stand-in model, the driver that plays scripts against a worker, and transcripts.
