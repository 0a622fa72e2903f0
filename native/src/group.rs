//! Rows by partition: a counting sort, for partitions are small numbers.

use crate::limits::{flaw, Flaw, Kind};

/// Returns the positions of equal targets side by side, by target and then in their order; and how many each has.
pub fn group(targets: &[u8], partitions: i64) -> Result<(Vec<i32>, Vec<i32>), Flaw> {
    const OUTSIDE: Flaw = flaw(Kind::Argument, "a row of a partition that does not exist");
    let partitions = usize::try_from(partitions).ok().filter(|n| *n <= i32::MAX as usize).ok_or(OUTSIDE)?;
    let numbers = || targets.chunks_exact(4).map(|raw| i32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]));
    let mut counts = vec![0i32; partitions];
    for target in numbers() {
        *counts.get_mut(target as u32 as usize).ok_or(OUTSIDE)? += 1; // a negative one is beyond them all
    }
    let mut next = 0i32;
    let mut places = Vec::with_capacity(counts.len());
    for count in &counts {
        places.push(next);
        next += count;
    }
    let mut order = vec![0i32; next as usize];
    for (row, target) in numbers().enumerate() {
        let place = &mut places[target as usize];
        order[*place as usize] = row as i32;
        *place += 1;
    }
    Ok((order, counts))
}
