//! The columns that Python holds, read row by row.

use crate::buffers::View;
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

    #[inline(always)]
    pub fn get(&self, row: usize) -> Result<Option<&[u8]>, Flaw> {
        if let Some(validity) = &self.validity {
            let bit = row + self.bit_offset;
            let byte = *validity.bytes().get(bit >> 3).ok_or(NO_ROW)?;
            if byte >> (bit & 7) & 1 == 0 {
                return Ok(None);
            }
        }
        let start = self.offsets.int32(row).ok_or(NO_ROW)?;
        let end = self.offsets.int32(row + 1).ok_or(NO_ROW)?;
        if start < 0 || end < start {
            return Err(argument("a column's offsets are out of order"));
        }
        self.data.bytes().get(start as usize..end as usize).map(Some).ok_or(NO_ROW)
    }
}

pub struct HeadersInput {
    pub offsets: View,
    pub keys: VarInput,
    pub values: VarInput,
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
    pub fn selected(&self) -> usize {
        self.selection.as_ref().map_or(self.rows, |view| view.bytes().len() / 4)
    }

    pub fn row_index(&self, at: usize) -> Result<usize, Flaw> {
        let row = match &self.selection {
            None => at,
            Some(selection) => {
                usize::try_from(selection.int32(at).ok_or(NO_ROW)?).map_err(|_| argument("a negative row"))?
            }
        };
        if row >= self.rows {
            return Err(NO_ROW);
        }
        Ok(row)
    }

    #[inline(always)]
    pub fn row(&self, at: usize, start: usize, options: &Options) -> Result<Row<'_>, Flaw> {
        let row = self.row_index(at)?;
        let headers = match &self.headers {
            None => (0, 0),
            Some(column) => {
                let from = column.offsets.int32(row).ok_or(NO_ROW)?;
                let to = column.offsets.int32(row + 1).ok_or(NO_ROW)?;
                if from < 0 || to < from {
                    return Err(argument("the headers' offsets are out of order"));
                }
                (from as usize, to as usize)
            }
        };
        Ok(Row {
            offset: match &self.offsets {
                None => options.base_offset.wrapping_add((at - start) as i64),
                Some(offsets) => offsets.int64(row).ok_or(NO_ROW)?,
            },
            timestamp: match &self.timestamps {
                None => options.timestamp_ms,
                Some(timestamps) => timestamps.int64(row).ok_or(NO_ROW)?,
            },
            key: self.key.as_ref().map_or(Ok(None), |column| column.get(row))?,
            value: self.value.as_ref().map_or(Ok(None), |column| column.get(row))?,
            headers,
        })
    }
}
