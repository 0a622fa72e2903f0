//! From what was gathered to batches: many gatherers in one call, for with thousands of topics each has few records.

use pyo3::prelude::*;

use crate::args::EncodeArg;
use crate::buffers::{bytes_of, Buffer, Owned};
use crate::encode;
use crate::gather::{Gathered, RecordGatherer};
use crate::group;
use crate::input::{Headers, Source, Var};
use crate::limits::{flaw, Failure, Flaw, Kind};
use crate::murmur2;

const OUTSIDE: Flaw = flaw(Kind::Argument, "a row of a partition that does not exist");
const UNPLACED: Flaw = flaw(Kind::Argument, "more rows are to be spread than runs were given for");

/// What one gatherer held, and where it goes.
struct Work {
    columns: Gathered,
    partitions: i32,
    /// Partitions of the rows that may go to any, and how many go there one after the other.
    runs: Vec<(i32, usize)>,
}

struct Batch {
    partition: i32,
    data: Vec<u8>,
    /// Its place among the rows in the order of the batches.
    start: usize,
    records: usize,
}

struct Made {
    /// The rows in the order of the batches, None where they are as they were gathered.
    order: Option<Vec<i32>>,
    batches: Vec<Batch>,
}

/// Returns the partition of each row.
fn targets(work: &Work, hash_keys: bool) -> Result<Vec<i32>, Flaw> {
    let partitions = u32::try_from(work.partitions).ok().filter(|count| *count > 0).ok_or(OUTSIDE)?;
    let rows = work.columns.rows();
    let mut runs = work.runs.iter();
    let (mut current, mut left) = (0, 0usize);
    let mut found = Vec::with_capacity(rows);
    let validity = work.columns.key.validity();
    let keys = Var::of_column(&work.columns.key, validity.as_deref());
    for row in 0..rows {
        let named = work.columns.partitions.as_ref().map_or(-1, |named| named[row]);
        if named >= 0 {
            found.push(named);
            continue;
        }
        if hash_keys {
            if let Some(key) = keys.get(row)? {
                found.push(murmur2::partition(key, partitions));
                continue;
            }
        }
        while left == 0 {
            (current, left) = *runs.next().ok_or(UNPLACED)?;
        }
        left -= 1;
        found.push(current);
    }
    Ok(found)
}

fn make(work: &Work, hash_keys: bool, options: &encode::Options) -> Result<Made, Failure> {
    let columns = &work.columns;
    let rows = columns.rows();
    let (order, counts) = if work.partitions == 1 && columns.partitions.is_none() {
        (Vec::new(), vec![rows as i32])
    } else {
        group::group(bytes_of(&targets(work, hash_keys)?), work.partitions.into())?
    };
    let in_order = counts.iter().filter(|count| **count > 0).count() < 2;
    let (key_validity, value_validity) = (columns.key.validity(), columns.value.validity());
    let header_validity = columns.headers.as_ref().and_then(|headers| headers.values.validity());
    let key = (columns.key.null_count() < rows).then(|| Var::of_column(&columns.key, key_validity.as_deref()));
    let value = (columns.value.null_count() < rows).then(|| Var::of_column(&columns.value, value_validity.as_deref()));
    let headers = columns
        .headers
        .as_ref()
        .map(|headers| Headers::of_columns(&headers.ends, &headers.keys, &headers.values, header_validity.as_deref()));
    let mut batches = Vec::new();
    let mut place = 0;
    for (partition, count) in counts.iter().enumerate() {
        let count = *count as usize;
        let selection = (!in_order).then(|| &order[place..place + count]);
        let source = Source::of_columns(&columns.times_ms, key, value, headers, selection);
        let mut start = 0;
        while start < count {
            let made = encode::source(&source, start, options)?;
            let records = made.next_start - start;
            batches.push(Batch { partition: partition as i32, data: made.data, start: place + start, records });
            start = made.next_start;
        }
        place += count;
    }
    Ok(Made { order: (!in_order).then_some(order), batches })
}

type BatchTuple = (i32, Buffer, usize, usize);

/// Returns (times, order, batches) of each gatherer, None for one that these options cannot write.
#[pyfunction]
pub fn encode_gathered<'py>(
    py: Python<'py>,
    work: Vec<(Bound<'py, RecordGatherer>, i32, Vec<(i32, usize)>)>,
    hash_keys: bool,
    options: EncodeArg,
) -> PyResult<Vec<Option<(Buffer, Option<Buffer>, Vec<BatchTuple>)>>> {
    let options = options.into_options();
    crate::detached(py, || Ok(encode::check(&options)?))?;
    let given: Vec<Work> = work
        .iter()
        .map(|(gatherer, partitions, runs)| Work {
            columns: gatherer.get().take_columns(py),
            partitions: *partitions,
            runs: runs.clone(),
        })
        .collect();
    let (given, made) = crate::detached(py, move || {
        let made: Vec<_> = given.iter().map(|one| make(one, hash_keys, &options).ok()).collect();
        Ok((given, made))
    })?;
    let results = given.into_iter().zip(made).zip(&work).map(|((given, made), (gatherer, _, _))| match made {
        None => {
            gatherer.get().put_back(py, given.columns);
            None
        }
        Some(made) => Some((
            Buffer::new(Owned::Int64(given.columns.times_ms)),
            made.order.map(|order| Buffer::new(Owned::Int32(order))),
            made.batches
                .into_iter()
                .map(|one| (one.partition, Buffer::new(Owned::Bytes(one.data)), one.start, one.records))
                .collect(),
        )),
    });
    Ok(results.collect())
}
