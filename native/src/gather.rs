//! Records of one topic while they gather: columns that grow with each of them, and no object is kept for any.

use std::sync::{Mutex, MutexGuard};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyList, PyString, PyTuple, PyType};

use crate::args;
use crate::buffers::{Buffer, Owned};
use crate::columns::VarColumn;
use crate::handle;
use crate::limits::MAX_COLUMN_BYTES;

/// What a record and a header take beside their bytes, about (gathering.py).
const RECORD_BYTES: usize = 16;
const HEADER_BYTES: usize = 4;

/// One record as it is appended.
struct Record<'a> {
    value: Option<&'a [u8]>,
    key: Option<&'a [u8]>,
    headers: &'a [(&'a [u8], Option<&'a [u8]>)],
    /// -1: any.
    partition: i32,
    timestamp_ms: i64,
}

/// Headers of all rows so far: where those of each row end among the keys and values.
pub struct GatheredHeaders {
    pub ends: Vec<i32>,
    pub keys: VarColumn,
    pub values: VarColumn,
}

/// The columns of what was gathered. Those of headers and partitions begin with the first record that has some.
pub struct Gathered {
    pub times_ms: Vec<i64>,
    pub key: VarColumn,
    pub value: VarColumn,
    pub partitions: Option<Vec<i32>>,
    pub headers: Option<GatheredHeaders>,
}

impl Gathered {
    fn new() -> Self {
        Gathered {
            times_ms: Vec::new(),
            key: VarColumn::new(),
            value: VarColumn::new(),
            partitions: None,
            headers: None,
        }
    }

    pub fn rows(&self) -> usize {
        self.times_ms.len()
    }

    #[inline(always)]
    fn push(&mut self, record: &Record) {
        if record.partition >= 0 || self.partitions.is_some() {
            let rows = self.rows();
            self.partitions.get_or_insert_with(|| vec![-1; rows]).push(record.partition);
        }
        if !record.headers.is_empty() || self.headers.is_some() {
            self.push_headers(record.headers);
        }
        self.times_ms.push(record.timestamp_ms);
        self.key.push(record.key);
        self.value.push(record.value);
    }

    #[inline(never)]
    fn push_headers(&mut self, headers: &[(&[u8], Option<&[u8]>)]) {
        let rows = self.rows();
        let column = self.headers.get_or_insert_with(|| GatheredHeaders {
            ends: vec![0; rows + 1],
            keys: VarColumn::new(),
            values: VarColumn::new(),
        });
        for (key, value) in headers {
            column.keys.push(Some(key));
            column.values.push(*value);
        }
        column.ends.push(column.keys.offsets.len() as i32 - 1);
    }
}

struct State {
    is_open: bool,
    /// Bytes that were granted and that no record has taken.
    room: usize,
    /// Bytes that records have taken.
    taken: usize,
    columns: Gathered,
    /// By row, as far as the last one that has a callback.
    callbacks: Option<Py<PyList>>,
}

impl State {
    /// Returns how large a record may be: the room, as far as columns can hold it.
    #[inline(always)]
    fn space(&self) -> usize {
        if self.is_open {
            self.room.min(MAX_COLUMN_BYTES.saturating_sub(self.taken))
        } else {
            0
        }
    }

    #[inline(always)]
    fn append(&mut self, size: usize, record: &Record, callback: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        let row = self.columns.rows();
        if let Some(callback) = callback {
            self.push_callback(row, callback)?;
        }
        self.room -= size;
        self.taken += size;
        self.columns.push(record);
        Ok(row)
    }

    fn push_callback(&mut self, row: usize, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = callback.py();
        let list = self.callbacks.get_or_insert_with(|| PyList::empty(py).unbind()).bind(py);
        for _ in list.len()..row {
            list.append(py.None())?;
        }
        list.append(callback)
    }
}

