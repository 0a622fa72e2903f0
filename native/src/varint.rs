//! Zigzag varints, at most 5 bytes for 32 bits and 10 for 64.

use crate::limits::{malformed, Flaw};

const CUT: Flaw = malformed("a varint is cut off");
const WIDE: Flaw = malformed("a varint does not fit its type");

#[inline(always)]
fn unfold32(raw: u32) -> i32 {
    ((raw >> 1) as i32) ^ -((raw & 1) as i32)
}

/// Reads an int32 at `pos` and moves `pos` behind it.
#[inline(always)]
pub fn read_i32(data: &[u8], pos: &mut usize) -> Result<i32, Flaw> {
    // Lengths and deltas are one or two bytes long nearly always; the rest is out of line.
    let at = *pos;
    let Some(&first) = data.get(at) else {
        return Err(CUT);
    };
    if first < 0x80 {
        *pos = at + 1;
        return Ok(unfold32(u32::from(first)));
    }
    if let Some(&second) = data.get(at + 1) {
        if second < 0x80 {
            *pos = at + 2;
            return Ok(unfold32(u32::from(first & 0x7f) | u32::from(second) << 7));
        }
    }
    long_i32(data, pos)
}

#[inline(never)]
fn long_i32(data: &[u8], pos: &mut usize) -> Result<i32, Flaw> {
    let mut raw = 0u32;
    for at in 0..5 {
        let byte = *data.get(*pos + at).ok_or(CUT)?;
        if at == 4 && byte > 0x0f {
            return Err(WIDE);
        }
        raw |= u32::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            *pos += at + 1;
            return Ok(unfold32(raw));
        }
    }
    Err(WIDE)
}

/// Reads an int64 at `pos` and moves `pos` behind it.
#[inline(always)]
pub fn read_i64(data: &[u8], pos: &mut usize) -> Result<i64, Flaw> {
    let at = *pos;
    let Some(&first) = data.get(at) else {
        return Err(CUT);
    };
    if first < 0x80 {
        *pos = at + 1;
        return Ok(i64::from(unfold32(u32::from(first))));
    }
    long_i64(data, pos)
}

#[inline]
fn long_i64(data: &[u8], pos: &mut usize) -> Result<i64, Flaw> {
    let mut raw = 0u64;
    for at in 0..10 {
        let byte = *data.get(*pos + at).ok_or(CUT)?;
        if at == 9 && byte > 0x01 {
            return Err(WIDE);
        }
        raw |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            *pos += at + 1;
            return Ok(((raw >> 1) as i64) ^ -((raw & 1) as i64));
        }
    }
    Err(WIDE)
}

pub fn fold32(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)) as u32
}

pub fn fold64(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Returns how many bytes the folded number takes.
#[inline(always)]
pub fn size(folded: u64) -> usize {
    // 9 / 64 is a little more than 1 / 7: the division of the bit length by 7, rounded up.
    let bits = 64 - (folded | 1).leading_zeros() as usize;
    (bits * 9 + 64) / 64
}

#[inline(always)]
pub fn write(out: &mut Vec<u8>, mut folded: u64) {
    while folded >= 0x80 {
        out.push(folded as u8 | 0x80);
        folded >>= 7;
    }
    out.push(folded as u8);
}
