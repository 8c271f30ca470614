//! Attributes of what the kernel lists, none of them passed over.

use picket_linux::Attributes;

use super::uapi::data;
use crate::model::{ModelError, Name};

/// Why something that the kernel lists is nothing that picket writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Oddity {
    /// Its bytes end too early, or make no attributes.
    #[error("its bytes are not whole")]
    CutOff,
    /// It lacks an attribute.
    #[error("attribute {0} is missing")]
    Missing(u16),
    /// It has an attribute that picket does not give it.
    #[error("it has attribute {0}")]
    Attribute(u16),
    /// A value is none that picket writes.
    #[error("picket writes no such {0}")]
    Value(&'static str),
    /// An expression is of a kind that picket does not use.
    #[error("picket writes no expression `{0}`")]
    Expression(String),
    /// A rule has expressions that picket knows, but not like this.
    #[error("picket writes no such sequence of expressions")]
    Sequence,
    /// It is of a kind that picket does not make.
    #[error("picket makes nothing of kind {0}")]
    Kind(u8),
    /// What is there does not fit together.
    #[error(transparent)]
    Model(ModelError),
}

/// The attributes of one object. Each must be asked for before [`Fields::end`].
pub(super) struct Fields<'a> {
    all: Attributes<'a>,
    /// Bits of the kinds that were asked for.
    taken: u64,
}

impl<'a> Fields<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self {
            all: Attributes::of(bytes),
            taken: 0,
        }
    }

    /// Whether there is one of this kind.
    pub(super) fn has(&self, kind: u16) -> bool {
        self.all.clone().find(kind).is_some()
    }

    /// Passes over some kinds, there or not.
    pub(super) fn pass(&mut self, kinds: &[u16]) {
        for kind in kinds {
            self.taken |= 1u64.checked_shl(u32::from(*kind)).unwrap_or(0);
        }
    }

    pub(super) fn bytes(&mut self, kind: u16) -> Result<&'a [u8], Oddity> {
        self.pass(&[kind]);
        self.all.clone().find(kind).ok_or(Oddity::Missing(kind))
    }

    pub(super) fn number(&mut self, kind: u16) -> Result<u32, Oddity> {
        let bytes = self.bytes(kind)?.try_into().map_err(|_| Oddity::CutOff)?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// A number that the kernel leaves out where it is 0.
    pub(super) fn number_or_zero(&mut self, kind: u16) -> Result<u32, Oddity> {
        if self.has(kind) { self.number(kind) } else { Ok(0) }
    }

    pub(super) fn short(&mut self, kind: u16) -> Result<u16, Oddity> {
        let bytes = self.bytes(kind)?.try_into().map_err(|_| Oddity::CutOff)?;
        Ok(u16::from_be_bytes(bytes))
    }

    pub(super) fn long(&mut self, kind: u16) -> Result<u64, Oddity> {
        let bytes = self.bytes(kind)?.try_into().map_err(|_| Oddity::CutOff)?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// A number that must be this one.
    pub(super) fn expect(&mut self, kind: u16, number: u32) -> Result<(), Oddity> {
        if self.number(kind)? == number {
            Ok(())
        } else {
            Err(Oddity::Attribute(kind))
        }
    }

    pub(super) fn text(&mut self, kind: u16) -> Result<&'a str, Oddity> {
        let bytes = self.bytes(kind)?.strip_suffix(&[0]).ok_or(Oddity::CutOff)?;
        std::str::from_utf8(bytes).map_err(|_| Oddity::Value("text"))
    }

    pub(super) fn name(&mut self, kind: u16) -> Result<Name, Oddity> {
        Name::new(self.text(kind)?).ok_or(Oddity::Value("name"))
    }

    pub(super) fn nested(&mut self, kind: u16) -> Result<Self, Oddity> {
        self.bytes(kind).map(Self::of)
    }

    /// The bytes of a value (`NFTA_DATA_VALUE`).
    pub(super) fn value(&mut self, kind: u16) -> Result<Vec<u8>, Oddity> {
        let mut inside = self.nested(kind)?;
        let value = inside.bytes(data::VALUE)?.to_vec();
        inside.end()?;
        Ok(value)
    }

    /// Makes sure that nothing is left: no attribute that was not asked for, and no bytes that make none.
    pub(super) fn end(self) -> Result<(), Oddity> {
        let mut all = self.all;
        for (kind, _) in all.by_ref() {
            if 1u64.checked_shl(u32::from(kind)).unwrap_or(0) & self.taken == 0 {
                return Err(Oddity::Attribute(kind));
            }
        }
        if all.rest().is_empty() {
            Ok(())
        } else {
            Err(Oddity::CutOff)
        }
    }
}

/// The elements of a list of attributes of one kind.
pub(super) fn list(bytes: &[u8]) -> Result<Vec<&[u8]>, Oddity> {
    let mut all = Attributes::of(bytes);
    let mut elements = Vec::new();
    for (kind, element) in all.by_ref() {
        if kind != data::LIST_ELEMENT {
            return Err(Oddity::Attribute(kind));
        }
        elements.push(element);
    }
    if all.rest().is_empty() {
        Ok(elements)
    } else {
        Err(Oddity::CutOff)
    }
}