/// Records of one topic, from the first until it is closed. Any thread may append.
#[pyclass(frozen, subclass, module = "parley.kernel._native")]
pub struct RecordGatherer {
    state: Mutex<State>,
    admitted: Mutex<Admitted>,
}

/// Which partitions may be named, and whether the topic's leaders store headers.
#[derive(Clone, Copy)]
struct Admitted {
    partitions: i32,
    headers: bool,
}

impl RecordGatherer {
    #[inline(always)]
    fn state<'a>(&'a self, py: Python<'a>) -> MutexGuard<'a, State> {
        // Nothing panics while it is held; a state that was left all the same is whole.
        self.state.lock_py_attached(py).unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn admitted(&self, py: Python<'_>) -> Admitted {
        *self.admitted.lock_py_attached(py).unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns the columns and leaves none.
    pub fn take_columns(&self, py: Python<'_>) -> Gathered {
        std::mem::replace(&mut self.state(py).columns, Gathered::new())
    }

    /// Gives back columns that were taken.
    pub fn put_back(&self, py: Python<'_>, columns: Gathered) {
        self.state(py).columns = columns;
    }
}

#[pymethods]
impl RecordGatherer {
    #[new]
    #[pyo3(signature = (*_args, **_named))]
    fn new(_args: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> Self {
        RecordGatherer {
            state: Mutex::new(State { is_open: true, room: 0, taken: 0, columns: Gathered::new(), callbacks: None }),
            admitted: Mutex::new(Admitted { partitions: 0, headers: false }),
        }
    }

    /// Say which partitions may be named (those below `partitions`), and whether records may have headers.
    fn admit(&self, py: Python<'_>, partitions: i32, headers: bool, _guard: &Bound<'_, PyAny>) {
        let mut admitted = self.admitted.lock_py_attached(py).unwrap_or_else(std::sync::PoisonError::into_inner);
        *admitted = Admitted { partitions, headers };
    }

    /// How many bytes a record may have now; 0 once it is closed.
    #[getter]
    fn room(&self, py: Python<'_>) -> usize {
        self.state(py).space()
    }

    /// How many records there are.
    #[getter]
    fn count(&self, py: Python<'_>) -> usize {
        self.state(py).columns.rows()
    }

    /// How many records name no partition; with `hashed` of those without a key.
    fn unplaced(&self, py: Python<'_>, hashed: bool) -> usize {
        let state = self.state(py);
        let columns = &state.columns;
        match (&columns.partitions, hashed) {
            (None, false) => columns.rows(),
            (None, true) => columns.key.null_count(),
            (Some(partitions), _) => {
                (0..columns.rows()).filter(|row| partitions[*row] < 0 && !(hashed && columns.key.has(*row))).count()
            }
        }
    }

    /// Let so many bytes more in.
    fn grant(&self, py: Python<'_>, size: usize) {
        self.state(py).room += size;
    }

    /// Let no more records in; return how many there are, and the bytes that none has taken.
    fn close(&self, py: Python<'_>) -> (usize, usize) {
        let mut state = self.state(py);
        state.is_open = false;
        (state.columns.rows(), state.room)
    }

    /// The callbacks of the rows, None for those without; not of those behind the last one that has one.
    #[getter]
    fn callbacks<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyList>> {
        self.state(py).callbacks.as_ref().map(|list| list.bind(py).clone())
    }

    /// Append a record; return its row, or -1 where it does not fit.
    #[pyo3(signature = (value, key, headers, partition, timestamp_ms, callback, size))]
    #[allow(clippy::too_many_arguments)]
    fn append(
        &self,
        py: Python<'_>,
        value: Option<&Bound<'_, PyBytes>>,
        key: Option<&Bound<'_, PyBytes>>,
        headers: Vec<(Bound<'_, PyBytes>, Option<Bound<'_, PyBytes>>)>,
        partition: i32,
        timestamp_ms: i64,
        callback: Option<&Bound<'_, PyAny>>,
        size: usize,
    ) -> PyResult<isize> {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_ref().map(|value| value.as_bytes())))
            .collect();
        let record = Record {
            value: value.map(|value| value.as_bytes()),
            key: key.map(|key| key.as_bytes()),
            headers: &headers,
            partition,
            timestamp_ms,
        };
        let mut state = self.state(py);
        if !state.is_open || state.space() < size {
            return Ok(-1);
        }
        Ok(state.append(size, &record, callback)? as isize)
    }

    /// Return (rows, times, partitions, key, value, headers), and leave none.
    fn _columns(&self, py: Python<'_>) -> ColumnsTuple {
        let columns = self.take_columns(py);
        let rows = columns.rows();
        let column = |column: VarColumn| (column.null_count() < rows).then(|| args::var(column));
        let headers = columns.headers.map(|headers| {
            let count = headers.keys.offsets.len() - 1;
            (Buffer::new(Owned::Int32(headers.ends)), args::var(headers.keys), args::var(headers.values), count)
        });
        (
            rows,
            Buffer::new(Owned::Int64(columns.times_ms)),
            columns.partitions.map(|partitions| Buffer::new(Owned::Int32(partitions))),
            column(columns.key),
            column(columns.value),
            headers,
        )
    }
}

type HeadersTuple = (Buffer, args::VarTuple, args::VarTuple, usize);
type ColumnsTuple =
    (usize, Buffer, Option<Buffer>, Option<args::VarTuple>, Option<args::VarTuple>, Option<HeadersTuple>);

/// Bytes or None as they are stored; Err for anything else.
#[inline(always)]
fn field<'a>(given: &'a Bound<'_, PyAny>) -> Result<Option<&'a [u8]>, ()> {
    match given.cast_exact::<PyBytes>() {
        Ok(bytes) => Ok(Some(bytes.as_bytes())),
        Err(_) if given.is_none() => Ok(None),
        Err(_) => Err(()),
    }
}

/// A number that is no bool; Err for anything else, and for what is out of range.
fn number<'py, T: for<'a> FromPyObject<'a, 'py>>(given: &Bound<'py, PyAny>) -> Result<T, ()> {
    if !given.is_exact_instance_of::<PyInt>() || given.is_exact_instance_of::<PyBool>() {
        return Err(());
    }
    given.extract().map_err(|_| ())
}

type Pair<'py> = (Bound<'py, PyString>, Bound<'py, PyAny>);

/// The pairs of a list or a tuple of headers; Err where they are not text and bytes or None.
#[inline(never)]
fn pairs<'py>(given: &Bound<'py, PyAny>) -> Result<Vec<Pair<'py>>, ()> {
    let entries: Vec<Bound<'py, PyAny>> = if let Ok(list) = given.cast_exact::<PyList>() {
        list.iter().collect()
    } else {
        given.cast_exact::<PyTuple>().map_err(|_| ())?.iter().collect()
    };
    entries
        .iter()
        .map(|entry| {
            let pair = entry.cast_exact::<PyTuple>().ok().filter(|pair| pair.len() == 2).ok_or(())?;
            let name = pair.get_item(0).map_err(|_| ())?.cast_into_exact::<PyString>().map_err(|_| ())?;
            let value = pair.get_item(1).map_err(|_| ())?;
            field(&value)?;
            Ok((name, value))
        })
        .collect()
}

