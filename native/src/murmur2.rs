//! The hash that Java's default partitioner takes of keys.

const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;

pub fn murmur2(data: &[u8]) -> u32 {
    let mut h = SEED ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in words.by_ref() {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let tail = words.remainder();
    if !tail.is_empty() {
        let mut rest = 0u32;
        for (at, byte) in tail.iter().enumerate() {
            rest |= u32::from(*byte) << (8 * at);
        }
        h = (h ^ rest).wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^ (h >> 15)
}

/// Returns the partition of a key: the sign bit is masked away, as Java's toPositive does.
pub fn partition(key: &[u8], partitions: u32) -> i32 {
    ((murmur2(key) & 0x7fff_ffff) % partitions) as i32
}
