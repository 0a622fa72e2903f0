//! Decoding of magic-0 and magic-1 messages. The layout stands in parley/kernel/reference/legacy.py.

use crate::columns::{Builder, Options};
use crate::compress::Scratch;
use crate::crc;
use crate::cut::Pieces;
use crate::limits::{batch_limit, flaw, malformed, Failure, Flaw, Kind, TOO_MANY};

const LOG_OVERHEAD: usize = 12;
const MAGIC_AT: usize = 16;
const TIMESTAMP_AT: usize = 18;
const APPEND_TIME: u8 = 8;

fn least_size(magic: u8) -> usize {
    if magic == 0 {
        14
    } else {
        22
    }
}

struct Message<'a> {
    offset: i64,
    magic: u8,
    attributes: u8,
    timestamp: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

impl Message<'_> {
    fn codec(&self) -> u8 {
        self.attributes & 7
    }

    fn append_time(&self) -> bool {
        self.magic == 1 && self.attributes & APPEND_TIME != 0
    }
}

fn int32(data: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

fn int64(data: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(data.get(at..at + 8)?.try_into().ok()?))
}

/// What `scan` found: one span.
pub struct Run {
    pub end: usize,
    pub magic: u8,
    pub codec: u8,
    pub entries: usize,
    pub first_offset: i64,
    pub last_offset: i64,
    pub max_timestamp: i64,
    pub timestamp_type: i32,
}

/// Returns the span that begins at `start`: one compressed message, or a run of uncompressed ones.
pub fn scan(data: &[u8], start: usize, max_entries: usize) -> Option<Run> {
    let mut run: Option<Run> = None;
    let mut pos = start;
    while run.as_ref().map_or(0, |run| run.entries) < max_entries {
        let Some(rest) = data.get(pos..) else { break };
        if rest.len() < LOG_OVERHEAD + least_size(0) {
            break;
        }
        let (Some(offset), Some(size)) = (int64(rest, 0), int32(rest, 8)) else { break };
        let (magic, attributes) = (rest[MAGIC_AT], rest[MAGIC_AT + 1]);
        if magic > 1 || size < least_size(magic) as i32 || size as usize > rest.len() - LOG_OVERHEAD {
            break;
        }
        let codec = attributes & 7;
        let kind = if magic == 0 { -1 } else { i32::from(attributes & APPEND_TIME != 0) };
        let timestamp = if magic == 1 { int64(rest, TIMESTAMP_AT).unwrap_or(-1) } else { -1 };
        pos += LOG_OVERHEAD + size as usize;
        match &mut run {
            None => {
                run = Some(Run {
                    end: pos,
                    magic,
                    codec,
                    entries: 1,
                    first_offset: offset,
                    last_offset: offset,
                    max_timestamp: timestamp.max(-1),
                    timestamp_type: kind,
                });
                if codec != 0 {
                    break;
                }
            }
            Some(run) => {
                if codec != 0 || magic != run.magic || kind != run.timestamp_type {
                    break;
                }
                run.end = pos;
                run.entries += 1;
                run.last_offset = offset;
                run.max_timestamp = run.max_timestamp.max(timestamp);
            }
        }
    }
    run
}

