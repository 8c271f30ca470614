//! `cargo xtask cluster`: a large cluster with the shape of real ones, as manifests.

mod manifest;
mod yaml;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use picket_cluster::Object;
use picket_testing::synthetic::{self, Size};

use crate::command::{print, say};

/// What `cargo xtask cluster` takes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many pods, those of kube-system included
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pods: usize,
    /// How many namespaces, kube-system included; at least 2
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    namespaces: usize,
    /// How many NetworkPolicies
    #[arg(long, value_name = "COUNT", default_value_t = 500)]
    policies: usize,
    /// Which of the clusters of this size: the same number gives the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write one file for each kind into this directory, instead of everything to standard output
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes the manifests of a cluster.
pub(crate) fn cluster(arguments: &Arguments) -> Result<()> {
    let Arguments {
        pods,
        namespaces,
        policies,
        seed,
        ..
    } = *arguments;
    ensure!(
        namespaces >= 2,
        "`--namespaces` is {namespaces}: one is kube-system, so at least 2 are needed"
    );
    let files = files(Size {
        pods,
        namespaces,
        policies,
        seed,
    });
    let Some(directory) = &arguments.out else {
        return files.values().try_for_each(|text| print(text));
    };
    let context = || format!("cannot write into `{}`", directory.display());
    fs::create_dir_all(directory).with_context(context)?;
    for (name, text) in &files {
        fs::write(directory.join(name), text).with_context(context)?;
    }
    say(&format!(
        "wrote {} to {}",
        files.into_keys().collect::<Vec<_>>().join(", "),
        directory.display()
    ));
    Ok(())
}

/// YAML by the name of its file, in the order in which a person would apply them.
fn files(size: Size) -> BTreeMap<&'static str, String> {
    let mut files = BTreeMap::<_, String>::new();
    for object in synthetic::objects(size) {
        let name = match object {
            Object::Namespace(_) => "0-namespaces.yaml",
            Object::Node(_) => "1-nodes.yaml",
            Object::Pod(_) | Object::Service(_) | Object::Network(_) => "2-pods.yaml",
            Object::Policy(_) => "3-policies.yaml",
        };
        if let Some(manifest) = manifest::manifest(&object) {
            yaml::write_document(&manifest, files.entry(name).or_default());
        }
    }
    files
}

#[cfg(test)]
mod tests;
