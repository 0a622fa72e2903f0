//! Growing columns in Arrow's layout.

use crate::limits::{flaw, Flaw, Kind, MAX_COLUMN_BYTES, MAX_SPAN_HEADERS, TOO_MANY};

pub const OFFSETS: u32 = 1;
pub const TIMESTAMPS: u32 = 2;
pub const TIMESTAMP_TYPES: u32 = 4;
pub const KEYS: u32 = 8;
pub const VALUES: u32 = 16;
pub const HEADERS: u32 = 32;

/// An end offset that leaves nothing out.
const NO_OFFSET_LIMIT: i64 = i64::MAX;

/// What to decode and within which limits (contract.py, DecodeOptions).
pub struct Options {
    pub first_offset: i64,
    pub end_offset: i64,
    pub want: u32,
    pub timestamp_scale: i64,
    pub check_crc: bool,
    pub max_rows: usize,
    pub max_bytes: usize,
    pub max_batch_bytes: usize,
    pub max_span_rows: usize,
}

const KEYS_TOO_LARGE: Flaw = flaw(Kind::TooLarge, "header keys beyond 2 GiB");

impl Options {
    /// Those of a decode that keeps nothing.
    pub fn counting() -> Self {
        Options {
            first_offset: 0,
            end_offset: 0,
            want: 0,
            timestamp_scale: 1,
            check_crc: false,
            max_rows: 0,
            max_bytes: 0,
            max_batch_bytes: 0,
            max_span_rows: 0,
        }
    }
}

/// A column of nullable byte strings.
pub struct VarColumn {
    pub offsets: Vec<i32>,
    pub data: Vec<u8>,
    /// A bit for each null, up to the last of them: a flood of nulls costs no more memory than its bitmap.
    nulls: Vec<u8>,
    null_count: usize,
}

impl VarColumn {
    pub fn new() -> Self {
        VarColumn { offsets: vec![0], data: Vec::new(), nulls: Vec::new(), null_count: 0 }
    }

    pub fn reserve(&mut self, rows: usize) {
        self.offsets.reserve(rows);
    }

    /// Adds one value. The caller has bounded the column's data to i32::MAX bytes.
    #[inline(always)]
    pub fn push(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.data.extend_from_slice(value),
            None => self.mark_null(),
        }
        self.offsets.push(self.data.len() as i32);
    }

    /// Notes that the next row is null.
    #[inline(always)]
    fn mark_null(&mut self) {
        let row = self.offsets.len() - 1;
        if row >> 3 >= self.nulls.len() {
            self.nulls.resize((row >> 3) + 1, 0);
        }
        self.nulls[row >> 3] |= 1 << (row & 7);
        self.null_count += 1;
    }

    /// Adds text with U+FFFD for what is no UTF-8: 3 bytes for as little as 1, but no more than `room`.
    #[inline(never)]
    fn push_replaced(&mut self, text: &[u8], room: usize) -> Result<(), Flaw> {
        let before = self.data.len();
        for chunk in text.utf8_chunks() {
            self.data.extend_from_slice(chunk.valid().as_bytes());
            if !chunk.invalid().is_empty() {
                self.data.extend_from_slice("\u{fffd}".as_bytes());
            }
            if self.data.len() - before > room {
                return Err(KEYS_TOO_LARGE);
            }
        }
        self.offsets.push(self.data.len() as i32);
        Ok(())
    }

    /// Makes room for `ratio` times what is there, as far as memory and the cap go.
    fn expect(&mut self, ratio: f64, cap: usize) {
        expect(&mut self.offsets, ratio, cap);
        expect(&mut self.data, ratio, cap);
    }

    fn shrink(&mut self) {
        shrink(&mut self.offsets);
        shrink(&mut self.data);
    }

    pub fn null_count(&self) -> usize {
        self.null_count
    }

    /// Returns whether a row is not null.
    pub fn has(&self, row: usize) -> bool {
        self.nulls.get(row >> 3).is_none_or(|byte| byte >> (row & 7) & 1 == 0)
    }

    /// Returns the validity bitmap, or None where nothing is null.
    pub fn validity(&self) -> Option<Vec<u8>> {
        if self.null_count == 0 {
            return None;
        }
        let rows = self.offsets.len() - 1;
        let mut bitmap = vec![0xffu8; rows.div_ceil(8)];
        if rows % 8 != 0 {
            let last = bitmap.len() - 1;
            bitmap[last] = (1u8 << (rows % 8)) - 1;
        }
        for (byte, nulls) in bitmap.iter_mut().zip(&self.nulls) {
            *byte &= !nulls;
        }
        Some(bitmap)
    }
}

/// A guess must not cost more than this, however large the first batch was.
const EXPECT_BYTES: usize = 64 * 1024 * 1024;

fn expect<T>(column: &mut Vec<T>, ratio: f64, cap: usize) {
    let wanted = (column.len() as f64 * ratio) as usize;
    let most = cap.min(EXPECT_BYTES) / size_of::<T>();
    let more = wanted.min(most).saturating_sub(column.len());
    // A guess that finds no memory is no failure: the column then grows as it is filled.
    let _ = column.try_reserve(more);
}

/// Gives back what was guessed too much: the buffers outlive the call by long.
fn shrink<T>(column: &mut Vec<T>) {
    if column.capacity() > column.len() + column.len() / 8 {
        column.shrink_to_fit();
    }
}

/// Headers of all rows: offsets into the columns of keys and values.
pub struct HeadersColumn {
    pub offsets: Vec<i32>,
    pub keys: VarColumn,
    pub values: VarColumn,
    /// How many headers there may be when the span is done.
    most: usize,
}