/// Reads the message at `pos` and moves `pos` behind it.
fn message<'a>(data: &'a [u8], pos: &mut usize, check_crc: bool) -> Result<Message<'a>, Flaw> {
    let cut = malformed("a message is cut off");
    let rest = data.get(*pos..).ok_or(cut)?;
    if rest.len() < LOG_OVERHEAD + least_size(0) {
        return Err(cut);
    }
    let offset = int64(rest, 0).ok_or(cut)?;
    let size = int32(rest, 8).ok_or(cut)?;
    let magic = rest[MAGIC_AT];
    if magic > 1 {
        return Err(flaw(Kind::Magic, "another magic in a set of magic 0 and 1"));
    }
    if size < least_size(magic) as i32 || size as usize > rest.len() - LOG_OVERHEAD {
        return Err(malformed("a message's size does not fit"));
    }
    let end = LOG_OVERHEAD + size as usize;
    let whole = &rest[..end];
    if check_crc && int32(whole, LOG_OVERHEAD) != Some(crc::crc32(&whole[MAGIC_AT..]) as i32) {
        return Err(flaw(Kind::Crc, "the message's CRC-32 does not match"));
    }
    let timestamp = if magic == 1 { int64(whole, TIMESTAMP_AT).ok_or(cut)? } else { -1 };
    let mut at = if magic == 1 { TIMESTAMP_AT + 8 } else { TIMESTAMP_AT };
    let key = field(whole, &mut at)?;
    let value = field(whole, &mut at)?;
    if at != end {
        return Err(malformed("bytes of a message are left over"));
    }
    *pos += end;
    Ok(Message { offset, magic, attributes: whole[MAGIC_AT + 1], timestamp, key, value })
}

fn field<'a>(data: &'a [u8], at: &mut usize) -> Result<Option<&'a [u8]>, Flaw> {
    let length = int32(data, *at).ok_or(malformed("a length is cut off"))?;
    *at += 4;
    if length == -1 {
        return Ok(None);
    }
    if length < 0 || length as usize > data.len() - *at {
        return Err(malformed("a field does not fit its message"));
    }
    let start = *at;
    *at += length as usize;
    Ok(Some(&data[start..*at]))
}

/// Adds the records of one span; returns the bytes of messages read, or None (with nothing added)
/// where these are more than `room`.
pub fn decode(
    span: &[u8],
    options: &Options,
    builder: &mut Builder,
    room: usize,
    scratch: &mut Scratch,
) -> Result<Option<usize>, Failure> {
    if span.len() > room {
        return Ok(None);
    }
    let mut pos = 0;
    if span.is_empty() {
        return Err(malformed("an empty span").into());
    }
    let alone = malformed("a compressed message must be a span of its own");
    let first = message(span, &mut pos, options.check_crc).map_err(|flaw| flaw.at_record(0))?;
    if first.codec() != 0 {
        if pos != span.len() {
            return Err(alone.into());
        }
        return decode_wrapper(&first, options, builder, room, scratch);
    }
    append(builder, &first, first.offset, &first);
    let mut index = 1;
    while pos < span.len() {
        let next = message(span, &mut pos, options.check_crc).map_err(|flaw| flaw.at_record(index))?;
        if next.codec() != 0 {
            return Err(alone.at_record(index));
        }
        append(builder, &next, next.offset, &next);
        index += 1;
    }
    Ok(Some(span.len()))
}

/// The messages of a compressed one, all of them looked at.
struct Inner<'a> {
    plain: &'a [u8],
    /// What is added to their offsets.
    base: i128,
    count: usize,
}

fn open_wrapper<'a>(wrapper: &'a Message, options: &Options, scratch: &'a mut Scratch) -> Result<Inner<'a>, Failure> {
    let Some(packed) = wrapper.value else {
        return Err(malformed("a compressed message has no value").at_record(0));
    };
    if wrapper.codec() > 3 {
        // zstd came with magic 2 (KIP-110).
        return Err(flaw(Kind::Codec, "a codec that magic 0 and 1 do not have").into());
    }
    let limit = batch_limit(packed.len(), options.max_batch_bytes);
    let plain = scratch.decompress(wrapper.codec(), packed, limit, wrapper.magic)?;
    // Two passes: relative offsets (KIP-31) count back from the last one.
    let (mut pos, mut count, mut last) = (0, 0, None);
    while pos < plain.len() {
        let inner = message(plain, &mut pos, options.check_crc).map_err(|flaw| flaw.at_record(count))?;
        if inner.codec() != 0 {
            return Err(flaw(Kind::Nested, "a compressed set inside a compressed set").at_record(count));
        }
        last = Some(inner.offset);
        count += 1;
    }
    let Some(last) = last else {
        return Err(flaw(Kind::Count, "a compressed set without messages").into());
    };
    let mut base = 0i128;
    if wrapper.magic == 1 && wrapper.offset != 0 {
        // 0 is what some releases of librdkafka produce for any number of messages; Java reads it so.
        base = i128::from(wrapper.offset) - i128::from(last);
        if base < 0 {
            return Err(malformed("a set ends behind its wrapper's offset").into());
        }
    }
    Ok(Inner { plain, base, count })
}

