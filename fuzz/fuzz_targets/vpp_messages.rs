#![no_main]

#[path = "../checks_vpp.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::vpp_messages(bytes));
