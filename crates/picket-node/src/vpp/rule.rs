//! Rules by which people say what of VPP is whose.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use picket_policy::ObjectRef;
use picket_vpp::client::Label;
use sha2::{Digest as _, Sha256};

/// How what VPP has for a pod is found: its interface, for instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodRule {
    /// By its tag.
    Tag(Template),
    /// By its name.
    Name(Template),
    /// By the annotation `picket.dev/vpp-interface` of the pod, which may name such interfaces.
    Annotation(Pattern),
    /// In a file with a line for each pod, as in `shop/web tap3`; it is read again when it changes.
    File(PathBuf),
}

impl Default for PodRule {
    /// By a tag that is the name of the pod, as in `shop/web`.
    fn default() -> Self {
        Self::Tag(Template::default())
    }
}

/// A text with the namespace and the name of a pod in it, which say together whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    before: String,
    between: String,
    after: String,
    is_name_first: bool,
}

impl Default for Template {
    fn default() -> Self {
        Self {
            before: String::new(),
            between: "/".to_owned(),
            after: String::new(),
            is_name_first: false,
        }
    }
}

/// What stands between the beginning of a text that is cut and the digits.
const CUT: char = '~';

/// How many digits there are.
const DIGITS: usize = 16;

/// How many bytes of a text that is cut are left.
const KEPT: usize = Label::LONGEST - 1 - DIGITS;

const NAMESPACE: &str = "{namespace}";
const NAME: &str = "{name}";

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It is of no kind that is known.
    #[error("write `tag=TEMPLATE`, `name=TEMPLATE`, `annotation=PATTERN` or `file=PATH`")]
    Kind,
    /// The same where namespaces are meant.
    #[error("write `file=PATH`")]
    NamespaceKind,
    /// A part of a template is missing.
    #[error("the template holds no `{0}`, or more than one")]
    Part(&'static str),
    /// Two pods could be meant by one text.
    #[error(
        "between `{{namespace}}` and `{{name}}` there must be something that no namespace can hold, as `/` is: else two pods \
         can be meant by one text"
    )]
    Ambiguous,
    /// Pods could name any interface.
    #[error(
        "pods could name every interface, uplinks too: write what only those of pods are called, as in `annotation=tap*`"
    )]
    Everything,
    /// Nothing is written.
    #[error("a pattern is missing")]
    Empty,
}

impl FromStr for PodRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (kind, rest) = text.split_once('=').ok_or(RuleError::Kind)?;
        match kind {
            "tag" => Ok(Self::Tag(rest.parse()?)),
            "name" => Ok(Self::Name(rest.parse()?)),
            "annotation" => match rest.parse::<Pattern>()? {
                may if may.matches("") => Err(RuleError::Everything),
                may => Ok(Self::Annotation(may)),
            },
            "file" if !rest.is_empty() => Ok(Self::File(rest.into())),
            _ => Err(RuleError::Kind),
        }
    }
}

impl fmt::Display for PodRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(template) => write!(f, "tag={template}"),
            Self::Name(template) => write!(f, "name={template}"),
            Self::Annotation(may) => write!(f, "annotation={may}"),
            Self::File(path) => write!(f, "file={}", path.display()),
        }
    }
}

/// How the namespace of applications that a pod has in VPP is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceRule {
    /// In a file with a line for each, as in `shop/web 3`; it is read again when it changes.
    File(PathBuf),
}

impl FromStr for NamespaceRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let path = text.strip_prefix("file=").filter(|path| !path.is_empty());
        path.map(|path| Self::File(path.into()))
            .ok_or(RuleError::NamespaceKind)
    }
}

impl fmt::Display for NamespaceRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file={}", path.display()),
        }
    }
}

impl FromStr for Template {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let place = |part: &'static str| match text.matches(part).count() {
            1 => text.find(part).ok_or(RuleError::Part(part)),
            _ => Err(RuleError::Part(part)),
        };
        let is_name_first = place(NAME)? < place(NAMESPACE)?;
        let (first, second) = match is_name_first {
            true => (NAME, NAMESPACE),
            false => (NAMESPACE, NAME),
        };
        // INVARIANT: both are there, in this order.
        let (before, rest) = text.split_once(first).ok_or(RuleError::Part(first))?;
        let (between, after) = rest.split_once(second).ok_or(RuleError::Part(second))?;
        if between.chars().all(in_namespace) {
            return Err(RuleError::Ambiguous);
        }
        Ok(Self {
            before: before.to_owned(),
            between: between.to_owned(),
            after: after.to_owned(),
            is_name_first,
        })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.filled(NAMESPACE, NAME))
    }
}

