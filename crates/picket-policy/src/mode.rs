//! Whether a policy denies, or only tells what it would deny.

use crate::dialect::Options;
use crate::header::annotation;
use crate::reader::{Cursor, Reader};
use crate::{Header, Mode, Severity, code};

/// The annotation of a policy that says which [`Mode`] it has.
pub const MODE: &str = "picket.dev/mode";

/// The mode of a policy. What cannot be read of it enforces.
pub(crate) fn read(root: &Cursor<'_>, header: &Header, options: Options, reader: &mut Reader<'_>) -> Mode {
    let text = header.annotations.get(MODE);
    match text.map(|text| text.trim()) {
        None | Some("enforce") => Mode::Enforce,
        Some("audit") if options.enforce_audited => Mode::Enforce,
        Some("audit") => Mode::Audit,
        Some(text) => {
            let at = annotation(root, MODE, reader);
            let message = format!("Unsupported value: {text:?}: supported values: \"audit\", \"enforce\"");
            let diagnostic = reader.report(code::MODE, Severity::Error, at.as_ref().unwrap_or(root), message);
            diagnostic.notes.push("the policy is enforced".to_owned());
            Mode::Enforce
        }
    }
}

#[cfg(test)]
mod tests;