/// The columns that a decode fills; those not wanted stay None.
pub struct Builder {
    pub rows: usize,
    pub first_offset: i64,
    pub end_offset: i64,
    pub scale: i64,
    pub offsets: Option<Vec<i64>>,
    pub timestamps: Option<Vec<i64>>,
    pub types: Option<Vec<i32>>,
    pub key: Option<VarColumn>,
    pub value: Option<VarColumn>,
    pub headers: Option<HeadersColumn>,
}

impl Builder {
    pub fn new(options: &Options) -> Self {
        let wanted = |flag: u32| options.want & flag != 0;
        Builder {
            rows: 0,
            first_offset: options.first_offset,
            end_offset: options.end_offset,
            scale: options.timestamp_scale,
            offsets: wanted(OFFSETS).then(Vec::new),
            timestamps: wanted(TIMESTAMPS).then(Vec::new),
            types: wanted(TIMESTAMP_TYPES).then(Vec::new),
            key: wanted(KEYS).then(VarColumn::new),
            value: wanted(VALUES).then(VarColumn::new),
            headers: wanted(HEADERS).then(|| HeadersColumn {
                offsets: vec![0],
                keys: VarColumn::new(),
                values: VarColumn::new(),
                most: 0,
            }),
        }
    }

    /// Makes ready for another span; returns whether the headers leave room for one.
    pub fn begin_span(&mut self) -> bool {
        let Some(column) = &mut self.headers else { return true };
        let count = column.count();
        column.most = count + MAX_SPAN_HEADERS;
        count < MAX_SPAN_HEADERS
    }

    pub fn reserve(&mut self, rows: usize) {
        if let Some(v) = &mut self.offsets {
            v.reserve(rows);
        }
        if let Some(v) = &mut self.timestamps {
            v.reserve(rows);
        }
        if let Some(v) = &mut self.types {
            v.reserve(rows);
        }
        if let Some(v) = &mut self.key {
            v.reserve(rows);
        }
        if let Some(v) = &mut self.value {
            v.reserve(rows);
        }
        if let Some(v) = &mut self.headers {
            v.offsets.reserve(rows);
        }
    }

    /// Makes room for all spans once the first is done and shows how many bytes become how many.
    pub fn expect(&mut self, ratio: f64, max_bytes: usize) {
        let ratio = ratio * 1.05;
        let cap = max_bytes.saturating_add(max_bytes / 8);
        for column in [&mut self.offsets, &mut self.timestamps].into_iter().flatten() {
            expect(column, ratio, cap);
        }
        if let Some(column) = &mut self.types {
            expect(column, ratio, cap);
        }
        for column in [&mut self.key, &mut self.value].into_iter().flatten() {
            column.expect(ratio, cap);
        }
        if let Some(column) = &mut self.headers {
            expect(&mut column.offsets, ratio, cap);
            column.keys.expect(ratio, cap);
            column.values.expect(ratio, cap);
        }
    }

    pub fn shrink(&mut self) {
        for column in [&mut self.offsets, &mut self.timestamps].into_iter().flatten() {
            shrink(column);
        }
        if let Some(column) = &mut self.types {
            shrink(column);
        }
        for column in [&mut self.key, &mut self.value].into_iter().flatten() {
            column.shrink();
        }
        if let Some(column) = &mut self.headers {
            shrink(&mut column.offsets);
            column.keys.shrink();
            column.values.shrink();
        }
    }

    #[inline(always)]
    pub fn takes(&self, offset: i64) -> bool {
        self.first_offset <= offset && (offset < self.end_offset || self.end_offset == NO_OFFSET_LIMIT)
    }

    /// Adds one record but for its headers, which `push_header` and `end_headers` add.
    #[inline(always)]
    pub fn push(
        &mut self,
        offset: i64,
        timestamp_ms: i64,
        timestamp_type: i32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) {
        self.rows += 1;
        if let Some(v) = &mut self.offsets {
            v.push(offset);
        }
        if let Some(v) = &mut self.timestamps {
            v.push(timestamp_ms.saturating_mul(self.scale));
        }
        if let Some(v) = &mut self.types {
            v.push(timestamp_type);
        }
        if let Some(v) = &mut self.key {
            v.push(key);
        }
        if let Some(v) = &mut self.value {
            v.push(value);
        }
    }

    pub fn end_headers(&mut self) {
        if let Some(v) = &mut self.headers {
            v.offsets.push(v.count() as i32);
        }
    }
}

impl HeadersColumn {
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.keys.offsets.len() - 1
    }

    /// Refuses so many more headers in a span that would have too many.
    #[inline(always)]
    pub fn admit(&self, more: usize) -> Result<(), Flaw> {
        if more > self.most.saturating_sub(self.count()) {
            return Err(TOO_MANY);
        }
        Ok(())
    }

    /// Makes room for so many more headers, which were admitted.
    #[inline(always)]
    pub fn reserve(&mut self, more: usize) {
        self.keys.reserve(more);
        self.values.reserve(more);
    }

    /// Adds one header; malformed UTF-8 in its key is replaced, as Java does.
    #[inline(always)]
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Flaw> {
        let room = MAX_COLUMN_BYTES - self.keys.data.len();
        if key.is_empty() || std::str::from_utf8(key).is_ok() {
            // What was replaced before has made the column larger than its source.
            if key.len() > room {
                return Err(KEYS_TOO_LARGE);
            }
            self.keys.push(Some(key));
        } else {
            self.keys.push_replaced(key, room)?;
        }
        self.values.push(value);
        Ok(())
    }
}