impl Template {
    /// The text of a pod. Where VPP could not keep it, it is cut, and ends with `~` and the first 64 bits of its SHA-256 as 16
    /// digits, which nothing else of a pod holds.
    pub fn of(&self, pod: &ObjectRef) -> String {
        let text = self.filled(&pod.namespace, &pod.name);
        if text.len() <= Label::LONGEST {
            return text;
        }
        let kept = text.get(..text.floor_char_boundary(KEPT)).unwrap_or_default();
        let digits = Sha256::digest(&text);
        let digits = digits.iter().take(DIGITS / 2);
        let digits: String = digits.map(|byte| format!("{byte:02x}")).collect();
        format!("{kept}{CUT}{digits}")
    }

    fn filled(&self, namespace: &str, name: &str) -> String {
        let (first, second) = match self.is_name_first {
            true => (name, namespace),
            false => (namespace, name),
        };
        [&*self.before, first, &*self.between, second, &*self.after].concat()
    }

    /// Whether this could be the text of some pod.
    pub fn is_form_of(&self, text: &str) -> bool {
        self.is_form_of_cut(text) || self.is_form_of_whole(text)
    }

    fn is_form_of_cut(&self, text: &str) -> bool {
        let Some((kept, digits)) = text.rsplit_once(CUT) else {
            return false;
        };
        let are_digits = digits.len() == DIGITS && digits.chars().all(|char| char.is_ascii_hexdigit());
        let before = self.before.get(..self.before.floor_char_boundary(KEPT));
        // What is left of it need not hold more of the form.
        are_digits && before.is_some_and(|before| kept.starts_with(before))
    }

    fn is_form_of_whole(&self, text: &str) -> bool {
        let inner = text
            .strip_prefix(&*self.before)
            .and_then(|rest| rest.strip_suffix(&*self.after));
        let parts = inner.and_then(|inner| match self.is_name_first {
            true => inner
                .rsplit_once(&*self.between)
                .map(|(name, namespace)| (namespace, name)),
            false => inner.split_once(&*self.between),
        });
        parts.is_some_and(|(namespace, name)| {
            !name.is_empty()
                && !namespace.is_empty()
                && namespace.chars().all(in_namespace)
                && name.chars().all(|char| in_namespace(char) || char == '.')
        })
    }
}

/// Whether names of namespaces may hold it: they are labels of DNS.
fn in_namespace(char: char) -> bool {
    matches!(char, 'a'..='z' | '0'..='9' | '-')
}

/// The name of an interface, or of many, as in `tap0` or `GigabitEthernet*`: `*` stands for any text, `?` for any character.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern(String);

