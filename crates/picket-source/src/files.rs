//! Files, directories and standard input as texts.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The endings of the files that are read from directories.
pub const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Why the input cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Nothing was named.
    #[error("no input: name files or directories, or `-` for standard input")]
    NoInput,
    /// There is nothing of this name.
    #[error("`{0}` does not exist")]
    Missing(PathBuf),
    /// The system refuses.
    #[error("cannot read `{path}`")]
    Unreadable {
        /// The path, `-` for standard input.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A device, a socket, or a pipe in a directory.
    #[error("`{0}` is neither a file nor a directory")]
    NotAFile(PathBuf),
    /// A directory without a file to read.
    #[error("`{0}` and its directories hold no file ending in .yaml, .yml or .json")]
    EmptyDirectory(PathBuf),
    /// Standard input was named twice.
    #[error("standard input (`-`) can be named only once")]
    StandardInputTwice,
    /// The files hold no object.
    #[error("the input holds no object: {0}")]
    Empty(String),
}

/// The content of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The path as given or found below a directory that was given, `-` for standard input.
    pub name: Arc<str>,
    /// The content.
    pub bytes: Vec<u8>,
}

/// Reads every file that `inputs` name: files of any name, directories with everything below that ends in one of
/// [`EXTENSIONS`], and `-` for `stdin`. The order is that of `inputs`, within a directory that of the paths. A file
/// that is reached twice, by name or by symbolic link, is read once.
///
/// # Errors
/// When a name leads to nothing that can be read. Nothing is skipped silently.
pub fn read(inputs: &[PathBuf], stdin: &mut dyn Read) -> Result<Vec<Text>, SourceError> {
    if inputs.is_empty() {
        return Err(SourceError::NoInput);
    }
    let mut reader = Reader::default();
    let mut stdin = Some(stdin);
    for input in inputs {
        if input.as_os_str() == "-" {
            let stdin = stdin.take().ok_or(SourceError::StandardInputTwice)?;
            let mut bytes = Vec::new();
            stdin
                .read_to_end(&mut bytes)
                .map_err(|source| unreadable(input, source))?;
            let name = "-".into();
            reader.texts.push(Text { name, bytes });
            continue;
        }
        let metadata = metadata(input)?;
        if metadata.is_dir() {
            let found = reader.directory(input)?;
            if !found {
                return Err(SourceError::EmptyDirectory(input.clone()));
            }
        } else if metadata.is_file() {
            reader.file(input)?;
        } else if metadata.file_type().is_fifo() {
            // What a shell's `<(command)` gives. It has no name of its own and can be read only once.
            reader.push(input)?;
        } else {
            return Err(SourceError::NotAFile(input.clone()));
        }
    }
    Ok(reader.texts)
}

#[derive(Default)]
struct Reader {
    texts: Vec<Text>,
    /// The canonical paths of the files that were read and the directories that were entered.
    seen: BTreeSet<PathBuf>,
}

impl Reader {
    /// Reads what is below a directory; says whether there was anything, read now or before.
    fn directory(&mut self, path: &Path) -> Result<bool, SourceError> {
        if !self.is_new(path)? {
            // Either it was read before, or a symbolic link leads back to where we come from.
            return Ok(true);
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(path).map_err(|source| unreadable(path, source))? {
            entries.push(entry.map_err(|source| unreadable(path, source))?.path());
        }
        entries.sort();
        let mut found = false;
        for entry in entries {
            let extension = entry.extension().and_then(|extension| extension.to_str());
            let wanted = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
            let metadata = match fs::metadata(&entry) {
                Err(_) if !wanted => continue,
                _ => metadata(&entry)?,
            };
            if metadata.is_dir() {
                found |= self.directory(&entry)?;
            } else if wanted && metadata.is_file() {
                self.file(&entry)?;
                found = true;
            } else if wanted {
                return Err(SourceError::NotAFile(entry));
            }
        }
        Ok(found)
    }

    fn file(&mut self, path: &Path) -> Result<(), SourceError> {
        if self.is_new(path)? {
            self.push(path)
        } else {
            Ok(())
        }
    }

    fn push(&mut self, path: &Path) -> Result<(), SourceError> {
        let bytes = fs::read(path).map_err(|source| unreadable(path, source))?;
        let name = path.display().to_string().into();
        self.texts.push(Text { name, bytes });
        Ok(())
    }

    fn is_new(&mut self, path: &Path) -> Result<bool, SourceError> {
        let canonical = fs::canonicalize(path).map_err(|source| unreadable(path, source))?;
        Ok(self.seen.insert(canonical))
    }
}

fn metadata(path: &Path) -> Result<Metadata, SourceError> {
    fs::metadata(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => SourceError::Missing(path.to_owned()),
        _ => unreadable(path, source),
    })
}

