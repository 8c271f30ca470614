//! Every lint: its code, what it is about, and what it finds and leaves alone.

use picket_policy::Code;

picket_policy::codes! {
    SELECTS_NOTHING "L001" "A policy that selects no pod"
        "No running pod of the namespace has the labels that `podSelector` asks for, although the namespace has pods: the policy protects nothing. Usually a label is spelled otherwise, or was renamed. Nothing is said about a namespace without pods, about which the input may just be silent."

    PEER_MATCHES_NOTHING "L002" "A peer that matches nothing"
        "No pod, or no namespace, has the labels that an item of `from` or `to` asks for, so that the item allows nothing. Nothing is said about namespaces that the input knows no labels or no pods of, nor about pods that may run in `kube-system` when the input has none of it."

    INGRESS_BY_DEFAULT "L003" "Egress rules that also deny ingress"
        "Without `policyTypes` a policy is about ingress, and about egress too when it has egress rules. So one that was written to restrict egress denies all ingress of its pods besides. Say which directions are meant."

    INERT_RULES "L004" "Rules that have no effect"
        "`policyTypes` decides which directions a policy is about. Rules for the other direction are read by nobody: they neither allow nor deny anything."

    OR_FOR_AND "L005" "Two peers where one was probably meant"
        "A `podSelector` and a `namespaceSelector` in one item of `from` or `to` must both match. As two items, each behind a dash of its own, either is enough: every pod of the namespaces is allowed, and the pods of the policy's own namespace with the labels. This is found where pods with the labels exist in those namespaces, so that one item would make sense."

    BLOCK_OF_PODS "L006" "An ipBlock that holds addresses of pods"
        "`ipBlock` is meant for addresses outside the cluster. Addresses of pods change whenever pods are replaced, and network plugins differ in whether a block matches pods at all. Blocks of every address, such as 0.0.0.0/0, are left alone."

    BLOCK_OF_SERVICE "L007" "An ipBlock that holds the address of a Service"
        "A connection to a Service is judged with the address of the pod that it leads to, so that a block with the Service's own address matches nothing of it. Select the pods instead."

    SERVICE_PORT "L008" "A port of a Service instead of its pods"
        "A connection to a Service is judged with the port of the pod that it leads to, `targetPort`. The rule names a port of the Service, and none of the pods that it is about has a container port of that number."

    NO_DNS "L009" "Egress without DNS"
        "The policies of some pods allow them to connect to pods or to anybody, but not to port 53, which finding them by name needs. Blocks of addresses need no names, and are left alone."

    SHADOWED_RULE "L010" "A rule that changes nothing"
        "Another rule of the policy matches everything that this one matches. Accepts add up, so that the narrower one changes nothing; in the tiers the earlier rule has already decided. This holds whatever pods there are."

    REDUNDANT_POLICY "L011" "A policy that changes nothing"
        "Other policies are about all pods that this one is about, and allow and deny everything that it does. That is proved by what is written: each of its rules is within one of theirs, so that without it exactly the same connections are allowed, whatever pods there are. Of two that say the same, the later by name is reported; all that are reported may be removed together. A policy without rules is left alone: it is there for pods to come."

    EQUAL_PRIORITY "L012" "Policies of one priority that do not say the same"
        "Within a tier the policy with the lowest number of `priority` decides first. Two with the same number that are about the same pods and have different actions have no order: each network plugin may choose another."

    DEFEATS_ISOLATION "L013" "A rule that allows everything to protected pods"
        "Rules only add to what is allowed. One without peers and ports allows everything, and whatever other policies say about the same pods and direction restricts nothing any more. Found when all pods of another policy are among those that the rule is about."

    HOST_NETWORK_ONLY "L014" "A selector that matches hostNetwork pods only"
        "A pod with `hostNetwork: true` has its node's addresses: its traffic cannot be told from that of the node, and no selector of a policy matches it. The selector matches nothing else, so it protects or allows nothing."

    NAMED_PORT "L015" "A port name that stands for several ports"
        "Each pod says itself which number a port name stands for. Pods that are selected by one label use several, so that the rule opens another port on some of them. That may be meant, as during a migration."

    V1BETA1 "L016" "A policy of extensions/v1beta1 that means something else as v1"
        "NetworkPolicy of `extensions/v1beta1` has two meanings. As it was proposed, only a namespace isolates, by the annotation `net.beta.kubernetes.io/network-policy`: a policy in one that does not, or without rules, has no effect, where it denies ingress as v1. A list `from` or `ports` that is there and empty matches nothing as proposed, and anything as v1. Found by reading the policy both ways. Fields that only v1 has are errors where it is read as proposed."

    LABEL_KEY "L017" "The key of a label that nothing has"
        "No pod, or no namespace, has a label with this key, but some have one that is spelled nearly the same. A selector that requires it matches nothing; one that excludes it excludes nothing."

    UNKNOWN_LINT "L018" "An annotation that names no lint"
        "The annotation `picket.dev/ignore` lists codes of lints, separated by commas. This is not one, so it silences nothing."
}

/// A lint, and two small inputs that show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lint {
    /// Its code; [`ALL`] explains it.
    pub code: Code,
    /// Manifests in which it finds something.
    pub bad: &'static str,
    /// The same, mended: it finds nothing.
    pub good: &'static str,
}

macro_rules! lints {
    ($($code:literal)*) => {
        &[$(Lint {
            code: Code($code),
            bad: include_str!(concat!("examples/", $code, "-bad.yaml")),
            good: include_str!(concat!("examples/", $code, "-good.yaml")),
        },)*]
    };
}

/// Every lint, ascending.
pub const LINTS: &[Lint] = lints! {
    "L001" "L002" "L003" "L004" "L005" "L006" "L007" "L008" "L009" "L010" "L011" "L012" "L013" "L014" "L015" "L016" "L017" "L018"
};
