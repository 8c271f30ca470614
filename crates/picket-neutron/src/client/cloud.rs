//! Which cloud: where its Keystone is, and as whom it is asked.
//!
//! What OpenStack's own clients read is read alike: `clouds.yaml` with `secure.yaml` beside it, or the variables `OS_*`.

use std::path::{Path, PathBuf};

use smol_str::SmolStr;

use super::secret::Secret;

mod files;
mod settings;

pub use files::Sources;

/// A cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cloud {
    /// As whom it is asked.
    pub auth: Auth,
    /// Which Neutron of the catalogue, if there are several.
    pub region: Option<String>,
    /// Which of its addresses.
    pub interface: Interface,
    /// Where Neutron is, whatever the catalogue says.
    pub endpoint: Option<String>,
    /// The certificates of authorities, in PEM; those of the system if there is no such file.
    pub authorities: Option<PathBuf>,
}

/// As whom a cloud is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// As nobody: a Neutron without Keystone (`auth_strategy = noauth`).
    None {
        /// Where Neutron is.
        endpoint: String,
        /// The project that everything is in, if lists are to be of one only.
        project: Option<SmolStr>,
    },
    /// As a user that Keystone knows.
    Keystone {
        /// Where Keystone is.
        url: String,
        /// Who asks.
        user: User,
        /// In which project; an application credential knows its own.
        project: Option<Project>,
    },
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// By a password.
    Password {
        /// Who.
        user: Person,
        /// The password.
        password: Secret,
    },
    /// By an application credential.
    ApplicationCredential {
        /// Its id.
        id: String,
        /// Its secret.
        secret: Secret,
    },
    /// By an application credential that is named.
    NamedApplicationCredential {
        /// Its name.
        name: String,
        /// Whose it is.
        user: Person,
        /// Its secret.
        secret: Secret,
    },
}

/// A user of Keystone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Person {
    /// By id.
    Id(String),
    /// By name.
    Name {
        /// The name.
        name: String,
        /// In which domain.
        domain: Domain,
    },
}

/// A project of Keystone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Project {
    /// By id.
    Id(String),
    /// By name.
    Name {
        /// The name.
        name: String,
        /// In which domain.
        domain: Domain,
    },
}

/// A domain of Keystone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// By id.
    Id(String),
    /// By name.
    Name(String),
}

/// Which address of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// For everybody.
    #[default]
    Public,
    /// For the cloud itself.
    Internal,
    /// For administrators.
    Admin,
}

impl Interface {
    /// As the catalogue calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

/// Why nobody knows which cloud.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// A file cannot be read.
    #[error("`{}` cannot be read: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is not as it should be. Nothing of it is repeated: it holds passwords.
    #[error("`{}` is no list of clouds{}", path.display(), at(*.line))]
    Yaml {
        /// The file.
        path: PathBuf,
        /// The first line that is wrong, from 1.
        line: Option<u64>,
    },
    /// No cloud is called so.
    #[error("no cloud is called `{name}`: there are {}", known(.there))]
    Unknown {
        /// What was looked for.
        name: String,
        /// What there is.
        there: Vec<String>,
    },
    /// Nobody says which.
    #[error("no cloud is named: set `OS_CLOUD` to one of {}, or `OS_AUTH_URL` and what goes with it", known(.0))]
    Unnamed(Vec<String>),
    /// Something is missing.
    #[error("cloud `{cloud}` has no `{field}`")]
    Missing {
        /// The cloud.
        cloud: String,
        /// What it should have.
        field: &'static str,
    },
    /// Something cannot be.
    #[error("cloud `{cloud}`: `{field}` cannot be `{value}`: {why}")]
    Unusable {
        /// The cloud.
        cloud: String,
        /// What is wrong.
        field: &'static str,
        /// What it is.
        value: String,
        /// Why it cannot be.
        why: &'static str,
    },
}

fn at(line: Option<u64>) -> String {
    line.map_or_else(String::new, |line| format!(": line {line}"))
}

fn known(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

impl Cloud {
    /// The cloud of this name, or the one that the environment and the files of OpenStack's clients say: `OS_CLOUD`; without it
    /// the variables `OS_*` where there is `OS_AUTH_URL`; without that the only one in the files.
    ///
    /// # Errors
    /// When there is none, or it cannot be used.
    pub fn find(name: Option<&str>) -> Result<Self, CloudError> {
        Sources::of_this_process()?.cloud(name)
    }

    /// A Neutron that asks for no token.
    pub fn open(endpoint: &str) -> Self {
        Self {
            auth: Auth::None {
                endpoint: endpoint.to_owned(),
                project: None,
            },
            region: None,
            interface: Interface::default(),
            endpoint: None,
            authorities: None,
        }
    }

    /// The secrets in it: no word of a server may show them.
    pub(super) fn secrets(&self) -> Vec<Secret> {
        match &self.auth {
            Auth::None { .. } => Vec::new(),
            Auth::Keystone { user, .. } => match user {
                User::Password { password: secret, .. }
                | User::ApplicationCredential { secret, .. }
                | User::NamedApplicationCredential { secret, .. } => vec![secret.clone()],
            },
        }
    }

    /// The file of certificates.
    pub(super) fn authorities(&self) -> Option<&Path> {
        self.authorities.as_deref()
    }
}
