//! A file that says what VPP has for which pod.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use picket_policy::ObjectRef;
use smol_str::SmolStr;

/// What the lines of a file name for pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// Interfaces, by their names.
    Interface,
    /// Namespaces of applications, by their indices.
    Namespace,
}

/// What a file said when it could last be read.
#[derive(Debug)]
pub(crate) struct PodFile {
    named: Named,
    text: Option<String>,
    written: Option<Written>,
    /// By what VPP has.
    pods: BTreeMap<SmolStr, ObjectRef>,
    /// Whose an interface is of which only the line is gone. Of namespaces that is known where their tables are.
    left: BTreeMap<SmolStr, ObjectRef>,
    /// Why what it says now is not known.
    pub(crate) trouble: Option<String>,
}

/// What is another when a file was written again, even if it says the same: device, inode, and the time of its last change.
type Written = [i64; 4];

impl PodFile {
    /// One that was not read yet.
    pub(crate) fn of(named: Named) -> Self {
        Self {
            named,
            text: None,
            written: None,
            pods: BTreeMap::new(),
            left: BTreeMap::new(),
            trouble: None,
        }
    }

    /// Which pod everything is of.
    pub(crate) fn pods(&self) -> &BTreeMap<SmolStr, ObjectRef> {
        &self.pods
    }

    /// Whose it is. What a pod had stays its own when its line goes, as when somebody is writing the file.
    pub(crate) fn owner(&self, name: &SmolStr) -> Option<&ObjectRef> {
        self.pods.get(name).or_else(|| self.left.get(name))
    }

    /// Forgets what a pod had of which a line names something else that is there, and what is not there any more.
    pub(crate) fn settle(&mut self, is_there: impl Fn(&SmolStr) -> bool) {
        if self.left.is_empty() {
            return;
        }
        self.left.retain(|name, _| is_there(name));
        let there = self.pods.iter().filter(|(name, _)| is_there(name));
        let settled: BTreeSet<_> = there.map(|(_, pod)| pod).collect();
        self.left.retain(|_, pod| !settled.contains(pod));
    }

    /// Whether it could be read once.
    pub(crate) fn is_known(&self) -> bool {
        self.text.is_some()
    }

