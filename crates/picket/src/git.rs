//! Manifests of a revision, as git has them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use picket_source::{EXTENSIONS, Origin, Text};

/// The two revisions of `OLD..NEW`, or of `OLD...NEW`, whose old one is where the two parted.
pub(crate) struct Revisions {
    /// The names as given, for people.
    pub(crate) names: [String; 2],
    trees: [String; 2],
}

impl Revisions {
    /// Finds both revisions.
    ///
    /// # Errors
    /// When `range` is no range, or git knows one of them not.
    pub(crate) fn parse(range: &str) -> anyhow::Result<Self> {
        let (old, new, parted) = match range.split_once("...") {
            Some((old, new)) => (old, new, true),
            None => {
                let (old, new) = range
                    .split_once("..")
                    .with_context(|| format!("`{range}` is no range of revisions: write `OLD..NEW`"))?;
                (old, new, false)
            }
        };
        let name = |text: &str| if text.is_empty() { "HEAD" } else { text }.to_owned();
        let names = [name(old), name(new)];
        let [old, new] = names.each_ref().map(|name| commit(name));
        let (mut old, new) = (old?, new?);
        if parted {
            old = one_line(&["merge-base", &old, &new])
                .with_context(|| format!("the two sides of `{range}` have no common history"))?;
        }
        Ok(Self {
            names,
            trees: [old, new],
        })
    }

    /// The manifests below `paths` in both, those of the directory that git is run in when there are none.
    ///
    /// # Errors
    /// When git fails, or a path is in neither revision.
    pub(crate) fn sides(&self, paths: &[PathBuf]) -> anyhow::Result<[Revision; 2]> {
        let [old_name, new_name] = &self.names;
        let here = [PathBuf::from(".")];
        let mut listed = [Listed::default(), Listed::default()];
        for path in if paths.is_empty() { &here } else { paths } {
            let mut found = false;
            for (tree, listed) in self.trees.iter().zip(&mut listed) {
                let more = list(tree, path)?;
                found |= !more.is_empty();
                listed.extend(more);
            }
            if !found {
                let path = path.display();
                bail!("`{path}` holds no manifests, neither in `{old_name}` nor in `{new_name}`");
            }
        }
        let [old, new] = listed;
        let revision = |name: &String, listed| Revision {
            name: name.clone(),
            listed,
        };
        Ok([revision(old_name, old), revision(new_name, new)])
    }
}

/// The manifests of one revision.
pub(crate) struct Revision {
    name: String,
    listed: Listed,
}

impl Origin for Revision {
    type Error = anyhow::Error;

    fn texts(&mut self) -> anyhow::Result<Vec<Text>> {
        read(&self.name, &self.listed)
    }
}

/// The manifests of a tree by path: their blobs, and whether they are symbolic links.
type Listed = BTreeMap<String, (String, bool)>;

fn commit(name: &str) -> anyhow::Result<String> {
    let peeled = format!("{name}^{{commit}}");
    one_line(&["rev-parse", "--verify", "--quiet", "--end-of-options", &peeled])
        .with_context(|| format!("git knows no revision `{name}` here"))
}

/// The manifests at or below a path: files of any name that are named themselves, and others with the extensions that
/// directories are searched for.
fn list(tree: &str, path: &Path) -> anyhow::Result<Listed> {
    let arguments = ["ls-tree", "-r", "-z", tree, "--"].map(OsStr::new);
    let arguments = [&arguments[..], &[path.as_os_str()]].concat();
    let output = git(&arguments)?;
    let mut listed = Listed::new();
    for entry in output.split(|&byte| byte == 0).filter(|entry| !entry.is_empty()) {
        let entry = String::from_utf8_lossy(entry);
        let (meta, file) = entry.split_once('\t').context("git ls-tree prints no tab")?;
        let mut meta = meta.split(' ');
        let (mode, kind, blob) = (meta.next(), meta.next(), meta.next());
        let extension = Path::new(file).extension().and_then(OsStr::to_str);
        let wanted = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
        if kind == Some("blob") && (wanted || Path::new(file) == path) {
            let blob = blob.context("git ls-tree names no object")?;
            listed.insert(file.to_owned(), (blob.to_owned(), mode == Some("120000")));
        }
    }
    Ok(listed)
}

/// The content of every manifest. A symbolic link to another of them is read once, as that.
fn read(revision: &str, listed: &Listed) -> anyhow::Result<Vec<Text>> {
    let mut child = command(&[OsStr::new("cat-file"), OsStr::new("--batch")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run `git`")?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (mut stdin, mut stdout) = stdin
        .zip(stdout.map(BufReader::new))
        .context("git has no pipes")?;
    let mut texts = Vec::new();
    for (file, (blob, is_link)) in listed {
        writeln!(stdin, "{blob}")?;
        let bytes = content(&mut stdout).with_context(|| format!("git cannot read `{revision}:{file}`"))?;
        if !is_link {
            let name = format!("{revision}:{file}").into();
            texts.push(Text { name, bytes });
            continue;
        }
        let target = resolved(file, &String::from_utf8_lossy(&bytes));
        if !target.is_some_and(|target| listed.contains_key(&target)) {
            bail!("`{revision}:{file}` is a symbolic link to something that is not compared: name that too");
        }
    }
    drop(stdin);
    child.wait().context("cannot run `git`")?;
    Ok(texts)
}

/// One answer of `git cat-file --batch`: a line that ends with the size, the content, and a line feed.
fn content(stdout: &mut impl BufRead) -> anyhow::Result<Vec<u8>> {
    let mut header = String::new();
    stdout.read_line(&mut header)?;
    let size = header
        .trim_end()
        .rsplit(' ')
        .next()
        .and_then(|size| size.parse().ok());
    let size: usize = size.with_context(|| format!("git says `{}`", header.trim_end()))?;
    let mut bytes = Vec::new();
    stdout.take(size as u64 + 1).read_to_end(&mut bytes)?;
    bytes.truncate(size);
    Ok(bytes)
}

/// Where a link leads, as a path like its own; `None` when it leads out.
fn resolved(link: &str, target: &str) -> Option<String> {
    let mut parts: Vec<_> = link.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            "" => return None,
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn one_line(arguments: &[&str]) -> anyhow::Result<String> {
    let arguments: Vec<_> = arguments.iter().map(OsStr::new).collect();
    Ok(String::from_utf8_lossy(&git(&arguments)?).trim_end().to_owned())
}

/// What git prints. Arguments are a list: no shell sees them.
fn git(arguments: &[&OsStr]) -> anyhow::Result<Vec<u8>> {
    let output = command(arguments).output().context("cannot run `git`")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        match said.trim() {
            "" => bail!("`git` fails ({})", output.status),
            said => bail!("git says: {said}"),
        }
    }
    Ok(output.stdout)
}

fn command(arguments: &[&OsStr]) -> Command {
    let mut command = Command::new("git");
    command.args(arguments).stdin(Stdio::null());
    command
}
