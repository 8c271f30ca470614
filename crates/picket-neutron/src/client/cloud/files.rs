//! The files and variables of OpenStack's clients.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::settings::Settings;
use super::{Cloud, CloudError};

/// The most bytes of a file.
const LONGEST_FILE: usize = 1 << 20;

/// What is said of clouds.
pub struct Sources {
    variables: BTreeMap<String, String>,
    clouds: BTreeMap<String, Settings>,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    clouds: BTreeMap<String, Option<Settings>>,
}

/// Passwords are in it, which are not shown.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("clouds", &self.clouds.keys())
            .finish_non_exhaustive()
    }
}

impl Sources {
    /// The variables of this process, and the files that they name or that are where OpenStack's clients look: in the working
    /// directory, in `~/.config/openstack` and in `/etc/openstack`.
    ///
    /// # Errors
    /// When a file is there and cannot be read.
    pub fn of_this_process() -> Result<Self, CloudError> {
        Self::with_file(None)
    }

    /// The same, with this file in the place of `clouds.yaml`.
    ///
    /// # Errors
    /// When a file is there and cannot be read, or this one is not.
    pub fn with_file(clouds: Option<&Path>) -> Result<Self, CloudError> {
        let mut variables: BTreeMap<_, _> = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("OS_"))
            .collect();
        if let Some(clouds) = clouds {
            let path = clouds.to_string_lossy().into_owned();
            variables.insert("OS_CLIENT_CONFIG_FILE".to_owned(), path);
        }
        let config = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let config = config.or_else(|| Some(env::home_dir()?.join(".config")));
        let folders = [
            Some(PathBuf::new()),
            config.map(|folder| folder.join("openstack")),
            Some(PathBuf::from("/etc/openstack")),
        ];
        let folders: Vec<_> = folders.into_iter().flatten().collect();
        Self::new(variables, &folders)
    }

    /// The same with other variables, and other folders to look for files in; of each file the first is read.
    ///
    /// # Errors
    /// When a file is there and cannot be read.
    pub fn new(variables: BTreeMap<String, String>, folders: &[PathBuf]) -> Result<Self, CloudError> {
        let read = |variable: &str, name: &str| match variables.get(variable) {
            Some(path) => read(Path::new(path)),
            None => {
                let files = ["yaml", "yml"].map(|extension| format!("{name}.{extension}"));
                let mut paths = folders
                    .iter()
                    .flat_map(|folder| files.iter().map(|file| folder.join(file)));
                let found = paths.find(|path| path.is_file());
                found.map_or_else(|| Ok(BTreeMap::new()), |path| read(&path))
            }
        };
        let mut clouds = read("OS_CLIENT_CONFIG_FILE", "clouds")?;
        for (name, secrets) in read("OS_CLIENT_SECURE_FILE", "secure")? {
            let known = clouds.remove(&name).unwrap_or_default();
            clouds.insert(name, known.with(secrets));
        }
        Ok(Self { variables, clouds })
    }

    /// The cloud of this name, or the one that is meant where nobody names one.
    ///
    /// # Errors
    /// When there is none, or it cannot be used.
    pub fn cloud(&self, name: Option<&str>) -> Result<Cloud, CloudError> {
        let there = || self.clouds.keys().cloned().collect();
        let named = name.or_else(|| self.variables.get("OS_CLOUD").map(String::as_str));
        if let Some(name) = named.filter(|name| !name.is_empty()) {
            let settings = self.clouds.get(name).ok_or_else(|| CloudError::Unknown {
                name: name.to_owned(),
                there: there(),
            })?;
            return settings.cloud(name);
        }
        if let Some(settings) = Settings::of_variables(&self.variables) {
            return settings.cloud("envvars");
        }
        let mut clouds = self.clouds.iter();
        match (clouds.next(), clouds.next()) {
            (Some((name, settings)), None) => settings.cloud(name),
            _ => Err(CloudError::Unnamed(there())),
        }
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, Settings>, CloudError> {
    let failed = |source| CloudError::File {
        path: path.to_owned(),
        source,
    };
    let text = fs::read_to_string(path).map_err(failed)?;
    if text.len() > LONGEST_FILE {
        return Err(failed(ErrorKind::FileTooLarge.into()));
    }
    // What a parser says about a value may repeat it.
    let file: Option<File> = serde_saphyr::from_str(&text).map_err(|error| CloudError::Yaml {
        path: path.to_owned(),
        line: error.location().map(|location| location.line()),
    })?;
    let clouds = file.map(|file| file.clouds).unwrap_or_default();
    Ok(clouds
        .into_iter()
        .map(|(name, settings)| (name, settings.unwrap_or_default()))
        .collect())
}
