//! The specification as code: the slow, obvious evaluator.
