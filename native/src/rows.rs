//! Columns of what Python holds as lists, one object for each row.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::columns::VarColumn;
use crate::limits::{flaw, Failure, Kind, MAX_COLUMN_BYTES};

/// Returns the column of a list of bytes and None. The interpreter stays attached: nothing may change the list.
pub fn column(values: &Bound<'_, PyList>) -> Result<VarColumn, Failure> {
    let mut made = VarColumn::new();
    made.reserve(values.len());
    for (row, value) in values.iter().enumerate() {
        if let Ok(bytes) = value.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            if bytes.len() > MAX_COLUMN_BYTES - made.data.len() {
                return Err(flaw(Kind::TooLarge, "a column beyond 2 GiB").at_record(row));
            }
            if row == 0 {
                // Rows are mostly of one size; a column that grows is copied each time.
                let guess = bytes.len().saturating_mul(values.len()).min(GUESS_BYTES);
                let _ = made.data.try_reserve(guess);
            }
            made.push(Some(bytes));
        } else if value.is_none() {
            made.push(None);
        } else {
            return Err(flaw(Kind::Argument, "a value that is neither bytes nor None").at_record(row));
        }
    }
    Ok(made)
}

/// A guess must not cost more than this.
const GUESS_BYTES: usize = 16 * 1024 * 1024;
