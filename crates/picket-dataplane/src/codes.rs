//! The codes of diagnostics about targets.

picket_policy::codes! {
    SHORTFALL "T001" "A policy that the target cannot express"
        "The target's own objects cannot say all that the policy says. What is rendered is narrower than the policy, never wider; the notes say what is denied or left out. Another target or layout may have no such limit."

    CUSTOM_RULE "T002" "A custom rule that is refused"
        "Custom-rule files of the documented nftables layout hold one rule in each line, in a small part of nft's grammar that docs/nftables.md describes. A line outside it is refused, and with it the whole file: a rule that is left out could be one that denies."
}
