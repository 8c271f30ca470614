//! What a process that runs on and on tells on standard error.

use std::io;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::SystemTime;

use crate::output;

/// The library that speaks to API servers. With every attempt it logs what picket says once, and names nothing.
const CLIENT: &str = "kube_client";

/// What to log, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogArguments {
    /// What to log: `error`, `warn`, `info`, `debug`, or one for each part as in `info,picket_source=debug`
    #[arg(long, default_value = "info", value_name = "LEVELS")]
    log: String,

    /// How to log
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    log_format: LogFormat,
}

/// How to log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object in each line
    Json,
}

impl LogArguments {
    /// Begins to log on standard error.
    pub(crate) fn start(&self) -> anyhow::Result<()> {
        let builder = tracing_subscriber::fmt()
            .with_env_filter(self.filter()?)
            .with_timer(SystemTime)
            .with_ansi(output::color_on_stderr())
            .with_writer(io::stderr);
        let started = match self.log_format {
            LogFormat::Text => builder.try_init(),
            LogFormat::Json => builder.json().try_init(),
        };
        if let Err(error) = started {
            bail!("cannot log: {error}");
        }
        Ok(())
    }

    fn filter(&self) -> anyhow::Result<EnvFilter> {
        let filter = EnvFilter::builder().parse(&self.log);
        let filter = filter.with_context(|| format!("`--log {}` cannot be read", self.log))?;
        if self.log.contains(CLIENT) {
            return Ok(filter);
        }
        Ok(filter.add_directive(format!("{CLIENT}=off").parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_quiet_unless_it_is_named() {
        let filter = |log: &str| {
            let arguments = LogArguments {
                log: log.to_owned(),
                log_format: LogFormat::Text,
            };
            arguments.filter().unwrap().to_string()
        };
        assert_eq!(filter("info"), "kube_client=off,info");
        assert_eq!(filter("info,kube_client=debug"), "kube_client=debug,info");
    }
}
