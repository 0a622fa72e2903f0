//! Growing columns in Arrow's layout.

use crate::limits::Flaw;

pub const OFFSETS: u32 = 1;
pub const TIMESTAMPS: u32 = 2;
pub const TIMESTAMP_TYPES: u32 = 4;
pub const KEYS: u32 = 8;
pub const VALUES: u32 = 16;
pub const HEADERS: u32 = 32;

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
}

/// A column of nullable byte strings.
pub struct VarColumn {
    pub offsets: Vec<i32>,
    pub data: Vec<u8>,
    nulls: Vec<u32>,
}

impl VarColumn {
    pub fn new() -> Self {
        VarColumn { offsets: vec![0], data: Vec::new(), nulls: Vec::new() }
    }

    pub fn reserve(&mut self, rows: usize) {
        self.offsets.reserve(rows);
    }

    /// Adds one value. The caller has bounded the column's data to i32::MAX bytes.
    #[inline(always)]
    pub fn push(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.data.extend_from_slice(value),
            None => self.nulls.push((self.offsets.len() - 1) as u32),
        }
        self.offsets.push(self.data.len() as i32);
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
        self.nulls.len()
    }

    /// Returns the validity bitmap, or None where nothing is null.
    pub fn validity(&self) -> Option<Vec<u8>> {
        if self.nulls.is_empty() {
            return None;
        }
        let rows = self.offsets.len() - 1;
        let mut bitmap = vec![0xffu8; rows.div_ceil(8)];
        if rows % 8 != 0 {
            let last = bitmap.len() - 1;
            bitmap[last] = (1u8 << (rows % 8)) - 1;
        }
        for row in &self.nulls {
            bitmap[(*row >> 3) as usize] &= !(1u8 << (*row & 7));
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
            }),
        }
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
        self.first_offset <= offset && offset < self.end_offset
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
            v.offsets.push((v.keys.offsets.len() - 1) as i32);
        }
    }
}

impl HeadersColumn {
    /// Adds one header; malformed UTF-8 in its key is replaced, as Java does.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Flaw> {
        match std::str::from_utf8(key) {
            Ok(_) => self.keys.push(Some(key)),
            Err(_) => {
                // A replacement is 3 bytes for as little as 1: the column may outgrow its source.
                let mended = String::from_utf8_lossy(key);
                if self.keys.data.len() + mended.len() > crate::limits::MAX_COLUMN_BYTES {
                    return Err(crate::limits::flaw(crate::limits::Kind::TooLarge, "header keys beyond 2 GiB"));
                }
                self.keys.push(Some(mended.as_bytes()));
            }
        }
        self.values.push(value);
        Ok(())
    }
}