impl FromStr for Pattern {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        match text {
            "" => Err(RuleError::Empty),
            text => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pattern {
    /// Whether it stands for this name. Takes as many steps as both are long multiplied, at most.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<_> = name.chars().collect();
        // After how many characters what was looked at of the pattern may end.
        let mut ends = vec![false; name.len() + 1];
        if let Some(first) = ends.first_mut() {
            *first = true;
        }
        for wanted in self.0.chars() {
            let mut next = vec![false; ends.len()];
            if wanted == '*' {
                let first = ends.iter().position(|&end| end).unwrap_or(ends.len());
                next.iter_mut().skip(first).for_each(|end| *end = true);
            } else {
                let steps = ends.iter().zip(&name).zip(next.iter_mut().skip(1));
                for ((&before, &char), end) in steps {
                    *end = before && (wanted == '?' || wanted == char);
                }
            }
            ends = next;
        }
        ends.last().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(namespace: &str, name: &str) -> ObjectRef {
        ObjectRef::new("Pod", namespace, name)
    }

    #[test]
    fn a_text_is_of_one_pod() {
        for (text, of_pod) in [
            ("{namespace}/{name}", "shop/web.1"),
            ("tap-{namespace}.{name}-x", "tap-shop.web.1-x"),
            ("{name}@{namespace}", "web.1@shop"),
            ("{namespace}a_{name}", "shopa_web.1"),
        ] {
            let template: Template = text.parse().unwrap();
            assert_eq!(template.to_string(), text);
            assert_eq!(template.of(&pod("shop", "web.1")), of_pod);
            assert!(template.is_form_of(of_pod), "{text}");
            for other in ["", "uplink", "tap0", "GigabitEthernet0/8/0"] {
                assert!(!template.is_form_of(other), "{text}: {other}");
            }
        }
    }

    #[test]
    fn a_text_that_vpp_could_not_keep_is_cut_and_still_of_one_pod() {
        let name = |length: usize| "a".repeat(length);
        for (text, length) in [
            ("{namespace}/{name}", 58),
            ("{name}@{namespace}", 58),
            ("tap-{namespace}.{name}-x", 52),
        ] {
            let template: Template = text.parse().unwrap();
            let whole = template.of(&pod("shop", &name(length)));
            assert_eq!(whole.len(), 63);
            assert!(!whole.contains('~'), "{whole}");
            let mut cut: Vec<_> = (length + 1..length + 5)
                .map(|length| template.of(&pod("shop", &name(length))))
                .collect();
            for cut in &cut {
                assert!(cut.len() == 63 && template.is_form_of(cut), "{cut}");
                assert_eq!(cut.find('~'), Some(46));
            }
            cut.sort();
            cut.dedup();
            assert_eq!(cut.len(), 4, "{text}");
        }
        let template = Template::default();
        // `printf shop/aaa… | sha256sum`
        let cut = template.of(&pod("shop", &name(59)));
        assert_eq!(&cut[47..], "41cfe7e227be2297");
        for other in [&cut[..62], &format!("{}G", &cut[..62]), "~", "eth0~1"] {
            assert!(!template.is_form_of(other), "{other}");
        }
        // Letters of several bytes are not cut through.
        let template: Template = "äöü-{name}/{namespace}".parse().unwrap();
        let cut = template.of(&pod("shop", &format!("{}é{}", name(38), name(20))));
        assert!(cut.len() == 62 && template.is_form_of(&cut), "{cut}");
    }

    #[test]
    fn what_could_be_of_two_pods_is_refused() {
        for (text, error) in [
            ("{namespace}-{name}", RuleError::Ambiguous),
            ("{namespace}{name}", RuleError::Ambiguous),
            ("{name}", RuleError::Part(NAMESPACE)),
            ("{namespace}/x", RuleError::Part(NAME)),
            ("{namespace}/{name}/{name}", RuleError::Part(NAME)),
        ] {
            assert_eq!(text.parse::<Template>(), Err(error), "{text}");
        }
    }

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in [
            "tag={namespace}/{name}",
            "name=pod_{name}/{namespace}",
            "annotation=tap*",
            "file=/etc/pods",
        ] {
            assert_eq!(text.parse::<PodRule>().unwrap().to_string(), text);
        }
        assert_eq!("annotation=".parse::<PodRule>(), Err(RuleError::Empty));
        assert_eq!("annotation=**".parse::<PodRule>(), Err(RuleError::Everything));
        for text in ["", "tag", "annotation", "file=", "label={namespace}/{name}"] {
            assert_eq!(text.parse::<PodRule>(), Err(RuleError::Kind), "{text}");
        }
        assert_eq!(PodRule::default().to_string(), "tag={namespace}/{name}");
        let rule: NamespaceRule = "file=/etc/namespaces".parse().unwrap();
        assert_eq!(rule.to_string(), "file=/etc/namespaces");
        for text in ["", "file=", "tag={namespace}/{name}"] {
            assert_eq!(
                text.parse::<NamespaceRule>(),
                Err(RuleError::NamespaceKind),
                "{text}"
            );
        }
    }

    #[test]
    fn patterns_stand_for_names() {
        for (pattern, name, matches) in [
            ("tap0", "tap0", true),
            ("tap0", "tap01", false),
            ("tap?", "tap0", true),
            ("tap?", "tap", false),
            ("*", "", true),
            ("*Ethernet*", "TenGigabitEthernet0/8/0", true),
            ("*Ethernet*", "loop0", false),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
            ("**", "x", true),
        ] {
            assert_eq!(
                pattern.parse::<Pattern>().unwrap().matches(name),
                matches,
                "{pattern} {name}"
            );
        }
        assert_eq!("".parse::<Pattern>(), Err(RuleError::Empty));
    }
}
