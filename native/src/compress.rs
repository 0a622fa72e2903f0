//! Bounded compression and decompression. What stands in a batch by codec, and why, is written at
//! the head of parley/kernel/reference/compress.py; the decisions here must equal those there.

use std::cell::RefCell;

use crate::gzip::{Inflated, Inflater};
use crate::limits::{flaw, Flaw, Kind, MAX_COLUMN_BYTES};
use crate::lz4;

const GZIP: u8 = 1;
const SNAPPY: u8 = 2;
const LZ4: u8 = 3;
const ZSTD: u8 = 4;

const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
const XERIAL_HEADER_BYTES: usize = 16;
const XERIAL_BLOCK_BYTES: usize = 32 * 1024;
const SNAPPY_MAX_RATIO: usize = 22; // a 3-byte copy element yields at most 64 bytes
const ZSTD_MAX_WINDOW: u64 = 1 << 27;
const FIRST_GUESS_BYTES: usize = 64 * 1024;
/// So far beyond the limit gzip and zstd are read for damage, which is what is reported then (contract.py, rule 6).
const DAMAGE_BYTES: usize = 128 * 1024;
/// A scratch buffer above this is given back after the call.
pub const KEEP_BYTES: usize = 8 * 1024 * 1024;

/// Frames of lz4 or members of gzip that one batch may have; producers write one.
pub const MAX_FRAMES: usize = 1024;
pub const TOO_MANY_FRAMES: Flaw = damaged("more than 1,024 frames or members");

pub const TOO_LARGE: Flaw = flaw(Kind::TooLarge, "decompresses beyond the limit");

pub const fn damaged(what: &'static str) -> Flaw {
    flaw(Kind::Compressed, what)
}

/// Reused contexts and memory of one thread; decompressed bytes live in it until the next call.
#[derive(Default)]
pub struct Scratch {
    pub space: Space,
    inflater: Option<Inflater>,
    zstd: Option<zstd_safe::DCtx<'static>>,
}

/// Memory that is zeroed once and then reused.
#[derive(Default)]
pub struct Space {
    bytes: Vec<u8>,
}

impl Space {
    /// Makes room for `size` bytes; what stood there may be lost.
    pub fn room(&mut self, size: usize) -> &mut [u8] {
        self.grow(size, 0, size)
    }

    /// Makes room for `size` bytes, keeping the first `keep`. Memory at least doubles, up to `most`, so that what is
    /// written piece by piece is copied a few times and not once per piece.
    pub fn grow(&mut self, size: usize, keep: usize, most: usize) -> &mut [u8] {
        if self.bytes.len() < size {
            // A fresh zeroed vector costs no page until it is written; resizing would write all.
            let mut grown = vec![0u8; self.bytes.len().saturating_mul(2).min(most).max(size)];
            grown[..keep].copy_from_slice(&self.bytes[..keep]);
            self.bytes = grown;
        }
        &mut self.bytes
    }

    /// Gives away the first `size` bytes with their memory.
    pub fn take(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(size);
        bytes
    }

