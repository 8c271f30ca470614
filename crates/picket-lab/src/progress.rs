//! A bar for runs that take long, on terminals only.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows how far a run is.
#[derive(Clone, Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Shows nothing.
    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Draws a bar on standard error when that is a terminal.
    pub fn on_terminal() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::hidden();
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template("{msg:22} {bar:40} {pos}/{len}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Begins a part of the run that has `steps` steps.
    pub fn begin(&self, what: &'static str, steps: usize) {
        self.0.reset();
        self.0.set_length(u64::try_from(steps).unwrap_or(u64::MAX));
        self.0.set_message(what);
    }

    /// Some steps are done.
    pub fn advance(&self, steps: usize) {
        self.0.inc(u64::try_from(steps).unwrap_or(u64::MAX));
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}
