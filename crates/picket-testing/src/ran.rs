//! What a run of a program gave.

use std::process::Output;

use serde_json::Value;

/// How a program ended, and what it printed.
pub struct Ran {
    /// The exit status.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Standard output as JSON.
    ///
    /// # Panics
    ///
    /// It is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }

    /// Each line of standard output as JSON.
    ///
    /// # Panics
    ///
    /// One of them is none.
    pub fn lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        Self {
            status: output.status.code().unwrap(),
            stdout,
            stderr,
        }
    }
}
