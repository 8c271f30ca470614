//! What failed, told once more where everything has ended: a log may be read from its end, and be cut.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::command::{ended, print, say, start};

/// How many lines of one failure are told.
const LINES: usize = 12;

/// How many characters of a line.
const WIDTH: usize = 300;

/// How many failures.
const FAILURES: usize = 10;

/// Runs `command`, which runs tests, with its output shown. Fails unless it succeeds, after what failed was told again.
pub(crate) fn run_tests(command: &mut Command) -> Result<()> {
    let (line, mut child) = start(command.stdout(Stdio::piped()))?;
    let mut failures = Failures::default();
    let printed = child.stdout.take().context("standard output is piped")?;
    for text in BufReader::new(printed).split(b'\n') {
        let text = text.with_context(|| format!("cannot read what `{line}` prints"))?;
        let text = String::from_utf8_lossy(&text);
        print(&format!("{text}\n"))?;
        failures.read(&text);
    }
    let outcome = ended(&line, &mut child);
    if outcome.is_err() {
        failures.tell();
    }
    outcome
}

/// Where the report of a test has something to tell.
#[derive(Default)]
pub(crate) struct Failures {
    /// What each test that failed was called, and the first lines of its panics.
    told: Vec<(String, Vec<String>)>,
    /// How many more lines belong to a panic.
    left: usize,
    /// Whether the report of a test is being read.
    is_inside: bool,
}

impl Failures {
    /// The next line that is printed.
    pub(crate) fn read(&mut self, line: &str) {
        let name = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            self.told.push((name.to_owned(), Vec::new()));
            (self.is_inside, self.left) = (true, 0);
            return;
        }
        // After all reports come the names of the tests.
        self.is_inside &= line != "failures:";
        let Some((_, lines)) = self.told.last_mut().filter(|_| self.is_inside) else {
            return;
        };
        if line.starts_with("thread '") && line.contains(" panicked at ") {
            self.left = LINES;
        }
        if line.starts_with("stack backtrace:") {
            self.left = 0;
        }
        if self.left > 0 {
            self.left -= 1;
            lines.push(line.chars().take(WIDTH).collect());
        }
    }

    /// Says what failed.
    pub(crate) fn tell(&self) {
        for (name, lines) in self.told.iter().take(FAILURES) {
            say(&format!("failed: {name}\n{}", lines.join("\n")));
        }
        if self.told.len() > FAILURES {
            say(&format!("and {} more tests failed", self.told.len() - FAILURES));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Failures;

    #[test]
    fn the_first_lines_of_each_panic_are_kept() {
        let printed = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nseed 1\n\nthread 'a' (7) panicked at src/a.rs:1:\n\
                       left is not right\nstack backtrace:\n0: main\n\n---- b stdout ----\nError: gone\n\n\nfailures:\n    a\n    b\n\
                       thread 'c' panicked at nothing\n";
        let mut failures = Failures::default();
        printed.lines().for_each(|line| failures.read(line));
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let of_a = lines(&["thread 'a' (7) panicked at src/a.rs:1:", "left is not right"]);
        let told = [("a".to_owned(), of_a), ("b".to_owned(), lines(&[]))];
        assert_eq!(failures.told, told);
    }
}
