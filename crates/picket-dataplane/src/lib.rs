//! The contract that every enforcement target fulfils.
