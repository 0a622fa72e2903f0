//! The compiled record kernel: parley/kernel/functions.py as a Python module.
//!
//! Everything per record runs detached from the interpreter. Foreign bytes can cause Failure and
//! nothing else; a panic, which would be a bug, is stopped here and becomes one too.

mod args;
mod batches;
mod buffers;
mod columns;
mod compress;
mod crc;
mod cursor;
mod cut;
mod digest;
mod encode;
mod fetches;
mod gather;
mod group;
mod gzip;
mod handle;
mod input;
mod legacy;
mod limits;
mod lz4;
mod magic2;
mod murmur2;
mod record;
mod record_class;
mod rows;
mod scan;
mod unused;
mod varint;

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use args::{ColumnsArg, DecodeArg, EncodeArg, ScanArg, VarArg};
use buffers::{Buffer, Owned, View};
use columns::Builder;
use limits::{flaw, Failure, Flaw, Kind, MAX_COLUMN_BYTES};

pyo3::create_exception!(
    _native,
    NativeError,
    pyo3::exceptions::PyValueError,
    "A kernel call failed; args are (kind, detail, span, record)."
);

fn raise(failure: Failure) -> PyErr {
    NativeError::new_err((failure.flaw.kind.name(), failure.flaw.what, failure.span, failure.record))
}

/// Runs `work` without the interpreter; a panic in it becomes a Failure.
fn detached<R: Send>(py: Python<'_>, work: impl FnOnce() -> Result<R, Failure> + Send) -> PyResult<R> {
    py.detach(|| {
        catch_unwind(AssertUnwindSafe(work))
            .unwrap_or_else(|_| Err(flaw(Kind::Malformed, "the kernel panicked: a bug in parley").into()))
    })
    .map_err(raise)
}

/// Decodes as many spans as the limits admit; returns (columns, spans done).
#[pyfunction]
#[pyo3(name = "decode")]
fn py_decode<'py>(py: Python<'py>, data: View, spans: View, options: DecodeArg) -> PyResult<Bound<'py, PyTuple>> {
    let options = options.into_options();
    let (builder, done) = detached(py, || {
        let (mut builder, done) =
            compress::with_scratch(|scratch| decode_spans(data.bytes(), spans.bytes(), &options, scratch))?;
        builder.shrink();
        Ok((builder, done))
    })?;
    args::decoded(py, builder, done)
}

fn decode_spans(
    data: &[u8],
    spans: &[u8],
    options: &columns::Options,
    scratch: &mut compress::Scratch,
) -> Result<(Builder, usize), Failure> {
    let mut builder = Builder::new(options);
    let mut used = 0usize;
    let count = spans.len() / (8 * scan::SPAN_FIELDS);
    let field =
        |at: usize| buffers::int64(spans, at).and_then(|value| usize::try_from(value).ok()).unwrap_or(usize::MAX);
    for index in 0..count {
        let first = index == 0;
        let roomy = builder.begin_span() && builder.rows < options.max_rows && used < options.max_bytes;
        if !first && !roomy {
            return Ok((builder, index));
        }
        let room = if first { MAX_COLUMN_BYTES } else { MAX_COLUMN_BYTES - used };
        let (start, end) = (field(scan::SPAN_FIELDS * index), field(scan::SPAN_FIELDS * index + 1));
        if !first {
            let passed = buffers::int64(spans, scan::SPAN_FIELDS * index - 2).unwrap_or(-1);
            builder.first_offset = options.first_offset.max(passed);
        }
        let read = span_of(data, start, end)
            .and_then(|span| decode_span(span, options, first, room, &mut builder, scratch))
            .map_err(|failure| Failure { span: index as i64, ..failure })?;
        match read {
            Some(read) => used += read,
            None => return Ok((builder, index)),
        }
        if first && count > 1 {
            let span_bytes =
                |at: usize| field(scan::SPAN_FIELDS * at + 1).saturating_sub(field(scan::SPAN_FIELDS * at)) as f64;
            // As many rows as this call may return: a table may be much longer than that.
            let most = span_bytes(0) * (options.max_rows as f64 / builder.rows.max(1) as f64);
            let (mut all, mut at) = (0.0, 0);
            while at < count && all < most {
                all += span_bytes(at);
                at += 1;
            }
            builder.expect(all.min(most) / span_bytes(0), options.max_bytes);
        }
    }
    Ok((builder, count))
}

fn span_of(data: &[u8], start: usize, end: usize) -> Result<&[u8], Failure> {
    let span = (start <= end).then(|| data.get(start..end)).flatten();
    span.ok_or(flaw(Kind::Argument, "a span outside the data").into())
}

