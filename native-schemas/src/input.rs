//! Columns of any type that come in over Arrow's C data interface, read where they lie.

use std::ffi::c_void;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::{array_of, wrong_array, ArrowArray};

/// One array, or a part of it. What its buffers hold is known to the plan, which was made for its type.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    array: &'a ArrowArray,
    length: usize,
    offset: usize,
}

// SAFETY: an array of the C data interface does not change, and its capsule is held during the call.
unsafe impl Send for Input<'_> {}
unsafe impl Sync for Input<'_> {}

impl<'a> Input<'a> {
    pub fn of(capsule: &'a Bound<'_, PyCapsule>) -> PyResult<Self> {
        Input::new(array_of(capsule)?)
    }

    fn new(array: &'a ArrowArray) -> PyResult<Self> {
        let length = usize::try_from(array.length).map_err(|_| wrong_array())?;
        let offset = usize::try_from(array.offset).map_err(|_| wrong_array())?;
        Ok(Input { array, length, offset })
    }

    pub fn len(&self) -> usize {
        self.length
    }

    /// Fails unless the array has as many buffers and children as its plan reads.
    pub fn check(&self, buffers: i64, children: usize) -> PyResult<()> {
        if self.array.n_buffers != buffers || self.array.n_children != children as i64 {
            return Err(wrong_array());
        }
        Ok(())
    }

    pub fn child(&self, at: usize) -> PyResult<Input<'a>> {
        if at as i64 >= self.array.n_children {
            return Err(wrong_array());
        }
        // SAFETY: the array has that many children.
        Input::new(unsafe { &**self.array.children.add(at) })
    }

    /// Returns a field of a struct, from where the struct begins.
    pub fn field(&self, at: usize) -> PyResult<Input<'a>> {
        let child = self.child(at)?;
        Ok(Input { offset: child.offset + self.offset, length: self.length, ..child })
    }

    fn buffer(&self, at: usize) -> *const c_void {
        // SAFETY: `check` compared the number of buffers with what the plan reads.
        unsafe { *self.array.buffers.add(at) }
    }

    fn bit(&self, at: usize, row: usize) -> bool {
        let bit = self.offset + row;
        // SAFETY: the buffer has a bit for each row.
        unsafe { *self.buffer(at).cast::<u8>().add(bit / 8) & (1 << (bit % 8)) != 0 }
    }

    #[inline]
    pub fn is_valid(&self, row: usize) -> bool {
        self.array.n_buffers > 0 && (self.buffer(0).is_null() || self.bit(0, row))
    }

    pub fn boolean(&self, row: usize) -> bool {
        self.bit(1, row)
    }

    /// Returns a value of one width.
    #[inline]
    pub fn value<T: Copy>(&self, row: usize) -> T {
        // SAFETY: the buffer has a value of this width for each row, as the plan says.
        unsafe { self.buffer(1).cast::<T>().add(self.offset + row).read_unaligned() }
    }

    /// Returns where the items or bytes of a row begin and end.
    #[inline]
    pub fn span<T: Copy + TryInto<usize>>(&self, row: usize) -> (usize, usize) {
        let (start, end): (T, T) = (self.value(row), self.value(row + 1));
        (start.try_into().unwrap_or(0), end.try_into().unwrap_or(0))
    }

    /// Returns a whole number of so many bytes.
    #[inline]
    pub fn whole(&self, width: usize, row: usize) -> i64 {
        match width {
            1 => i64::from(self.value::<i8>(row)),
            2 => i64::from(self.value::<i16>(row)),
            4 => i64::from(self.value::<i32>(row)),
            _ => self.value(row),
        }
    }

    /// Returns a text or bytes; `wide` says that offsets have 64 bits.
    #[inline]
    pub fn var(&self, wide: bool, row: usize) -> &'a [u8] {
        if wide {
            self.bytes::<i64>(row)
        } else {
            self.bytes::<i32>(row)
        }
    }

    #[inline]
    fn bytes<T: Copy + TryInto<usize>>(&self, row: usize) -> &'a [u8] {
        let (start, end) = self.span::<T>(row);
        if end <= start {
            return &[];
        }
        // SAFETY: offsets lie within the buffer of data.
        unsafe { std::slice::from_raw_parts(self.buffer(2).cast::<u8>().add(start), end - start) }
    }
}
