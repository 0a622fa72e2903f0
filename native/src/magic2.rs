//! Decoding of magic-2 batches. The layout stands in parley/kernel/reference/magic2.py.

use crate::columns::{Builder, HeadersColumn, Options};
use crate::compress::Scratch;
use crate::crc;
use crate::limits::{batch_limit, flaw, malformed, Failure, Flaw, Kind, MAX_SPAN_HEADERS, TOO_MANY};
use crate::varint;

pub const HEADER_BYTES: usize = 61;
pub const CRC_AT: usize = 17;
pub const CRC_START: usize = 21;
const MIN_RECORD_BYTES: usize = 7;
/// Brokers write one record into a control batch; all are looked at for the first.
const MAX_CONTROL_RECORDS: usize = 1024;

/// The fields of a batch header that decoding needs.
pub struct Header {
    base_offset: i64,
    append_time: bool,
    base_timestamp: i64,
    max_timestamp: i64,
    pub count: usize,
}

/// Some records of a batch: where their bytes stand among its records, and the position after them.
#[derive(Default)]
pub struct Piece {
    pub start: usize,
    pub end: usize,
    pub records: usize,
    pub passed: i64,
    headers: usize,
}

fn be<const N: usize>(data: &[u8], at: usize) -> Result<[u8; N], Flaw> {
    data.get(at..at + N).and_then(|raw| raw.try_into().ok()).ok_or(malformed("a batch is shorter than its header"))
}

/// Checks the header of one batch; returns it with the decompressed records.
pub fn open<'a>(batch: &'a [u8], options: &Options, scratch: &'a mut Scratch) -> Result<(Header, &'a [u8]), Flaw> {
    if batch.len() < HEADER_BYTES {
        return Err(malformed("a batch is shorter than its header"));
    }
    let length = i32::from_be_bytes(be(batch, 8)?);
    if i64::from(length) + 12 != batch.len() as i64 {
        return Err(malformed("the batch length and the span differ"));
    }
    if options.check_crc {
        let crc = u32::from_be_bytes(be(batch, CRC_AT)?);
        if crc::crc32c(&batch[CRC_START..]) != crc {
            return Err(flaw(Kind::Crc, "the batch's CRC-32C does not match"));
        }
    }
    let attributes = i16::from_be_bytes(be(batch, 21)?);
    let count = i32::from_be_bytes(be(batch, 57)?);
    if count < 0 {
        return Err(flaw(Kind::Count, "a negative record count"));
    }
    let header = Header {
        base_offset: i64::from_be_bytes(be(batch, 0)?),
        append_time: attributes & 8 != 0,
        base_timestamp: i64::from_be_bytes(be(batch, 27)?),
        max_timestamp: i64::from_be_bytes(be(batch, 35)?),
        count: count as usize,
    };
    if count as usize > options.max_span_rows {
        return Err(TOO_MANY);
    }
    if count == 0 {
        // Compaction leaves such batches for their producer's sequence.
        return Ok((header, &[]));
    }
    let packed = &batch[HEADER_BYTES..];
    let limit = batch_limit(packed.len(), options.max_batch_bytes);
    let plain = scratch.decompress((attributes & 7) as u8, packed, limit, 2)?;
    if header.count > plain.len() / MIN_RECORD_BYTES {
        return Err(flaw(Kind::Count, "the announced records do not fit their bytes"));
    }
    Ok((header, plain))
}

/// Adds the records of one opened batch to the builder.
pub fn decode(header: &Header, plain: &[u8], builder: &mut Builder) -> Result<(), Failure> {
    builder.reserve(header.count);
    let mut pos = 0;
    for index in 0..header.count {
        record(header, plain, &mut pos, builder).map_err(|flaw| flaw.at_record(index))?;
    }
    if pos != plain.len() && header.count > 0 {
        return Err(flaw(Kind::Count, "bytes are left over after the last record").into());
    }
    Ok(())
}

