//! One record as Python sees it: a row of columns that were decoded together, read when it is asked for.
//!
//! A record is a reference to its chunk and a row; it holds no Python objects and the collector does not know it.

use std::sync::Arc;

use pyo3::basic::CompareOp;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use crate::cursor::Chunk;

const FIELDS: [&str; 10] = [
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "leader_epoch",
    "delivery_count",
];

/// Where the fields of a record are.
enum Source {
    Row {
        chunk: Arc<Chunk>,
        row: u32,
    },
    /// As the caller gave them, in the order of FIELDS.
    Given(Py<PyTuple>),
}

/// One record.
///
/// `timestamp` is in milliseconds since 1970; `timestamp_type` is 0 (create), 1 (append) or -1
/// (none). `headers` are pairs of a text and bytes or None. `leader_epoch` is that of the record's
/// batch, -1 before message format 2 (KIP-101). `delivery_count` says how often a share group has
/// delivered the record, this time included; elsewhere it is None.
///
/// A record cannot be changed; `replace` returns another one. Records that were decoded together
/// share their bytes, and fields are read out of these each time: a record that is kept keeps up to
/// 2,000 others' bytes. `copy.copy(record)` keeps its own alone.
#[pyclass(frozen, name = "ConsumerRecord", module = "parley.client")]
pub struct Record {
    source: Source,
}

impl Record {
    pub fn of_row(chunk: Arc<Chunk>, row: u32) -> Self {
        Record { source: Source::Row { chunk, row } }
    }

    fn given<'py>(&self, py: Python<'py>, at: usize) -> Option<PyResult<Bound<'py, PyAny>>> {
        match &self.source {
            Source::Row { .. } => None,
            Source::Given(fields) => Some(fields.bind(py).get_item(at)),
        }
    }

    fn row(&self) -> Option<(&Arc<Chunk>, usize)> {
        match &self.source {
            Source::Row { chunk, row } => Some((chunk, *row as usize)),
            Source::Given(_) => None,
        }
    }

    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        if let Source::Given(fields) = &self.source {
            return Ok(fields.bind(py).clone());
        }
        let all = (0..FIELDS.len()).map(|at| self.field(py, at)).collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, all)
    }

    fn field<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        let Some((chunk, row)) = self.row() else {
            return self.given(py, at).unwrap_or_else(|| Ok(py.None().into_bound(py)));
        };
        let number = |value: i64| Ok(value.into_pyobject(py)?.into_any());
        match at {
            0 => Ok(chunk.topic.bind(py).clone().into_any()),
            1 => number(chunk.partition.into()),
            2 => number(chunk.offset(row)),
            3 => number(chunk.timestamp(row)),
            4 => number(chunk.timestamp_type(row).into()),
            5 => Ok(bytes_or_none(py, chunk.key(row))),
            6 => Ok(bytes_or_none(py, chunk.value(row))),
            7 => headers(py, chunk, row),
            8 => number(chunk.leader_epoch(row).into()),
            _ => Ok(chunk.delivery_count(row).into_pyobject(py)?),
        }
    }
}

fn bytes_or_none<'py>(py: Python<'py>, value: Option<&[u8]>) -> Bound<'py, PyAny> {
    value.map_or_else(|| py.None().into_bound(py), |value| PyBytes::new(py, value).into_any())
}

fn headers<'py>(py: Python<'py>, chunk: &Chunk, row: usize) -> PyResult<Bound<'py, PyAny>> {
    let pairs = chunk
        .headers(row)
        .map(|(key, value)| {
            let key = PyString::new(py, &String::from_utf8_lossy(key));
            PyTuple::new(py, [key.into_any(), bytes_or_none(py, value)])
        })
        .collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(py, pairs)?.into_any())
}

#[pymethods]
impl Record {
    #[classattr]
    fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        PyTuple::new(py, FIELDS)
    }

    #[new]
    #[pyo3(signature = (topic, partition, offset, timestamp, timestamp_type, key, value, headers=None, leader_epoch=None, delivery_count=None))]
    #[allow(clippy::too_many_arguments)]
    fn new<'py>(
        py: Python<'py>,
        topic: Bound<'py, PyAny>,
        partition: Bound<'py, PyAny>,
        offset: Bound<'py, PyAny>,
        timestamp: Bound<'py, PyAny>,
        timestamp_type: Bound<'py, PyAny>,
        key: Bound<'py, PyAny>,
        value: Bound<'py, PyAny>,
        headers: Option<Bound<'py, PyAny>>,
        leader_epoch: Option<Bound<'py, PyAny>>,
        delivery_count: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let headers = headers.unwrap_or_else(|| PyTuple::empty(py).into_any());
        let leader_epoch = match leader_epoch {
            Some(epoch) => epoch,
            None => (-1i64).into_pyobject(py)?.into_any(),
        };
        let delivery_count = delivery_count.unwrap_or_else(|| py.None().into_bound(py));
        let fields =
            [topic, partition, offset, timestamp, timestamp_type, key, value, headers, leader_epoch, delivery_count];
        Ok(Record { source: Source::Given(PyTuple::new(py, fields)?.unbind()) })
    }

    #[getter]
    fn topic<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, 0)
    }

    #[getter]
    fn partition<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, 1)
    }

    #[getter]
    fn offset<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, 2)
    }

    #[getter]
    fn timestamp<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, 3)
    }

    #[getter]
    fn timestamp_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, 4)
    }

    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, 5)
    }

    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, 6)
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, 7)
    }

    #[getter]
    fn leader_epoch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, 8)
    }

    #[getter]
    fn delivery_count<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, 9)
    }

    fn __richcmp__<'py>(&self, py: Python<'py>, other: &Bound<'py, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast_exact::<Record>() else { return Ok(py.NotImplemented()) };
        let wanted = match op {
            CompareOp::Eq => true,
            CompareOp::Ne => false,
            _ => return Ok(py.NotImplemented()),
        };
        let equal = self.fields(py)?.eq(other.get().fields(py)?)?;
        Ok((equal == wanted).into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.fields(py)?.hash()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut text = String::from("ConsumerRecord(");
        for (at, (name, value)) in FIELDS.iter().zip(self.fields(py)?.iter()).enumerate() {
            if at > 0 {
                text.push_str(", ");
            }
            text.push_str(name);
            text.push('=');
            text.push_str(&value.repr()?.to_string_lossy());
        }
        text.push(')');
        Ok(text)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        Ok((slf.get_type().into_any(), slf.get().fields(slf.py())?))
    }

    /// Return the same record with fields of its own: it keeps nothing else alive.
    fn __copy__(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Record { source: Source::Given(self.fields(py)?.unbind()) })
    }

    /// Return the record with other values of some fields.
    #[pyo3(signature = (**changes))]
    fn replace(&self, py: Python<'_>, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut fields = self.fields(py)?.iter().collect::<Vec<_>>();
        for (name, value) in changes.into_iter().flatten() {
            let name = name.cast::<PyString>()?.to_string_lossy().into_owned();
            let at = FIELDS.iter().position(|field| *field == name);
            let at = at.ok_or_else(|| PyTypeError::new_err(format!("a record has no field {name:?}")))?;
            fields[at] = value;
        }
        Ok(Record { source: Source::Given(PyTuple::new(py, fields)?.unbind()) })
    }

    #[pyo3(signature = (**changes))]
    fn __replace__(&self, py: Python<'_>, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        self.replace(py, changes)
    }
}
