#![no_main]

#[path = "../checks_vpp.rs"]
#[allow(dead_code, reason = "every target uses one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::vpp_lists(bytes));
