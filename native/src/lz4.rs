//! LZ4 frames: Java's subset is written, the whole format is read.
//!
//!     magic 04 22 4d 18 | flags | block size | content size u64? | dictionary u32? | header checksum
//!     { size u32, top bit: stored | block | checksum u32? }* | 0 u32 | content checksum u32?
//!
//! KIP-57: Kafka before 0.10 (magic 0) took the header checksum over the frame's magic, too.

use xxhash_rust::xxh32::xxh32;

use crate::compress::{damaged, Space, MAX_FRAMES, TOO_LARGE, TOO_MANY_FRAMES};
use crate::limits::{flaw, Flaw, Kind};

const MAGIC: u32 = 0x184d_2204;
const SKIPPABLE: u32 = 0x184d_2a50; // and the 15 numbers behind it
const STORED: u32 = 0x8000_0000;
const HISTORY_BYTES: usize = 64 * 1024;

const FLAGS: u8 = 0x60; // version 1, independent blocks: all that Java's reader takes
const BLOCK_64K: u8 = 0x40;
const FRAME_HEADER_BYTES: usize = 7;
const BLOCK_BYTES: usize = 64 * 1024;

fn u32_at(data: &[u8], at: usize) -> Result<u32, Flaw> {
    let raw = data.get(at..at + 4).ok_or(damaged("an lz4 frame is cut off"))?;
    Ok(u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]))
}

fn header_byte(data: &[u8]) -> u8 {
    (xxh32(data, 0) >> 8) as u8
}

struct Frame {
    blocks_at: usize,
    block_bytes: usize,
    linked: bool,
    block_checksum: bool,
    content_checksum: bool,
    content_size: Option<u64>,
}

fn header(packed: &[u8], start: usize, magic: u8) -> Result<Frame, Flaw> {
    let frame = &packed[start..];
    if frame.len() < 7 {
        return Err(damaged("an lz4 frame header is cut off"));
    }
    let (flags, block) = (frame[4], frame[5]);
    if flags >> 6 != 1 || flags & 0x02 != 0 || block & 0x8f != 0 || block >> 4 < 4 {
        return Err(damaged("an lz4 frame header has unknown bits"));
    }
    let mut end = 6;
    let mut content_size = None;
    if flags & 0x08 != 0 {
        let low = u64::from(u32_at(frame, end)?);
        content_size = Some(low | u64::from(u32_at(frame, end + 4)?) << 32);
        end += 8;
    }
    if flags & 0x01 != 0 {
        end += 4;
    }
    let says = *frame.get(end).ok_or(damaged("an lz4 frame header is cut off"))?;
    if says != header_byte(&frame[4..end]) && (magic > 1 || says != header_byte(&frame[..end])) {
        return Err(damaged("the lz4 frame header's checksum does not match"));
    }
    Ok(Frame {
        blocks_at: start + end + 1,
        block_bytes: 1 << (8 + 2 * (block >> 4)),
        linked: flags & 0x20 == 0,
        block_checksum: flags & 0x10 != 0,
        content_checksum: flags & 0x04 != 0,
        content_size,
    })
}

/// Decompresses all frames into `space`; returns their size.
pub fn decompress(space: &mut Space, packed: &[u8], max: usize, magic: u8) -> Result<usize, Flaw> {
    if packed.is_empty() {
        return Err(damaged("no lz4 data"));
    }
    let (mut at, mut out, mut frames) = (0, 0, 0);
    while at < packed.len() {
        frames += 1;
        if frames > MAX_FRAMES {
            return Err(TOO_MANY_FRAMES);
        }
        let number = u32_at(packed, at)?;
        if number & 0xffff_fff0 == SKIPPABLE {
            let size = u32_at(packed, at + 4)? as usize;
            at = at.saturating_add(8).saturating_add(size);
            if at > packed.len() {
                return Err(damaged("a skippable lz4 frame is cut off"));
            }
        } else if number == MAGIC {
            let frame = header(packed, at, magic)?;
            (at, out) = blocks(space, packed, &frame, out, max)?;
        } else {
            return Err(damaged("bytes that are no lz4 frame"));
        }
    }
    Ok(out)
}

