//! What a definition of a message makes of it: its struct, its bytes, its name and its CRC.

use super::error::Malformed;
use super::refusal::Subject;
use super::wire::{Field, Reader};

/// A message as VPP knows it.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// What changes with its fields.
    pub crc: u32,
    pub(super) rewrite: fn(&[u8]) -> Result<Vec<u8>, Malformed>,
}

impl Definition {
    /// Reads a message, without the header of a frame, and writes what was read. What nobody looks at becomes zero.
    ///
    /// # Errors
    /// [`Malformed`] when it is none.
    pub fn rewrite(&self, body: &[u8]) -> Result<Vec<u8>, Malformed> {
        (self.rewrite)(body)
    }
}

/// What stands before the fields of a message, after its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// Who asks, and by what the answer is known.
    Request,
    /// By what the answer is known.
    Answer,
    /// Whose wish to hear of it this meets.
    Event,
}

/// Who says what to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    /// The number of the message.
    pub(super) id: u16,
    /// The client, unless it is an answer.
    pub(super) client_index: u32,
    /// The request, unless it is an event.
    pub(super) context: u32,
}

impl Head {
    pub(super) fn write(self, address: Address, bytes: &mut Vec<u8>) {
        address.id.write(bytes);
        if self != Self::Answer {
            address.client_index.write(bytes);
        }
        if self != Self::Event {
            address.context.write(bytes);
        }
    }

    pub(super) fn read(self, reader: &mut Reader<'_>) -> Result<Address, Malformed> {
        let mut address = Address {
            id: u16::read(reader, "_vl_msg_id")?,
            ..Address::default()
        };
        if self != Self::Answer {
            address.client_index = u32::read(reader, "client_index")?;
        }
        if self != Self::Event {
            address.context = u32::read(reader, "context")?;
        }
        Ok(address)
    }
}

/// A message with its fields.
pub(super) trait Message: Sized {
    /// What VPP calls it.
    const DEFINITION: Definition;

    /// Appends it.
    fn write(&self, address: Address, bytes: &mut Vec<u8>);

    /// Takes it off the front.
    fn read_from(reader: &mut Reader<'_>) -> Result<(Address, Self), Malformed>;

    /// What `body` says, which is all of it.
    fn read(body: &[u8]) -> Result<(Address, Self), Malformed> {
        let mut reader = Reader::new(Self::DEFINITION.name, body);
        let read = Self::read_from(&mut reader)?;
        reader.end()?;
        Ok(read)
    }
}

/// A message that is an answer of which there is one.
pub(super) trait Reply: Message {
    /// What it says of success: 0, or the number of an error.
    fn retval(&self) -> i32;
}

/// A message that asks for something to be done, or for one answer.
pub(super) trait Call: Message {
    /// The answer.
    type Reply: Reply;

    /// What it is about.
    fn subject(&self) -> Subject;
}

/// A message that asks for a list.
pub(super) trait Dump: Message {
    /// What each entry of it is.
    type Details: Message;
}

/// [`Definition::rewrite`] of one message.
pub(super) fn rewrite<M: Message>(body: &[u8]) -> Result<Vec<u8>, Malformed> {
    let (address, message) = M::read(body)?;
    let mut written = Vec::with_capacity(body.len());
    message.write(address, &mut written);
    Ok(written)
}

/// Makes messages of definitions: what it is, its name, its CRC, its fields as the API calls them, in their order, and
/// what answers it. The kinds are
/// - `call`, answered by one reply and about something;
/// - `dump`, answered by any number of details;
/// - `reply`, with `retval` among its fields, and `answer`, without;
/// - `event`, which nobody has asked for just now;
/// - `request`, which is anything else that we say.
macro_rules! messages {
    ($(
        $(#[$about:meta])*
        $kind:ident $name:ident = $text:literal $crc:literal { $($field:ident: $type:ty),* $(,)? }
        $(-> $answer:ident $(of $subject:expr)?)?;
    )*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub(super) struct $name { $(pub(super) $field: $type),* }

            impl Message for $name {
                const DEFINITION: Definition = Definition {
                    name: $text,
                    crc: $crc,
                    rewrite: rewrite::<Self>,
                };

                fn write(&self, address: Address, bytes: &mut Vec<u8>) {
                    messages!(@head $kind).write(address, bytes);
                    $(self.$field.write(bytes);)*
                }

                fn read_from(reader: &mut Reader<'_>) -> Result<(Address, Self), Malformed> {
                    let address = messages!(@head $kind).read(reader)?;
                    Ok((address, Self { $($field: Field::read(reader, stringify!($field))?),* }))
                }
            }

            messages!(@trait $kind $name $($answer $($subject)?)?);
        )*

        /// Every message that picket knows.
        pub const MESSAGES: &[Definition] = &[$($name::DEFINITION),*];
    };
    (@head reply) => { Head::Answer };
    (@head answer) => { Head::Answer };
    (@head event) => { Head::Event };
    (@head $asks:ident) => { Head::Request };
    (@trait call $name:ident $answer:ident $subject:expr) => {
        impl Call for $name {
            type Reply = $answer;

            fn subject(&self) -> Subject {
                let subject: fn(&Self) -> Subject = $subject;
                subject(self)
            }
        }
    };
    (@trait dump $name:ident $answer:ident) => {
        impl Dump for $name {
            type Details = $answer;
        }
    };
    (@trait reply $name:ident) => {
        impl Reply for $name {
            fn retval(&self) -> i32 {
                self.retval
            }
        }
    };
    (@trait $kind:ident $name:ident) => {};
}

pub(super) use messages;
