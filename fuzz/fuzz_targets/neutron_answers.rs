#![no_main]

#[path = "../checks_neutron.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::neutron_answers(bytes));