fn absolute(base: i128, relative: i64, index: usize) -> Result<i64, Failure> {
    i64::try_from(base + i128::from(relative)).map_err(|_| malformed("an offset does not fit 64 bits").at_record(index))
}

fn decode_wrapper(
    wrapper: &Message,
    options: &Options,
    builder: &mut Builder,
    room: usize,
    scratch: &mut Scratch,
) -> Result<Option<usize>, Failure> {
    let Inner { plain, base, count } = open_wrapper(wrapper, options, scratch)?;
    if count > options.max_span_rows {
        return Err(TOO_MANY.into());
    }
    if plain.len() > room {
        return Ok(None);
    }
    let (mut pos, mut index) = (0, 0);
    while pos < plain.len() {
        let inner = message(plain, &mut pos, false).map_err(|flaw| flaw.at_record(index))?;
        append(builder, &inner, absolute(base, inner.offset, index)?, wrapper);
        index += 1;
    }
    Ok(Some(plain.len()))
}

/// Cuts the messages of a compressed one into runs of at most `most`, which then stand for themselves.
pub fn cut(span: &[u8], options: &Options, most: usize, scratch: &mut Scratch) -> Result<Pieces, Failure> {
    let mut pos = 0;
    let wrapper = message(span, &mut pos, options.check_crc).map_err(|flaw| flaw.at_record(0))?;
    if wrapper.codec() == 0 || pos != span.len() {
        return Err(flaw(Kind::Argument, "only a compressed message can be cut").into());
    }
    let Inner { plain, base, .. } = open_wrapper(&wrapper, options, scratch)?;
    let size = plain.len();
    let mut data = scratch.space.take(size);
    let mut pieces = Pieces { data: Vec::new(), table: Vec::new() };
    let (mut pos, mut index, mut start, mut passed) = (0, 0, 0, i64::MIN);
    while pos < size {
        let at = pos;
        let inner = message(&data, &mut pos, false).map_err(|flaw| flaw.at_record(index))?;
        let (offset, magic) = (absolute(base, inner.offset, index)?, inner.magic);
        if index > 0 && index % most == 0 {
            pieces.add(start, at, passed);
            start = at;
        }
        stand_alone(&mut data[at..pos], offset, magic, &wrapper);
        passed = passed.max(offset.saturating_add(1));
        index += 1;
    }
    pieces.add(start, size, passed);
    pieces.data = data;
    Ok(pieces)
}

/// Gives an inner message its own offset, and the wrapper's time where that is the time of all.
fn stand_alone(message: &mut [u8], offset: i64, magic: u8, wrapper: &Message) {
    message[..8].copy_from_slice(&offset.to_be_bytes());
    if magic == 0 {
        return;
    }
    let attributes = &mut message[MAGIC_AT + 1];
    *attributes &= !APPEND_TIME;
    if wrapper.append_time() {
        *attributes |= APPEND_TIME;
        message[TIMESTAMP_AT..TIMESTAMP_AT + 8].copy_from_slice(&wrapper.timestamp.to_be_bytes());
    }
}

fn append(builder: &mut Builder, message: &Message, offset: i64, outer: &Message) {
    // LogAppendTime is set on the wrapper only; its timestamp is then that of all inner messages.
    if !builder.takes(offset) {
        return;
    }
    let (kind, timestamp) = if message.magic == 0 {
        (-1, message.timestamp)
    } else if outer.append_time() {
        (1, outer.timestamp)
    } else {
        (0, message.timestamp)
    };
    builder.push(offset, timestamp, kind, message.key, message.value);
    builder.end_headers();
}
