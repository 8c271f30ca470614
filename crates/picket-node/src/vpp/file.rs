//! A file that says what VPP has for which pod.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use picket_policy::ObjectRef;
use smol_str::SmolStr;

/// What a file said when it could last be read.
#[derive(Debug, Default)]
pub(crate) struct PodFile {
    text: Option<String>,
    /// By what VPP has.
    pods: BTreeMap<SmolStr, ObjectRef>,
    /// Why what it says now is not known.
    pub(crate) trouble: Option<String>,
}

impl PodFile {
    /// Which pod everything is of.
    pub(crate) fn pods(&self) -> &BTreeMap<SmolStr, ObjectRef> {
        &self.pods
    }

    /// Reads it again; whether it says something else. What it said holds as long as it cannot be read.
    pub(crate) fn look(&mut self, path: &Path) -> bool {
        let said = fs::read_to_string(path).map_err(|error| error.to_string());
        if self.trouble.is_none() && said.as_ref().ok() == self.text.as_ref() && self.text.is_some() {
            return false;
        }
        let read = said.and_then(|text| Ok((parse(&text)?, text)));
        match read {
            Ok((pods, text)) => {
                let is_other = pods != self.pods || self.text.is_none() || self.trouble.is_some();
                (self.pods, self.text, self.trouble) = (pods, Some(text), None);
                is_other
            }
            Err(why) => {
                let why = Some(format!("`{}`: {why}", path.display()));
                let is_other = self.trouble != why;
                self.trouble = why;
                is_other
            }
        }
    }
}

/// Lines as in `shop/web tap3`; empty ones and what follows `#` count for nothing.
fn parse(text: &str) -> Result<BTreeMap<SmolStr, ObjectRef>, String> {
    let mut found = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(pod) = words.next() else {
            continue;
        };
        let (Some(name), None) = (words.next(), words.next()) else {
            return Err(format!(
                "line {number}: write a pod and its interface, as in `shop/web tap3`"
            ));
        };
        let (namespace, pod) = pod
            .split_once('/')
            .ok_or_else(|| format!("line {number}: `{pod}` is no pod, which is written as in `shop/web`"))?;
        let pod = ObjectRef::new("Pod", namespace, pod);
        if let Some(other) = found.insert(SmolStr::new(name), pod) {
            return Err(format!(
                "line {number}: `{name}` is already that of {}/{}",
                other.namespace, other.name
            ));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_a_pod_and_what_it_has() {
        let found = parse("# pods\n shop/web tap3 # the first\n\nshop/db\ttap4\n").unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|(name, pod)| format!("{name} {}", pod.name))
            .collect();
        assert_eq!(found, ["tap3 web", "tap4 db"]);
        for (text, error) in [
            (
                "shop/web",
                "line 1: write a pod and its interface, as in `shop/web tap3`",
            ),
            (
                "\na/b c d",
                "line 2: write a pod and its interface, as in `shop/web tap3`",
            ),
            (
                "web tap3",
                "line 1: `web` is no pod, which is written as in `shop/web`",
            ),
            ("a/b tap3\na/c tap3", "line 2: `tap3` is already that of a/b"),
        ] {
            assert_eq!(parse(text).unwrap_err(), error);
        }
    }

    #[test]
    fn what_it_said_holds_until_it_can_be_read() {
        let folder = std::env::temp_dir().join(format!("picket-pod-file-{}", std::process::id()));
        let mut file = PodFile::default();
        assert!(file.look(&folder) && file.trouble.is_some());
        assert!(!file.look(&folder));
        fs::write(&folder, "a/b tap3\n").unwrap();
        assert!(file.look(&folder) && file.trouble.is_none() && !file.look(&folder));
        fs::write(&folder, "a/b\n").unwrap();
        assert!(file.look(&folder) && file.trouble.is_some());
        assert_eq!(file.pods().len(), 1);
        fs::remove_file(&folder).unwrap();
    }
}
