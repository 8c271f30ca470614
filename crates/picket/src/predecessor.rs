//! Taking the place of multi-networkpolicy-nftables where its image is replaced: its name, and its flags as Go reads them.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What manifests call it.
const NAME: &str = "multi-networkpolicy-nftables";

/// Its flags that stand alone, for Go also with `=true` and `=false`.
const SWITCHES: [&str; 2] = ["accept-icmp", "accept-icmpv6"];

/// The one that it requires. Without it picket would enforce on the node instead of in pods.
const REQUIRED: &str = "container-runtime-endpoint";

/// What asks for no agent.
const QUESTIONS: [&str; 4] = ["-h", "--help", "-V", "--version"];

/// The arguments that picket understands, the program's name first. They are as given, unless that is the name of the other
/// program: then they are those of `picket agent`.
pub(crate) fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut given = given.into_iter();
    let program: Vec<_> = given.next().into_iter().collect();
    let is_called = program
        .iter()
        .any(|path| Path::new(path).file_name() == Some(OsStr::new(NAME)));
    if !is_called {
        return program.into_iter().chain(given).collect();
    }
    let given: Vec<_> = given.collect();
    let mut translated = program;
    translated.push("agent".into());
    let is_required = |argument: &OsString| {
        let flag = argument.to_str().and_then(flag);
        flag.is_some_and(|(name, _)| name == REQUIRED)
    };
    let is_complete = given.iter().any(is_required);
    let mut rest = given.into_iter();
    while let Some(argument) = rest.next() {
        let flag = argument.to_str().and_then(flag);
        match flag {
            Some((name, value)) if name.starts_with("zap-") => {
                // But for this one they all have a value.
                let value = match value {
                    None if name != "zap-devel" => rest.next().and_then(|value| value.into_string().ok()),
                    value => value,
                };
                translated.extend(logging(&name, value.as_deref()).map(OsString::from));
            }
            Some((name, Some(value))) if SWITCHES.contains(&&*name) => match is_true(&value) {
                Some(true) => translated.push(format!("--{name}").into()),
                Some(false) => {}
                // picket says what is wrong with it.
                None => translated.push(argument),
            },
            Some((name, value)) => {
                let value = value.map(|value| format!("={value}")).unwrap_or_default();
                translated.push(format!("--{name}{value}").into());
            }
            None => translated.push(argument),
        }
    }
    let asks = |argument: &OsString| QUESTIONS.iter().any(|question| argument == question);
    if !is_complete && !translated.iter().any(asks) {
        // picket says that it is missing.
        translated.push(format!("--{REQUIRED}=").into());
    }
    translated
}

/// The name and the value of a flag of Go's: with one dash or two.
fn flag(argument: &str) -> Option<(String, Option<String>)> {
    let text = argument.strip_prefix('-')?;
    let text = text.strip_prefix('-').unwrap_or(text);
    // `-h` is short for Go, too.
    if text.len() < 2 {
        return None;
    }
    Some(match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (text.to_owned(), None),
    })
}

/// As Go reads it.
fn is_true(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// What picket is to be told about its log instead. What says how stack traces and times look means nothing here.
fn logging(name: &str, value: Option<&str>) -> Option<String> {
    let value = value.unwrap_or_default();
    match name {
        "zap-encoder" if value == "json" => Some("--log-format=json".to_owned()),
        "zap-log-level" => Some(match value {
            "info" | "error" => format!("--log={value}"),
            "panic" => "--log=error".to_owned(),
            // `debug`, and numbers above 0.
            _ => "--log=debug".to_owned(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(given: &[&str]) -> Vec<String> {
        let given = given.iter().map(OsString::from);
        let arguments = arguments(given).into_iter();
        arguments
            .map(|argument| argument.into_string().unwrap())
            .collect()
    }

    #[test]
    fn under_its_own_name_nothing_changes() {
        for given in [
            &["picket", "-zap-devel", "--accept-icmp=true"][..],
            &["/usr/bin/picket"],
            &[],
        ] {
            assert_eq!(translated(given), given);
        }
    }

    #[test]
    fn under_the_name_of_the_other_its_flags_are_those_of_the_agent() {
        let program = "/multi-networkpolicy-nftables";
        let cases: [(&[&str], &[&str]); 8] = [
            (&[], &["--container-runtime-endpoint="]),
            (&["-version"], &["--version"]),
            (
                &["--help=true"],
                &["--help=true", "--container-runtime-endpoint="],
            ),
            (
                &[
                    "--host-prefix=/host",
                    "--network-plugins=macvlan,ipvlan",
                    "--zap-log-level=2",
                ],
                &[
                    "--host-prefix=/host",
                    "--network-plugins=macvlan,ipvlan",
                    "--log=debug",
                    "--container-runtime-endpoint=",
                ],
            ),
            (
                &[
                    "-container-runtime-endpoint",
                    "/run/crio/crio.sock",
                    "-accept-icmp",
                ],
                &[
                    "--container-runtime-endpoint",
                    "/run/crio/crio.sock",
                    "--accept-icmp",
                ],
            ),
            (
                &[
                    "--accept-icmp=false",
                    "--accept-icmpv6=T",
                    "--accept-icmp=perhaps",
                ],
                &[
                    "--accept-icmpv6",
                    "--accept-icmp=perhaps",
                    "--container-runtime-endpoint=",
                ],
            ),
            (
                &[
                    "--zap-devel",
                    "--zap-encoder",
                    "json",
                    "--zap-time-encoding=epoch",
                    "-h",
                ],
                &["--log-format=json", "-h"],
            ),
            (
                &["--zap-log-level", "error", "--container-runtime-endpoint=x=y"],
                &["--log=error", "--container-runtime-endpoint=x=y"],
            ),
        ];
        for (given, expected) in cases {
            let whole = translated(&[&[program], given].concat());
            assert_eq!(whole, [&[program, "agent"], expected].concat());
        }
    }
}
