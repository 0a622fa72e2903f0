//! Encoding of columns into batches of magic 2 and message sets of magic 0 and 1.

use std::cell::RefCell;

use crate::compress;
use crate::crc;
use crate::input::{Input, Row, Source};
use crate::limits::{flaw, Failure, Flaw, Kind, MAX_COLUMN_BYTES};
use crate::magic2::{CRC_AT, CRC_START, HEADER_BYTES};
use crate::varint;

const LOG_APPEND_TIME: u8 = 8;
const TRANSACTIONAL: u8 = 16;
const MESSAGE_HEAD_BYTES: usize = 18;

const fn argument(what: &'static str) -> Flaw {
    flaw(Kind::Argument, what)
}

/// The header facts of the batch and its bounds (contract.py, EncodeOptions).
pub struct Options {
    pub magic: i64,
    pub codec: i64,
    pub level: Option<i32>,
    pub max_bytes: usize,
    pub max_records: usize,
    pub base_offset: i64,
    pub timestamp_ms: i64,
    pub log_append_time_ms: Option<i64>,
    pub leader_epoch: i32,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub transactional: bool,
}

pub struct Output {
    pub data: Vec<u8>,
    pub next_start: usize,
    pub max_timestamp: i64,
}

/// Returns one batch of the selected rows from position `start` on.
pub fn encode(input: &Input, start: usize, options: &Options) -> Result<Output, Failure> {
    check(options)?;
    source(&input.source(), start, options)
}

/// Refuses a format that does not exist, and a codec that the format does not have.
pub fn check(options: &Options) -> Result<(), Flaw> {
    if !(0..=2).contains(&options.magic) {
        return Err(argument("there is no such magic"));
    }
    if !(0..=(if options.magic == 2 { 4 } else { 3 })).contains(&options.codec) {
        return Err(flaw(Kind::Codec, "the format has no such codec"));
    }
    Ok(())
}

/// The same of rows that are plain slices, in a format and with a codec that exist.
pub fn source(input: &Source, start: usize, options: &Options) -> Result<Output, Failure> {
    if start >= input.selected {
        return Err(argument("no rows are left to begin a batch").into());
    }
    if options.magic == 2 {
        magic2(input, start, options)
    } else {
        legacy(input, start, options)
    }
}

