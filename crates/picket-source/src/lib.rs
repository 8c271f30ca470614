//! Where objects come from: files, directories and standard input.
