//! Hashes of records, and digests of runs of them: equal for equal records, wherever they stand.

use xxhash_rust::xxh64::xxh64;

use crate::input::Input;
use crate::limits::{flaw, Flaw, Kind};

/// The prime that polynomials are taken by, and the number that they are taken at: a primitive root of it.
const MODULUS: u64 = (1 << 61) - 1;
const BASE: u64 = 0x1e37_79b9_7f4a_7c1a;

const TOO_LONG: Flaw = flaw(Kind::Argument, "a value is longer than any record");
const NULL_HEADER: Flaw = flaw(Kind::Argument, "a header's key is null");

/// Appends a value with its length in front: -1 for null, which is not the empty one.
#[inline(always)]
fn push(form: &mut Vec<u8>, value: Option<&[u8]>) -> Result<(), Flaw> {
    let Some(bytes) = value else {
        form.extend_from_slice(&(-1i32).to_le_bytes());
        return Ok(());
    };
    let length = i32::try_from(bytes.len()).map_err(|_| TOO_LONG)?;
    form.extend_from_slice(&length.to_le_bytes());
    form.extend_from_slice(bytes);
    Ok(())
}

/// Returns the hash of each row, in the form that parley/kernel/contract.py describes.
pub fn hashes(input: &Input) -> Result<Vec<i64>, Flaw> {
    let source = input.source();
    let mut form = Vec::new();
    let mut found = Vec::with_capacity(source.selected.min(1 << 20));
    for at in 0..source.selected {
        let (row, timed) = source.content(at)?;
        form.clear();
        if timed {
            form.extend_from_slice(&row.timestamp.to_le_bytes());
        }
        push(&mut form, row.key)?;
        push(&mut form, row.value)?;
        let (from, to) = row.headers;
        form.extend_from_slice(&((to - from) as i32).to_le_bytes());
        if let Some(headers) = &source.headers {
            for at in from..to {
                push(&mut form, Some(headers.keys.get(at)?.ok_or(NULL_HEADER)?))?;
                push(&mut form, headers.values.get(at)?)?;
            }
        }
        found.push(xxh64(&form, 0) as i64);
    }
    Ok(found)
}

/// Returns the product's remainder. Both are below 2^61.
#[inline(always)]
fn product(one: u64, other: u64) -> u64 {
    let whole = u128::from(one) * u128::from(other);
    reduced((whole as u64 & MODULUS) + (whole >> 61) as u64)
}

#[inline(always)]
fn reduced(number: u64) -> u64 {
    let folded = (number & MODULUS) + (number >> 61);
    if folded >= MODULUS {
        folded - MODULUS
    } else {
        folded
    }
}

/// Returns number of hashes, sum and polynomial of each run: the first of `first` hashes, the others of `run`.
pub fn runs(hashes: &[u8], first: i64, run: i64) -> Result<Vec<i64>, Flaw> {
    const LENGTH: Flaw = flaw(Kind::Argument, "a run has at least one record");
    let length = |asked: i64| usize::try_from(asked).ok().filter(|rows| *rows > 0).ok_or(LENGTH);
    let (mut left, run) = (length(first)?, length(run)?);
    let mut found = Vec::new();
    let (mut count, mut sum, mut polynomial) = (0i64, 0u64, 0u64);
    for raw in hashes.chunks_exact(8) {
        let hash = u64::from_le_bytes([raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6], raw[7]]);
        count += 1;
        sum = sum.wrapping_add(hash);
        polynomial = reduced(product(polynomial, BASE) + reduced(hash));
        left -= 1;
        if left == 0 {
            found.extend([count, sum as i64, polynomial as i64]);
            (count, sum, polynomial, left) = (0, 0, 0, run);
        }
    }
    if count > 0 {
        found.extend([count, sum as i64, polynomial as i64]);
    }
    Ok(found)
}
