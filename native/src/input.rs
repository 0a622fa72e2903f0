//! The columns that Python holds, read row by row.

use crate::buffers::{bytes_of, View};
use crate::columns::VarColumn;
use crate::encode::Options;
use crate::limits::{flaw, Flaw, Kind};

const fn argument(what: &'static str) -> Flaw {
    flaw(Kind::Argument, what)
}

const NO_ROW: Flaw = argument("a column has no such row");

/// A column of nullable byte strings that Python holds.
pub struct VarInput {
    pub validity: Option<View>,
    pub offsets: View,
    pub data: View,
    pub bit_offset: usize,
}

impl VarInput {
    pub fn rows(&self) -> usize {
        (self.offsets.bytes().len() / 4).saturating_sub(1)
    }

    pub fn var(&self) -> Var<'_> {
        Var {
            validity: self.validity.as_ref().map(View::bytes),
            offsets: self.offsets.bytes(),
            data: self.data.bytes(),
            bit_offset: self.bit_offset,
        }
    }
}

/// The same as plain slices: the views' lengths and addresses are looked up once, not for every row.
#[derive(Clone, Copy)]
pub struct Var<'a> {
    validity: Option<&'a [u8]>,
    offsets: &'a [u8],
    data: &'a [u8],
    bit_offset: usize,
}

impl<'a> Var<'a> {
    #[inline(always)]
    pub fn get(&self, row: usize) -> Result<Option<&'a [u8]>, Flaw> {
        if let Some(validity) = self.validity {
            let bit = row + self.bit_offset;
            let byte = *validity.get(bit >> 3).ok_or(NO_ROW)?;
            if byte >> (bit & 7) & 1 == 0 {
                return Ok(None);
            }
        }
        let (start, end) = pair(self.offsets, row)?;
        if start < 0 || end < start {
            return Err(argument("a column's offsets are out of order"));
        }
        self.data.get(start as usize..end as usize).map(Some).ok_or(NO_ROW)
    }

    /// Returns how many bytes the rows have together.
    fn bytes(&self) -> usize {
        let rows = (self.offsets.len() / 4).saturating_sub(1);
        let (first, last) = (int32(self.offsets, 0).unwrap_or(0), int32(self.offsets, rows).unwrap_or(0));
        usize::try_from(i64::from(last) - i64::from(first)).unwrap_or(0).min(self.data.len())
    }

    /// Has the memory of a row on its way before it is read.
    #[inline(always)]
    fn prefetch(&self, row: usize) {
        let Ok((start, end)) = pair(self.offsets, row) else { return };
        let (start, end) = (start.max(0) as usize, end.max(0) as usize);
        if let Some(bytes) = self.data.get(start..end.min(start + PREFETCH_BYTES)) {
            for line in bytes.chunks(64) {
                prefetch(line.as_ptr());
            }
            if let Some(last) = bytes.last() {
                prefetch(last); // rows do not begin where lines of the cache do
            }
        }
    }
}

/// Of a long row the processor fetches the rest by itself.
const PREFETCH_BYTES: usize = 256;

/// So many rows ahead: as long as it takes to write about as many.
const PREFETCH_ROWS: usize = 12;

/// What a record takes beside its key and value, mostly.
const RECORD_OVERHEAD: usize = 10;

#[inline(always)]
fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that reads nothing; every x86-64 processor has it.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[inline(always)]
fn int32(raw: &[u8], at: usize) -> Option<i32> {
    let start = at.checked_mul(4)?;
    Some(i32::from_le_bytes(raw.get(start..start.checked_add(4)?)?.try_into().ok()?))
}

#[inline(always)]
fn int64(raw: &[u8], at: usize) -> Option<i64> {
    let start = at.checked_mul(8)?;
    Some(i64::from_le_bytes(raw.get(start..start.checked_add(8)?)?.try_into().ok()?))
}

/// Returns where a row begins and ends.
#[inline(always)]
fn pair(offsets: &[u8], row: usize) -> Result<(i32, i32), Flaw> {
    let start = row.checked_mul(4).ok_or(NO_ROW)?;
    let raw: &[u8; 8] = offsets.get(start..).and_then(<[u8]>::first_chunk).ok_or(NO_ROW)?;
    let both = u64::from_le_bytes(*raw);
    Ok((both as i32, (both >> 32) as i32))
}

pub struct HeadersInput {
    pub offsets: View,
    pub keys: VarInput,
    pub values: VarInput,
}

/// Headers as plain slices.
#[derive(Clone, Copy)]
pub struct Headers<'a> {
    offsets: &'a [u8],
    pub keys: Var<'a>,
    pub values: Var<'a>,
}

/// The columns to encode and which of their rows.
pub struct Input {
    pub rows: usize,
    pub offsets: Option<View>,
    pub timestamps: Option<View>,
    pub key: Option<VarInput>,
    pub value: Option<VarInput>,
    pub headers: Option<HeadersInput>,
    pub selection: Option<View>,
}

/// One record to write.
pub struct Row<'a> {
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    /// From and to, in the columns of header keys and values.
    pub headers: (usize, usize),
}

impl Input {
    /// Returns rows that have nothing but a key.
    pub fn of_keys(key: VarInput) -> Input {
        Input {
            rows: key.rows(),
            offsets: None,
            timestamps: None,
            key: Some(key),
            value: None,
            headers: None,
            selection: None,
        }
    }

    fn selected(&self) -> usize {
        self.selection.as_ref().map_or(self.rows, |view| view.bytes().len() / 4)
    }

