//! The codes of diagnostics about the objects of a cluster.

use picket_policy::Code;

/// Every code of this crate with what it means, for the documentation.
pub const CODES: [(Code, &str); 10] = [
    (DUPLICATE, "two objects have the same kind, namespace and name"),
    (
        NAME_LABEL,
        "the label `kubernetes.io/metadata.name` contradicts the name of its Namespace",
    ),
    (
        ADDRESS_TAKEN,
        "two pods, or a pod and a node, have the same address",
    ),
    (ADDRESS_FAMILY, "a pod has two addresses of one family"),
    (ADDRESS, "a text is no IP address"),
    (NO_ADDRESS_LEFT, "the range of made-up IPv4 addresses is used up"),
    (
        UNKNOWN_NAMESPACE,
        "a policy is in, or names, a namespace that the input does not have",
    ),
    (
        UNKNOWN_PORT_NAME,
        "a policy names a container port that no pod has",
    ),
    (LABEL, "a label is not text"),
    (
        PORT,
        "a container port is no number from 1 to 65535, or has an unknown protocol",
    ),
];

/// Two objects have the same kind, namespace and name.
pub const DUPLICATE: Code = Code("C001");
/// A Namespace says that it is called otherwise.
pub const NAME_LABEL: Code = Code("C002");
/// Two pods, or a pod and a node, have the same address.
pub const ADDRESS_TAKEN: Code = Code("C003");
/// A pod has two addresses of one family.
pub const ADDRESS_FAMILY: Code = Code("C004");
/// A text is no IP address.
pub const ADDRESS: Code = Code("C005");
/// The range of made-up IPv4 addresses is used up.
pub const NO_ADDRESS_LEFT: Code = Code("C006");
/// A policy is in, or names, a namespace that the input does not have.
pub const UNKNOWN_NAMESPACE: Code = Code("C007");
/// A policy names a container port that no pod has.
pub const UNKNOWN_PORT_NAME: Code = Code("C008");
/// A label is not text.
pub const LABEL: Code = Code("C009");
/// A container port cannot be one.
pub const PORT: Code = Code("C010");