fn unreadable(path: &Path, source: io::Error) -> SourceError {
    SourceError::Unreadable {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use tempfile::TempDir;

    use super::*;

    /// A directory with these files; the content of each is its path.
    fn tree(files: &[&str]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        root
    }

    /// What was read, as the contents, or the error without the path of the temporary directory.
    fn outcome(root: &TempDir, inputs: &[&str]) -> Result<Vec<String>, String> {
        let place = |input: &&str| match *input {
            "-" => PathBuf::from("-"),
            input => root.path().join(input),
        };
        let inputs: Vec<_> = inputs.iter().map(place).collect();
        let root = format!("{}/", root.path().display());
        read(&inputs, &mut "standard input".as_bytes())
            .map(|texts| {
                texts
                    .into_iter()
                    .map(|text| String::from_utf8(text.bytes).unwrap())
                    .collect()
            })
            .map_err(|error| error.to_string().replace(&root, ""))
    }

    #[test]
    fn files_are_read_in_order_and_once() {
        let root = tree(&[
            "b.yaml",
            "a/z.yml",
            "a/b/c.json",
            "a/notes.txt",
            "a.yaml",
            "plain",
        ]);
        for (inputs, expected) in [
            (vec![""], vec!["a/b/c.json", "a/z.yml", "a.yaml", "b.yaml"]),
            (vec!["b.yaml", "a"], vec!["b.yaml", "a/b/c.json", "a/z.yml"]),
            (
                vec!["b.yaml", "", "b.yaml"],
                vec!["b.yaml", "a/b/c.json", "a/z.yml", "a.yaml"],
            ),
            (vec!["a", "a/b"], vec!["a/b/c.json", "a/z.yml"]),
            (vec!["a/notes.txt", "plain"], vec!["a/notes.txt", "plain"]),
            (
                vec!["b.yaml", "-", "a.yaml"],
                vec!["b.yaml", "standard input", "a.yaml"],
            ),
        ] {
            let expected = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(outcome(&root, &inputs), Ok(expected), "{inputs:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let root = tree(&["a.yaml", "text/notes.txt"]);
        fs::create_dir(root.path().join("empty")).unwrap();
        fs::create_dir(root.path().join("socket")).unwrap();
        let _listener = UnixListener::bind(root.path().join("socket/s.yaml")).unwrap();
        fs::create_dir(root.path().join("broken")).unwrap();
        symlink("nowhere", root.path().join("broken/b.yaml")).unwrap();
        symlink("loop.yaml", root.path().join("loop.yaml")).unwrap();
        for (inputs, expected) in [
            (
                vec![],
                "no input: name files or directories, or `-` for standard input",
            ),
            (vec!["a.yaml", "none.yaml"], "`none.yaml` does not exist"),
            (vec!["a.yaml/b"], "cannot read `a.yaml/b`"),
            (
                vec!["empty"],
                "`empty` and its directories hold no file ending in .yaml, .yml or .json",
            ),
            (
                vec!["text"],
                "`text` and its directories hold no file ending in .yaml, .yml or .json",
            ),
            (
                vec!["socket"],
                "`socket/s.yaml` is neither a file nor a directory",
            ),
            (
                vec!["socket/s.yaml"],
                "`socket/s.yaml` is neither a file nor a directory",
            ),
            (vec!["broken"], "`broken/b.yaml` does not exist"),
            (vec!["loop.yaml"], "cannot read `loop.yaml`"),
            (
                vec!["-", "a.yaml", "-"],
                "standard input (`-`) can be named only once",
            ),
        ] {
            assert_eq!(outcome(&root, &inputs), Err(expected.to_owned()), "{inputs:?}");
        }
    }

    #[test]
    fn links_that_lead_back_end_the_walk() {
        let root = tree(&["a/one.yaml", "b/two.yaml"]);
        symlink("..", root.path().join("a/up")).unwrap();
        symlink("../b/two.yaml", root.path().join("a/two.yaml")).unwrap();
        let read = outcome(&root, &[""]).unwrap();
        assert_eq!(read, ["a/one.yaml", "b/two.yaml"]);
    }

    #[test]
    fn a_pipe_can_be_named() {
        let root = tempfile::tempdir().unwrap();
        let (mut writer, reader) = {
            let (reader, writer) = io::pipe().unwrap();
            (writer, reader)
        };
        io::Write::write_all(&mut writer, b"from a pipe").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert_eq!(outcome(&root, &[&path]), Ok(vec!["from a pipe".to_owned()]));
    }
}
