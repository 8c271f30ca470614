//! What is said of a cloud, before it is known whether that is enough.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::{Auth, Cloud, CloudError, Domain, Interface, Person, Project, User};
use crate::client::secret::Secret;

/// An entry of `clouds.yaml`, with what the API of openstacksdk calls its keys. Others are passed over.
#[derive(Clone, Default, Deserialize)]
pub(super) struct Settings {
    /// Where Keystone is, who asks, and in which project.
    #[serde(default)]
    auth: BTreeMap<String, Option<String>>,
    auth_type: Option<String>,
    region_name: Option<String>,
    interface: Option<String>,
    endpoint_type: Option<String>,
    network_endpoint_override: Option<String>,
    cacert: Option<String>,
    verify: Option<bool>,
    insecure: Option<bool>,
}

impl Settings {
    /// What the variables `OS_*` say, if they say where Keystone or Neutron is.
    pub(super) fn of_variables(variables: &BTreeMap<String, String>) -> Option<Self> {
        let mut settings = Self::default();
        for (name, value) in variables.iter().filter(|(_, value)| !value.is_empty()) {
            let Some(key) = name.strip_prefix("OS_").map(str::to_ascii_lowercase) else {
                continue;
            };
            let value = Some(value.clone());
            match key.as_str() {
                "auth_type" => settings.auth_type = value,
                "region_name" => settings.region_name = value,
                "interface" => settings.interface = value,
                "endpoint_type" => settings.endpoint_type = value,
                "network_endpoint_override" => settings.network_endpoint_override = value,
                "cacert" => settings.cacert = value,
                "insecure" => settings.insecure = value.map(|value| is_true(&value)),
                _ => drop(settings.auth.insert(key, value)),
            }
        }
        let is_said = settings.auth.contains_key("auth_url") || settings.auth.contains_key("endpoint");
        is_said.then_some(settings)
    }

    /// With what `secure.yaml` says of the same cloud.
    pub(super) fn with(mut self, other: Self) -> Self {
        self.auth.extend(other.auth);
        Self {
            auth: self.auth,
            auth_type: other.auth_type.or(self.auth_type),
            region_name: other.region_name.or(self.region_name),
            interface: other.interface.or(self.interface),
            endpoint_type: other.endpoint_type.or(self.endpoint_type),
            network_endpoint_override: other.network_endpoint_override.or(self.network_endpoint_override),
            cacert: other.cacert.or(self.cacert),
            verify: other.verify.or(self.verify),
            insecure: other.insecure.or(self.insecure),
        }
    }

    /// The cloud that this is.
    pub(super) fn cloud(&self, name: &str) -> Result<Cloud, CloudError> {
        let reader = Reader { settings: self, name };
        if self.verify == Some(false) || self.insecure == Some(true) {
            return Err(reader.unusable(
                "verify",
                "false",
                "certificates are always verified; `cacert` names those of the authority",
            ));
        }
        Ok(Cloud {
            auth: reader.auth()?,
            region: self.region_name.clone(),
            interface: reader.interface()?,
            endpoint: self.network_endpoint_override.clone(),
            authorities: self.cacert.as_ref().map(PathBuf::from),
        })
    }
}

/// Whether a variable says yes.
fn is_true(value: &str) -> bool {
    ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str())
}

struct Reader<'a> {
    settings: &'a Settings,
    name: &'a str,
}

