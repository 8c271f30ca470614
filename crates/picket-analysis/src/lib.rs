//! Who can talk to whom: verdicts, connectivity maps and their presentation.
