//! Arrow's C data interface: messages come in, columns go out, and nothing is copied.

use std::ffi::{c_void, CStr};
use std::ptr::{null, null_mut};

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::columns::{Bits, Column, Validity};

const NAME: &CStr = c"arrow_array";

#[repr(C)]
pub struct ArrowArray {
    pub length: i64,
    pub null_count: i64,
    pub offset: i64,
    pub n_buffers: i64,
    pub n_children: i64,
    pub buffers: *mut *const c_void,
    pub children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// What an exported array owns until it is released.
struct Owned {
    pointers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    _memory: Vec<Memory>,
}

/// Memory that a buffer points to; the type matters only for how it is freed.
#[allow(dead_code)]
enum Memory {
    Bytes(Vec<u8>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    I128(Vec<i128>),
    Wide(Vec<[u64; 4]>),
    Pair(Vec<[u64; 2]>),
}

impl Memory {
    fn start(&self) -> *const c_void {
        match self {
            Memory::Bytes(one) => one.as_ptr().cast(),
            Memory::I8(one) => one.as_ptr().cast(),
            Memory::I16(one) => one.as_ptr().cast(),
            Memory::I32(one) => one.as_ptr().cast(),
            Memory::I64(one) => one.as_ptr().cast(),
            Memory::F32(one) => one.as_ptr().cast(),
            Memory::F64(one) => one.as_ptr().cast(),
            Memory::I128(one) => one.as_ptr().cast(),
            Memory::Wide(one) => one.as_ptr().cast(),
            Memory::Pair(one) => one.as_ptr().cast(),
        }
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: called once for an array that `exported` made; a child that was moved away has no `release`.
    unsafe {
        let owned = Box::from_raw((*array).private_data.cast::<Owned>());
        for child in &owned.children {
            if let Some(release) = (**child).release {
                release(*child);
            }
            drop(Box::from_raw(*child));
        }
        (*array).release = None;
        (*array).private_data = null_mut();
    }
}

/// Makes an array of buffers. Without `valid` there is no buffer of nulls.
fn array(length: usize, valid: Option<Validity>, memory: Vec<Memory>, children: Vec<ArrowArray>) -> ArrowArray {
    let mut pointers = Vec::new();
    let mut all = Vec::new();
    let mut null_count = 0;
    if let Some(Validity(bits)) = valid {
        null_count = bits.as_ref().map_or(0, Bits::zeros);
        match bits.filter(|_| null_count > 0) {
            Some(bits) => {
                let kept = Memory::Bytes(bits.bytes);
                pointers.push(kept.start());
                all.push(kept);
            }
            None => pointers.push(null()),
        }
    }
    pointers.extend(memory.iter().map(Memory::start));
    all.extend(memory);
    let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
    let mut owned = Box::new(Owned { pointers, children, _memory: all });
    ArrowArray {
        length: length as i64,
        null_count: null_count as i64,
        offset: 0,
        n_buffers: owned.pointers.len() as i64,
        n_children: owned.children.len() as i64,
        buffers: owned.pointers.as_mut_ptr(),
        children: owned.children.as_mut_ptr(),
        dictionary: null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(owned).cast(),
    }
}

fn exported(column: Column) -> ArrowArray {
    let length = column.len();
    macro_rules! fixed {
        ($one:expr, $variant:ident) => {
            array(length, Some($one.valid), vec![Memory::$variant(tight($one.values))], vec![])
        };
    }
    match column {
        Column::Null(_) => ArrowArray { null_count: length as i64, ..array(length, None, vec![], vec![]) },
        Column::Bool(bits, valid) => array(length, Some(valid), vec![Memory::Bytes(bits.bytes)], vec![]),
        Column::I8(one) => fixed!(one, I8),
        Column::I16(one) => fixed!(one, I16),
        Column::I32(one) => fixed!(one, I32),
        Column::I64(one) => fixed!(one, I64),
        Column::F32(one) => fixed!(one, F32),
        Column::F64(one) => fixed!(one, F64),
        Column::Decimal128(one) => fixed!(one, I128),
        Column::Decimal256(one) => fixed!(one, Wide),
        Column::Interval(one) => fixed!(one, Pair),
        Column::Var(one) => {
            let memory = vec![Memory::I32(tight(one.offsets)), Memory::Bytes(tight(one.data))];
            array(length, Some(one.valid), memory, vec![])
        }
        Column::List(one) => {
            let one = *one;
            array(length, Some(one.valid), vec![Memory::I32(tight(one.offsets))], vec![exported(one.items)])
        }
        Column::Map(one) => {
            let one = *one;
            let count = one.items.keys.len();
            let pair = vec![exported(one.items.keys), exported(one.items.values)];
            let entries = array(count, Some(Validity::default()), vec![], pair);
            array(length, Some(one.valid), vec![Memory::I32(tight(one.offsets))], vec![entries])
        }
        Column::Struct(one) => {
            let children = one.children.into_iter().map(exported).collect();
            array(length, Some(one.valid), vec![], children)
        }
    }
}

/// Gives back memory that was reserved and not needed.
fn tight<T>(mut values: Vec<T>) -> Vec<T> {
    if values.capacity() - values.len() > values.len() / 4 {
        values.shrink_to_fit();
    }
    values
}

unsafe extern "C" fn drop_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule is one that `export` made; whoever took the array has set `release` to null.
    unsafe {
        let array = ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast::<ArrowArray>();
        if let Some(release) = (*array).release {
            release(array);
        }
        drop(Box::from_raw(array));
    }
}

/// Returns a column as the capsule of `__arrow_c_array__`.
pub fn export(py: Python<'_>, column: Column) -> PyResult<Bound<'_, PyAny>> {
    let array = Box::into_raw(Box::new(exported(column)));
    // SAFETY: the pointer is valid until the capsule's destructor frees it.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(array.cast(), NAME.as_ptr(), Some(drop_capsule))) }
}

pub fn wrong_array() -> PyErr {
    PyValueError::new_err("the array is not of the type that it was said to be")
}

/// Returns the array that a capsule of `__arrow_c_array__` holds.
pub fn array_of<'a>(capsule: &'a Bound<'_, PyCapsule>) -> PyResult<&'a ArrowArray> {
    let pointer = capsule.pointer_checked(Some(NAME))?;
    // SAFETY: the capsule holds an array of the C data interface, which is valid while the capsule is.
    let array = unsafe { pointer.cast::<ArrowArray>().as_ref() };
    if array.release.is_none() {
        return Err(wrong_array());
    }
    Ok(array)
}

/// A column of bytes with offsets of 32 bits; the capsule keeps its memory.
pub struct Messages<'a> {
    offsets: &'a [i32],
    data: &'a [u8],
    valid: Option<&'a [u8]>,
    offset: usize,
}

impl<'a> Messages<'a> {
    /// The array must be of Arrow's type `binary`: its buffers do not say what they are.
    pub fn of(capsule: &'a Bound<'_, PyCapsule>) -> PyResult<Self> {
        let array = array_of(capsule)?;
        // SAFETY: the buffers of a binary array are validity, offsets and data, as long as Arrow says.
        unsafe {
            let length = usize::try_from(array.length).map_err(|_| wrong_array())?;
            let offset = usize::try_from(array.offset).map_err(|_| wrong_array())?;
            if array.n_buffers != 3 || array.n_children != 0 {
                return Err(wrong_array());
            }
            let [valid, offsets, data] = *array.buffers.cast::<[*const u8; 3]>();
            if length == 0 {
                return Ok(Messages { offsets: &[], data: &[], valid: None, offset: 0 });
            }
            if offsets.is_null() {
                return Err(wrong_array());
            }
            let offsets = std::slice::from_raw_parts(offsets.cast::<i32>().add(offset), length + 1);
            let end = usize::try_from(offsets[length]).map_err(|_| wrong_array())?;
            Ok(Messages {
                offsets,
                data: if data.is_null() { &[] } else { std::slice::from_raw_parts(data, end) },
                valid: (!valid.is_null()).then(|| std::slice::from_raw_parts(valid, (offset + length).div_ceil(8))),
                offset,
            })
        }
    }

    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns a message, or None for null.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
        if let Some(valid) = self.valid {
            let bit = self.offset + row;
            if valid[bit / 8] & (1 << (bit % 8)) == 0 {
                return None;
            }
        }
        let (start, end) = (self.offsets[row], self.offsets[row + 1]);
        Some(self.data.get(start as usize..end as usize).unwrap_or_default())
    }
}
