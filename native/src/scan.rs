//! Following batch headers without opening the batches; what is ordinary stands in contract.py.

use crate::buffers::View;
use crate::magic2::HEADER_BYTES;

const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;
pub const SPAN_FIELDS: usize = 4;

pub struct Options {
    pub position: i64,
    pub passed: i64,
    pub end_offset: i64,
    pub max_rows: i64,
    pub max_bytes: usize,
    pub watched: View,
}

impl Options {
    /// Whether the producer is watched. There may be as many as batches, and a scan begins behind each batch that is
    /// not ordinary: the numbers are sorted and stay where they are.
    fn watches(&self, producer: i64) -> bool {
        let (mut from, mut to) = (0, self.watched.bytes().len() / 8);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.watched.int64(middle) {
                Some(found) if found < producer => from = middle + 1,
                Some(found) if found > producer => to = middle,
                found => return found.is_some(),
            }
        }
        false
    }
}

pub struct Scan {
    pub table: Vec<i64>,
    pub rows: i64,
    pub bytes: usize,
    pub end: usize,
    pub next_offset: i64,
    pub leader_epoch: i32,
    pub full: bool,
}

struct Header {
    base: i64,
    last: Option<i64>,
    length: i32,
    epoch: i32,
    magic: u8,
    attributes: i16,
    last_delta: i32,
    producer: i64,
    count: i32,
}

/// Reads the fields out of the first 61 bytes.
fn header(raw: &[u8; HEADER_BYTES]) -> Header {
    let i16_at = |at: usize| i16::from_be_bytes([raw[at], raw[at + 1]]);
    let i32_at = |at: usize| i32::from_be_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
    let i64_at = |at: usize| (i64::from(i32_at(at)) << 32) | i64::from(i32_at(at + 4) as u32);
    let (base, last_delta) = (i64_at(0), i32_at(23));
    Header {
        base,
        last: base.checked_add(i64::from(last_delta)),
        length: i32_at(8),
        epoch: i32_at(12),
        magic: raw[16],
        attributes: i16_at(21),
        last_delta,
        producer: i64_at(43),
        count: i32_at(57),
    }
}

/// Returns the ordinary batches from byte `start` on.
pub fn scan(data: &[u8], start: usize, options: &Options) -> Scan {
    let mut found = Scan {
        table: Vec::new(),
        rows: 0,
        bytes: 0,
        end: start,
        next_offset: options.position,
        leader_epoch: -1,
        full: false,
    };
    let mut passed = options.passed;
    while found.next_offset < options.end_offset {
        let Some(rest) = data.get(found.end..) else { break };
        let Some(raw) = rest.first_chunk::<HEADER_BYTES>() else { break };
        let head = header(raw);
        let size = i64::from(head.length) + 12;
        if head.magic != 2 || size < HEADER_BYTES as i64 || size > rest.len() as i64 {
            break;
        }
        let Some(last) = head.last.filter(|last| *last < i64::MAX) else { break };
        if head.base < 0 || head.last_delta < 0 || head.base < passed {
            break;
        }
        if head.attributes & TRANSACTIONAL != 0 && options.watches(head.producer) {
            break;
        }
        let size = size as usize;
        if last < found.next_offset {
            found.end += size;
            passed = last + 1;
            continue;
        }
        if head.base >= options.end_offset {
            found.next_offset = options.end_offset;
            break;
        }
        if head.attributes & CONTROL == 0 && head.count != 0 {
            let rows = found.rows + i64::from(head.count.max(1));
            if !found.table.is_empty() && (rows > options.max_rows || found.bytes + size > options.max_bytes) {
                found.full = true;
                break;
            }
            found.rows = rows;
            found.bytes += size;
            found.table.extend_from_slice(&[found.end as i64, (found.end + size) as i64, 0, 0]);
        }
        found.end += size;
        passed = last + 1;
        found.leader_epoch = head.epoch;
        found.next_offset = (last + 1).min(options.end_offset);
        if let [.., position, epoch] = found.table.as_mut_slice() {
            (*position, *epoch) = (found.next_offset, i64::from(head.epoch));
        }
    }
    found
}
