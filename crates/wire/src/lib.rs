//! JSON-RPC over lines as a pure state machine.