/// Reads the next record into the builder; returns its offset and how many headers it has.
#[inline(always)]
fn record(header: &Header, plain: &[u8], pos: &mut usize, builder: &mut Builder) -> Result<(i64, i32), Flaw> {
    let length = varint::read_i32(plain, pos)?;
    if length <= 0 || length as usize > plain.len() - *pos {
        return Err(malformed("a record's length does not fit its batch"));
    }
    let end = *pos + length as usize;
    let data = &plain[..end];
    *pos += 1; // attributes: no bit has a meaning yet
    let timestamp_delta = varint::read_i64(data, pos)?;
    let offset_delta = varint::read_i32(data, pos)?;
    let key = field(data, pos)?;
    let value = field(data, pos)?;
    let headers = varint::read_i32(data, pos)?;
    let Some(offset) = header.base_offset.checked_add(i64::from(offset_delta)) else {
        return Err(malformed("an offset does not fit 64 bits"));
    };
    let taken = builder.takes(offset);
    if headers != 0 {
        let column = if taken { builder.headers.as_mut() } else { None };
        read_headers(data, pos, headers, column)?;
    }
    if *pos != end {
        return Err(malformed("bytes of a record are left over"));
    }
    if taken {
        let timestamp =
            if header.append_time { header.max_timestamp } else { header.base_timestamp.wrapping_add(timestamp_delta) };
        builder.push(offset, timestamp, i32::from(header.append_time), key, value);
        builder.end_headers();
    }
    Ok((offset, headers))
}

/// Returns the type of a control batch's first record; None where the batch is damaged or has none.
pub fn control_type(batch: &[u8], scratch: &mut Scratch) -> Option<i16> {
    let options = Options { check_crc: true, max_span_rows: MAX_CONTROL_RECORDS, ..Options::counting() };
    let (header, plain) = open(batch, &options, scratch).ok()?;
    cuts(&header, plain, MAX_CONTROL_RECORDS).ok()?;
    if header.count == 0 {
        return None;
    }
    let mut pos = 0;
    varint::read_i32(plain, &mut pos).ok()?; // the record's length
    pos += 1;
    varint::read_i64(plain, &mut pos).ok()?;
    varint::read_i32(plain, &mut pos).ok()?;
    match field(plain, &mut pos).ok()? {
        Some([_, _, high, low, ..]) => Some(i16::from_be_bytes([*high, *low])),
        _ => None,
    }
}

/// Returns how the records of an opened batch are cut into pieces of at most `most` records.
pub fn cuts(header: &Header, plain: &[u8], most: usize) -> Result<Vec<Piece>, Failure> {
    let mut nothing = Builder::new(&Options::counting());
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut pos, mut piece, mut passed) = (0, Piece::default(), i64::MIN);
    for index in 0..header.count {
        let before = pos;
        let (offset, headers) = record(header, plain, &mut pos, &mut nothing).map_err(|flaw| flaw.at_record(index))?;
        let headers = headers as usize;
        if piece.records == most || headers > MAX_SPAN_HEADERS - piece.headers {
            pieces.push(Piece { passed, ..piece });
            piece = Piece { start: before, ..Piece::default() };
        }
        passed = passed.max(offset.saturating_add(1));
        piece.records += 1;
        piece.headers += headers;
        piece.end = pos;
    }
    if pos != plain.len() && header.count > 0 {
        return Err(flaw(Kind::Count, "bytes are left over after the last record").into());
    }
    pieces.push(Piece { passed, ..piece });
    Ok(pieces)
}

#[inline(always)]
fn field<'a>(data: &'a [u8], pos: &mut usize) -> Result<Option<&'a [u8]>, Flaw> {
    let length = varint::read_i32(data, pos)?;
    if length < 0 {
        if length == -1 {
            return Ok(None);
        }
        return Err(malformed("a negative length"));
    }
    let start = *pos;
    let end = start + length as usize;
    let Some(found) = data.get(start..end) else {
        return Err(malformed("a field does not fit its record"));
    };
    *pos = end;
    Ok(Some(found))
}

#[inline(never)]
fn read_headers(data: &[u8], pos: &mut usize, count: i32, column: Option<&mut HeadersColumn>) -> Result<(), Flaw> {
    if count < 0 || count as usize > (data.len() - *pos) / 2 {
        return Err(malformed("the announced headers do not fit their record"));
    }
    if count as usize > MAX_SPAN_HEADERS {
        return Err(flaw(Kind::TooLarge, "a record has more than 1,048,576 headers"));
    }
    let Some(column) = column else {
        for _ in 0..count {
            header(data, pos)?;
        }
        return Ok(());
    };
    column.admit(count as usize)?;
    column.reserve(count as usize);
    for _ in 0..count {
        let (key, value) = header(data, pos)?;
        column.push(key, value)?;
    }
    Ok(())
}

#[inline(always)]
fn header<'a>(data: &'a [u8], pos: &mut usize) -> Result<(&'a [u8], Option<&'a [u8]>), Flaw> {
    let Some(key) = field(data, pos)? else {
        return Err(malformed("a header has no key"));
    };
    Ok((key, field(data, pos)?))
}