    pub fn source(&self) -> Source<'_> {
        Source {
            rows: self.rows,
            selected: self.selected(),
            offsets: self.offsets.as_ref().map(View::bytes),
            timestamps: self.timestamps.as_ref().map(View::bytes),
            key: self.key.as_ref().map(VarInput::var),
            value: self.value.as_ref().map(VarInput::var),
            headers: self.headers.as_ref().map(|column| Headers {
                offsets: column.offsets.bytes(),
                keys: column.keys.var(),
                values: column.values.var(),
            }),
            selection: self.selection.as_ref().map(View::bytes),
        }
    }
}

/// The columns to encode as plain slices.
pub struct Source<'a> {
    rows: usize,
    pub selected: usize,
    offsets: Option<&'a [u8]>,
    timestamps: Option<&'a [u8]>,
    key: Option<Var<'a>>,
    value: Option<Var<'a>>,
    pub headers: Option<Headers<'a>>,
    selection: Option<&'a [u8]>,
}

impl<'a> Var<'a> {
    /// Returns a column of our own; `validity` is its bitmap, where it has nulls.
    pub fn of_column(column: &'a VarColumn, validity: Option<&'a [u8]>) -> Self {
        Var { validity, offsets: bytes_of(&column.offsets), data: &column.data, bit_offset: 0 }
    }
}

impl<'a> Headers<'a> {
    /// Returns headers of our own; `validity` is that of their values.
    pub fn of_columns(ends: &'a [i32], keys: &'a VarColumn, values: &'a VarColumn, validity: Option<&'a [u8]>) -> Self {
        Headers { offsets: bytes_of(ends), keys: Var::of_column(keys, None), values: Var::of_column(values, validity) }
    }
}

impl<'a> Source<'a> {
    /// Returns rows of our own, all of them or those of a selection.
    pub fn of_columns(
        timestamps: &'a [i64],
        key: Option<Var<'a>>,
        value: Option<Var<'a>>,
        headers: Option<Headers<'a>>,
        selection: Option<&'a [i32]>,
    ) -> Self {
        Source {
            rows: timestamps.len(),
            selected: selection.map_or(timestamps.len(), <[i32]>::len),
            offsets: None,
            timestamps: Some(bytes_of(timestamps)),
            key,
            value,
            headers,
            selection: selection.map(bytes_of),
        }
    }

    /// Returns the key of the row at a position.
    #[inline(always)]
    pub fn key_at(&self, at: usize) -> Result<Option<&'a [u8]>, Flaw> {
        let row = self.row_index(at)?;
        self.key.as_ref().map_or(Ok(None), |column| column.get(row))
    }

    #[inline(always)]
    fn row_index(&self, at: usize) -> Result<usize, Flaw> {
        let row = match self.selection {
            None => at,
            Some(selection) => {
                usize::try_from(int32(selection, at).ok_or(NO_ROW)?).map_err(|_| argument("a negative row"))?
            }
        };
        if row >= self.rows {
            return Err(NO_ROW);
        }
        Ok(row)
    }

    /// Returns about how many bytes the records from position `start` on take.
    pub fn expected_bytes(&self, start: usize) -> usize {
        let data: usize = [&self.key, &self.value].into_iter().flatten().map(Var::bytes).sum();
        let each = data / self.rows.max(1) + RECORD_OVERHEAD;
        (self.selected - start).saturating_mul(each + each / 16)
    }

    /// Has a row that comes soon on its way from memory. Rows in their order need no such help.
    #[inline(always)]
    pub fn look_ahead(&self, at: usize) {
        let Some(row) = self.selection.and_then(|selection| int32(selection, at + PREFETCH_ROWS)) else { return };
        for column in [&self.key, &self.value].into_iter().flatten() {
            column.prefetch(row.max(0) as usize);
        }
    }

    /// Returns from and to, in the columns of header keys and values.
    #[inline(always)]
    fn headers_of(&self, row: usize) -> Result<(usize, usize), Flaw> {
        let Some(column) = &self.headers else { return Ok((0, 0)) };
        let (from, to) = pair(column.offsets, row)?;
        if from < 0 || to < from {
            return Err(argument("the headers' offsets are out of order"));
        }
        Ok((from as usize, to as usize))
    }

    /// Returns the row at a position, and whether its time stands in the columns; its offset is left out.
    #[inline(always)]
    pub fn content(&self, at: usize) -> Result<(Row<'a>, bool), Flaw> {
        let row = self.row_index(at)?;
        let timestamp = self.timestamps.map(|timestamps| int64(timestamps, row).ok_or(NO_ROW)).transpose()?;
        let content = Row {
            offset: -1,
            timestamp: timestamp.unwrap_or(-1),
            key: self.key.as_ref().map_or(Ok(None), |column| column.get(row))?,
            value: self.value.as_ref().map_or(Ok(None), |column| column.get(row))?,
            headers: self.headers_of(row)?,
        };
        Ok((content, timestamp.is_some()))
    }

    #[inline(always)]
    pub fn row(&self, at: usize, start: usize, options: &Options) -> Result<Row<'a>, Flaw> {
        let row = self.row_index(at)?;
        let headers = self.headers_of(row)?;
        Ok(Row {
            offset: match self.offsets {
                None => options.base_offset.wrapping_add((at - start) as i64),
                Some(offsets) => int64(offsets, row).ok_or(NO_ROW)?,
            },
            timestamp: match self.timestamps {
                None => options.timestamp_ms,
                Some(timestamps) => int64(timestamps, row).ok_or(NO_ROW)?,
            },
            key: self.key.as_ref().map_or(Ok(None), |column| column.get(row))?,
            value: self.value.as_ref().map_or(Ok(None), |column| column.get(row))?,
            headers,
        })
    }
}
