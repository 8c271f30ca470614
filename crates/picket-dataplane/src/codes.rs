//! The codes of diagnostics about targets.

picket_policy::codes! {
    SHORTFALL "T001" "A policy that the target cannot express"
        "The target's own objects cannot say all that the policy says. What is rendered is narrower than the policy, never wider; the notes say what is denied or left out. Another target or layout may have no such limit."
}
