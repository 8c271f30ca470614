//! Files of custom rules, read again when they change.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use picket_net::Family;
use picket_nftables::custom::CustomRules;
use picket_policy::{Direction, Source};

/// A file of custom rules, and what its rules are for.
#[derive(Clone, Debug)]
pub struct CustomFile {
    /// The file.
    pub path: PathBuf,
    /// Which packets of a pod.
    pub direction: Direction,
    /// Of which family.
    pub family: Family,
}

/// Files of custom rules as they last were right. What is new in one counts once it is there in two looks that follow each other: who
/// writes it in place shows a part of it for a moment, which lacks what comes last, such as what it drops. For one that never was a rule stands that denies everything: nobody knows
/// what it would deny.
pub(super) struct CustomFiles {
    files: Vec<Read>,
}

struct Read {
    file: CustomFile,
    /// What counts, right or wrong; `None` where that could not be read.
    bytes: Option<Vec<u8>>,
    /// What was new at the last look, and may be half of what is being written.
    seen: Option<Vec<u8>>,
    rules: CustomRules,
    /// Whether it was right once.
    was_right: bool,
    trouble: Option<String>,
}

impl CustomFiles {
    /// Reads all of them, as far as they are right.
    ///
    /// # Errors
    /// When not even the rule can be had that stands for a file which is wrong.
    pub(super) fn read(files: &[CustomFile]) -> Result<Self, String> {
        let files = files.iter().map(|file| {
            let mut read = Read {
                rules: file.rules(b"drop")?,
                file: file.clone(),
                bytes: None,
                seen: None,
                was_right: false,
                trouble: None,
            };
            match file.bytes() {
                Ok(bytes) => drop(read.take(bytes)),
                Err(why) => read.fail(why),
            }
            Ok(read)
        });
        let files = files.collect::<Result<_, String>>()?;
        Ok(Self { files })
    }

    /// What is wrong with the first file that has never been right, if there is one.
    pub(super) fn never_right(&self) -> Option<&str> {
        let mut wrong = self.files.iter().filter(|read| !read.was_right);
        wrong.find_map(|read| read.trouble.as_deref())
    }

    /// The rules, in the order in which they are judged.
    pub(super) fn rules(&self) -> Vec<CustomRules> {
        self.files.iter().map(|read| read.rules.clone()).collect()
    }

    /// What is wrong with files as they are now.
    pub(super) fn troubles(&self) -> Vec<String> {
        self.files
            .iter()
            .filter_map(|read| read.trouble.clone())
            .collect()
    }

    /// Looks whether files have changed. Whether that changes rules.
    pub(super) fn refresh(&mut self) -> bool {
        let mut changed = false;
        for read in &mut self.files {
            changed |= read.refresh();
        }
        changed
    }
}

impl Read {
    /// Looks at the file; whether that changes rules.
    fn refresh(&mut self) -> bool {
        let seen = self.seen.take();
        match self.file.bytes() {
            Ok(bytes) if self.bytes.as_ref() == Some(&bytes) => false,
            Ok(bytes) if seen.as_ref() == Some(&bytes) => self.take(bytes),
            Ok(bytes) => {
                self.seen = Some(bytes);
                false
            }
            Err(why) => {
                self.fail(why);
                false
            }
        }
    }

    /// Takes over what the file holds; whether that changes rules.
    fn take(&mut self, bytes: Vec<u8>) -> bool {
        let rules = self.file.rules(&bytes);
        self.bytes = Some(bytes);
        match rules {
            Ok(rules) => {
                self.trouble = None;
                let changed = !self.was_right || self.rules != rules;
                self.was_right = true;
                self.rules = rules;
                changed
            }
            Err(why) => {
                self.fail(why);
                false
            }
        }
    }

    fn fail(&mut self, why: String) {
        let instead = if self.was_right {
            "its rules from before hold"
        } else {
            "pods that have rules from before keep them, and in others everything is denied about which it has a say"
        };
        let why = format!("{why}; {instead}");
        if self.trouble.as_ref() != Some(&why) {
            tracing::error!("{why}");
        }
        self.trouble = Some(why);
        // What was right once may come back.
        self.bytes = None;
    }
}

impl CustomFile {
    fn bytes(&self) -> Result<Vec<u8>, String> {
        fs::read(&self.path).map_err(|error| format!("cannot read `{}`: {error}", self.path.display()))
    }