/// What came of a record that was to be put into its topic's gatherer.
enum Put {
    Row(usize),
    /// It fits once so many bytes are granted.
    NoRoom(usize),
    /// It has to be looked at in Python.
    Unusual,
}

struct Given<'a, 'py> {
    value: &'a Bound<'py, PyAny>,
    key: &'a Bound<'py, PyAny>,
    headers: &'a Bound<'py, PyAny>,
    partition: &'a Bound<'py, PyAny>,
    timestamp_ms: &'a Bound<'py, PyAny>,
    callback: &'a Bound<'py, PyAny>,
}

#[inline(always)]
fn put<'py>(gatherer: Option<&RecordGatherer>, now_s: f64, given: &Given<'_, 'py>) -> Result<Put, Option<PyErr>> {
    let py = given.value.py();
    let (value, key) = (field(given.value).map_err(|()| None)?, field(given.key).map_err(|()| None)?);
    let timestamp_ms = if given.timestamp_ms.is_none() {
        (now_s * 1000.0) as i64
    } else {
        number::<i64>(given.timestamp_ms).ok().filter(|time| *time >= 0).ok_or(None)?
    };
    let mut size = RECORD_BYTES + value.map_or(0, <[u8]>::len) + key.map_or(0, <[u8]>::len);
    let mut record = Record { value, key, headers: &[], partition: -1, timestamp_ms };
    let callback = (!given.callback.is_none()).then_some(given.callback);
    if callback.is_some_and(|callback| !callback.is_callable()) {
        return Ok(Put::Unusual);
    }
    let is_simple = given.partition.is_none() && given.headers.is_none();
    if is_simple {
        let Some(gatherer) = gatherer else { return Ok(Put::NoRoom(size)) };
        let mut state = gatherer.state(py);
        if state.space() < size {
            return Ok(Put::NoRoom(size));
        }
        return state.append(size, &record, callback).map(Put::Row).map_err(Some);
    }
    let Some(gatherer) = gatherer else { return Ok(Put::Unusual) };
    let admitted = gatherer.admitted(py);
    if !given.partition.is_none() {
        record.partition = number::<i32>(given.partition)
            .ok()
            .filter(|number| (0..admitted.partitions).contains(number))
            .ok_or(None)?;
    }
    let pairs = if given.headers.is_none() { Vec::new() } else { pairs(given.headers).map_err(|()| None)? };
    if !pairs.is_empty() && !admitted.headers {
        return Ok(Put::Unusual);
    }
    let mut headers: Vec<(&[u8], Option<&[u8]>)> = Vec::with_capacity(pairs.len());
    for (name, value) in &pairs {
        let name = name.to_str().map_err(|_| None)?.as_bytes(); // lone surrogates are refused in Python
        let value = field(value).map_err(|()| None)?;
        size += HEADER_BYTES + name.len() + value.map_or(0, <[u8]>::len);
        headers.push((name, value));
    }
    record.headers = &headers;
    let mut state = gatherer.state(py);
    if state.space() < size {
        return Ok(Put::NoRoom(size));
    }
    state.append(size, &record, callback).map(Put::Row).map_err(Some)
}