    fn trim(&mut self) {
        if self.bytes.len() > KEEP_BYTES {
            self.bytes = Vec::new();
        }
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

/// Runs `work` with this thread's scratch; a nested call gets a fresh one.
pub fn with_scratch<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
    SCRATCH.with(|cell| match cell.try_borrow_mut() {
        Ok(mut scratch) => {
            let result = work(&mut scratch);
            scratch.space.trim();
            result
        }
        Err(_) => work(&mut Scratch::default()),
    })
}

impl Scratch {
    /// Returns the decompressed bytes: `packed` itself without a codec, else a part of the scratch.
    pub fn decompress<'a>(
        &'a mut self,
        codec: u8,
        packed: &'a [u8],
        max_bytes: usize,
        magic: u8,
    ) -> Result<&'a [u8], Flaw> {
        let max = max_bytes.min(MAX_COLUMN_BYTES);
        let size = match codec {
            0 => return Ok(packed),
            GZIP => self.gunzip(packed, max)?,
            SNAPPY => unsnap(&mut self.space, packed, max)?,
            LZ4 => lz4::decompress(&mut self.space, packed, max, magic)?,
            ZSTD => self.unzstd(packed, max)?,
            _ => return Err(flaw(Kind::Codec, "there is no such compression codec")),
        };
        Ok(&self.space.bytes[..size])
    }

    fn gunzip(&mut self, packed: &[u8], max: usize) -> Result<usize, Flaw> {
        let inflater = match &mut self.inflater {
            Some(inflater) => inflater,
            none => none.insert(Inflater::new().ok_or(damaged("no memory for gzip"))?),
        };
        let (mut rest, mut out, most) = (packed, 0, max + DAMAGE_BYTES);
        for _ in 0..MAX_FRAMES {
            // The last four bytes say the size of the last member, if they are to be believed.
            let says = rest.last_chunk::<4>().map_or(0, |raw| u32::from_le_bytes(*raw) as usize);
            let fair = rest.len().saturating_mul(8).max(FIRST_GUESS_BYTES);
            let mut guess = says.clamp(1, rest.len().saturating_mul(1040).max(1)).max(fair.min(1 << 20));
            let read = loop {
                let room = guess.min(most - out);
                let space = self.space.grow(out + room, out, most);
                match inflater.member(rest, &mut space[out..out + room]) {
                    Inflated::Done { read, written } => {
                        out += written;
                        break read;
                    }
                    Inflated::Full if room >= most - out => return Err(TOO_LARGE),
                    Inflated::Full => guess = room.saturating_mul(4),
                    Inflated::Damaged => return Err(damaged("damaged gzip data")),
                }
            };
            if out > max {
                return Err(TOO_LARGE);
            }
            rest = rest.get(read..).unwrap_or(&[]);
            if !rest.starts_with(b"\x1f\x8b") {
                return Ok(out);
            }
        }
        Err(TOO_MANY_FRAMES)
    }

    fn unzstd(&mut self, packed: &[u8], max: usize) -> Result<usize, Flaw> {
        if zstd_declared(packed) > max as u64 {
            return Err(TOO_LARGE);
        }
        // Looks at the headers of all frames and blocks.
        let bound = zstd_safe::decompress_bound(packed).map_err(|_| damaged("damaged zstd data"))?;
        if packed.is_empty() {
            return Err(damaged("no zstd data"));
        }
        let most = max + DAMAGE_BYTES;
        let room = usize::try_from(bound).unwrap_or(most).min(most);
        let context = self.zstd.get_or_insert_with(zstd_safe::DCtx::create);
        let space = self.space.room(room.max(1));
        match context.decompress(&mut space[..room], packed).map_err(zstd_safe::get_error_name) {
            Ok(size) if size > max => Err(TOO_LARGE),
            Ok(size) => Ok(size),
            // A frame that yields more than it says is damaged, however large it is.
            Err("Destination buffer is too small") if bound > room as u64 => Err(TOO_LARGE),
            Err(_) => Err(damaged("damaged zstd data")),
        }
    }
}

/// Returns the content size in the first frame's header, or a window beyond all bounds.
fn zstd_declared(raw: &[u8]) -> u64 {
    if raw.len() < 6 || !raw.starts_with(b"\x28\xb5\x2f\xfd") {
        return 0;
    }
    let descriptor = raw[4];
    let single_segment = descriptor & 0x20 != 0;
    let mut at = 5;
    if !single_segment {
        let (exponent, mantissa) = (u64::from(raw[at] >> 3), u64::from(raw[at] & 7));
        if (1u64 << (10 + exponent)) / 8 * (8 + mantissa) > ZSTD_MAX_WINDOW {
            return u64::MAX;
        }
        at += 1;
    }
    at += [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = [usize::from(single_segment), 2, 4, 8][usize::from(descriptor >> 6)];
    let Some(field) = raw.get(at..at + size) else {
        return 0;
    };
    let mut little = [0u8; 8];
    little[..size].copy_from_slice(field);
    let declared = u64::from_le_bytes(little);
    if size == 2 {
        declared + 256
    } else {
        declared
    }
}

fn unsnap(space: &mut Space, packed: &[u8], max: usize) -> Result<usize, Flaw> {
    if !packed.starts_with(XERIAL_MAGIC) {
        return unsnap_block(space, packed, 0, max);
    }
    let header_size = i32::from_be_bytes([0x82, b'S', b'N', b'A']);
    let (mut at, mut out) = (0, 0);
    while at < packed.len() {
        let Some(raw) = packed.get(at..at + 4) else {
            return Err(damaged("a snappy block size is cut off"));
        };
        let size = i32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]);
        if size == header_size {
            // Streams may be concatenated, each with its header.
            if packed.len() - at < XERIAL_HEADER_BYTES {
                return Err(damaged("a snappy stream header is cut off"));
            }
            at += XERIAL_HEADER_BYTES;
            continue;
        }
        at += 4;
        if size < 0 || size as usize > packed.len() - at {
            return Err(damaged("a snappy block does not fit"));
        }
        let end = at + size as usize;
        out = unsnap_block(space, &packed[at..end], out, max)?;
        at = end;
    }
    Ok(out)
}

