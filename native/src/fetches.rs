//! What many fetches hold, in one call: a consumer of thousands of topics gets little of each.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::args::{held, DecodeArg};
use crate::buffers::{bytes_of, View};
use crate::columns::{Builder, Options};
use crate::compress::{with_scratch, Scratch};
use crate::cursor::{Place, RecordCursor};
use crate::scan;

/// Bytes of one partition, the position to read from, and where they are from.
type Fetch<'py> = (View, i64, Place<'py>);

/// Returns the records from the position on, and the position after them; None where a reader has to look closer.
fn read(data: &[u8], position: i64, options: &Options, scratch: &mut Scratch) -> Option<(Builder, i64)> {
    let wanted = scan::Options { position, end_offset: i64::MAX, max_epochs: usize::MAX, aborted: &[] };
    let found = scan::scan(data, 0, &wanted, scratch);
    if found.table.is_empty() {
        return None;
    }
    let (mut builder, done) = crate::decode_spans(data, bytes_of(&found.table), options, scratch).ok()?;
    if builder.rows == 0 {
        return None;
    }
    builder.shrink();
    let all = done * scan::SPAN_FIELDS == found.table.len();
    let after = if all { found.next_offset } else { found.table[done * scan::SPAN_FIELDS - 2] };
    Some((builder, after))
}

/// Returns the first records of each fetch, None for those that have to be decoded step by step. It ends with the
/// fetch that fills `max_rows` of all together.
#[pyfunction]
pub fn first_records(
    py: Python<'_>,
    fetches: Vec<Fetch<'_>>,
    options: DecodeArg,
) -> PyResult<Vec<Option<RecordCursor>>> {
    let options = options.into_options();
    let given: Vec<(&View, i64)> = fetches.iter().map(|(data, position, ..)| (data, *position)).collect();
    let found = crate::detached(py, || {
        let (mut found, mut rows) = (Vec::with_capacity(given.len()), 0);
        with_scratch(|scratch| {
            for (data, position) in given {
                let options = Options { first_offset: position, ..options };
                let made = read(data.bytes(), position, &options, scratch);
                rows += made.as_ref().map_or(0, |(builder, _)| builder.rows);
                found.push(made);
                if rows >= options.max_rows {
                    break;
                }
            }
        });
        Ok(found)
    })?;
    let cursors = fetches.into_iter().zip(found).map(|((_, _, place), made)| {
        made.map(|(builder, after)| RecordCursor::new(py, held(py, builder)?, place, after, None)).transpose()
    });
    cursors.collect()
}

/// Where the whole batches end, the offset after them, and pairs of the offset after an epoch's batches and the epoch.
type FrontTuple<'py> = (usize, i64, Bound<'py, PyTuple>);

/// Returns the whole batches at the front of each fetch, those of `max_epochs` runs of one epoch at most.
#[pyfunction]
pub fn follow_fronts(py: Python<'_>, fetches: Vec<View>, max_epochs: usize) -> PyResult<Vec<FrontTuple<'_>>> {
    let found = crate::detached(py, || {
        let wanted = scan::Options { position: 0, end_offset: i64::MAX, max_epochs, aborted: &[] };
        Ok(with_scratch(|scratch| {
            fetches.iter().map(|data| scan::scan(data.bytes(), 0, &wanted, scratch)).collect::<Vec<_>>()
        }))
    })?;
    let fronts = found.into_iter().map(|front| {
        let epochs = front.epochs.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        Ok((front.end, front.next_offset, PyTuple::new(py, epochs.collect::<Vec<_>>())?))
    });
    fronts.collect()
}
