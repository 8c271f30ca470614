//! How values stand in messages: packed, the highest byte first, texts padded with zeros.

use super::error::{Malformed, Problem};
use super::value::Label;

/// Bytes of a text of fixed length.
const TEXT: usize = 64;

/// What is left to read of one message.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    message: &'static str,
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// All of a message of this name.
    pub(super) fn new(message: &'static str, bytes: &'a [u8]) -> Self {
        Self { message, bytes }
    }

    /// The next bytes, which are a field or a part of it.
    pub(super) fn take(&mut self, field: &'static str, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(length)
            .ok_or_else(|| self.wrong(field, Problem::Short))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self
            .bytes
            .split_first_chunk()
            .ok_or_else(|| self.wrong(field, Problem::Short))?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// Whether `count` things of `length` bytes each are there, which is asked before there is room for them.
    pub(super) fn holds(&self, field: &'static str, count: usize, length: usize) -> Result<(), Malformed> {
        let room = self.bytes.len() / length.max(1);
        if count > room {
            return Err(self.wrong(field, Problem::Count { count, room }));
        }
        Ok(())
    }

    /// Makes sure that nothing is left.
    pub(super) fn end(self) -> Result<(), Malformed> {
        match self.bytes.len() {
            0 => Ok(()),
            left => Err(self.wrong("length", Problem::Long(left))),
        }
    }

    /// What is wrong with a field of this message.
    pub(super) fn wrong(&self, field: &'static str, problem: Problem) -> Malformed {
        Malformed {
            message: self.message,
            field,
            problem,
        }
    }
}

/// What can be a field of a message.
pub(super) trait Field: Sized {
    /// Appends it.
    fn write(&self, bytes: &mut Vec<u8>);

    /// Takes it off the front.
    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed>;
}

/// A field of the same length in every message.
pub(super) trait Fixed: Field {
    /// Its bytes.
    const LENGTH: usize;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Field for $type {
            fn write(&self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_be_bytes());
            }

            fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
                reader.array(field).map(Self::from_be_bytes)
            }
        }

        impl Fixed for $type {
            const LENGTH: usize = size_of::<$type>();
        }
    )*};
}

numbers!(u8 u16 u32 u64 i32);

impl Field for bool {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(*self));
    }

    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
        match u8::read(reader, field)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(reader.wrong(field, Problem::Value(other.into()))),
        }
    }
}

impl<const N: usize> Field for [u8; N] {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self);
    }

    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
        reader.array(field)
    }
}

/// Bytes at which nobody looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Skipped<const N: usize>;

impl<const N: usize> Field for Skipped<N> {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend([0; N]);
    }

    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
        reader.take(field, N).map(|_| Self)
    }
}

/// `string x[64]`: what follows the first zero counts for nothing.
impl Field for Label {
    fn write(&self, bytes: &mut Vec<u8>) {
        let end = bytes.len() + TEXT;
        bytes.extend(self.as_bytes());
        bytes.resize(end, 0);
    }

    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
        let all = reader.take(field, TEXT)?;
        let text = all.split(|&byte| byte == 0).next().unwrap_or_default();
        Self::new(text).ok_or_else(|| reader.wrong(field, Problem::Unterminated))
    }
}

/// `u32 count` and so many of them; of bytes, `string x[]`.
impl<T: Fixed> Field for Vec<T> {
    fn write(&self, bytes: &mut Vec<u8>) {
        // INVARIANT: what does not fit into a frame is refused when it is sent, and 2^32 of anything do not.
        u32::try_from(self.len()).unwrap_or(u32::MAX).write(bytes);
        bytes.reserve(self.len().saturating_mul(T::LENGTH));
        self.iter().for_each(|one| one.write(bytes));
    }

    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
        let count = u32::read(reader, field)?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        reader.holds(field, count, T::LENGTH)?;
        (0..count).map(|_| T::read(reader, field)).collect()
    }
}
