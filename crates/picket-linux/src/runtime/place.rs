//! Where a runtime says that the network namespace of a sandbox is.

use serde::Deserialize;

/// What `info` of a verbose `PodSandboxStatus` says, in the words of containerd and of CRI-O, which are the same: a text
/// that is JSON, with the number of the sandbox's process and the specification that it was started from. CRI-O leaves
/// the number out where a sandbox has no process of its own, and names a path also where the namespace is the node's.
#[derive(Debug, Default, Deserialize)]
struct Info {
    #[serde(default)]
    pid: Option<i64>,
    #[serde(default, rename = "runtimeSpec")]
    specification: Option<Specification>,
}

#[derive(Debug, Default, Deserialize)]
struct Specification {
    #[serde(default)]
    linux: Option<Linux>,
}

#[derive(Debug, Default, Deserialize)]
struct Linux {
    #[serde(default)]
    namespaces: Option<Vec<Namespace>>,
}

#[derive(Debug, Deserialize)]
struct Namespace {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    path: Option<String>,
}

/// Where the network namespace of a sandbox is to be found: at least one of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A file that stands for it, seen from the node.
    pub path: Option<String>,
    /// A process that is in it; never 0.
    pub process: Option<u32>,
}

/// What a runtime says of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Where its namespace is.
    At(Place),
    /// It is in the network of its node: the specification asks for no namespace.
    Host,
}

impl Said {
    /// Reads the text that the map `info` of a status holds under the same name.
    ///
    /// # Errors
    /// What is wrong with it, when it is no JSON of that form or names no place.
    pub fn read(info: &str) -> Result<Self, String> {
        let info: Info = serde_json::from_str(info).map_err(|error| error.to_string())?;
        let process = info
            .pid
            .and_then(|pid| u32::try_from(pid).ok())
            .filter(|pid| *pid != 0);
        let namespaces = info
            .specification
            .and_then(|specification| specification.linux)
            .and_then(|linux| linux.namespaces);
        let Some(namespaces) = namespaces else {
            return match process {
                Some(_) => Ok(Self::At(Place { path: None, process })),
                None => Err("neither `pid` nor `runtimeSpec.linux.namespaces` is there".to_owned()),
            };
        };
        let Some(network) = namespaces
            .into_iter()
            .find(|namespace| namespace.kind == "network")
        else {
            return Ok(Self::Host);
        };
        let path = network.path.filter(|path| !path.is_empty());
        match (&path, process) {
            (None, None) => Err("neither a path nor a process is there".to_owned()),
            _ => Ok(Self::At(named_by_process(path, process))),
        }
    }
}

/// A path below `/proc` is another way to name a process.
fn named_by_process(path: Option<String>, process: Option<u32>) -> Place {
    let inner = path
        .as_deref()
        .and_then(|path| path.strip_prefix("/proc/"))
        .and_then(|path| path.strip_suffix("/ns/net"))
        .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|number| number.parse().ok())
        .filter(|number| *number != 0);
    match inner {
        Some(number) => Place {
            path: None,
            process: Some(number),
        },
        None => Place { path, process },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: Option<&str>, process: Option<u32>) -> Said {
        Said::At(Place {
            path: path.map(str::to_owned),
            process,
        })
    }

    #[test]
    fn places_are_read_in_the_words_of_every_runtime() {
        let path = "/var/run/netns/cni-1";
        for (info, expected) in [
            (
                // containerd.
                r#"{"pid":7,"processStatus":"running","netNamespaceClosed":false,"runtimeSpec":{"ociVersion":"1.0.2","linux":
                {"resources":{},"namespaces":[{"type":"pid"},{"type":"network","path":"/var/run/netns/cni-1"}]}}}"#,
                at(Some(path), Some(7)),
            ),
            (
                // CRI-O, with a process and without.
                r#"{"image":"pause","pid":9,"runtimeSpec":{"linux":{"namespaces":[{"type":"network","path":"/var/run/netns/cni-1"}]}}}"#,
                at(Some(path), Some(9)),
            ),
            (
                r#"{"runtimeSpec":{"linux":{"namespaces":[{"type":"network","path":"/var/run/netns/cni-1"}]}}}"#,
                at(Some(path), None),
            ),
            (
                r#"{"pid":7,"runtimeSpec":{"linux":{"namespaces":[{"type":"network","path":"/proc/12/ns/net"}]}}}"#,
                at(None, Some(12)),
            ),
            (
                r#"{"pid":7,"runtimeSpec":{"linux":{"namespaces":[{"type":"network"}]}}}"#,
                at(None, Some(7)),
            ),
            (
                r#"{"pid":7,"runtimeSpec":{"linux":{"namespaces":[{"type":"network","path":"/proc/0/ns/net"}]}}}"#,
                at(Some("/proc/0/ns/net"), Some(7)),
            ),
            (
                r#"{"pid":7,"runtimeSpec":{"linux":{"namespaces":[{"type":"network","path":"/proc/+9/ns/net"}]}}}"#,
                at(Some("/proc/+9/ns/net"), Some(7)),
            ),
            (r#"{"pid":7}"#, at(None, Some(7))),
            (
                r#"{"pid":7,"runtimeSpec":{"linux":{"namespaces":[{"type":"pid"}]}}}"#,
                Said::Host,
            ),
        ] {
            assert_eq!(Said::read(info).unwrap(), expected, "{info}");
        }
    }

    #[test]
    fn what_names_no_place_is_an_error() {
        for info in [
            "",
            "[]",
            "{}",
            "7",
            r#"{"pid":"7"}"#,
            r#"{"pid":-1}"#,
            r#"{"pid":0}"#,
            r#"{"pid":99999999999}"#,
            r#"{"runtimeSpec":{}}"#,
            r#"{"pid":0,"runtimeSpec":{"linux":{"namespaces":[{"type":"network","path":""}]}}}"#,
            r#"{"runtimeSpec":{"linux":{"namespaces":{}}}}"#,
        ] {
            assert!(Said::read(info).is_err(), "{info}");
        }
    }
}
