//! `ConsumerRecord`: the class of the records, with what Python calls.
//!
//! It is no `#[pyclass]`, as RowHandle is none: PyO3 has the garbage collector count each object. A program that reads a
//! million records would have it run a thousand times, and some of these pass over all that the program has: a third
//! of the time of reading.

use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::record::{Record, FIELDS};

const DOC: &std::ffi::CStr = c"ConsumerRecord(topic, partition, offset, timestamp, timestamp_type, key, value, \
headers=(), leader_epoch=-1, delivery_count=None)
--

One record.

`timestamp` is in milliseconds since 1970; `timestamp_type` is 0 (create), 1 (append) or -1
(none). `headers` are pairs of a text and bytes or None. `leader_epoch` is that of the record's
batch, -1 before message format 2 (KIP-101). `delivery_count` says how often a share group has
delivered the record, this time included; elsewhere it is None.

A record cannot be changed; `replace` returns another one. Records that were decoded together
share their bytes, and fields are read out of these each time: a record that is kept keeps up to
2,000 others' bytes. `copy.copy(record)` keeps its own alone.";

#[repr(C)]
struct Object {
    base: ffi::PyObject,
    record: Record,
}

static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Returns the class, which is made once.
pub fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    Ok(CLASS.get_or_try_init(py, || make_class(py).map(Bound::unbind))?.bind(py))
}

impl<'py> IntoPyObject<'py> for Record {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    #[inline]
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: an instance of the class is an Object; nothing sees it before its record is written.
        unsafe {
            let made = Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericAlloc(class(py)?.as_type_ptr(), 0))?;
            ptr::write(&raw mut (*made.as_ptr().cast::<Object>()).record, self);
            Ok(made)
        }
    }
}

/// Returns the record of an instance.
///
/// # Safety
/// `slf` is an instance of the class, and lives as long as what is returned is used.
unsafe fn record<'a>(slf: *mut ffi::PyObject) -> &'a Record {
    unsafe { &(*slf.cast::<Object>()).record }
}

