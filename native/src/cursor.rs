//! Decoded records of one partition, handed out one after the other.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::args::{ColumnsArg, HeadersArg, VarArg};
use crate::buffers::View;
use crate::record::Record;

/// Columns that were decoded together, and what their records have in common.
///
/// An object of Python's, so that each of its records refers to it in a step, and Python frees it, also when it ends.
#[pyclass(frozen, module = "parley.kernel._native")]
pub struct Chunk {
    pub topic: Py<PyString>,
    pub partition: i32,
    /// The position after the last record of each epoch, and the epoch.
    epochs: Vec<(i64, i32)>,
    offsets: Option<View>,
    timestamps: Option<View>,
    types: Option<View>,
    key: Option<VarArg>,
    value: Option<VarArg>,
    headers: Option<HeadersArg>,
    counts: Option<View>,
}

/// Where the caller's buffers do not reach as far as the rows, the field is absent: -1, null, no headers.
impl Chunk {
    pub fn offset(&self, row: usize) -> i64 {
        self.offsets.as_ref().and_then(|view| view.int64(row)).unwrap_or(-1)
    }

    pub fn timestamp(&self, row: usize) -> i64 {
        self.timestamps.as_ref().and_then(|view| view.int64(row)).unwrap_or(-1)
    }

    pub fn timestamp_type(&self, row: usize) -> i32 {
        self.types.as_ref().and_then(|view| int32(view, row)).unwrap_or(-1)
    }

    pub fn key(&self, row: usize) -> Option<&[u8]> {
        self.key.as_ref().and_then(|column| value_at(column, row))
    }

    pub fn value(&self, row: usize) -> Option<&[u8]> {
        self.value.as_ref().and_then(|column| value_at(column, row))
    }

    pub fn headers(&self, row: usize) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let range = self
            .headers
            .as_ref()
            .and_then(|column| Some((column, int32(&column.offsets, row)?.max(0)..int32(&column.offsets, row + 1)?)));
        range.into_iter().flat_map(|(column, range)| {
            range.map(|at| {
                let at = at as usize;
                (value_at(&column.keys, at).unwrap_or(&[]), value_at(&column.values, at))
            })
        })
    }

    pub fn leader_epoch(&self, row: usize) -> i32 {
        self.epoch_before(self.offset(row).saturating_add(1))
    }

    fn epoch_before(&self, position: i64) -> i32 {
        let at = self.epochs.partition_point(|(after, _)| *after < position);
        self.epochs.get(at).or(self.epochs.last()).map_or(-1, |(_, epoch)| *epoch)
    }

    pub fn delivery_count(&self, row: usize) -> Option<i32> {
        self.counts.as_ref().and_then(|view| int32(view, row))
    }
}

#[inline]
fn int32(view: &View, at: usize) -> Option<i32> {
    let raw = view.bytes().get(at * 4..at * 4 + 4)?;
    Some(i32::from_le_bytes(raw.try_into().ok()?))
}

#[inline]
fn value_at(column: &VarArg, row: usize) -> Option<&[u8]> {
    if let Some(validity) = &column.validity {
        let bit = row + column.bit_offset;
        if validity.bytes().get(bit >> 3)? >> (bit & 7) & 1 == 0 {
            return None;
        }
    }
    let (start, end) = (int32(&column.offsets, row)?, int32(&column.offsets, row + 1)?);
    column.data.bytes().get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}

/// The records of a chunk from the first that was not handed out.
#[pyclass(frozen, module = "parley.kernel._native")]
pub struct RecordCursor {
    chunk: Py<Chunk>,
    /// The rows to hand out; None: all.
    picked: Option<Vec<u32>>,
    count: usize,
    at: AtomicUsize,
    next_offset: i64,
}

/// Topic, partition, and the epochs of what was fetched of it: position after the last record, epoch.
pub type Place<'py> = (Bound<'py, PyString>, i32, Vec<(i64, i32)>);

impl RecordCursor {
    pub fn new(
        py: Python<'_>,
        columns: ColumnsArg,
        (topic, partition, epochs): Place<'_>,
        next_offset: i64,
        counts: Option<View>,
    ) -> PyResult<Self> {
        let rows = columns.rows;
        let picked: Option<Vec<u32>> = counts
            .as_ref()
            .map(|counts| (0..rows).filter(|row| int32(counts, *row).unwrap_or(0) > 0).map(|row| row as u32).collect());
        let count = picked.as_ref().map_or(rows, Vec::len);
        let chunk = Chunk {
            topic: topic.unbind(),
            partition,
            epochs,
            offsets: columns.offsets,
            timestamps: columns.timestamps,
            types: columns.timestamp_types,
            key: columns.key,
            value: columns.value,
            headers: columns.headers,
            counts,
        };
        Ok(RecordCursor { chunk: Py::new(py, chunk)?, picked, count, at: AtomicUsize::new(0), next_offset })
    }

    fn row(&self, at: usize) -> u32 {
        self.picked.as_ref().map_or(at as u32, |rows| rows[at])
    }

    fn record(&self, py: Python<'_>, at: usize) -> Record {
        Record::Row { chunk: self.chunk.clone_ref(py), row: self.row(at) }
    }

    fn claim(&self, most: usize) -> std::ops::Range<usize> {
        // With a GIL nothing comes between; without one two threads never get the same record.
        let end = |at: usize| self.count.min(at.saturating_add(most));
        let mut at = self.at.load(Ordering::Acquire);
        while at < end(at) {
            match self.at.compare_exchange_weak(at, end(at), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return at..end(at),
                Err(now) => at = now,
            }
        }
        at..at
    }
}

#[pymethods]
impl RecordCursor {
    fn __len__(&self) -> usize {
        self.count - self.at.load(Ordering::Acquire)
    }

    /// Return the next record, None where none is left.
    fn take_one(&self, py: Python<'_>) -> Option<Record> {
        let taken = self.claim(1);
        (!taken.is_empty()).then(|| self.record(py, taken.start))
    }

    /// Return up to so many records.
    fn take<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyList>> {
        let taken = self.claim(most);
        PyList::new(py, taken.map(|at| self.record(py, at)))
    }

    /// The offset after what was handed out, gaps included; -1 before the first.
    #[getter]
    fn position(&self) -> i64 {
        match self.at.load(Ordering::Acquire) {
            at if at == self.count => self.next_offset,
            0 => -1,
            at => self.chunk.get().offset(self.row(at - 1) as usize).saturating_add(1),
        }
    }
}

#[pyfunction]
#[pyo3(signature = (columns, topic, partition, epochs, next_offset, counts=None))]
pub fn record_cursor(
    py: Python<'_>,
    columns: ColumnsArg,
    topic: Bound<'_, PyString>,
    partition: i32,
    epochs: Vec<(i64, i32)>,
    next_offset: i64,
    counts: Option<View>,
) -> PyResult<RecordCursor> {
    RecordCursor::new(py, columns, (topic, partition, epochs), next_offset, counts)
}
