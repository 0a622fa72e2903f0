//! Decimals: big-endian numbers of any length, within a precision.

use crate::datum::{Datum, Read};

const MOST_BYTES: usize = 64;
const WORDS: usize = 4;

/// A precision, and ten to its power; without the digits behind the point that are not written.
pub struct Precision {
    digits: u32,
    shift: u32,
    bound: [u64; WORDS],
}

impl Precision {
    /// `digits` is at most 76, `shift` at most `digits`.
    pub fn new(digits: u32, shift: u32) -> Self {
        Precision { digits, shift, bound: times_ten([1, 0, 0, 0], digits - shift) }
    }

    /// Returns the number of a datum's bytes in 256 bits, lowest word first.
    pub fn wide(&self, datum: &Datum, raw: &[u8]) -> Read<[u64; WORDS]> {
        if raw.len() > MOST_BYTES {
            return datum.fault(format_args!("a decimal of {} bytes", raw.len()));
        }
        let negative = raw.first().is_some_and(|first| *first >= 0x80);
        let fill = if negative { 0xff } else { 0 };
        let mut bytes = [fill; 8 * WORDS];
        let kept = raw.len().min(bytes.len());
        let (over, low) = raw.split_at(raw.len() - kept);
        let at = bytes.len() - kept;
        bytes[at..].copy_from_slice(low);
        let mut words = [0; WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.rchunks_exact(8)) {
            *word = u64::from_be_bytes(chunk.try_into().expect("eight bytes"));
        }
        let fits = over.iter().all(|byte| *byte == fill) && (words[WORDS - 1] >> 63 == 1) == negative;
        if !fits || !less(&magnitude(words, negative), &self.bound) {
            return datum.fault(format_args!("a decimal has more digits than its precision of {}", self.digits));
        }
        // of a negative number the lowest 256 bits are right, too
        Ok(if self.shift == 0 { words } else { times_ten(words, self.shift) })
    }

    /// Returns the same in 128 bits; the precision is at most 38.
    #[inline]
    pub fn narrow(&self, datum: &Datum, raw: &[u8]) -> Read<i128> {
        let words = self.wide(datum, raw)?;
        Ok((u128::from(words[0]) | u128::from(words[1]) << 64) as i128)
    }
}

fn times_ten(mut words: [u64; WORDS], times: u32) -> [u64; WORDS] {
    for _ in 0..times {
        let mut carry = 0u128;
        for word in &mut words {
            carry += u128::from(*word) * 10;
            *word = carry as u64;
            carry >>= 64;
        }
    }
    words
}

fn magnitude(mut words: [u64; WORDS], negative: bool) -> [u64; WORDS] {
    if negative {
        let mut carry = true;
        for word in &mut words {
            (*word, carry) = (!*word).overflowing_add(u64::from(carry));
        }
    }
    words
}

fn less(one: &[u64; WORDS], other: &[u64; WORDS]) -> bool {
    one.iter().rev().lt(other.iter().rev())
}
