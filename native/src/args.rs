//! The contract's dataclasses as arguments, and columns as results.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::buffers::{Buffer, Owned, View};
use crate::columns::{Builder, Options, VarColumn};
use crate::encode;
use crate::input::{HeadersInput, Input, VarInput};
use crate::scan;

#[derive(FromPyObject)]
pub struct DecodeArg {
    first_offset: i64,
    end_offset: i64,
    want: u32,
    timestamp_scale: i64,
    check_crc: bool,
    max_rows: usize,
    max_bytes: usize,
    max_batch_bytes: usize,
    max_span_rows: usize,
}

impl DecodeArg {
    pub fn into_options(self) -> Options {
        Options {
            first_offset: self.first_offset,
            end_offset: self.end_offset,
            want: self.want,
            timestamp_scale: self.timestamp_scale,
            check_crc: self.check_crc,
            max_rows: self.max_rows,
            max_bytes: self.max_bytes,
            max_batch_bytes: self.max_batch_bytes,
            max_span_rows: self.max_span_rows,
        }
    }
}

#[derive(FromPyObject)]
pub struct ScanArg {
    position: i64,
    end_offset: i64,
    max_epochs: usize,
    aborted: View,
}

impl ScanArg {
    pub fn options(&self) -> scan::Options<'_> {
        scan::Options {
            position: self.position,
            end_offset: self.end_offset,
            max_epochs: self.max_epochs,
            aborted: self.aborted.bytes(),
        }
    }
}

#[derive(FromPyObject)]
pub struct VarArg {
    pub validity: Option<View>,
    pub offsets: View,
    pub data: View,
    pub bit_offset: usize,
}

impl VarArg {
    pub fn into_input(self) -> VarInput {
        VarInput { validity: self.validity, offsets: self.offsets, data: self.data, bit_offset: self.bit_offset }
    }
}

#[derive(FromPyObject)]
pub struct HeadersArg {
    pub offsets: View,
    pub keys: VarArg,
    pub values: VarArg,
}

#[derive(FromPyObject)]
pub struct ColumnsArg {
    pub rows: usize,
    pub offsets: Option<View>,
    pub timestamps: Option<View>,
    pub timestamp_types: Option<View>,
    pub key: Option<VarArg>,
    pub value: Option<VarArg>,
    pub headers: Option<HeadersArg>,
}

impl ColumnsArg {
    pub fn into_input(self, selection: Option<View>) -> Input {
        Input {
            rows: self.rows,
            offsets: self.offsets,
            timestamps: self.timestamps,
            key: self.key.map(VarArg::into_input),
            value: self.value.map(VarArg::into_input),
            headers: self.headers.map(|headers| HeadersInput {
                offsets: headers.offsets,
                keys: headers.keys.into_input(),
                values: headers.values.into_input(),
            }),
            selection,
        }
    }
}

#[derive(FromPyObject)]
pub struct EncodeArg {
    magic: i64,
    codec: i64,
    level: Option<i32>,
    max_bytes: i64,
    max_records: i64,
    base_offset: i64,
    timestamp_ms: i64,
    log_append_time_ms: Option<i64>,
    leader_epoch: i32,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    transactional: bool,
}

impl EncodeArg {
    pub fn into_options(self) -> encode::Options {
        encode::Options {
            magic: self.magic,
            codec: self.codec,
            level: self.level,
            max_bytes: usize::try_from(self.max_bytes).unwrap_or(0),
            max_records: usize::try_from(self.max_records).unwrap_or(0),
            base_offset: self.base_offset,
            timestamp_ms: self.timestamp_ms,
            log_append_time_ms: self.log_append_time_ms,
            leader_epoch: self.leader_epoch,
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            base_sequence: self.base_sequence,
            transactional: self.transactional,
        }
    }
}

pub type VarTuple = (Option<Buffer>, Buffer, Buffer, usize);

pub fn var(column: VarColumn) -> VarTuple {
    let validity = column.validity().map(|bitmap| Buffer::new(Owned::Bytes(bitmap)));
    let nulls = column.null_count();
    (validity, Buffer::new(Owned::Int32(column.offsets)), Buffer::new(Owned::Bytes(column.data)), nulls)
}

fn held_numbers(py: Python<'_>, numbers: Option<Owned>) -> PyResult<Option<View>> {
    numbers.map(|numbers| View::of(py, numbers)).transpose()
}

fn held_var(py: Python<'_>, column: VarColumn) -> PyResult<VarArg> {
    Ok(VarArg {
        validity: held_numbers(py, column.validity().map(Owned::Bytes))?,
        offsets: View::of(py, Owned::Int32(column.offsets))?,
        data: View::of(py, Owned::Bytes(column.data))?,
        bit_offset: 0,
    })
}

/// Returns decoded columns as if Python had given them.
pub fn held(py: Python<'_>, builder: Builder) -> PyResult<ColumnsArg> {
    let headers = builder.headers.map(|headers| {
        let offsets = View::of(py, Owned::Int32(headers.offsets))?;
        Ok::<_, PyErr>(HeadersArg { offsets, keys: held_var(py, headers.keys)?, values: held_var(py, headers.values)? })
    });
    Ok(ColumnsArg {
        rows: builder.rows,
        offsets: held_numbers(py, builder.offsets.map(Owned::Int64))?,
        timestamps: held_numbers(py, builder.timestamps.map(Owned::Int64))?,
        timestamp_types: held_numbers(py, builder.types.map(Owned::Int32))?,
        key: builder.key.map(|column| held_var(py, column)).transpose()?,
        value: builder.value.map(|column| held_var(py, column)).transpose()?,
        headers: headers.transpose()?,
    })
}

/// Returns (rows, offsets, timestamps, types, key, value, headers, spans done).
pub fn decoded(py: Python<'_>, builder: Builder, spans_done: usize) -> PyResult<Bound<'_, PyTuple>> {
    let headers = builder.headers.map(|headers| {
        let count = headers.count();
        (Buffer::new(Owned::Int32(headers.offsets)), var(headers.keys), var(headers.values), count)
    });
    (
        builder.rows,
        builder.offsets.map(|v| Buffer::new(Owned::Int64(v))),
        builder.timestamps.map(|v| Buffer::new(Owned::Int64(v))),
        builder.types.map(|v| Buffer::new(Owned::Int32(v))),
        builder.key.map(var),
        builder.value.map(var),
        headers,
        spans_done,
    )
        .into_pyobject(py)
}