/// Adds one span; returns the bytes of records it held, or None where it must wait for the next call.
fn decode_span(
    span: &[u8],
    options: &columns::Options,
    first: bool,
    room: usize,
    builder: &mut Builder,
    scratch: &mut compress::Scratch,
) -> Result<Option<usize>, Failure> {
    match span.get(16) {
        None => Err(limits::malformed("too few bytes for a batch").into()),
        Some(2) => {
            let (header, plain) = magic2::open(span, options, scratch)?;
            if !first && (builder.rows + header.count > options.max_rows || plain.len() > room) {
                return Ok(None);
            }
            magic2::decode(&header, plain, builder)?;
            Ok(Some(plain.len()))
        }
        Some(0 | 1) => legacy::decode(span, options, builder, room, scratch),
        Some(_) => Err(flaw(Kind::Magic, "there is no such magic").into()),
    }
}

/// Cuts one batch into pieces of at most `most` records; returns (data, span table).
#[pyfunction]
fn cut_batch(
    py: Python<'_>,
    data: View,
    start: usize,
    end: usize,
    options: DecodeArg,
    most: usize,
) -> PyResult<(Buffer, Buffer)> {
    let options = columns::Options { max_span_rows: usize::MAX, ..options.into_options() };
    let pieces = detached(py, || {
        compress::with_scratch(|scratch| cut::cut(span_of(data.bytes(), start, end)?, &options, most, scratch))
    })?;
    Ok((Buffer::new(Owned::Bytes(pieces.data)), Buffer::new(Owned::Int64(pieces.table))))
}

/// Encodes one batch; returns (data, next start, max timestamp).
#[pyfunction]
#[pyo3(name = "encode")]
fn py_encode(
    py: Python<'_>,
    columns: ColumnsArg,
    rows: Option<View>,
    start: i64,
    options: EncodeArg,
) -> PyResult<(Buffer, usize, i64)> {
    let input = columns.into_input(rows);
    let options = options.into_options();
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    let output = detached(py, || encode::encode(&input, start, &options))?;
    Ok((Buffer::new(Owned::Bytes(output.data)), output.next_start, output.max_timestamp))
}

type ScanTuple = (Buffer, Buffer, usize, i64, i32);

/// Follows batch headers from byte `start` on; returns the fields of BatchScan.
#[pyfunction]
fn scan_batches(py: Python<'_>, data: View, start: usize, options: ScanArg) -> PyResult<ScanTuple> {
    let options = options.options();
    let found =
        detached(py, || Ok(compress::with_scratch(|scratch| scan::scan(data.bytes(), start, &options, scratch))))?;
    let (table, epochs) = (Owned::Int64(found.table), Owned::Int64(found.epochs));
    Ok((Buffer::new(table), Buffer::new(epochs), found.end, found.next_offset, found.leader_epoch))
}

type RunTuple = (usize, u8, u8, usize, i64, i64, i64, i32);

/// Finds the span of magic-0/1 messages at `start`; returns the fields of LegacyRun, or None.
#[pyfunction]
fn scan_legacy(py: Python<'_>, data: View, start: usize, max_entries: usize) -> PyResult<Option<RunTuple>> {
    detached(py, || {
        Ok(legacy::scan(data.bytes(), start, max_entries).map(|run| {
            (
                run.end,
                run.magic,
                run.codec,
                run.entries,
                run.first_offset,
                run.last_offset,
                run.max_timestamp,
                run.timestamp_type,
            )
        }))
    })
}

/// Returns Java's default partition of each key as int32, -1 where the key is null.
#[pyfunction]
fn murmur2_partitions(
    py: Python<'_>,
    key: VarArg,
    rows: Option<View>,
    count: usize,
    partitions: i64,
) -> PyResult<Buffer> {
    let key = key.into_input();
    let found = detached(py, || {
        let partitions = u32::try_from(partitions).ok().filter(|n| *n > 0 && *n <= i32::MAX as u32);
        let Some(partitions) = partitions else {
            return Err(flaw(Kind::Argument, "a topic has at least one partition").into());
        };
        let input = input::Input { selection: rows, ..input::Input::of_keys(key) };
        let source = input.source();
        let total = if input.selection.is_some() { source.selected } else { count };
        let mut found = Vec::with_capacity(total.min(input.rows));
        for at in 0..total {
            found.push(source.key_at(at)?.map_or(-1, |value| murmur2::partition(value, partitions)));
        }
        Ok(found)
    })?;
    Ok(Buffer::new(Owned::Int32(found)))
}

