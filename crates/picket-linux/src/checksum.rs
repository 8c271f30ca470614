//! The checksums that a sender through a raw socket computes itself.

/// The Internet checksum (RFC 1071) of `bytes`, as the value that goes into the header in network order.
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in bytes.chunks(2) {
        let word = match pair {
            [high, low] => u16::from_be_bytes([*high, *low]),
            [high] => u16::from_be_bytes([*high, 0]),
            _ => 0,
        };
        sum = sum.wrapping_add(u32::from(word));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from(folded & 0xffff).unwrap_or_default()
}

/// CRC-32C (Castagnoli) of `bytes`, as SCTP uses it (RFC 9260, appendix A).
///
/// SCTP puts the value into its header least significant byte first.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        let mut crc = crc ^ u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
        crc
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_gives_the_published_vectors() {
        // RFC 3720, appendix B.4, and the check value of the CRC catalogue.
        for (bytes, expected) in [
            (vec![0; 32], 0x8a91_36aa),
            (vec![0xff; 32], 0x62a8_ab43),
            ((0..32).collect(), 0x46dd_794e),
            ((0..32).rev().collect(), 0x113f_db5c),
            (b"123456789".to_vec(), 0xe306_9283),
            (vec![], 0),
        ] {
            assert_eq!(crc32c(&bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn internet_checksum_gives_the_published_vectors() {
        for (bytes, expected) in [
            // RFC 1071, section 3.
            (vec![0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], !0xddf2_u16),
            (vec![0x01], !0x0100),
            (vec![], 0xffff),
            (vec![0xff, 0xff, 0xff, 0xff], 0),
        ] {
            assert_eq!(internet_checksum(&bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_message_with_its_own_checksum_sums_to_zero() {
        let mut message = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1, 0xab];
        let sum = internet_checksum(&message).to_be_bytes();
        message[2..4].copy_from_slice(&sum);
        assert_eq!(internet_checksum(&message), 0);
    }
}