thread_local! {
    /// Where records stand before they are compressed. Used again: fresh pages cost more than the records.
    static PLAIN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn magic2(input: &Source, start: usize, options: &Options) -> Result<Output, Failure> {
    let room = options.max_bytes.min(input.expected_bytes(start).saturating_add(HEADER_BYTES));
    if options.codec == 0 {
        let mut batch = Vec::with_capacity(room);
        batch.resize(HEADER_BYTES, 0); // uncompressed records are written where they stay
        let facts = records(input, start, options, &mut batch)?;
        return finish(batch, start, options, &facts);
    }
    PLAIN.with_borrow_mut(|body| {
        body.clear();
        body.reserve(room);
        let facts = records(input, start, options, body)?;
        let batch = compress::packed(options.codec as u8, body, options.level, 2, HEADER_BYTES)?;
        if body.capacity() > compress::KEEP_BYTES {
            *body = Vec::new();
        }
        finish(batch, start, options, &facts)
    })
}

/// Appends as many records as the bounds admit; an uncompressed batch has room for its header in front.
fn records(input: &Source, start: usize, options: &Options, body: &mut Vec<u8>) -> Result<Facts, Failure> {
    let head = HEADER_BYTES - body.len();
    let limit = options.max_bytes.min(MAX_COLUMN_BYTES);
    let stop = input.selected.min(start.saturating_add(options.max_records));
    let mut first: Option<(i64, i64)> = None;
    let (mut last_offset, mut max_timestamp, mut at) = (0i64, i64::MIN, start);
    while at < stop {
        input.look_ahead(at);
        let row = input.row(at, start, options).map_err(|flaw| flaw.at_record(at))?;
        let (base_offset, base_timestamp) = *first.get_or_insert((row.offset, row.timestamp));
        if at > start {
            if row.offset <= last_offset {
                return Err(argument("offsets do not count up").at_record(at));
            }
            if i128::from(row.offset) - i128::from(base_offset) > i128::from(i32::MAX) {
                break; // the delta is an int32: the next batch begins here
            }
        }
        let offset_delta = row.offset.wrapping_sub(base_offset) as i32;
        let timestamp_delta = row.timestamp.wrapping_sub(base_timestamp);
        let size = body_size(input, &row, offset_delta, timestamp_delta).map_err(|flaw| flaw.at_record(at))?;
        let framed = size + varint::size(u64::from(varint::fold32(size.min(MAX_COLUMN_BYTES) as i32)));
        if head + body.len() + framed > if at > start { limit } else { MAX_COLUMN_BYTES } {
            if at > start {
                break;
            }
            return Err(flaw(Kind::TooLarge, "a record fits no batch").at_record(at));
        }
        body.reserve(framed);
        varint::write(body, u64::from(varint::fold32(size as i32)));
        write_record(body, input, &row, offset_delta, timestamp_delta).map_err(|flaw| flaw.at_record(at))?;
        last_offset = row.offset;
        max_timestamp = max_timestamp.max(row.timestamp);
        at += 1;
    }
    let Some((base_offset, base_timestamp)) = first else {
        return Err(argument("a batch needs at least one record").into());
    };
    Ok(Facts {
        base_offset,
        last_delta: last_offset.wrapping_sub(base_offset) as i32,
        base_timestamp,
        max_timestamp: options.log_append_time_ms.unwrap_or(max_timestamp),
        count: (at - start) as i32,
    })
}

fn finish(mut batch: Vec<u8>, start: usize, options: &Options, facts: &Facts) -> Result<Output, Failure> {
    if batch.len() > MAX_COLUMN_BYTES {
        return Err(flaw(Kind::TooLarge, "a batch beyond 2 GiB").into());
    }
    write_header(&mut batch, options, facts);
    if batch.capacity() > batch.len() + batch.len() / 8 {
        batch.shrink_to_fit(); // batches wait, and their sizes are counted by their lengths
    }
    Ok(Output { data: batch, next_start: start + facts.count as usize, max_timestamp: facts.max_timestamp })
}

/// What the records say about their batch.
struct Facts {
    base_offset: i64,
    last_delta: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    count: i32,
}

fn write_header(batch: &mut [u8], options: &Options, facts: &Facts) {
    let mut attributes = options.codec as u8;
    if options.transactional {
        attributes |= TRANSACTIONAL;
    }
    if options.log_append_time_ms.is_some() {
        attributes |= LOG_APPEND_TIME;
    }
    let length = (batch.len() - 12) as i32;
    put(batch, 0, &facts.base_offset.to_be_bytes());
    put(batch, 8, &length.to_be_bytes());
    put(batch, 12, &options.leader_epoch.to_be_bytes());
    put(batch, 16, &[2]);
    put(batch, 21, &i16::from(attributes).to_be_bytes());
    put(batch, 23, &facts.last_delta.to_be_bytes());
    put(batch, 27, &facts.base_timestamp.to_be_bytes());
    put(batch, 35, &facts.max_timestamp.to_be_bytes());
    put(batch, 43, &options.producer_id.to_be_bytes());
    put(batch, 51, &options.producer_epoch.to_be_bytes());
    put(batch, 53, &options.base_sequence.to_be_bytes());
    put(batch, 57, &facts.count.to_be_bytes());
    let crc = crc::crc32c(&batch[CRC_START..]);
    put(batch, CRC_AT, &crc.to_be_bytes());
}

fn put(batch: &mut [u8], at: usize, field: &[u8]) {
    batch[at..at + field.len()].copy_from_slice(field);
}

#[inline(always)]
fn field_size(value: Option<&[u8]>) -> usize {
    match value {
        None => 1,
        Some(value) => value.len() + varint::size((value.len() as u64) << 1),
    }
}

#[inline(always)]
fn body_size(input: &Source, row: &Row, offset_delta: i32, timestamp_delta: i64) -> Result<usize, Flaw> {
    let (from, to) = row.headers;
    let mut size = 1
        + varint::size(varint::fold64(timestamp_delta))
        + varint::size(u64::from(varint::fold32(offset_delta)))
        + field_size(row.key)
        + field_size(row.value)
        + varint::size(((to - from) as u64) << 1);
    if let Some(column) = &input.headers {
        for at in from..to {
            let key = column.keys.get(at)?.ok_or(argument("a header's key is null"))?;
            size += field_size(Some(key)) + field_size(column.values.get(at)?);
        }
    }
    Ok(size)
}

#[inline(always)]
fn write_field(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => out.push(1),
        Some(value) => {
            varint::write(out, (value.len() as u64) << 1);
            out.extend_from_slice(value);
        }
    }
}

