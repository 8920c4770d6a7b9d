//! The app-server protocol: typed, negotiated, supervised.
