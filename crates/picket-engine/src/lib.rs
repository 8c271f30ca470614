//! Identities, compilation and incremental updates.