unsafe extern "C" fn dealloc(slf: *mut ffi::PyObject) {
    // SAFETY: Python calls this once with an object that was made here, attached, perhaps while it ends. An instance refers
    // to its class, which is a heap type.
    unsafe {
        let kind = ffi::Py_TYPE(slf);
        ffi::Py_DECREF(match ptr::read(&raw const (*slf.cast::<Object>()).record) {
            Record::Row { chunk, .. } => chunk.into_ptr(),
            Record::Given(fields) => fields.into_ptr(),
        });
        ffi::PyObject_Free(slf.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

/// Returns what Python is to get: null, and the error raised, where there is one. A panic, which would be a bug, is one.
fn answered(work: impl FnOnce(Python<'_>) -> PyResult<*mut ffi::PyObject>) -> *mut ffi::PyObject {
    // SAFETY: only what Python calls calls this. PyO3 does not know that it is attached: references that are dropped within
    // it keeps for its next call.
    let py = unsafe { Python::assume_attached() };
    let error = match catch_unwind(AssertUnwindSafe(|| work(py))) {
        Ok(Ok(found)) => return found,
        Ok(Err(error)) => error,
        Err(_) => PyRuntimeError::new_err("the kernel panicked: a bug in parley"),
    };
    error.restore(py);
    ptr::null_mut()
}

/// Returns the field whose place in FIELDS is `at`.
unsafe extern "C" fn get(slf: *mut ffi::PyObject, at: *mut c_void) -> *mut ffi::PyObject {
    answered(|py| Ok(unsafe { record(slf) }.field(py, at as usize)?.into_ptr()))
}

unsafe extern "C" fn new(
    _class: *mut ffi::PyTypeObject,
    args: *mut ffi::PyObject,
    named: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    answered(|py| {
        // SAFETY: Python gives a tuple, and a dict or null.
        let (args, named) = unsafe { (Bound::from_borrowed_ptr(py, args), dict_or_none(py, named)?) };
        let made = pyo3::wrap_pyfunction!(given, py)?.call(args.cast::<PyTuple>()?, named.as_ref())?;
        Ok(made.into_ptr())
    })
}

/// # Safety
/// `named` is null or lives.
unsafe fn dict_or_none<'py>(py: Python<'py>, named: *mut ffi::PyObject) -> PyResult<Option<Bound<'py, PyDict>>> {
    let named = unsafe { Bound::from_borrowed_ptr_or_opt(py, named) };
    Ok(named.map(|named| named.cast_into::<PyDict>()).transpose()?)
}

/// Makes a record of fields, whose names and defaults are those of the class.
#[pyfunction]
#[pyo3(name = "ConsumerRecord", signature = (topic, partition, offset, timestamp, timestamp_type, key, value, headers=None, leader_epoch=None, delivery_count=None))]
#[allow(clippy::too_many_arguments)]
fn given<'py>(
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
) -> PyResult<Record> {
    let headers = headers.unwrap_or_else(|| PyTuple::empty(py).into_any());
    let leader_epoch = match leader_epoch {
        Some(epoch) => epoch,
        None => (-1i64).into_pyobject(py)?.into_any(),
    };
    let delivery_count = delivery_count.unwrap_or_else(|| py.None().into_bound(py));
    let fields =
        [topic, partition, offset, timestamp, timestamp_type, key, value, headers, leader_epoch, delivery_count];
    Ok(Record::Given(PyTuple::new(py, fields)?.unbind()))
}

unsafe extern "C" fn compare(slf: *mut ffi::PyObject, other: *mut ffi::PyObject, op: c_int) -> *mut ffi::PyObject {
    answered(|py| {
        // SAFETY: `slf` is an instance, and so is `other` where its type says it.
        let (one, other) = unsafe {
            if ffi::Py_TYPE(other) != ffi::Py_TYPE(slf) || (op != ffi::Py_EQ && op != ffi::Py_NE) {
                return Ok(py.NotImplemented().into_ptr());
            }
            (record(slf), record(other))
        };
        let equal = one.fields(py)?.eq(other.fields(py)?)?;
        Ok((equal == (op == ffi::Py_EQ)).into_pyobject(py)?.to_owned().into_ptr().cast())
    })
}

unsafe extern "C" fn hash(slf: *mut ffi::PyObject) -> ffi::Py_hash_t {
    let mut found = -1;
    answered(|py| {
        found = unsafe { record(slf) }.fields(py)?.hash()?;
        Ok(ptr::null_mut())
    });
    found
}

unsafe extern "C" fn repr(slf: *mut ffi::PyObject) -> *mut ffi::PyObject {
    answered(|py| Ok(unsafe { record(slf) }.repr(py)?.into_pyobject(py)?.into_ptr()))
}

unsafe extern "C" fn copy(slf: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    answered(|py| Ok(unsafe { record(slf) }.copied(py)?.into_pyobject(py)?.into_ptr()))
}

unsafe extern "C" fn reduce(slf: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    answered(|py| {
        let fields = unsafe { record(slf) }.fields(py)?;
        Ok(PyTuple::new(py, [class(py)?.as_any(), fields.as_any()])?.into_ptr())
    })
}

unsafe extern "C" fn replace(
    slf: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    named: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    answered(|py| {
        // SAFETY: Python gives an instance, a tuple, and a dict or null.
        let (record, changes) = unsafe {
            if ffi::PyTuple_Size(args) > 0 {
                return Err(PyTypeError::new_err("replace() takes fields by name alone: record.replace(value=...)"));
            }
            (record(slf), dict_or_none(py, named)?)
        };
        Ok(record.replaced(py, changes.as_ref())?.into_pyobject(py)?.into_ptr())
    })
}

fn make_class(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    let method = |name: &'static std::ffi::CStr, meth, flags, doc: &'static std::ffi::CStr| ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: meth,
        ml_flags: flags,
        ml_doc: doc.as_ptr(),
    };
    let bare = |meth| ffi::PyMethodDefPointer { PyCFunction: meth };
    let with_names = ffi::PyMethodDefPointer { PyCFunctionWithKeywords: replace };
    let names = ffi::METH_VARARGS | ffi::METH_KEYWORDS;
    // Python keeps pointers to these, for as long as the class lives: always.
    let methods = Box::leak(Box::new([
        method(c"__copy__", bare(copy), ffi::METH_NOARGS, c"Return the same record with fields of its own."),
        method(c"__reduce__", bare(reduce), ffi::METH_NOARGS, c"Return what pickle writes."),
        method(c"replace", with_names, names, c"Return the record with other values of some fields."),
        method(c"__replace__", with_names, names, c"Return the record with other values of some fields."),
        ffi::PyMethodDef::zeroed(),
    ]));
    let fields = FIELDS.iter().enumerate().map(|(at, name)| ffi::PyGetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        closure: at as *mut c_void,
        ..Default::default()
    });
    let fields = Box::leak(fields.chain([ffi::PyGetSetDef::default()]).collect::<Box<[_]>>());
    let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_tp_new, new as *mut c_void),
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_richcompare, compare as *mut c_void),
        slot(ffi::Py_tp_hash, hash as *mut c_void),
        slot(ffi::Py_tp_repr, repr as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(ffi::Py_tp_getset, fields.as_mut_ptr().cast()),
        slot(ffi::Py_tp_doc, DOC.as_ptr() as *mut c_void),
        ffi::PyType_Slot::default(),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"parley.client.ConsumerRecord".as_ptr(),
        basicsize: size_of::<Object>() as c_int,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: what the specification points to lives until the call is over, and what the class points to always.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec)) }?;
    let made = made.cast_into::<PyType>()?;
    let in_order = FIELDS.iter().map(|name| name.to_string_lossy());
    made.setattr("__match_args__", PyTuple::new(py, in_order)?)?;
    Ok(made)
}
