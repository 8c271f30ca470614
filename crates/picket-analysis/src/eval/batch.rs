//! Many questions, one JSON object per line.

use std::borrow::Cow;
use std::io::{self, BufRead, Write};

use picket_net::Family;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, Families, FamilyAnswer};
use super::evaluator::Evaluator;
use super::known::{EndText, Known};
use super::question::{PortQuestion, Question, QuestionError};
use crate::directory::{Party, UnknownParty};

/// How a batch went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchOutcome {
    /// Lines with an answer.
    pub answered: u64,
    /// Lines with an error in its place.
    pub failed: u64,
}

/// Why a batch ended early.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The questions cannot be read.
    #[error("cannot read the questions")]
    Read(#[source] io::Error),
    /// The answers cannot be written.
    #[error("cannot write the answers")]
    Write(#[source] io::Error),
}

/// Why one line has no answer, in the shape of its JSON (`docs/schema/batch.schema.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineError {
    /// What kind of problem: `bad-line`, `bad-port`, `unknown-endpoint`, `malformed-endpoint`, `finished-pod`,
    /// `workload-has-pods` or `service-address`.
    pub code: &'static str,
    /// What is wrong and what to do.
    pub message: String,
}

impl From<&QuestionError> for LineError {
    fn from(error: &QuestionError) -> Self {
        let code = match error {
            QuestionError::From(party) | QuestionError::To(party) => match party {
                UnknownParty::Nothing { .. } => "unknown-endpoint",
                UnknownParty::Malformed { .. } => "malformed-endpoint",
                UnknownParty::Finished { .. } => "finished-pod",
                UnknownParty::HasPods { .. } => "workload-has-pods",
                UnknownParty::Service { .. } => "service-address",
            },
            QuestionError::Port(_) => "bad-port",
        };
        Self {
            code,
            message: error.to_string(),
        }
    }
}

/// One question as a line holds it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    from: Cow<'a, str>,
    #[serde(borrow)]
    to: Cow<'a, str>,
    #[serde(borrow)]
    port: LinePort<'a>,
}

/// A port as text, or a number for TCP.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "`port` is neither a number nor a text")]
enum LinePort<'a> {
    Number(u64),
    #[serde(borrow)]
    Text(Cow<'a, str>),
}

/// Answers the question of each line of `questions`, in order, each with one line of `answers`.
///
/// A line that cannot be answered gets `{"error": {"code", "message"}}`. Empty lines at the end are no questions.
///
/// # Errors
/// When reading or writing fails.
pub fn batch(
    evaluator: &Evaluator<'_>,
    family: Option<Family>,
    mut questions: impl BufRead,
    mut answers: impl Write,
) -> Result<BatchOutcome, BatchError> {
    let mut outcome = BatchOutcome::default();
    let mut answerer = Answerer::new(evaluator, family);
    let mut line = Vec::new();
    let mut empty_lines = 0;
    loop {
        line.clear();
        if questions.read_until(b'\n', &mut line).map_err(BatchError::Read)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            empty_lines += 1;
            continue;
        }
        for _ in 0..std::mem::take(&mut empty_lines) {
            write_line(&mut answers, &Err(empty_line()))?;
            outcome.failed += 1;
        }
        let answer = answerer.answer(&line);
        write_line(&mut answers, &answer)?;
        match answer {
            Ok(_) => outcome.answered += 1,
            Err(_) => outcome.failed += 1,
        }
    }
    answers.flush().map_err(BatchError::Write)?;
    Ok(outcome)
}

fn empty_line() -> LineError {
    bad_line("the line is empty")
}

fn bad_line(what: impl std::fmt::Display) -> LineError {
    LineError {
        code: "bad-line",
        message: format!(
            "{what}: write `{{\"from\": \"ns/pod\", \"to\": \"ns/pod\", \"port\": \"80/tcp\"}}`"
        ),
    }
}

fn write_line(out: &mut impl Write, answer: &Result<Answer<EndText>, LineError>) -> Result<(), BatchError> {
    #[derive(Serialize)]
    struct Failed<'a> {
        error: &'a LineError,
    }
    let written = match answer {
        Ok(answer) => write_answer(out, answer),
        Err(error) => serde_json::to_writer(&mut *out, &Failed { error }).map_err(io::Error::from),
    };
    written
        .and_then(|()| out.write_all(b"\n"))
        .map_err(BatchError::Write)
}

