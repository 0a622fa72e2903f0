//! Base64 as it is usually written: padded, and nothing between.

/// Returns the bytes of a text; None for one that is not quite so.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() % 4 != 0 {
        return None;
    }
    let kept = text.len() - text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let mut found = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in text[..kept].chunks(4) {
        let mut bits = 0u32;
        for byte in chunk {
            bits = bits << 6 | sextet(*byte)?;
        }
        let bytes = match chunk.len() {
            4 => 3,
            3 => 2,
            2 => 1,
            _ => return None,
        };
        bits <<= 6 * (4 - chunk.len());
        let all = bits.to_be_bytes();
        if all[1 + bytes..].iter().any(|byte| *byte != 0) {
            return None;
        }
        found.extend_from_slice(&all[1..1 + bytes]);
    }
    Some(found)
}

fn sextet(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}
