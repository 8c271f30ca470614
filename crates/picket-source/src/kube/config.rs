//! Where the cluster is and who asks: a kubeconfig, or the service account of a pod.

use std::env;
use std::path::Path;

use ::kube::Config;
use ::kube::config::{KubeConfigOptions, Kubeconfig};

use super::error::KubeError;

/// How to reach the cluster of a context: as `file` says, else as KUBECONFIG says, else `~/.kube/config`, else, without a context, as pods of a
/// cluster reach it.
pub(super) async fn load(file: Option<&Path>, context: Option<&str>) -> Result<Config, KubeError> {
    let home = env::home_dir().unwrap_or_default().join(".kube").join("config");
    let Some(kubeconfig) = kubeconfig(file, &home)? else {
        if context.is_none() && env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
            return Config::incluster().map_err(|error| KubeError::Kubeconfig(error.to_string()));
        }
        return Err(KubeError::NoKubeconfig(home.display().to_string()));
    };
    let context = choose(&kubeconfig, context)?;
    let options = KubeConfigOptions {
        context: Some(context),
        ..KubeConfigOptions::default()
    };
    Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
}

fn kubeconfig(file: Option<&Path>, home: &Path) -> Result<Option<Kubeconfig>, KubeError> {
    if let Some(file) = file {
        return Ok(Some(Kubeconfig::read_from(file)?));
    }
    if let Some(kubeconfig) = Kubeconfig::from_env()? {
        return Ok(Some(kubeconfig));
    }
    if !home.exists() {
        return Ok(None);
    }
    Ok(Some(Kubeconfig::read_from(home)?))
}

/// The context that is asked for, if there is one of its name.
fn choose(kubeconfig: &Kubeconfig, context: Option<&str>) -> Result<String, KubeError> {
    let names: Vec<_> = kubeconfig
        .contexts
        .iter()
        .map(|context| context.name.as_str())
        .collect();
    let current = kubeconfig
        .current_context
        .as_deref()
        .filter(|name| !name.is_empty());
    let Some(context) = context.or(current) else {
        return Err(KubeError::NoContext(known(&names, "")));
    };
    if names.contains(&context) {
        return Ok(context.to_owned());
    }
    Err(KubeError::UnknownContext {
        context: context.to_owned(),
        known: known(&names, context),
    })
}

/// How many contexts an error names.
const NAMED: usize = 5;

/// Which contexts there are, those first that are nearest to `wanted`.
fn known(names: &[&str], wanted: &str) -> String {
    let mut names = names.to_vec();
    names.sort_by_cached_key(|name| (strsim::damerau_levenshtein(name, wanted), *name));
    let shown: Vec<_> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(NAMED) {
        0 if names.is_empty() => "it has none".to_owned(),
        0 => format!("it has {}", shown.join(", ")),
        more => format!("it has {} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The context that is chosen of a kubeconfig with these, or the error.
    fn chosen(contexts: &[&str], current: &str, context: Option<&str>) -> Result<String, String> {
        let contexts: Vec<_> = contexts.iter().map(|name| format!("{{name: {name}}}")).collect();
        let text = format!(
            "{{current-context: '{current}', contexts: [{}]}}",
            contexts.join(", ")
        );
        let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
        choose(&kubeconfig, context).map_err(|error| error.to_string())
    }

    #[test]
    fn a_context_is_found_by_name() {
        let two = ["prod", "staging"];
        for (current, context, expected) in [
            ("prod", None, Ok("prod")),
            ("prod", Some("staging"), Ok("staging")),
            (
                "prod",
                Some("stagin"),
                Err("the kubeconfig has no context `stagin`: it has `staging`, `prod`"),
            ),
            (
                "gone",
                None,
                Err("the kubeconfig has no context `gone`: it has `prod`, `staging`"),
            ),
            (
                "",
                None,
                Err(
                    "the kubeconfig has no current context, name one with `--context`: it has `prod`, `staging`",
                ),
            ),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(chosen(&two, current, context), expected, "{current} {context:?}");
        }
    }

    #[test]
    fn an_error_names_few_contexts() {
        let many = ["a1", "a2", "a3", "a4", "a5", "a6", "b"];
        let error = "the kubeconfig has no context `b1`: it has `a1`, `b`, `a2`, `a3`, `a4` and 2 more";
        assert_eq!(chosen(&many, "", Some("b1")), Err(error.to_owned()));
        let error = "the kubeconfig has no context `b`: it has none";
        assert_eq!(chosen(&[], "", Some("b")), Err(error.to_owned()));
    }
}