/// The JSON of an answer. What the ends say is already JSON, and most of it.
fn write_answer(out: &mut impl Write, answer: &Answer<EndText>) -> io::Result<()> {
    let string = |out: &mut _, text: &str| serde_json::to_writer(out, text).map_err(io::Error::from);
    out.write_all(b"{\"from\":")?;
    string(&mut *out, &answer.from)?;
    out.write_all(b",\"to\":")?;
    string(&mut *out, &answer.to)?;
    write!(out, ",\"protocol\":\"{}\",\"port\":", answer.protocol)?;
    match answer.port {
        Some(port) => write!(out, "{port}")?,
        None => out.write_all(b"null")?,
    }
    if let Some(name) = &answer.port_name {
        out.write_all(b",\"portName\":")?;
        string(&mut *out, name)?;
    }
    write!(
        out,
        ",\"verdict\":\"{}\",\"families\":{{",
        answer.verdict.as_str()
    )?;
    let Families { ipv4, ipv6 } = &answer.families;
    let mut comma = "";
    for (name, family) in [("ipv4", ipv4), ("ipv6", ipv6)] {
        if let Some(FamilyAnswer {
            verdict,
            egress,
            ingress,
        }) = family
        {
            write!(
                out,
                "{comma}\"{name}\":{{\"verdict\":\"{verdict}\",\"egress\":{},\"ingress\":{}}}",
                egress.text, ingress.text
            )?;
            comma = ",";
        }
    }
    out.write_all(b"}")?;
    for (name, end) in [("egress", &answer.egress), ("ingress", &answer.ingress)] {
        if let Some(end) = end {
            write!(out, ",\"{name}\":{}", end.text)?;
        }
    }
    out.write_all(b"}")
}

struct Answerer<'a> {
    evaluator: &'a Evaluator<'a>,
    family: Option<Family>,
    parties: FxHashMap<String, Result<Party, UnknownParty>>,
    ports: FxHashMap<String, Result<PortQuestion, super::PortError>>,
    ends: Known<'a>,
}

impl<'a> Answerer<'a> {
    fn new(evaluator: &'a Evaluator<'a>, family: Option<Family>) -> Self {
        Self {
            evaluator,
            family,
            parties: FxHashMap::default(),
            ports: FxHashMap::default(),
            ends: Known::new(evaluator),
        }
    }

    fn answer(&mut self, line: &[u8]) -> Result<Answer<EndText>, LineError> {
        let line = std::str::from_utf8(line).map_err(|_| bad_line("the line is not UTF-8"))?;
        let line: Line<'_> = serde_json::from_str(line.trim_end())
            .map_err(|error| bad_line(format!("cannot read it: {error}")))?;
        let port = match line.port {
            LinePort::Number(number) => Cow::Owned(number.to_string()),
            LinePort::Text(text) => text,
        };
        let question = self
            .question(&line.from, &line.to, &port)
            .map_err(|error| LineError::from(&error))?;
        let Self { evaluator, ends, .. } = self;
        Ok(evaluator.answer_by(&question, EndText::new, |flow| ends.judge(evaluator, flow)))
    }

    fn question(&mut self, from: &str, to: &str, port: &str) -> Result<Question, QuestionError> {
        Ok(Question {
            from: self.party(from).map_err(QuestionError::From)?,
            to: self.party(to).map_err(QuestionError::To)?,
            port: self.port(port).map_err(QuestionError::Port)?,
            family: self.family,
        })
    }

    fn party(&mut self, asked: &str) -> Result<Party, UnknownParty> {
        if let Some(known) = self.parties.get(asked) {
            return known.clone();
        }
        let found = self.evaluator.directory().find(asked);
        self.parties.insert(asked.to_owned(), found.clone());
        found
    }

    fn port(&mut self, asked: &str) -> Result<PortQuestion, super::PortError> {
        if let Some(known) = self.ports.get(asked) {
            return known.clone();
        }
        let parsed = PortQuestion::parse(asked);
        self.ports.insert(asked.to_owned(), parsed.clone());
        parsed
    }
}
