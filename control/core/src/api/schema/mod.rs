//! Schema tables.
