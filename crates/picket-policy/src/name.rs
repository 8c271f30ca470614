//! What names, labels and port names may look like: rules and wording of apimachinery (`util/validation`,
//! `api/validate/content`), each as the list of what is wrong.

use smol_str::SmolStr;

const DNS_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// `text` with U+FFFD for every character that a terminal would act upon: control characters, and what turns the
/// direction of writing (Unicode UAX #9). No valid name has any; an invalid one is shown all the same.
pub fn printable(text: &SmolStr) -> SmolStr {
    let acts = |character: char| {
        character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(acts) {
        text.replace(acts, "\u{fffd}").into()
    } else {
        text.clone()
    }
}

/// What keeps `text` from being a DNS label (RFC 1123), as namespaces are named.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut problems = too_long(text, 63);
    if !is_dns_label(text) {
        problems.push(if is_dns_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            format!(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                 '{DNS_LABEL}')"
            )
        });
    }
    problems
}

/// What keeps `text` from being a DNS subdomain (RFC 1123), as most objects are named.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut problems = too_long(text, 253);
    if !is_dns_subdomain(text) {
        problems.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '{DNS_LABEL}(\\.{DNS_LABEL})*')"
        ));
    }
    problems
}

/// What keeps `text` from being a label key: a name, optionally after a DNS subdomain and a slash.
pub fn qualified_name(text: &str) -> Vec<String> {
    let rule = || {
        format!(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{LABEL_KEY}')"
        )
    };
    let mut problems = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                rule()
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                let about_prefix = dns_subdomain(prefix);
                problems.extend(
                    about_prefix
                        .iter()
                        .map(|problem| format!("prefix part {problem}")),
                );
            }
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    }
    problems.extend(
        too_long(name, 63)
            .iter()
            .map(|problem| format!("name part {problem}")),
    );
    if !is_label_name(name) {
        problems.push(format!("name part {}", rule()));
    }
    problems
}

/// What keeps `text` from being the value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut problems = too_long(text, 63);
    if !text.is_empty() && !is_label_name(text) {
        problems.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
             for validation is '({LABEL_KEY})?')"
        ));
    }
    problems
}

/// What keeps `text` from being the name of a container port (RFC 6335, lower case).
pub fn port_name(text: &str) -> Vec<String> {
    let mut problems = too_long(text, 15);
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.is_empty() || !text.bytes().all(allowed) {
        let rule = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
        problems.push(rule.to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        problems.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        problems.push("must not begin or end with a hyphen".to_owned());
    }
    problems
}

fn too_long(text: &str, most: usize) -> Vec<String> {
    let problem = (text.len() > most).then(|| format!("must be no more than {most} bytes"));
    problem.into_iter().collect()
}

fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_label_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.iter().copied().all(inner) && outer(bytes.first()) && outer(bytes.last())
}