/// Returns how many bytes the blocks from `at` on can hold at most, as their number says.
fn upper_bound(packed: &[u8], frame: &Frame) -> usize {
    let (mut at, mut bound) = (frame.blocks_at, 0usize);
    let trailer = if frame.block_checksum { 4 } else { 0 };
    while let Ok(size) = u32_at(packed, at) {
        if size == 0 {
            break;
        }
        bound = bound.saturating_add(frame.block_bytes);
        at = at.saturating_add(4 + trailer + (size & !STORED) as usize);
    }
    bound
}

fn blocks(space: &mut Space, packed: &[u8], frame: &Frame, start: usize, max: usize) -> Result<(usize, usize), Flaw> {
    // One block of slack: a block is decompressed whole before its size is compared with the limit.
    let most = upper_bound(packed, frame).min(max - start) + frame.block_bytes;
    let bytes = space.grow(start + most, start, max + frame.block_bytes);
    let (mut at, mut out) = (frame.blocks_at, start);
    loop {
        let size = u32_at(packed, at)?;
        at += 4;
        if size == 0 {
            break;
        }
        let length = (size & !STORED) as usize;
        if length > frame.block_bytes {
            return Err(damaged("an lz4 block is larger than its frame allows"));
        }
        let block = packed.get(at..at + length).ok_or(damaged("an lz4 block is cut off"))?;
        at += length;
        if frame.block_checksum {
            if u32_at(packed, at)? != xxh32(block, 0) {
                return Err(damaged("an lz4 block's checksum does not match"));
            }
            at += 4;
        }
        let (before, after) = bytes.split_at_mut(out);
        let room = &mut after[..frame.block_bytes];
        out += if size & STORED != 0 {
            room[..length].copy_from_slice(block);
            length
        } else if frame.linked {
            let history = &before[start.max(out.saturating_sub(HISTORY_BYTES))..];
            lzzzz::lz4::decompress_with_dict(block, room, history).map_err(|_| damaged("damaged lz4 data"))?
        } else {
            lzzzz::lz4::decompress(block, room).map_err(|_| damaged("damaged lz4 data"))?
        };
        if out > max {
            return Err(TOO_LARGE);
        }
    }
    if frame.content_size.is_some_and(|says| says != (out - start) as u64) {
        return Err(damaged("an lz4 frame's content size is not true"));
    }
    if frame.content_checksum {
        if u32_at(packed, at)? != xxh32(&bytes[start..out], 0) {
            return Err(damaged("an lz4 frame's checksum does not match"));
        }
        at += 4;
    }
    Ok((at, out))
}

/// Writes one frame; returns where it ends. Level 1 is the fast compressor, above it the high-compression one.
pub fn compress(space: &mut Space, data: &[u8], level: i32, magic: u8) -> Result<usize, Flaw> {
    const FAILED: Flaw = flaw(Kind::Argument, "the data cannot be compressed");
    let block_most = 4 + lzzzz::lz4::max_compressed_size(BLOCK_BYTES);
    let out = space.room(FRAME_HEADER_BYTES + data.len().div_ceil(BLOCK_BYTES) * block_most + 4);
    out[..4].copy_from_slice(&MAGIC.to_le_bytes());
    out[4..6].copy_from_slice(&[FLAGS, BLOCK_64K]);
    out[6] = header_byte(&out[if magic == 0 { 0 } else { 4 }..6]);
    let mut at = FRAME_HEADER_BYTES;
    for plain in data.chunks(BLOCK_BYTES) {
        let room = &mut out[at + 4..at + block_most];
        let size = if level > 1 {
            lzzzz::lz4_hc::compress(plain, room, level)
        } else {
            lzzzz::lz4::compress(plain, room, lzzzz::lz4::ACC_LEVEL_DEFAULT)
        }
        .map_err(|_| FAILED)?;
        let (says, length) = if size < plain.len() {
            (size as u32, size)
        } else {
            room[..plain.len()].copy_from_slice(plain);
            (plain.len() as u32 | STORED, plain.len())
        };
        out[at..at + 4].copy_from_slice(&says.to_le_bytes());
        at += 4 + length;
    }
    out[at..at + 4].copy_from_slice(&[0; 4]);
    Ok(at + 4)
}
