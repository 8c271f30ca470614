//! IPBlock.

use picket_net::{Prefix, PrefixNote, parse_address};

use crate::dialect::Options;
use crate::reader::{Cursor, Reader, Unreadable};
use crate::{Block, Edit, Fix, Severity, code};

/// Reads an `ipBlock`.
pub(super) fn read(at: &Cursor<'_>, options: Options, reader: &mut Reader<'_>) -> Result<Block, Unreadable> {
    let mut fields = at.fields(reader)?;
    let cidr = fields.get("cidr");
    let except = fields.get("except");
    let known = fields.unknown(&[], reader).is_empty();

    let prefix = match cidr {
        Some(cidr) if cidr.node().as_str().is_none_or(|text| !text.is_empty()) => {
            prefix(&cidr, options, reader)
        }
        Some(cidr) => Err(reader.error(code::CIDR, &cidr, "Required value")),
        None => Err(reader.missing(code::CIDR, at, "cidr", "Required value")),
    };
    let items = except.map_or(Ok(Vec::new()), |except| except.items(reader));
    let mut sound = Ok(());
    let mut except = Vec::new();
    for item in items? {
        match exception(&item, prefix.ok(), options, reader) {
            Ok(exception) => except.push(exception),
            Err(Unreadable) => sound = Err(Unreadable),
        }
    }
    sound?;
    except.sort_unstable();
    except.dedup();
    let prefix = prefix?;
    if known {
        Ok(Block { prefix, except })
    } else {
        Err(Unreadable)
    }
}

fn exception(
    at: &Cursor<'_>,
    within: Option<Prefix>,
    options: Options,
    reader: &mut Reader<'_>,
) -> Result<Prefix, Unreadable> {
    let exception = prefix(at, options, reader)?;
    let strictly_inside = |whole: Prefix| whole.contains_prefix(&exception) && whole != exception;
    if within.is_some_and(|whole| !strictly_inside(whole)) {
        let text = at.string(reader)?;
        let message = format!("Invalid value: {text:?}: must be a strict subset of `cidr`");
        return Err(reader.error(code::CIDR, at, message));
    }
    Ok(exception)
}

/// Reads a block as custom resources have it: `isCIDR` of CEL refuses leading zeros and mapped addresses.
pub(crate) fn cidr(at: &Cursor<'_>, options: Options, reader: &mut Reader<'_>) -> Result<Prefix, Unreadable> {
    let text = at.string(reader)?;
    let refused = |note: &PrefixNote| matches!(note, PrefixNote::LeadingZeros | PrefixNote::Ipv4Mapped);
    match Prefix::parse(text) {
        Ok((_, notes)) if !notes.iter().any(refused) => prefix(at, options, reader),
        Ok(_) | Err(_) => {
            let message = format!("Invalid value: {text:?}: Invalid CIDR format provided");
            Err(reader.error(code::CIDR, at, message))
        }
    }
}

fn prefix(at: &Cursor<'_>, options: Options, reader: &mut Reader<'_>) -> Result<Prefix, Unreadable> {
    let text = at.string(reader)?;
    let (prefix, notes) = Prefix::parse(text)
        .map_err(|problem| reader.error(code::CIDR, at, format!("Invalid value: {text:?}: {problem}")))?;
    if options.strict_cidr {
        let Some(problem) = strict_problem(&notes) else {
            return Ok(prefix);
        };
        let message = format!("Invalid value: {text:?}: {problem}");
        reader
            .report(code::SLOPPY_CIDR, Severity::Error, at, message)
            .fixes
            .push(write(&prefix, &[]));
        return Err(Unreadable);
    }
    let warnings = warnings(text, &prefix, &notes);
    for message in warnings {
        let edit = reader
            .source()
            .rewrite(at.node().range.clone(), &prefix.to_string());
        // Bits beyond the length may mean one address as well as the whole prefix: a person has to decide.
        let certain = !notes.contains(&PrefixNote::HostBits);
        let edits: &[Edit] = if certain { &[edit] } else { &[] };
        let diagnostic = reader.report(code::SLOPPY_CIDR, Severity::Warning, at, message);
        diagnostic.notes.push(format!("it is read as `{prefix}`"));
        diagnostic.fixes.push(write(&prefix, edits));
    }
    Ok(prefix)
}

fn write(prefix: &Prefix, edits: &[Edit]) -> Fix {
    Fix {
        title: format!("write `{prefix}`"),
        edits: edits.to_vec(),
    }
}

/// The first thing that an API server with StrictIPCIDRValidation minds (apimachinery `util/validation/ip.go`).
fn strict_problem(notes: &[PrefixNote]) -> Option<&'static str> {
    let ordered = [
        (
            PrefixNote::LeadingZeros,
            "must not have leading 0s in IP or prefix length",
        ),
        (
            PrefixNote::Ipv4Mapped,
            "must not have an IPv4-mapped IPv6 address",
        ),
        (
            PrefixNote::HostBits,
            "must not have bits set beyond the prefix length",
        ),
    ];
    let found = ordered.into_iter().find(|(note, _)| notes.contains(note));
    found.map(|(_, problem)| problem)
}

/// What the API server warns of (apimachinery `GetWarningsForCIDR`).
fn warnings(text: &str, prefix: &Prefix, notes: &[PrefixNote]) -> Vec<String> {
    let mut warnings = Vec::new();
    if notes.contains(&PrefixNote::HostBits) {
        let address = text
            .split_once('/')
            .and_then(|(address, _)| parse_address(address));
        let one = address.map_or_else(|| text.to_owned(), |address| Prefix::host(address).to_string());
        warnings.push(format!(
            "CIDR value {text:?} is ambiguous in this context (should be \"{prefix}\" or {one:?}?)"
        ));
    }
    if notes.contains(&PrefixNote::LeadingZeros) || notes.contains(&PrefixNote::Ipv4Mapped) {
        warnings.push(format!(
            "non-standard CIDR value {text:?} is invalid: use \"{prefix}\""
        ));
    }
    if warnings.is_empty() && notes.contains(&PrefixNote::NotCanonical) {
        warnings.push(format!(
            "IPv6 CIDR value {text:?} should be in RFC 5952 canonical format (\"{prefix}\")"
        ));
    }
    warnings
}
