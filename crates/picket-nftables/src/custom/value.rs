//! What stands behind a keyword: addresses, ports, protocols, interfaces.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_net::{AddressRange, Family, PortRange, Prefix, Protocol, parse_address};

use super::token::Token;
use crate::model::{Field, InterfaceName, Match, Relation, Value};

/// A match against one value or an anonymous set; `None` for what nft has no short form of.
pub(super) fn one_or_set(field: Field, relation: Relation, values: BTreeSet<Value>) -> Option<Match> {
    let mut one = values.iter();
    match (one.next(), one.next()) {
        (Some(value), None) => Some(Match::Compare {
            field,
            relation,
            value: value.clone(),
        }),
        _ if relation == Relation::Is => Some(Match::AnyOf { field, values }),
        _ => None,
    }
}

/// An address, a prefix, or `first-last`.
pub(super) fn range(token: &Token<'_>, family: Family) -> Result<AddressRange, String> {
    let text = token.text;
    let address = |text: &str| -> Result<IpAddr, String> {
        let address = parse_address(text).ok_or_else(|| format!("`{text}` is no address"))?;
        if Family::of(address) == family {
            Ok(address)
        } else {
            Err(format!("`{text}` is no {family} address"))
        }
    };
    if let Some((first, last)) = text.split_once('-') {
        return AddressRange::new(address(first)?, address(last)?)
            .ok_or_else(|| format!("`{text}` ends before it begins"));
    }
    if !text.contains('/') {
        return Ok(Prefix::host(address(text)?).range());
    }
    let (prefix, notes) = Prefix::parse(text).map_err(|problem| format!("`{text}`: {problem}"))?;
    if !notes.is_empty() {
        return Err(format!("write `{text}` as `{prefix}`"));
    }
    address(&prefix.first().to_string())?;
    Ok(prefix.range())
}

/// A port or `first-last`.
pub(super) fn ports(token: &Token<'_>) -> Result<PortRange, String> {
    let text = token.text;
    let number = |text: &str| -> Result<u16, String> {
        let number = text.parse().ok().filter(|&port: &u16| port != 0);
        number.ok_or_else(|| format!("`{text}` is no port: a number from 1 to 65535"))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    PortRange::new(number(first)?, number(last)?).ok_or_else(|| format!("`{text}` ends before it begins"))
}

/// A protocol by its name or number.
pub(super) fn protocol(token: &Token<'_>) -> Result<Protocol, String> {
    let named = match token.text {
        "tcp" => Some(Protocol::TCP),
        "udp" => Some(Protocol::UDP),
        "sctp" => Some(Protocol::SCTP),
        "icmp" => Some(Protocol::ICMP),
        "icmpv6" | "ipv6-icmp" => Some(Protocol::ICMPV6),
        text => text.parse().ok().map(Protocol::from_number),
    };
    let names = "`tcp`, `udp`, `sctp`, `icmp`, `icmpv6` or a number from 0 to 255";
    named.ok_or_else(|| format!("`{}` is no protocol: {names}", token.text))
}

/// The name of an interface.
pub(super) fn interface(token: &Token<'_>) -> Result<InterfaceName, String> {
    if token.text.ends_with('*') {
        return Err(format!(
            "`{}`: name each interface, wildcards are not supported",
            token.text
        ));
    }
    InterfaceName::new(token.text)
        .ok_or_else(|| format!("`{}` cannot be the name of an interface", token.text))
}
