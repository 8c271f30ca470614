//! Bytes: what requests are read from and answers written into. All of VPP's fields are in network byte order.

/// What is left of a message. Every read is `None` when too little is left.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn bool(&mut self) -> Option<bool> {
        self.u8().map(|byte| byte != 0)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string of variable length: its length, then its bytes.
    pub(super) fn string(&mut self) -> Option<String> {
        let length = usize::try_from(self.u32()?).ok()?;
        Some(String::from_utf8_lossy(self.bytes(length)?).into_owned())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A message that is being written.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn u8(self, value: u8) -> Self {
        self.bytes(&[value])
    }

    pub(super) fn u16(self, value: u16) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn i32(self, value: i32) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    /// A text in a field of 64 bytes, filled up with NULs. What does not fit is cut.
    pub(super) fn text(self, text: &[u8]) -> Self {
        let mut field = [0; 64];
        for (place, byte) in field.iter_mut().take(63).zip(text) {
            *place = *byte;
        }
        self.bytes(&field)
    }

    pub(super) fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// The text in a field that is filled up with NULs, or `None` when there is no NUL to end it.
pub(super) fn terminated(field: &[u8]) -> Option<&[u8]> {
    let end = field.iter().position(|byte| *byte == 0)?;
    field.get(..end)
}

/// The same, where VPP puts a NUL over the last byte before it reads.
pub(super) fn cut(field: &[u8]) -> &[u8] {
    terminated(field).unwrap_or_else(|| field.get(..field.len().saturating_sub(1)).unwrap_or_default())
}

/// A message in its frame: 16 bytes with its length in the third group of four, then itself.
pub(super) fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    Writer::default()
        .zeros(8)
        .u32(length)
        .u32(0)
        .bytes(message)
        .finish()
}