/// Put a record into its topic's gatherer: see gathering.py.
#[pyfunction]
#[pyo3(signature = (gatherers, kind, now_s, topic, value, key, headers, partition, timestamp_ms, callback))]
#[allow(clippy::too_many_arguments)]
pub fn gather<'py>(
    py: Python<'py>,
    gatherers: &Bound<'py, PyDict>,
    kind: &Bound<'py, PyType>,
    now_s: f64,
    topic: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
    headers: &Bound<'py, PyAny>,
    partition: &Bound<'py, PyAny>,
    timestamp_ms: &Bound<'py, PyAny>,
    callback: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !topic.is_exact_instance_of::<PyString>() {
        return Ok(None);
    }
    let found = gatherers.get_item(topic)?;
    let gatherer = match &found {
        None => None,
        Some(found) => Some(found.cast::<RecordGatherer>()?),
    };
    let given = Given { value, key, headers, partition, timestamp_ms, callback };
    match put(gatherer.map(|one| one.get()), now_s, &given) {
        Ok(Put::Row(row)) => match &found {
            Some(owner) => Ok(Some(handle::make(kind, owner, row)?)),
            None => Ok(None),
        },
        Ok(Put::NoRoom(size)) => Ok(Some(size.into_pyobject(py)?.into_any())),
        Ok(Put::Unusual) | Err(None) => Ok(None),
        Err(Some(error)) => Err(error),
    }
}