/// Decompresses a raw block behind the first `out` bytes; returns where it ends.
fn unsnap_block(space: &mut Space, block: &[u8], out: usize, max: usize) -> Result<usize, Flaw> {
    // The announced length is checked before it is believed: a header may claim 4 GiB.
    let mut announced = 0u64;
    for at in 0.. {
        let Some(&byte) = block.get(at) else {
            return Err(damaged("a snappy length is cut off"));
        };
        announced |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            break;
        }
        if at == 4 {
            return Err(damaged("a snappy length is too long"));
        }
    }
    if announced > u64::from(u32::MAX) {
        return Err(damaged("a snappy length has more than 32 bits"));
    }
    let announced = announced as usize;
    if announced > max - out {
        return Err(TOO_LARGE);
    }
    if announced > block.len().saturating_mul(SNAPPY_MAX_RATIO) {
        return Err(damaged("a snappy length cannot be reached"));
    }
    let end = out + announced;
    let room = space.grow(end.max(FIRST_GUESS_BYTES), out, max);
    snap::raw::Decoder::new().decompress(block, &mut room[out..end]).map_err(|_| damaged("damaged snappy data"))?;
    Ok(end)
}

/// Returns the level to use; None is the codec's default (Java's).
fn level_of(codec: u8, level: Option<i32>) -> Result<i32, Flaw> {
    let (least, most, default) = match codec {
        GZIP => (1, 9, 6),
        LZ4 => (1, 17, 1),
        ZSTD => (-131_072, 22, 3),
        _ => return Ok(0),
    };
    let level = level.unwrap_or(default);
    if level < least || level > most {
        return Err(flaw(Kind::Argument, "the codec has no such compression level"));
    }
    Ok(level)
}

thread_local! {
    static PACKER: RefCell<Packer> = RefCell::new(Packer::default());
}

/// Contexts and memory of one thread for compressing: used again, for making them costs as much as a small batch.
#[derive(Default)]
struct Packer {
    space: Space,
    zstd: Option<zstd_safe::CCtx<'static>>,
    gzip: Option<(i32, libdeflater::Compressor)>,
}

/// Returns the compressed bytes behind `head` zeros, in memory of just their size.
pub fn packed(codec: u8, data: &[u8], level: Option<i32>, magic: u8, head: usize) -> Result<Vec<u8>, Flaw> {
    let level = level_of(codec, level)?;
    PACKER.with_borrow_mut(|packer| {
        let bytes = packer.pack(codec, data, level, magic)?;
        let mut out = Vec::with_capacity(head + bytes.len());
        out.resize(head, 0);
        out.extend_from_slice(bytes);
        packer.space.trim();
        Ok(out)
    })
}

impl Packer {
    fn pack<'a>(&'a mut self, codec: u8, data: &'a [u8], level: i32, magic: u8) -> Result<&'a [u8], Flaw> {
        const FAILED: Flaw = flaw(Kind::Argument, "the data cannot be compressed");
        let size = match codec {
            0 => return Ok(data),
            GZIP => {
                if self.gzip.as_ref().is_none_or(|(made_for, _)| *made_for != level) {
                    let number = libdeflater::CompressionLvl::new(level).map_err(|_| FAILED)?;
                    self.gzip = Some((level, libdeflater::Compressor::new(number)));
                }
                let (_, packer) = self.gzip.as_mut().ok_or(FAILED)?;
                let most = packer.gzip_compress_bound(data.len());
                packer.gzip_compress(data, &mut self.space.room(most)[..most]).map_err(|_| FAILED)?
            }
            SNAPPY => snap_blocks(&mut self.space, data)?,
            LZ4 => lz4::compress(&mut self.space, data, level, magic)?,
            ZSTD => {
                let most = zstd_safe::compress_bound(data.len());
                let context = self.zstd.get_or_insert_with(zstd_safe::CCtx::create);
                context.compress(&mut self.space.room(most)[..most], data, level).map_err(|_| FAILED)?
            }
            _ => return Err(flaw(Kind::Codec, "there is no such compression codec")),
        };
        Ok(&self.space.bytes[..size])
    }
}

/// Writes the blocks of Java's snappy stream; returns where they end.
fn snap_blocks(space: &mut Space, data: &[u8]) -> Result<usize, Flaw> {
    const FAILED: Flaw = flaw(Kind::Argument, "the data cannot be compressed");
    let block_most = 4 + snap::raw::max_compress_len(XERIAL_BLOCK_BYTES);
    let out = space.room(XERIAL_HEADER_BYTES + data.len().div_ceil(XERIAL_BLOCK_BYTES) * block_most);
    out[..8].copy_from_slice(XERIAL_MAGIC);
    out[8..12].copy_from_slice(&1i32.to_be_bytes());
    out[12..16].copy_from_slice(&1i32.to_be_bytes());
    let mut encoder = snap::raw::Encoder::new();
    let mut at = XERIAL_HEADER_BYTES;
    for block in data.chunks(XERIAL_BLOCK_BYTES) {
        let size = encoder.compress(block, &mut out[at + 4..]).map_err(|_| FAILED)?;
        out[at..at + 4].copy_from_slice(&(size as i32).to_be_bytes());
        at += 4 + size;
    }
    Ok(at)
}
