//! The few fields that matter, each optional: what is missing or unusable says nothing.

use std::net::{IpAddr, Ipv4Addr};

use picket_net::parse_address;
use picket_policy::{Cursor, Reader};
use smol_str::SmolStr;

use crate::codes;
use crate::written::Located;

/// A field that may be left out, null, or of a wrong type that has been reported.
pub(super) type Field<'a> = Option<Cursor<'a>>;

/// Reads fields and reports those of a wrong type.
pub(super) trait Fields<'a> {
    /// The field `key` of a mapping.
    fn field(&mut self, parent: &Field<'a>, key: &'static str) -> Field<'a>;

    /// A field that must be a mapping when it is there.
    fn mapping(&mut self, parent: &Field<'a>, key: &'static str) -> Field<'a>;

    /// The annotation `key` in some metadata, with its text. One that is no text has been reported with the others.
    fn annotation(&mut self, metadata: &Field<'a>, key: &'static str) -> Option<(Cursor<'a>, &'a str)> {
        let annotations = self.mapping(metadata, "annotations");
        let field = self.field(&annotations, key)?;
        let text = field.node().as_str()?;
        Some((field, text))
    }

    /// The items of a field that must be a list when it is there. Null items are left out.
    fn items(&mut self, parent: &Field<'a>, key: &'static str) -> Vec<Cursor<'a>>;

    /// The items of a field that must be a list of mappings when it is there.
    fn mappings(&mut self, parent: &Field<'a>, key: &'static str) -> Vec<Field<'a>>;

    /// A field that must be text when it is there.
    fn string(&mut self, parent: &Field<'a>, key: &'static str) -> Option<SmolStr>;

    /// A field that must be true or false when it is there; false when it is left out.
    fn boolean(&mut self, parent: &Field<'a>, key: &'static str) -> bool;

    /// A field that must be a whole number when it is there.
    fn integer(&mut self, parent: &Field<'a>, key: &'static str) -> Option<i64>;

    /// A value that must be an IP address or empty.
    fn to_address(&mut self, value: &Cursor<'a>) -> Option<Located<IpAddr>>;

    /// A field that must be an IP address when it is there and not empty.
    fn address(&mut self, parent: &Field<'a>, key: &'static str) -> Option<Located<IpAddr>> {
        let field = self.field(parent, key)?;
        self.to_address(&field)
    }

    /// The items of a field that must be a list of IP addresses when it is there.
    fn addresses(&mut self, parent: &Field<'a>, key: &'static str) -> Vec<Located<IpAddr>> {
        let items = self.items(parent, key);
        items.iter().filter_map(|item| self.to_address(item)).collect()
    }
}

impl<'a> Fields<'a> for Reader<'a> {
    fn field(&mut self, parent: &Field<'a>, key: &'static str) -> Field<'a> {
        parent.as_ref()?.fields(self).ok()?.get(key)
    }

    fn mapping(&mut self, parent: &Field<'a>, key: &'static str) -> Field<'a> {
        let field = self.field(parent, key)?;
        field.fields(self).ok().map(|_| field)
    }

    fn items(&mut self, parent: &Field<'a>, key: &'static str) -> Vec<Cursor<'a>> {
        let items = self.field(parent, key).map(|field| field.items(self));
        let items = items.and_then(Result::ok).unwrap_or_default();
        items.into_iter().filter(|item| !item.node().is_null()).collect()
    }

    fn mappings(&mut self, parent: &Field<'a>, key: &'static str) -> Vec<Field<'a>> {
        let items = self.items(parent, key).into_iter();
        items.filter(|item| item.fields(self).is_ok()).map(Some).collect()
    }

    fn string(&mut self, parent: &Field<'a>, key: &'static str) -> Option<SmolStr> {
        self.field(parent, key)?.string(self).ok().cloned()
    }

    fn boolean(&mut self, parent: &Field<'a>, key: &'static str) -> bool {
        self.field(parent, key).and_then(|field| field.boolean(self).ok()) == Some(true)
    }

    fn integer(&mut self, parent: &Field<'a>, key: &'static str) -> Option<i64> {
        self.field(parent, key)?.integer(self).ok()
    }

    fn to_address(&mut self, value: &Cursor<'a>) -> Option<Located<IpAddr>> {
        let text = value.string(self).ok().filter(|text| !text.is_empty())?;
        let span = self.source().span(value.node().range.clone());
        let found = parse_address(text);
        let problem = match found {
            None => "is no IP address",
            Some(address) if !is_of_one_host(address) => "is no address that a pod or node can have",
            Some(_) => return found.map(|value| Located { value, span }),
        };
        self.error(codes::ADDRESS, value, format!("`{text}` {problem}"));
        None
    }
}

/// Whether packets with this address can come from one host of a network, and reach it there.
fn is_of_one_host(address: IpAddr) -> bool {
    let nobody = address.is_unspecified() || address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !(nobody || address.is_loopback() || address.is_multicast())
}
