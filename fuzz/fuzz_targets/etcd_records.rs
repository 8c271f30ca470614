#![no_main]

#[path = "../checks_etcd.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::etcd_records(bytes));