    /// Reads it again; whether it was written again or cannot be read any more. What it said holds as long as it cannot be read.
    pub(crate) fn look(&mut self, path: &Path) -> bool {
        // Before what it says: what is written later is found later.
        let written = written(path);
        let said = fs::read_to_string(path).map_err(|error| error.to_string());
        let is_same = said.as_ref().ok() == self.text.as_ref() && written == self.written;
        if self.trouble.is_none() && is_same && self.text.is_some() {
            return false;
        }
        let read = said.and_then(|text| Ok((parse(&text, self.named)?, text)));
        match read {
            Ok((pods, text)) => {
                if self.named == Named::Interface {
                    self.left.append(&mut self.pods);
                    self.left.retain(|name, _| !pods.contains_key(name));
                }
                (self.pods, self.text, self.trouble) = (pods, Some(text), None);
                self.written = written;
                true
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

fn written(path: &Path) -> Option<Written> {
    let known = fs::metadata(path).ok()?;
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    Some([
        number(known.dev()),
        number(known.ino()),
        known.ctime(),
        known.ctime_nsec(),
    ])
}

impl Named {
    /// How a line looks.
    fn form(self) -> &'static str {
        match self {
            Self::Interface => "a pod and its interface, as in `shop/web tap3`",
            Self::Namespace => "a pod and the index of its namespace, as in `shop/web 3`",
        }
    }

    /// A name as it is compared with what VPP has.
    fn read(self, text: &str) -> Option<SmolStr> {
        match self {
            Self::Interface => Some(text.into()),
            // The last number is none of a namespace.
            Self::Namespace => text
                .parse::<u32>()
                .ok()
                .filter(|&index| index != u32::MAX)
                .map(|index| index.to_string().into()),
        }
    }
}

/// Lines as in `shop/web tap3`; empty ones and what follows `#` count for nothing.
fn parse(text: &str, named: Named) -> Result<BTreeMap<SmolStr, ObjectRef>, String> {
    // Somebody is writing it, and what is cut off may be a name that something else has.
    if !text.is_empty() && !text.ends_with('\n') {
        let last = text.lines().count();
        return Err(format!("line {last} does not end: write a newline behind it"));
    }
    let mut found = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(pod) = words.next() else {
            continue;
        };
        let (Some(name), None) = (words.next(), words.next()) else {
            return Err(format!("line {number}: write {}", named.form()));
        };
        let (namespace, pod) = pod
            .split_once('/')
            .ok_or_else(|| format!("line {number}: `{pod}` is no pod, which is written as in `shop/web`"))?;
        let name = named
            .read(name)
            .ok_or_else(|| format!("line {number}: `{name}` is no index: write {}", named.form()))?;
        let pod = ObjectRef::new("Pod", namespace, pod);
        if let Some(other) = found.insert(name.clone(), pod) {
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
        let found = parse(
            "# pods\n shop/web tap3 # the first\n\nshop/db\ttap4\n",
            Named::Interface,
        )
        .unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|(name, pod)| format!("{name} {}", pod.name))
            .collect();
        assert_eq!(found, ["tap3 web", "tap4 db"]);
        for (text, error) in [
            (
                "shop/web\n",
                "line 1: write a pod and its interface, as in `shop/web tap3`",
            ),
            (
                "\na/b c d\n",
                "line 2: write a pod and its interface, as in `shop/web tap3`",
            ),
            (
                "web tap3\n",
                "line 1: `web` is no pod, which is written as in `shop/web`",
            ),
            ("a/b tap3\na/c tap3\n", "line 2: `tap3` is already that of a/b"),
        ] {
            assert_eq!(parse(text, Named::Interface).unwrap_err(), error);
        }
    }

    #[test]
    fn namespaces_are_named_by_their_indices() {
        let found = parse("shop/web 3\nshop/db 04\nshop/db 5\n", Named::Namespace).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["3", "4", "5"]);
        for (text, error) in [
            (
                "shop/web\n",
                "line 1: write a pod and the index of its namespace, as in `shop/web 3`",
            ),
            (
                "shop/web x\n",
                "line 1: `x` is no index: write a pod and the index of its namespace, as in `shop/web 3`",
            ),
            (
                "shop/web 4294967295\n",
                "line 1: `4294967295` is no index: write a pod and the index of its namespace, as in `shop/web 3`",
            ),
            ("a/b 3\na/c 03\n", "line 2: `3` is already that of a/b"),
        ] {
            assert_eq!(parse(text, Named::Namespace).unwrap_err(), error);
        }
    }

    #[test]
    fn what_it_said_holds_until_it_can_be_read() {
        let folder = std::env::temp_dir().join(format!("picket-pod-file-{}", std::process::id()));
        let mut file = PodFile::of(Named::Interface);
        assert!(file.look(&folder) && file.trouble.is_some());
        assert!(!file.look(&folder) && !file.is_known());
        fs::write(&folder, "a/b tap3\n").unwrap();
        assert!(file.look(&folder) && file.trouble.is_none() && !file.look(&folder));
        // Whoever writes the same again may have made again what it names.
        let again = folder.with_extension("new");
        fs::write(&again, "a/b tap3\n").unwrap();
        fs::rename(&again, &folder).unwrap();
        assert!(file.look(&folder) && !file.look(&folder));
        fs::write(&folder, "a/b\n").unwrap();
        assert!(file.look(&folder) && file.trouble.is_some());
        // A name of which the end is missing is perhaps another.
        fs::write(&folder, "a/b tap3\na/c tap1").unwrap();
        assert!(file.look(&folder));
        let why = file.trouble.as_deref().unwrap();
        assert!(
            why.ends_with("line 2 does not end: write a newline behind it"),
            "{why}"
        );
        assert_eq!(file.pods().len(), 1);
        fs::remove_file(&folder).unwrap();
    }

    #[test]
    fn what_a_pod_had_stays_its_own_until_a_line_gives_it_something_that_is_there() {
        let path = std::env::temp_dir().join(format!("picket-pod-file-left-{}", std::process::id()));
        let mut file = PodFile::of(Named::Interface);
        let mut says = |text: &str, there: &[&str]| {
            fs::write(&path, text).unwrap();
            file.look(&path);
            file.settle(|name| there.contains(&name.as_str()));
            ["tap3", "tap4", "tap5"].map(|name| match file.owner(&name.into()) {
                Some(pod) => pod.name.to_string(),
                None => String::new(),
            })
        };
        let all = ["tap3", "tap4", "tap5"];
        assert_eq!(says("a/web tap3\na/db tap4\n", &all), ["web", "db", ""]);
        // Half of a file, and half of a line.
        assert_eq!(says("a/web tap3\n", &all), ["web", "db", ""]);
        assert_eq!(says("a/web ta\n", &all), ["web", "db", ""]);
        assert_eq!(says("", &all), ["web", "db", ""]);
        // Another pod has it now.
        assert_eq!(says("a/api tap3\n", &all), ["api", "db", ""]);
        // The pod has another, which comes after its line.
        assert_eq!(says("a/db tap5\n", &["tap3", "tap4"]), ["api", "db", "db"]);
        assert_eq!(says("a/db tap5\n", &all), ["api", "", "db"]);
        assert_eq!(says("", &all), ["api", "", "db"]);
        // What is there again under a name of old is nobody's.
        assert_eq!(says("", &["tap3"]), ["api", "", ""]);
        fs::remove_file(&path).unwrap();
    }
}
