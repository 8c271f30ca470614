//! The nftables target: typed rulesets, two layouts, difference and meaning.
