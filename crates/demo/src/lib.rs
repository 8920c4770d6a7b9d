//! A deterministic worker that speaks the app-server protocol.
