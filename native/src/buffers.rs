//! Buffers across the boundary: Rust memory that Python reads, Python memory that Rust reads.

use std::ffi::{c_char, c_int, c_void};
use std::mem::{size_of, MaybeUninit};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// What a buffer owns; the element type only matters for how it is freed.
pub enum Owned {
    Bytes(Vec<u8>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
}

impl Owned {
    fn parts(&self) -> (*const u8, usize) {
        match self {
            Owned::Bytes(v) => (v.as_ptr(), v.len()),
            Owned::Int32(v) => (v.as_ptr().cast(), v.len() * size_of::<i32>()),
            Owned::Int64(v) => (v.as_ptr().cast(), v.len() * size_of::<i64>()),
        }
    }
}

/// Numbers whose memory may be read as bytes.
pub trait Number: Copy {}
impl Number for i32 {}
impl Number for i64 {}

/// Returns numbers as the bytes that they are in memory.
pub fn bytes_of<T: Number>(numbers: &[T]) -> &[u8] {
    // SAFETY: these numbers have no padding, and any byte may be read.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), std::mem::size_of_val(numbers)) }
}

/// Memory that Rust filled, handed out through the buffer protocol as bytes without a copy.
#[pyclass(frozen, module = "parley.kernel._native")]
pub struct Buffer {
    owned: Owned,
}

impl Buffer {
    pub fn new(owned: Owned) -> Self {
        Buffer { owned }
    }
}

const FORMAT: &[u8; 2] = b"B\0";

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.owned.parts().1
    }

    /// Fills the view. The memory is never moved or changed while this object lives, and the view
    /// holds a reference to it. It is writable, so that a batch can be stamped in place.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("view is null"));
        }
        let (data, len) = slf.get().owned.parts();
        // SAFETY: `view` is a valid Py_buffer of the caller; FORMAT is static; shape and strides
        // point into the view itself, as PyBuffer_FillInfo does.
        unsafe {
            (*view).buf = data as *mut c_void;
            (*view).len = len as isize;
            (*view).readonly = 0;
            (*view).itemsize = 1;
            (*view).format = if flags & ffi::PyBUF_FORMAT == ffi::PyBUF_FORMAT {
                FORMAT.as_ptr() as *mut c_char
            } else {
                std::ptr::null_mut()
            };
            (*view).ndim = 1;
            (*view).shape =
                if flags & ffi::PyBUF_ND == ffi::PyBUF_ND { &mut (*view).len } else { std::ptr::null_mut() };
            (*view).strides = if flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES {
                &mut (*view).itemsize
            } else {
                std::ptr::null_mut()
            };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }
}

/// A contiguous buffer of a Python object, whatever its element format, held until dropped.
pub struct View {
    raw: Box<ffi::Py_buffer>,
}

// SAFETY: the memory stays where it is while the view is held; the contract forbids the caller to
// change it during the call. The view itself is acquired and released attached to the interpreter.
unsafe impl Send for View {}
unsafe impl Sync for View {}

impl View {
    pub fn bytes(&self) -> &[u8] {
        if self.raw.len <= 0 || self.raw.buf.is_null() {
            return &[];
        }
        // SAFETY: PyBUF_SIMPLE guarantees `len` contiguous readable bytes at `buf`.
        unsafe { std::slice::from_raw_parts(self.raw.buf.cast::<u8>(), self.raw.len as usize) }
    }

    pub fn int64(&self, at: usize) -> Option<i64> {
        int64(self.bytes(), at)
    }

    /// Returns a view of memory that Rust filled.
    pub fn of(py: Python<'_>, owned: Owned) -> PyResult<Self> {
        Bound::new(py, Buffer::new(owned))?.extract()
    }
}

/// Returns a number of memory that holds numbers.
pub fn int64(numbers: &[u8], at: usize) -> Option<i64> {
    let start = at.checked_mul(8)?;
    let raw = numbers.get(start..start.checked_add(8)?)?;
    Some(i64::from_le_bytes(raw.try_into().ok()?))
}

impl<'a, 'py> FromPyObject<'a, 'py> for View {
    type Error = PyErr;

    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let mut raw = Box::new(MaybeUninit::<ffi::Py_buffer>::zeroed());
        // SAFETY: on success the buffer is filled; on failure Python has set the exception.
        unsafe {
            if ffi::PyObject_GetBuffer(obj.as_ptr(), raw.as_mut_ptr(), ffi::PyBUF_SIMPLE) != 0 {
                return Err(PyErr::fetch(obj.py()));
            }
            Ok(View { raw: Box::from_raw(Box::into_raw(raw).cast::<ffi::Py_buffer>()) })
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the view was acquired by PyObject_GetBuffer; views live in functions that are
        // attached to the interpreter when they end.
        Python::attach(|_| unsafe { ffi::PyBuffer_Release(&mut *self.raw) });
    }
}
