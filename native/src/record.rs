//! One record as Python sees it: a row of columns that were decoded together, read when it is asked for.
//!
//! A record is a reference to its chunk and a row, and the garbage collector does not know it. What Python calls is in
//! `record_class`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use crate::cursor::Chunk;

pub const FIELDS: [&std::ffi::CStr; 10] = [
    c"topic",
    c"partition",
    c"offset",
    c"timestamp",
    c"timestamp_type",
    c"key",
    c"value",
    c"headers",
    c"leader_epoch",
    c"delivery_count",
];

/// Where the fields of a record are.
pub enum Record {
    Row {
        chunk: Py<Chunk>,
        row: u32,
    },
    /// As the caller gave them, in the order of FIELDS.
    Given(Py<PyTuple>),
}

impl Record {
    /// Returns all fields.
    pub fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        if let Record::Given(fields) = self {
            return Ok(fields.bind(py).clone());
        }
        let all = (0..FIELDS.len()).map(|at| self.field(py, at)).collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, all)
    }

    /// Returns one field.
    #[inline]
    pub fn field<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        let (chunk, row) = match self {
            Record::Row { chunk, row } => (chunk.get(), *row as usize),
            Record::Given(fields) => return fields.bind(py).get_item(at),
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

    pub fn repr(&self, py: Python<'_>) -> PyResult<String> {
        let mut text = String::from("ConsumerRecord(");
        for (at, (name, value)) in FIELDS.iter().zip(self.fields(py)?.iter()).enumerate() {
            if at > 0 {
                text.push_str(", ");
            }
            text.push_str(&name.to_string_lossy());
            text.push('=');
            text.push_str(&value.repr()?.to_string_lossy());
        }
        text.push(')');
        Ok(text)
    }

    /// Returns the record with fields of its own: it keeps nothing else alive.
    pub fn copied(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Record::Given(self.fields(py)?.unbind()))
    }

    /// Returns the record with other values of some fields.
    pub fn replaced(&self, py: Python<'_>, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut fields = self.fields(py)?.iter().collect::<Vec<_>>();
        for (name, value) in changes.into_iter().flatten() {
            let name = name.cast::<PyString>()?.to_string_lossy().into_owned();
            let at = FIELDS.iter().position(|field| field.to_bytes() == name.as_bytes());
            let at = at.ok_or_else(|| PyTypeError::new_err(format!("a record has no field {name:?}")))?;
            fields[at] = value;
        }
        Ok(Record::Given(PyTuple::new(py, fields)?.unbind()))
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
