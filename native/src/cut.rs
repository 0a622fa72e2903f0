//! One batch as several: that a batch of a few kilobytes may hold millions of records must not cost the memory of all.

use crate::columns::Options;
use crate::compress::Scratch;
use crate::legacy;
use crate::limits::{flaw, malformed, Failure, Kind, MAX_COLUMN_BYTES};
use crate::magic2::{self, Piece, HEADER_BYTES};
use crate::scan::SPAN_FIELDS;

const ATTRIBUTES_AT: usize = 22; // the byte that has the codec
const COUNT_AT: usize = 57;

/// The pieces without compression, and their spans.
pub struct Pieces {
    pub data: Vec<u8>,
    pub table: Vec<i64>,
}

impl Pieces {
    pub fn add(&mut self, start: usize, end: usize, passed: i64) {
        let row: [i64; SPAN_FIELDS] = [start as i64, end as i64, passed, -1];
        self.table.extend_from_slice(&row);
    }
}

/// Cuts the batch of one span into pieces of at most `most` records.
pub fn cut(span: &[u8], options: &Options, most: usize, scratch: &mut Scratch) -> Result<Pieces, Failure> {
    if most == 0 {
        return Err(flaw(Kind::Argument, "a piece has at least one record").into());
    }
    match span.get(16) {
        None => Err(malformed("too few bytes for a batch").into()),
        Some(2) => magic2_pieces(span, options, most, scratch),
        Some(0 | 1) => legacy::cut(span, options, most, scratch),
        Some(_) => Err(flaw(Kind::Magic, "there is no such magic").into()),
    }
}

fn magic2_pieces(span: &[u8], options: &Options, most: usize, scratch: &mut Scratch) -> Result<Pieces, Failure> {
    let (header, plain) = magic2::open(span, options, scratch)?;
    let pieces = magic2::cuts(&header, plain, most)?;
    let size = plain.len();
    let compressed = span[ATTRIBUTES_AT] & 7 != 0 && header.count > 0;
    let mut data = if compressed { scratch.space.take(size) } else { span[HEADER_BYTES..HEADER_BYTES + size].to_vec() };
    // From the last piece to the first each moves behind the headers of those before it.
    data.resize(size + pieces.len() * HEADER_BYTES, 0);
    for (index, piece) in pieces.iter().enumerate().rev() {
        let start = piece.start + index * HEADER_BYTES;
        data.copy_within(piece.start..piece.end, start + HEADER_BYTES);
        write_header(&mut data[start..start + HEADER_BYTES], span, piece);
    }
    let mut found = Pieces { data, table: Vec::with_capacity(pieces.len() * SPAN_FIELDS) };
    for (index, piece) in pieces.iter().enumerate() {
        found.add(piece.start + index * HEADER_BYTES, piece.end + (index + 1) * HEADER_BYTES, piece.passed);
    }
    Ok(found)
}

/// The batch's own header, but for its length, codec and count; its checksum is not that of the piece.
fn write_header(out: &mut [u8], batch: &[u8], piece: &Piece) {
    out.copy_from_slice(&batch[..HEADER_BYTES]);
    let length = HEADER_BYTES - 12 + (piece.end - piece.start).min(MAX_COLUMN_BYTES - HEADER_BYTES);
    out[8..12].copy_from_slice(&(length as i32).to_be_bytes());
    out[ATTRIBUTES_AT] &= !7;
    out[COUNT_AT..].copy_from_slice(&(piece.records as i32).to_be_bytes());
}
