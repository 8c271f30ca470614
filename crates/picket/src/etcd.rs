//! The arguments of what speaks to etcd.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use picket_source::{Etcd, Login, Tls};

/// Which etcd.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "etcd")]
pub(crate) struct EtcdArguments {
    /// The members of etcd, as in `https://etcd-0:2379,https://etcd-1:2379`; the next is asked when one fails
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    etcd_endpoints: Vec<String>,

    /// What all keys of this cluster begin with
    #[arg(long, value_name = "PREFIX", default_value = Etcd::PREFIX)]
    etcd_prefix: String,

    /// Who signs the certificates of members, as PEM [default: whom this machine trusts]
    #[arg(long, value_name = "FILE")]
    etcd_cacert: Option<PathBuf>,

    /// The certificate to show to members, as PEM
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,

    /// The key of that certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,

    /// The user of etcd, where it wants one
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    etcd_user: Option<String>,

    /// The file that holds the password of that user
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,

    /// How many seconds a member may take for one answer
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..))]
    etcd_timeout: u16,
}

impl EtcdArguments {
    /// The etcd, which must have been named.
    pub(crate) fn etcd(&self) -> anyhow::Result<Etcd> {
        if self.etcd_endpoints.is_empty() {
            bail!("where is etcd? Name its members with `--etcd-endpoints`");
        }
        let timeout = Duration::from_secs(self.etcd_timeout.into());
        Ok(Etcd {
            prefix: self.etcd_prefix.clone(),
            tls: Tls {
                authority: self.etcd_cacert.clone(),
                identity: self.etcd_cert.clone().zip(self.etcd_key.clone()),
            },
            login: self
                .etcd_user
                .clone()
                .zip(self.etcd_password_file.clone())
                .map(|(user, password)| Login { user, password }),
            ..Etcd::new(self.etcd_endpoints.clone(), timeout)
        })
    }
}
