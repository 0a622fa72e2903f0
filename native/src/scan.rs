//! Following batch headers without opening the batches; what a scan passes over stands in contract.py.

use std::collections::HashSet;

use crate::buffers::int64;
use crate::compress::Scratch;
use crate::legacy;
use crate::magic2::{self, HEADER_BYTES};

const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;
const ABORT: i16 = 0;
/// Messages of magic 0 and 1 in one span, at most.
const MAX_RUN: usize = 4096;
pub const SPAN_FIELDS: usize = 4;

pub struct Options<'a> {
    pub position: i64,
    pub end_offset: i64,
    pub max_epochs: usize,
    /// Pairs of int64.
    pub aborted: &'a [u8],
}

pub struct Scan {
    pub table: Vec<i64>,
    pub epochs: Vec<i64>,
    pub end: usize,
    pub next_offset: i64,
    pub leader_epoch: i32,
}

/// One batch or run of messages, as its headers describe it.
struct Entry {
    size: usize,
    /// None where only the inside says: a compressed message of magic 0 or 1.
    first: Option<i64>,
    last: i64,
    epoch: i32,
    attributes: i16,
    producer: i64,
    has_records: bool,
}

/// Reads the fields out of the first 61 bytes; None where no batch can have them.
fn batch(rest: &[u8]) -> Option<Entry> {
    let raw = rest.first_chunk::<HEADER_BYTES>()?;
    let i16_at = |at: usize| i16::from_be_bytes([raw[at], raw[at + 1]]);
    let i32_at = |at: usize| i32::from_be_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
    let i64_at = |at: usize| (i64::from(i32_at(at)) << 32) | i64::from(i32_at(at + 4) as u32);
    let (base, last_delta) = (i64_at(0), i32_at(23));
    let size = i64::from(i32_at(8)) + 12;
    let last = base.checked_add(i64::from(last_delta)).filter(|last| *last < i64::MAX)?;
    if size < HEADER_BYTES as i64 || size > rest.len() as i64 || base < 0 || last_delta < 0 {
        return None;
    }
    Some(Entry {
        size: size as usize,
        first: Some(base),
        last,
        epoch: i32_at(12),
        attributes: i16_at(21),
        producer: i64_at(43),
        has_records: i16_at(21) & CONTROL == 0 && i32_at(57) != 0,
    })
}

fn messages(data: &[u8], start: usize) -> Option<Entry> {
    let run = legacy::scan(data, start, MAX_RUN)?;
    if run.first_offset < 0 || run.last_offset < run.first_offset || run.last_offset == i64::MAX {
        return None;
    }
    Some(Entry {
        size: run.end - start,
        first: (run.codec == 0).then_some(run.first_offset),
        last: run.last_offset,
        epoch: -1,
        attributes: 0,
        producer: -1,
        has_records: true,
    })
}

/// Which transactional batches belong to aborted transactions, batch by batch in the order of the log.
struct Aborted {
    /// First offset and producer, in the order in which they begin; those from `next` on have not begun.
    waiting: Vec<(i64, i64)>,
    next: usize,
    open: HashSet<i64>,
}

impl Aborted {
    fn new(pairs: &[u8]) -> Self {
        let count = pairs.len() / 16;
        let field = |at: usize| int64(pairs, at).unwrap_or(0);
        let mut waiting: Vec<_> = (0..count).map(|at| (field(2 * at + 1), field(2 * at))).collect();
        waiting.sort_unstable();
        let open = HashSet::with_capacity(count);
        Aborted { waiting, next: 0, open }
    }

    /// Counts a batch as passed and returns whether its records must not be seen; None where its marker is damaged.
    fn hides(&mut self, entry: &Entry, bytes: &[u8], scratch: &mut Scratch) -> Option<bool> {
        while let Some((_, producer)) = self.waiting.get(self.next).filter(|(first, _)| *first <= entry.last) {
            self.open.insert(*producer);
            self.next += 1;
        }
        if entry.attributes & TRANSACTIONAL == 0 || !self.open.contains(&entry.producer) {
            return Some(false);
        }
        if entry.attributes & CONTROL == 0 {
            return Some(true);
        }
        if magic2::control_type(bytes, scratch)? == ABORT {
            self.open.remove(&entry.producer);
        }
        Some(false)
    }
}

/// Returns the batches from byte `start` on.
pub fn scan(data: &[u8], start: usize, options: &Options<'_>, scratch: &mut Scratch) -> Scan {
    let (table, epochs) = (Vec::new(), Vec::new());
    let mut found = Scan { table, epochs, end: start, next_offset: options.position, leader_epoch: -1 };
    let mut aborted = Aborted::new(options.aborted);
    while found.next_offset < options.end_offset {
        let Some(rest) = data.get(found.end..) else { break };
        let read = match rest.get(16) {
            Some(2) => batch(rest),
            Some(0 | 1) => messages(data, found.end),
            _ => None,
        };
        let Some(entry) = read else { break };
        let Some(hidden) = aborted.hides(&entry, &rest[..entry.size], scratch) else { break };
        if entry.last < found.next_offset {
            found.end += entry.size;
            continue;
        }
        if entry.first.is_some_and(|first| first >= options.end_offset) {
            found.next_offset = options.end_offset;
            break;
        }
        let same_epoch = !found.epochs.is_empty() && found.leader_epoch == entry.epoch;
        if !same_epoch && found.epochs.len() / 2 == options.max_epochs {
            break;
        }
        if entry.has_records && !hidden {
            found.table.extend_from_slice(&[found.end as i64, (found.end + entry.size) as i64, 0, 0]);
        }
        found.end += entry.size;
        found.leader_epoch = entry.epoch;
        found.next_offset = (entry.last + 1).min(options.end_offset);
        if !same_epoch {
            found.epochs.extend_from_slice(&[0, i64::from(entry.epoch)]);
        }
        if let [.., position, _] = found.epochs.as_mut_slice() {
            *position = found.next_offset;
        }
        if let [.., position, epoch] = found.table.as_mut_slice() {
            (*position, *epoch) = (found.next_offset, i64::from(entry.epoch));
        }
    }
    found
}