    fn rules(&self, bytes: &[u8]) -> Result<CustomRules, String> {
        let name: Arc<str> = self.path.display().to_string().into();
        let source = Source::decode(&name, bytes).map_err(|_| format!("`{name}` is no text in UTF-8"))?;
        CustomRules::read(&source, self.direction, self.family).map_err(|problems| {
            let first = problems.first().map(|first| match first.labels.first() {
                Some(label) => format!(": line {}: {}", label.span.line, first.message),
                None => format!(": {}", first.message),
            });
            format!("`{name}` is no file of custom rules{}", first.unwrap_or_default())
        })
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const WRONG: &str = "tcp dport 1 accept\nopen\n";

    struct Scene {
        folder: TempDir,
        files: CustomFiles,
    }

    impl Scene {
        /// A file that holds this, if it is there.
        fn new(text: Option<&str>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("v4");
            if let Some(text) = text {
                fs::write(&path, text).unwrap();
            }
            let file = CustomFile {
                path,
                direction: Direction::Ingress,
                family: Family::Ipv4,
            };
            Self {
                files: CustomFiles::read(&[file]).unwrap(),
                folder,
            }
        }

        /// Writes the file and looks at it until it counts; whether that changes rules.
        fn write(&mut self, text: &str) -> bool {
            self.begin(text);
            self.files.refresh()
        }

        /// Writes the file and looks at it once.
        fn begin(&mut self, text: &str) {
            fs::write(self.folder.path().join("v4"), text).unwrap();
            assert!(!self.files.refresh(), "{text} counts at once");
        }

        fn rules(&self) -> Vec<String> {
            let rules = self.files.rules();
            let rules = rules.iter().flat_map(CustomRules::rendered);
            rules.map(|rule| picket_nftables::print::rule(&rule)).collect()
        }
    }

    const CLOSED: &str = "meta nfproto ipv4 drop comment \"Custom Rule\"";
    const ACCEPT: &str = "meta nfproto ipv4 tcp dport 9 accept comment \"Custom Rule\"";

    #[test]
    fn a_file_that_is_wrong_from_the_start_denies_until_it_is_right() {
        for (text, why) in [(Some(WRONG), "line 2"), (None, "cannot read")] {
            let mut scene = Scene::new(text);
            assert_eq!(scene.rules(), [CLOSED]);
            assert!(scene.files.never_right().unwrap().contains(why));
            assert!(scene.files.troubles()[0].contains("everything is denied"));
            assert!(!scene.files.refresh());
            assert!(scene.write("tcp dport 9 accept\n"));
            assert_eq!(scene.rules(), [ACCEPT]);
            assert_eq!(scene.files.never_right(), None);
            assert!(scene.files.troubles().is_empty());
        }
    }

    #[test]
    fn a_file_that_denies_everything_itself_is_right() {
        let mut scene = Scene::new(Some(WRONG));
        assert!(
            scene.write("drop\n"),
            "pods that kept their rules must hear of it"
        );
        assert_eq!(scene.rules(), [CLOSED]);
        assert_eq!(scene.files.never_right(), None);
    }

    #[test]
    fn a_file_that_becomes_wrong_keeps_its_rules() {
        let mut scene = Scene::new(Some("tcp dport 9 accept\n"));
        assert!(!scene.write(WRONG));
        assert_eq!(scene.rules(), [ACCEPT]);
        assert_eq!(scene.files.never_right(), None);
        assert!(scene.files.troubles()[0].ends_with("its rules from before hold"));
        assert!(!scene.write("tcp dport 9 accept\n"));
        assert!(scene.files.troubles().is_empty());
    }

    #[test]
    fn an_empty_file_is_right_after_one_that_was_wrong() {
        for first in [WRONG, "tcp dport 9 accept\n"] {
            let mut scene = Scene::new(Some(first));
            scene.write(WRONG);
            assert!(scene.write(""), "{first}");
            assert_eq!(scene.rules(), Vec::<String>::new());
            assert!(scene.files.troubles().is_empty());
        }
    }

    #[test]
    fn what_is_seen_of_a_file_while_it_is_written_does_not_count() {
        let whole = "tcp dport 9 accept\n";
        let mut scene = Scene::new(Some("drop\n"));
        for half in ["", "tcp dport 9", ""] {
            scene.begin(half);
            assert_eq!(scene.rules(), [CLOSED], "{half}");
        }
        assert!(scene.files.troubles().is_empty());
        assert!(scene.write(whole));
        assert_eq!(scene.rules(), [ACCEPT]);
        // What was seen counts no more once it is as it was again.
        scene.begin("");
        fs::write(scene.folder.path().join("v4"), whole).unwrap();
        assert!(!scene.files.refresh());
        scene.begin("");
        assert_eq!(scene.rules(), [ACCEPT]);
        assert!(scene.files.refresh());
        assert_eq!(scene.rules(), Vec::<String>::new());
    }
}
