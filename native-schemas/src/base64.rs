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

/// Appends the text of bytes.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let sign = if place <= chunk.len() { SIGNS[bits >> (18 - 6 * place) & 63] } else { b'=' };
            out.push(sign);
        }
    }
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