#[inline(always)]
fn write_record(
    out: &mut Vec<u8>,
    input: &Source,
    row: &Row,
    offset_delta: i32,
    timestamp_delta: i64,
) -> Result<(), Flaw> {
    out.push(0); // attributes: no bit has a meaning yet
    varint::write(out, varint::fold64(timestamp_delta));
    varint::write(out, u64::from(varint::fold32(offset_delta)));
    write_field(out, row.key);
    write_field(out, row.value);
    let (from, to) = row.headers;
    varint::write(out, ((to - from) as u64) << 1);
    if let Some(column) = &input.headers {
        for at in from..to {
            write_field(out, column.keys.get(at)?);
            write_field(out, column.values.get(at)?);
        }
    }
    Ok(())
}

fn legacy(input: &Source, start: usize, options: &Options) -> Result<Output, Failure> {
    let mut body: Vec<u8> = Vec::new();
    let limit = options.max_bytes.min(MAX_COLUMN_BYTES);
    let relative = options.magic == 1 && options.codec != 0; // KIP-31
    let stop = input.selected.min(start.saturating_add(options.max_records));
    let (mut first_offset, mut last_offset, mut max_timestamp, mut at) = (0i64, 0i64, i64::MIN, start);
    while at < stop {
        let row = input.row(at, start, options).map_err(|flaw| flaw.at_record(at))?;
        if row.headers.0 != row.headers.1 {
            return Err(argument("headers need magic 2 (Kafka 0.11)").at_record(at));
        }
        if at > start && row.offset <= last_offset {
            return Err(argument("offsets do not count up").at_record(at));
        }
        if at == start {
            first_offset = row.offset;
        }
        let timestamp = options.log_append_time_ms.unwrap_or(row.timestamp);
        let offset = if relative { row.offset.wrapping_sub(first_offset) } else { row.offset };
        let size = message_size(options, row.key, row.value);
        if body.len() + size > if at > start { limit } else { MAX_COLUMN_BYTES } {
            if at > start {
                break;
            }
            return Err(flaw(Kind::TooLarge, "a record fits no message set").at_record(at));
        }
        write_message(&mut body, offset, options, 0, timestamp, row.key, row.value);
        last_offset = row.offset;
        max_timestamp = max_timestamp.max(timestamp);
        at += 1;
    }
    if at == start {
        return Err(argument("a message set needs at least one record").into());
    }
    if options.codec == 0 {
        return Ok(Output { data: body, next_start: at, max_timestamp });
    }
    let packed = compress::packed(options.codec as u8, &body, options.level, options.magic as u8, 0)?;
    if message_size(options, None, Some(&packed)) > MAX_COLUMN_BYTES {
        return Err(flaw(Kind::TooLarge, "a message set beyond 2 GiB").into());
    }
    let mut wrapper = Vec::new();
    write_message(&mut wrapper, last_offset, options, options.codec as u8, max_timestamp, None, Some(&packed));
    Ok(Output { data: wrapper, next_start: at, max_timestamp })
}

fn message_size(options: &Options, key: Option<&[u8]>, value: Option<&[u8]>) -> usize {
    let timestamp = if options.magic == 1 { 8 } else { 0 };
    MESSAGE_HEAD_BYTES + timestamp + 8 + key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len)
}

fn write_message(
    out: &mut Vec<u8>,
    offset: i64,
    options: &Options,
    codec: u8,
    timestamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) {
    let start = out.len();
    let size = message_size(options, key, value);
    out.reserve(size);
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&((size - 12) as i32).to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    let append_time = options.magic == 1 && options.log_append_time_ms.is_some();
    out.push(options.magic as u8);
    out.push(codec | if append_time { LOG_APPEND_TIME } else { 0 });
    if options.magic == 1 {
        out.extend_from_slice(&timestamp.to_be_bytes());
    }
    for field in [key, value] {
        match field {
            None => out.extend_from_slice(&(-1i32).to_be_bytes()),
            Some(field) => {
                out.extend_from_slice(&(field.len() as i32).to_be_bytes());
                out.extend_from_slice(field);
            }
        }
    }
    let crc = crc::crc32(&out[start + 16..]);
    out[start + 12..start + 16].copy_from_slice(&crc.to_be_bytes());
}
