//! One question about one connection, and its answer.

mod answer;
mod batch;
mod evaluator;
mod known;
mod question;
#[cfg(test)]
mod tests;

pub use answer::{Answer, CauseAnswer, EndAnswer, Families, FamilyAnswer, Overall};
pub use batch::{BatchError, BatchOutcome, LineError, batch};
pub use evaluator::Evaluator;
pub use question::{PortError, PortQuestion, Question, QuestionError};
