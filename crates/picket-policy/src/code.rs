//! The codes of all diagnostics of this crate: one table, from which the documentation is made.

use crate::Code;

/// What a code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The code.
    pub code: Code,
    /// A few words, as a heading.
    pub title: &'static str,
    /// What it is about, why it matters, and what picket does about it.
    pub text: &'static str,
}

/// Declares codes as constants and as `ALL`, a table of [`Explanation`]s in the order written.
#[macro_export]
macro_rules! codes {
    ($($name:ident $code:literal $title:literal $text:literal)*) => {
        $(
            #[doc = concat!($title, ".\n\n", $text)]
            pub const $name: $crate::Code = $crate::Code($code);
        )*

        /// Every code of this crate, ascending.
        pub const ALL: &[$crate::code::Explanation] = &[$(
            $crate::code::Explanation {
                code: $name,
                title: $title,
                text: $text,
            },
        )*];
    };
}

codes! {
    NOT_UTF8 "P001" "Not UTF-8 text"
        "Manifests are UTF-8 text, with or without a byte order mark. Nothing of a file in another encoding is read; save it as UTF-8."

    SYNTAX "P002" "YAML that cannot be parsed"
        "The document breaks the rules of YAML. The other documents of the file are read, and so is every item of a list that stands on its own: in a list written with dashes all but the broken item, in JSON those before it. A note names the lines that are lost. A broken NetworkPolicy in YAML whose namespace and `spec` come before the mistake isolates the pods that it may select in both directions, and allows nothing; any other broken object is not read. The marked place is where the parser gave up: the mistake is there or just before it. Usual causes are tabs in the indentation, an indentation that fits no line above, and a quote or bracket that is not closed."

    ALIAS "P003" "An alias that cannot be expanded"
        "An alias (`*name`) stands for the value with the anchor `&name` before it in the same document. One that names no anchor, that contains itself, or whose expansion would make the document too big has no meaning; what contains it is treated as unreadable."

    DUPLICATE_KEY "P004" "A key that is set twice"
        "One mapping has the same key twice. Tools disagree on which of the two counts, and `kubectl` refuses the document, so picket uses neither: the field is treated as unreadable."

    TOO_DEEP "P005" "Nesting that is too deep"
        "The document nests lists and mappings deeper than any manifest does. What is read of it is what would be after a syntax error (P002)."

    TAG "P006" "A YAML tag that has no meaning here"
        "Values may carry the tags of the YAML core schema, such as `!!str`. A value with another tag, or one that is not what its tag says, is treated as unreadable."

    MERGE "P007" "A merge key that cannot be expanded"
        "The merge key `<<` takes a mapping or a list of mappings, whose keys are added to the mapping it stands in. Where a key is set before `<<` and again by what is merged, tools disagree on which counts, so the field is treated as unreadable: write the merge key first, then what overrides it."

    KEY_TYPE "P008" "A key that is not text"
        "Keys are text. A plain key such as `on`, `y` or `80` is something else in YAML, and `kubectl` turns it into the text of that value: `on` becomes `true`. Quote the key to keep it as written. A list or mapping cannot be a key."

    NOT_AN_OBJECT "P010" "A document that is no object"
        "Every document of a manifest is a mapping with `apiVersion` and `kind`. A list or a single value is not, and is not read."

    NO_KIND "P011" "An object without kind or apiVersion"
        "`apiVersion` and `kind` say what an object is. Without them nothing of it is read."

    METADATA "P012" "An object whose metadata cannot be used"
        "An object is identified by `metadata.name` and `metadata.namespace`, which have to be names as the API server accepts them. Without a usable name nothing can refer to the object; without a readable namespace nobody can tell which pods a policy is about."

    UNKNOWN_FIELD "P013" "A field that does not exist"
        "The API has no such field at this place. The API server ignores it or refuses the object, and what it was meant to say is lost. In a policy the part that it stands in is treated as unreadable, so that a misspelt restriction never becomes an allowance."

    WRONG_TYPE "P014" "A value of the wrong type"
        "The API expects another type at this place, such as a number where a text stands. The API server refuses the object. In a policy the part that it stands in is treated as unreadable."

    API_VERSION "P015" "A version of the API that is not supported"
        "The kind is known, but not in this version. A policy is not read: nobody can tell what it says. Any other object is read as if it were of the version that clusters have today."

    LABEL "P016" "A label or annotation that cannot be used"
        "Keys and values of labels have to be as the API server accepts them. The object is used as it is written, because stored objects may break today's rules."

    UNREADABLE "P017" "A part that cannot be read"
        "Something in this part of the object has no meaning, for the reason that another diagnostic gives, such as a key that is set twice. This one says what follows from it for the object."

    UNSUPPORTED_VALUE "P101" "A value that is not one of those allowed"
        "The field takes one of a few values, spelled exactly. The API server refuses the object; picket treats the part it stands in as unreadable: a rule matches nothing, unreadable `policyTypes` isolate both directions."

    PORT "P102" "A port that is no port"
        "`port` is a number from 1 to 65535 or the name of a container port: at most 15 lower-case letters, digits and single hyphens, at least one of them a letter. The rule matches nothing; one that denies or passes, as ClusterNetworkPolicy has them, denies everything."

    END_PORT "P103" "A range of ports that is none"
        "`endPort` is the last port of a range that `port` begins: it needs a numeric `port`, and must not be below it; a range of ClusterNetworkPolicy has its `start` below its `end`. The rule matches nothing; one that denies or passes, as ClusterNetworkPolicy has them, denies everything."

    PEER "P104" "A peer that is none"
        "Each item of `from` and `to` has a `podSelector`, a `namespaceSelector`, both together, or an `ipBlock` alone; in a ClusterNetworkPolicy it has one of `namespaces`, `pods`, `nodes`, `networks` and `domainNames`. The rule matches nothing; one that denies or passes, as ClusterNetworkPolicy has them, denies everything."

    CIDR "P105" "An address block that is none"
        "`cidr` and `except` are written as an address, a slash and a prefix length, and each exception lies inside its `cidr` without being all of it. The rule matches nothing; one that denies or passes, as ClusterNetworkPolicy has them, denies everything."

    SLOPPY_CIDR "P106" "An address block in a non-standard spelling"
        "Leading zeros, bits beyond the prefix length and IPv4-mapped IPv6 addresses are refused by newer API servers, but older ones have stored them. picket reads zeros as decimal, masks the bits, and takes a mapped address for the IPv4 address it holds. With `--strict-cidr` this is an error, and the rule matches nothing."

    POLICY_TYPES "P107" "Policy types that cannot be used"
        "`policyTypes` lists `Ingress`, `Egress` or both. When the list cannot be used, the policy isolates its pods in both directions."

    SELECTOR "P108" "A selector that cannot be used"
        "A label selector has `matchLabels`, `matchExpressions` or both, with keys, operators and values as the API server accepts them. In a peer, the rule matches nothing. In the `podSelector` of a policy, the unusable part is ignored, so that every pod which may be meant is isolated, and the policy allows nothing."

    NO_SPEC "P109" "A policy without a readable spec"
        "Without `spec` nobody can tell what a policy selects, so it isolates nothing. `spec: {}` is readable: it selects every pod of the namespace, and denies all ingress."

    POLICY_FOR "P110" "A MultiNetworkPolicy without usable networks"
        "The annotation `k8s.v1.cni.cncf.io/policy-for` lists the NetworkAttachmentDefinitions whose interfaces the policy is about, as `name` or `namespace/name`, separated by commas. A MultiNetworkPolicy is never about the cluster network, so without the annotation it applies to nothing. An entry that names no network is ignored, and one with a name that no network can have concerns no pod but one that forges its status."

    TIER "P111" "A tier or priority that cannot be used"
        "`tier` is `Admin` or `Baseline`, and `priority` a number from 0 to 1000; both are required. Nobody can tell before which other policies the policy comes, so it comes first in the tier Admin as far as that cannot be told, and its rules only deny: an accept matches nothing, and a pass denies."

    SUBJECT "P112" "A subject that cannot be used"
        "`subject` has either `namespaces` or `pods`. What cannot be read of it is ignored, so that the rules hold for every pod that may be meant, and they only deny: an accept matches nothing, and a pass denies."

    ACTION "P113" "An action that does not exist"
        "`action` is `Accept`, `Deny` or `Pass` in a ClusterNetworkPolicy, `Allow`, `Deny` or `Pass` in an AdminNetworkPolicy, and `Allow` or `Deny` in a BaselineAdminNetworkPolicy. The rule may have denied anything, so it denies everything."

    COUNT "P114" "Too many or too few of something"
        "Lists of rules, peers, ports, networks and domain names have a greatest length, names of rules too, and most lists must not be empty. What is too long is read all the same; a rule with a list that is empty fails closed."

    DOMAIN_NAME "P115" "A domain name that cannot be used"
        "A domain name has at least two labels, after `*.` or not, and only rules that accept may have one. The rule fails closed: one that accepts matches nothing, any other denies everything."

    HOSTS "P116" "A line of the file for --dns that cannot be used"
        "The file that `--dns` names has the format of hosts(5): on every line an IP address and the names that have it, and `#` before a comment. What cannot be used is ignored, so that a domain name has fewer addresses."

    ISOLATION "P117" "The isolation of a namespace that cannot be read"
        "In the proposal of NetworkPolicy, the annotation `net.beta.kubernetes.io/network-policy` of a namespace, or its `spec.networkPolicy`, says whether ingress to its pods is denied by default. What cannot be read denies it."

    MODE "P118" "A mode that does not exist"
        "The annotation `picket.dev/mode` of a policy is `enforce`, which it is without the annotation, or `audit`: then what the policy denies passes, and is logged and counted. Whatever else stands there, the policy is enforced."
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn codes_are_unique_and_ascending() {
        assert!(ALL.windows(2).all(|pair| pair[0].code < pair[1].code));
    }

    #[test]
    fn every_code_is_used_and_declared_here() {
        let mut text = String::new();
        let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && path.file_name().unwrap() != "tests" {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs")
                    && !path.ends_with("tests.rs")
                {
                    text += &std::fs::read_to_string(path).unwrap();
                }
            }
        }
        let declarations = include_str!("code.rs");
        for explanation in ALL {
            let declared = format!(" {:?} ", explanation.code.0);
            let line = declarations
                .lines()
                .find(|line| line.contains(&declared))
                .unwrap();
            let name = line.split_whitespace().next().unwrap();
            assert!(text.contains(&format!("code::{name}")), "{name} is not used");
        }
    }

    #[test]
    fn every_code_is_explained_in_sentences() {
        for explanation in ALL {
            assert!(
                !explanation.title.ends_with('.') && explanation.text.ends_with('.'),
                "{}",
                explanation.code
            );
        }
    }
}
