//! What must hold for everything that VPP says. Shared by the fuzz target and by `crates/picket-vpp/tests/fuzz_corpus.rs`,
//! which replays its corpus.

use picket_vpp::acl;
use picket_vpp::client::{Definition, Frame, MESSAGES};

/// Lists that are read say the same when they are written and read again; anything else is refused in one line.
pub(crate) fn vpp_lists(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match acl::parse(text) {
        Ok(acls) => {
            let written = acl::json(&acls).to_string();
            let again = acl::parse(&written);
            assert_eq!(again.ok().as_ref(), Some(&acls), "{written}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

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
