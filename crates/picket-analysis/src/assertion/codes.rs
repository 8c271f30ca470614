//! The codes of diagnostics about assertions.

picket_policy::codes! {
    FORM "T001" "An assertion that is none"
        "An assertion says exactly one of `allow`, `deny` and `reach`, and has `from` and `to`. Without them nothing can be tested, and a test that is not run must not look as if it held: nothing is tested until the file is mended."

    END "T002" "An end that is none"
        "`from` and `to` name `any`, `external`, `namespace/pod`, `namespace/Kind/name`, `namespace/*`, a node, an address or a prefix, or give a `podSelector`, a `namespaceSelector` or both, `external` with prefixes, or the name of one of the file's `sets`."

    PORT "T003" "A port that is none"
        "`ports` holds numbers, ranges and names of ports with a protocol, such as `80`, `53/udp`, `8000-8010/tcp` or `http`, and whole protocols: `tcp`, `udp`, `sctp`, `icmp`, `icmpv6`, and `other` for all the rest."

    NOTHING "T004" "An assertion that names nothing"
        "An end of the assertion, its network, or its port is nothing in the input. Such a test would hold whatever the policies say."

    IMPOSSIBLE "T005" "An assertion that can never hold, or never fail"
        "No policy can make a difference to it: there is no pair of two different ends with an address family in common, or a connection is to be denied that no policy is about. A node always reaches the pods on it, and nodes, pods on the host's network and addresses outside are judged at the other end alone."

    CONTRADICTION "T006" "Two assertions that can never both hold"
        "One assertion wants a connection allowed that another wants denied, so that one of them fails whatever the policies say."
}
