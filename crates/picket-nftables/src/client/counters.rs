//! What the counters of a table have counted.

use std::collections::BTreeMap;

use picket_linux::{NetworkNamespace, Nfnetlink, Reply};

use super::attributes::{Fields, Oddity};
use super::uapi::{NFPROTO_INET, message, object};
use crate::model::Name;

/// Reads the counters of one table, whoever keeps it.
#[derive(Debug)]
pub struct Counters {
    socket: Nfnetlink,
    table: Name,
}

impl Counters {
    /// Those of a table in `namespace`, whatever thread uses it.
    ///
    /// # Errors
    /// When the namespace cannot be entered or no socket made.
    pub fn open(namespace: &NetworkNamespace, table: Name) -> picket_linux::Result<Self> {
        let socket = Nfnetlink::open(namespace)?;
        Ok(Self { socket, table })
    }

    /// How many packets each has counted; none where there is no such table.
    ///
    /// # Errors
    /// When the kernel refuses, or rulesets change all the time.
    pub fn packets(&mut self) -> picket_linux::Result<BTreeMap<Name, u64>> {
        let own = format!("{}\0", self.table);
        let attributes = [(object::TABLE, own.as_bytes())];
        let listed = self
            .socket
            .dump(message::GETOBJ, NFPROTO_INET, &attributes, "list the counters")?;
        // What is no counter others have put there.
        Ok(listed.iter().filter_map(|reply| read(reply).ok()).collect())
    }

    /// How many packets each of these has counted, as far as they are there. Nothing else is read, whatever others have put into
    /// the table.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn packets_of(
        &mut self,
        names: impl IntoIterator<Item = Name>,
    ) -> picket_linux::Result<BTreeMap<Name, u64>> {
        let own = format!("{}\0", self.table);
        let mut counted = BTreeMap::new();
        for name in names {
            let text = format!("{name}\0");
            let one = [
                (object::TABLE, own.as_bytes()),
                (object::NAME, text.as_bytes()),
                (object::TYPE, &object::COUNTER.to_be_bytes()),
            ];
            let found = self
                .socket
                .get(message::GETOBJ, NFPROTO_INET, &one, "read a counter")?;
            counted.extend(found.and_then(|reply| read(&reply).ok()));
        }
        Ok(counted)
    }
}

fn read(reply: &Reply) -> Result<(Name, u64), Oddity> {
    let mut fields = Fields::of(reply.attributes().rest());
    fields.expect(object::TYPE, object::COUNTER)?;
    let mut counted = fields.nested(object::DATA)?;
    Ok((fields.name(object::NAME)?, counted.long(object::COUNTER_PACKETS)?))
}