impl Reader<'_> {
    fn unusable(&self, field: &'static str, value: &str, why: &'static str) -> CloudError {
        CloudError::Unusable {
            cloud: self.name.to_owned(),
            field,
            value: value.to_owned(),
            why,
        }
    }

    /// The first of these keys that says something.
    fn get(&self, keys: &[&str]) -> Option<&str> {
        let said = |key: &&str| {
            self.settings
                .auth
                .get(*key)?
                .as_deref()
                .filter(|text| !text.is_empty())
        };
        keys.iter().find_map(said)
    }

    fn need(&self, keys: &[&'static str]) -> Result<String, CloudError> {
        let found = self.get(keys).map(str::to_owned);
        found.ok_or_else(|| CloudError::Missing {
            cloud: self.name.to_owned(),
            field: keys.first().copied().unwrap_or_default(),
        })
    }

    fn interface(&self) -> Result<Interface, CloudError> {
        let settings = self.settings;
        let text = settings
            .interface
            .as_deref()
            .or(settings.endpoint_type.as_deref());
        match text.map(|text| text.trim_end_matches("URL")) {
            None | Some("" | "public") => Ok(Interface::Public),
            Some("internal") => Ok(Interface::Internal),
            Some("admin") => Ok(Interface::Admin),
            Some(other) => Err(self.unusable("interface", other, "it is `public`, `internal` or `admin`")),
        }
    }

    fn auth(&self) -> Result<Auth, CloudError> {
        let has_credential = self.get(&["application_credential_secret"]).is_some();
        match self.settings.auth_type.as_deref().unwrap_or("") {
            "none" | "noauth" => Ok(Auth::None {
                endpoint: match &self.settings.network_endpoint_override {
                    Some(endpoint) => endpoint.clone(),
                    None => self.need(&["endpoint"])?,
                },
                project: self.get(&["project_id", "tenant_id"]).map(Into::into),
            }),
            "v3applicationcredential" => self.by_credential(),
            "" if has_credential => self.by_credential(),
            "" | "password" | "v3password" => Ok(Auth::Keystone {
                url: self.need(&["auth_url"])?,
                user: User::Password {
                    user: self.person()?,
                    password: Secret::new(self.need(&["password"])?),
                },
                project: Some(self.project()?),
            }),
            other => Err(self.unusable(
                "auth_type",
                other,
                "it is `v3password`, `v3applicationcredential` or `none`",
            )),
        }
    }

    fn by_credential(&self) -> Result<Auth, CloudError> {
        let secret = Secret::new(self.need(&["application_credential_secret"])?);
        let user = match self.get(&["application_credential_id"]) {
            Some(id) => User::ApplicationCredential {
                id: id.to_owned(),
                secret,
            },
            None => User::NamedApplicationCredential {
                name: self.need(&["application_credential_id", "application_credential_name"])?,
                user: self.person()?,
                secret,
            },
        };
        Ok(Auth::Keystone {
            url: self.need(&["auth_url"])?,
            user,
            project: None,
        })
    }

    fn person(&self) -> Result<Person, CloudError> {
        if let Some(id) = self.get(&["user_id"]) {
            return Ok(Person::Id(id.to_owned()));
        }
        Ok(Person::Name {
            name: self.need(&["username", "user_name"])?,
            domain: self.domain("user_domain_id", "user_domain_name"),
        })
    }

    fn project(&self) -> Result<Project, CloudError> {
        if let Some(id) = self.get(&["project_id", "tenant_id"]) {
            return Ok(Project::Id(id.to_owned()));
        }
        Ok(Project::Name {
            name: self.need(&["project_name", "tenant_name"])?,
            domain: self.domain("project_domain_id", "project_domain_name"),
        })
    }

    /// The domain `default` where nothing is said, as OpenStack's clients have it.
    fn domain(&self, id: &str, name: &str) -> Domain {
        let said = self.get(&[id]).map(|id| Domain::Id(id.to_owned()));
        let named = || self.get(&[name]).map(|name| Domain::Name(name.to_owned()));
        let common = || self.get(&["domain_id", "default_domain_id", "default_domain"]);
        let named_common = || self.get(&["domain_name", "default_domain_name"]);
        said.or_else(named)
            .or_else(|| common().map(|id| Domain::Id(id.to_owned())))
            .or_else(|| named_common().map(|name| Domain::Name(name.to_owned())))
            .unwrap_or_else(|| Domain::Id("default".to_owned()))
    }
}
