//! What must hold for everything that VPP says. Shared by the fuzz target and by `crates/picket-vpp/tests/fuzz_corpus.rs`,
//! which replays its corpus.

use picket_vpp::client::{Definition, Frame, MESSAGES};

/// What VPP may say is read without panic, frame by frame and as any message that there is.
pub(crate) fn vpp_messages(bytes: &[u8]) {
    let mut bytes = bytes;
    while let Ok(Some(frame)) = Frame::first(bytes) {
        assert_eq!(bytes.len() - frame.rest.len(), frame.message.len() + 16);
        for known in MESSAGES {
            message(known, frame.message);
        }
        bytes = frame.rest;
    }
}

/// What is read says the same when it is written, and is no longer and no shorter; anything else is refused with the message
/// and a field of it.
fn message(known: &Definition, body: &[u8]) {
    match known.rewrite(body) {
        Ok(written) => {
            assert_eq!(written.len(), body.len(), "{}", known.name);
            assert_eq!(known.rewrite(&written).as_ref(), Ok(&written), "{}", known.name);
            let longer = [body, &[0]].concat();
            let shorter = body.split_last().map_or(body, |(_, shorter)| shorter);
            for other in [&longer, shorter] {
                assert!(known.rewrite(other).is_err(), "{}", known.name);
            }
        }
        Err(malformed) => {
            assert_eq!(malformed.message, known.name);
            assert!(!malformed.field.is_empty() && !malformed.to_string().contains('\n'));
        }
    }
}