/// Returns the rows of each partition, one partition after the other and each in its order, and how many each has.
#[pyfunction]
fn group_rows(py: Python<'_>, targets: View, partitions: i64) -> PyResult<(Buffer, Buffer)> {
    let (order, counts) = detached(py, || Ok(group::group(targets.bytes(), partitions)?))?;
    Ok((Buffer::new(Owned::Int32(order)), Buffer::new(Owned::Int32(counts))))
}

/// Returns the hash of each record as uint64.
#[pyfunction]
fn record_hashes(py: Python<'_>, columns: ColumnsArg) -> PyResult<Buffer> {
    let input = columns.into_input(None);
    let hashes = detached(py, || Ok(digest::hashes(&input)?))?;
    Ok(Buffer::new(Owned::Int64(hashes)))
}

/// Returns number of hashes, sum and polynomial of each run of hashes.
#[pyfunction]
fn digest_runs(py: Python<'_>, hashes: View, first: i64, run: i64) -> PyResult<Buffer> {
    let runs = detached(py, || Ok(digest::runs(hashes.bytes(), first, run)?))?;
    Ok(Buffer::new(Owned::Int64(runs)))
}

/// Returns the column of a list of bytes and None.
#[pyfunction]
fn bytes_column(values: &Bound<'_, PyList>) -> PyResult<args::VarTuple> {
    rows::column(values).map(args::var).map_err(raise)
}

#[pyfunction]
#[pyo3(name = "crc32c")]
fn py_crc32c(py: Python<'_>, data: View) -> PyResult<u32> {
    detached(py, || Ok(crc::crc32c(data.bytes())))
}

#[pyfunction]
#[pyo3(name = "crc32")]
fn py_crc32(py: Python<'_>, data: View) -> PyResult<u32> {
    detached(py, || Ok(crc::crc32(data.bytes())))
}

fn codec_number(codec: i64) -> Result<u8, Flaw> {
    u8::try_from(codec).map_err(|_| flaw(Kind::Codec, "there is no such compression codec"))
}

#[pyfunction]
fn compress_bytes(py: Python<'_>, codec: i64, data: View, level: Option<i32>, magic: u8) -> PyResult<Buffer> {
    let packed = detached(py, || Ok(compress::packed(codec_number(codec)?, data.bytes(), level, magic, 0)?))?;
    Ok(Buffer::new(Owned::Bytes(packed)))
}

#[pyfunction]
fn decompress_bytes(py: Python<'_>, codec: i64, data: View, max_bytes: usize, magic: u8) -> PyResult<Buffer> {
    let plain = detached(py, || {
        compress::with_scratch(|scratch| {
            let plain = scratch.decompress(codec_number(codec)?, data.bytes(), max_bytes, magic)?;
            Ok(plain.to_vec())
        })
    })?;
    Ok(Buffer::new(Owned::Bytes(plain)))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("NativeError", module.py().get_type::<NativeError>())?;
    module.add_class::<Buffer>()?;
    module.add("ConsumerRecord", record_class::class(module.py())?)?;
    module.add_class::<cursor::RecordCursor>()?;
    module.add_class::<gather::RecordGatherer>()?;
    module.add("RowHandle", handle::class(module.py())?)?;
    module.add_function(wrap_pyfunction!(cursor::record_cursor, module)?)?;
    module.add_function(wrap_pyfunction!(fetches::first_records, module)?)?;
    module.add_function(wrap_pyfunction!(fetches::follow_fronts, module)?)?;
    module.add_function(wrap_pyfunction!(gather::gather, module)?)?;
    module.add_function(wrap_pyfunction!(batches::encode_gathered, module)?)?;
    module.add_function(wrap_pyfunction!(handle::row_handle, module)?)?;
    module.add_function(wrap_pyfunction!(py_decode, module)?)?;
    module.add_function(wrap_pyfunction!(cut_batch, module)?)?;
    module.add_function(wrap_pyfunction!(py_encode, module)?)?;
    module.add_function(wrap_pyfunction!(scan_batches, module)?)?;
    module.add_function(wrap_pyfunction!(scan_legacy, module)?)?;
    module.add_function(wrap_pyfunction!(murmur2_partitions, module)?)?;
    module.add_function(wrap_pyfunction!(group_rows, module)?)?;
    module.add_function(wrap_pyfunction!(record_hashes, module)?)?;
    module.add_function(wrap_pyfunction!(digest_runs, module)?)?;
    module.add_function(wrap_pyfunction!(bytes_column, module)?)?;
    module.add_function(wrap_pyfunction!(py_crc32c, module)?)?;
    module.add_function(wrap_pyfunction!(py_crc32, module)?)?;
    module.add_function(wrap_pyfunction!(compress_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(decompress_bytes, module)?)?;
    Ok(())
}
