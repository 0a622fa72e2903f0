//! The compiled decoder of Avro and JSON: messages to the columns of a reader's schema; and what writes columns as
//! such messages.
//!
//! What a schema means is decided in Python (parley/serdes), once for this decoder and for the
//! reference; here plans are carried out. Each writer's plan fills the same columns, so
//! that messages of many writers need no sorting. A row that cannot be read is taken back, and null.
//!
//! Foreign bytes can cause faults of rows and nothing else; a panic, which would be a bug, is stopped
//! here and becomes an exception.

mod arrow;
mod base64;
mod columns;
mod datum;
mod decimal;
mod input;
mod json;
mod moments;
mod plan;
mod read;
mod scan;
mod write;
mod write_json;

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};

use arrow::Messages;
use columns::{Column, Layout};
use datum::{Datum, Fault, Read};
use input::Input;
use json::Shape;
use read::Node;
use scan::Prefix;
use write::Write;
use write_json::Json;

/// As in parley/serdes/native.py.
const CONTRACT: u32 = 3;

pyo3::create_exception!(_native, Unsupported, PyValueError, "A plan that only the reference carries out.");

/// The columns of a reader's schema.
#[pyclass(frozen, module = "parley.serdes._native")]
struct Columns(Layout);

#[pymethods]
impl Columns {
    #[new]
    fn new(layout: &Bound<'_, PyAny>) -> PyResult<Self> {
        plan::layout(layout).map(Columns)
    }
}

/// What reads one writer's data into columns.
#[pyclass(frozen, module = "parley.serdes._native")]
struct Plan {
    root: Root,
    layout: Layout,
}

enum Root {
    Avro(Node),
    Json(Shape),
}

impl Root {
    #[inline]
    fn read(&self, data: &[u8], column: &mut Column) -> Read<()> {
        match self {
            Root::Avro(node) => {
                let mut datum = Datum::new(data);
                node.read(&mut datum, column).and_then(|()| datum.finish())
            }
            Root::Json(shape) => json::read(shape, data, column),
        }
    }
}

#[pymethods]
impl Plan {
    #[new]
    fn new(columns: &Columns, plan: &Bound<'_, PyAny>) -> PyResult<Self> {
        let root = match plan::shape(plan, &columns.0)? {
            Some(shape) => Root::Json(shape),
            None => Root::Avro(plan::node(plan, &columns.0)?),
        };
        Ok(Plan { root, layout: columns.0.clone() })
    }
}

/// Rows that have no values: which, and why. Those in `odd` the reference reads.
#[derive(Default)]
struct Faults {
    damaged: Vec<(usize, String)>,
    odd: Vec<usize>,
}

/// Runs `work` without the interpreter; a panic in it becomes an exception.
fn detached<R: Send>(py: Python<'_>, work: impl FnOnce() -> PyResult<R> + Send) -> PyResult<R> {
    py.detach(|| {
        catch_unwind(AssertUnwindSafe(work))
            .unwrap_or_else(|_| Err(PyRuntimeError::new_err("the decoder panicked: a bug in parley")))
    })
}

/// Says which schema each message names; returns (groups as int32, numbers, bad rows).
#[pyfunction]
#[pyo3(name = "scan")]
fn py_scan<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyCapsule>,
    marker: Vec<u8>,
    width: usize,
    little: bool,
) -> PyResult<(Bound<'py, PyBytes>, Vec<u64>, Vec<usize>)> {
    if !matches!(width, 0 | 4 | 8) {
        return Err(PyValueError::new_err("a number has 0, 4 or 8 bytes"));
    }
    let messages = Messages::of(messages)?;
    let found = detached(py, || Ok(scan::scan(&messages, &Prefix { marker, width, little })))?;
    let groups = found.groups.iter().flat_map(|place| place.to_ne_bytes()).collect::<Vec<_>>();
    Ok((PyBytes::new(py, &groups), found.numbers, found.bad))
}

type Decoded<'py> = (Bound<'py, PyAny>, Vec<(usize, String)>, Vec<usize>);

