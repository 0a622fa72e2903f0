//! `RowHandle`: a row of an object, in as few bytes and steps as Python's objects can be made.
//!
//! There is one for each record that is sent, so it is no `#[pyclass]`: an instance of a class that Python derives from it
//! is made here without a call, has no dictionary, and the garbage collector does not look at it: millions of them may
//! wait, and each full collection would pass over all.

use std::ffi::c_void;
use std::mem::{offset_of, size_of};

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

#[repr(C)]
struct Handle {
    base: ffi::PyObject,
    owner: *mut ffi::PyObject,
    row: isize,
}

static HANDLE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Frees a handle, also the part of it that a class derived from it has.
unsafe extern "C" fn dealloc(slf: *mut ffi::PyObject) {
    // SAFETY: Python calls this once with an object that `make`, or the class itself, has made. A heap type is referred to
    // by its instances, and who frees the last part of one gives that reference back.
    unsafe {
        let kind = ffi::Py_TYPE(slf);
        ffi::Py_XDECREF((*slf.cast::<Handle>()).owner);
        let free: ffi::freefunc = std::mem::transmute(ffi::PyType_GetSlot(kind, ffi::Py_tp_free));
        free(slf.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

/// Returns the class, which is made once.
pub fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    let made = HANDLE.get_or_try_init(py, || {
        let member = |name: &'static std::ffi::CStr, type_code, offset: usize| ffi::PyMemberDef {
            name: name.as_ptr(),
            type_code,
            offset: offset as isize,
            flags: ffi::Py_READONLY,
            doc: std::ptr::null(),
        };
        let mut members = [
            member(c"_owner", ffi::Py_T_OBJECT_EX, offset_of!(Handle, owner)),
            member(c"_row", ffi::Py_T_PYSSIZET, offset_of!(Handle, row)),
            ffi::PyMemberDef::default(),
        ];
        let mut slots = [
            ffi::PyType_Slot { slot: ffi::Py_tp_dealloc, pfunc: dealloc as *mut c_void },
            ffi::PyType_Slot { slot: ffi::Py_tp_members, pfunc: members.as_mut_ptr().cast() },
            ffi::PyType_Slot { slot: ffi::Py_tp_doc, pfunc: c"A row of an object.".as_ptr() as *mut c_void },
            ffi::PyType_Slot::default(),
        ];
        let mut spec = ffi::PyType_Spec {
            name: c"parley.kernel._native.RowHandle".as_ptr(),
            basicsize: size_of::<Handle>() as i32,
            itemsize: 0,
            flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as u32,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: everything the specification points to lives until the call is over, and the names always do.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec)) }?;
        Ok::<_, PyErr>(made.cast_into::<PyType>()?.unbind())
    })?;
    Ok(made.bind(py))
}

/// Returns an instance of a class that derives from it.
#[inline]
pub fn make<'py>(kind: &Bound<'py, PyType>, owner: &Bound<'py, PyAny>, row: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = kind.py();
    // SAFETY: an instance of the class, or of one derived from it, begins with a Handle, which is all zeros at first.
    unsafe {
        if ffi::PyType_IsSubtype(kind.as_ptr().cast(), class(py)?.as_ptr().cast()) == 0 {
            return Err(PyTypeError::new_err("the class does not derive from RowHandle"));
        }
        let made = Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericAlloc(kind.as_ptr().cast(), 0))?;
        let handle = made.as_ptr().cast::<Handle>();
        (*handle).owner = owner.clone().into_ptr();
        (*handle).row = row as isize;
        if ffi::PyType_GetFlags(kind.as_ptr().cast()) & ffi::Py_TPFLAGS_HAVE_GC != 0 {
            ffi::PyObject_GC_UnTrack(made.as_ptr().cast());
        }
        Ok(made)
    }
}

/// Returns a row of an object, as an instance of a class that derives from RowHandle.
#[pyfunction]
pub fn row_handle<'py>(
    kind: &Bound<'py, PyType>,
    owner: &Bound<'py, PyAny>,
    row: usize,
) -> PyResult<Bound<'py, PyAny>> {
    make(kind, owner, row)
}