/// Decodes messages; returns (array, faults, odd rows). Without `groups` all are of the first plan.
#[pyfunction]
fn decode<'py>(
    py: Python<'py>,
    columns: &Columns,
    plans: Vec<Option<Py<Plan>>>,
    messages: &Bound<'py, PyCapsule>,
    groups: Option<&[u8]>,
    start: usize,
) -> PyResult<Decoded<'py>> {
    let messages = Messages::of(messages)?;
    if groups.is_some_and(|groups| groups.len() != 4 * messages.len()) {
        return Err(PyValueError::new_err("there is not a group for each message"));
    }
    let plans: Vec<Option<&Plan>> = plans.iter().map(|plan| plan.as_ref().map(Py::get)).collect();
    if plans.iter().flatten().any(|plan| plan.layout != columns.0) {
        return Err(PyValueError::new_err("a plan is for other columns"));
    }
    let (column, faults) = detached(py, || decode_rows(&columns.0, &plans, &messages, groups, start))?;
    Ok((arrow::export(py, column)?, faults.damaged, faults.odd))
}

fn decode_rows(
    layout: &Layout,
    plans: &[Option<&Plan>],
    messages: &Messages,
    groups: Option<&[u8]>,
    start: usize,
) -> PyResult<(Column, Faults)> {
    let mut column = Column::new(layout, messages.len());
    let mut faults = Faults::default();
    let group = |row: usize| match groups.and_then(|groups| groups.get(4 * row..4 * row + 4)) {
        Some(raw) => usize::try_from(i32::from_ne_bytes([raw[0], raw[1], raw[2], raw[3]])).ok(),
        None => Some(0),
    };
    for row in 0..messages.len() {
        let plan = group(row).and_then(|at| plans.get(at).copied().flatten());
        let (Some(plan), Some(data)) = (plan, messages.get(row).and_then(|message| message.get(start..))) else {
            column.null();
            continue;
        };
        if let Err(fault) = plan.root.read(data, &mut column) {
            column.truncate(row);
            column.null();
            match *fault {
                Fault::Damaged(why) => faults.damaged.push((row, why)),
                Fault::Odd => faults.odd.push(row),
                Fault::Full => return Err(PyOverflowError::new_err("a column of more than 2 GB")),
            }
        }
    }
    Ok((column, faults))
}

/// What writes columns of one type.
#[pyclass(frozen, module = "parley.serdes._native")]
struct Writing(Written);

enum Written {
    Avro(Write),
    Json(Json),
}

#[pymethods]
impl Writing {
    #[new]
    fn new(plan: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (name, inner): (String, Bound<'_, PyAny>) = plan.extract()?;
        match name.as_str() {
            "avro" => Write::parse(&inner, 0).map(Written::Avro),
            "json" => Json::parse(&inner, 0).map(Written::Json),
            _ => Err(PyValueError::new_err(format!("nothing writes {name}"))),
        }
        .map(Writing)
    }
}

/// Makes messages of a column; None where a value does not fit. The column is of the type that the plan is for.
#[pyfunction]
fn encode<'py>(
    py: Python<'py>,
    writing: &Writing,
    column: &Bound<'py, PyCapsule>,
    prefix: &[u8],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let input = Input::of(column)?;
    let made = match &writing.0 {
        Written::Avro(avro) => {
            let writer = avro.bind(input)?;
            detached(py, || Ok(write::write(&writer, prefix).ok()))?
        }
        Written::Json(json) => {
            let writer = json.bind(input)?;
            detached(py, || Ok(write::write(&writer, prefix).ok()))?
        }
    };
    match made {
        Some(made) => arrow::export(py, Column::Var(made)).map(Some),
        None => Ok(None),
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CONTRACT", CONTRACT)?;
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("Unsupported", module.py().get_type::<Unsupported>())?;
    module.add_class::<Columns>()?;
    module.add_class::<Plan>()?;
    module.add_class::<Writing>()?;
    module.add_function(wrap_pyfunction!(encode, module)?)?;
    module.add_function(wrap_pyfunction!(py_scan, module)?)?;
    module.add_function(wrap_pyfunction!(decode, module)?)?;
    Ok(())
}
