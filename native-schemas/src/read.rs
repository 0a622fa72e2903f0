//! A datum into a row of a column, by a plan; or past it.

use std::collections::HashSet;

use crate::columns::{Column, Entries, List, Var};
use crate::datum::{Datum, Fault, Read};
use crate::decimal::Precision;

/// Entries of a map that are compared each with each; more go through a set.
const FEW_ENTRIES: usize = 8;

/// What reads one value of a writer's schema into a column of the reader's.
pub enum Node {
    Null,
    Bool,
    Int(Whole),
    Long(Whole),
    Float,
    FloatAsDouble,
    Double,
    Bytes,
    Text,
    Decimal {
        size: Option<i64>,
        precision: Precision,
        wide: bool,
    },
    Fixed(i64),
    Uuid,
    Duration,
    Enum {
        name: String,
        symbols: Vec<Symbol>,
    },
    List(Box<Node>),
    Map(Box<Node>),
    Branches(Vec<Node>),
    /// A branch that the reader has no place for; why.
    Unreadable(String),
    /// The branch of a union that is a struct of members.
    Member(usize, Box<Node>),
    Record {
        steps: Vec<Step>,
        defaults: Vec<Default>,
    },
}

/// What a whole number becomes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Whole {
    I32,
    I64,
    F32,
    F64,
    /// A time in a finer unit.
    Times(i64),
}

/// An enum's symbol as the reader has it, or why it has none.
pub type Symbol = Result<Vec<u8>, String>;

pub enum Step {
    Read(usize, Node),
    Skip(Skip),
}

/// What the reader has where the writer has no field.
pub struct Default {
    pub child: usize,
    pub datum: Vec<u8>,
    pub node: Node,
}

/// What passes over a value.
pub enum Skip {
    Nothing,
    Bool,
    Int,
    Long,
    Fixed(i64),
    Bytes,
    List(Box<Skip>),
    Map(Box<Skip>),
    Branches(Vec<Skip>),
    Record(Vec<Skip>),
}

impl Node {
    pub fn read(&self, datum: &mut Datum, column: &mut Column) -> Read<()> {
        match self {
            Node::Null => column.null(),
            Node::Bool => column.push_bool(datum.boolean()?),
            Node::Int(whole) => {
                let value = i64::from(datum.int()?);
                return whole.push(datum, column, value);
            }
            Node::Long(whole) => {
                let value = datum.number()?;
                return whole.push(datum, column, value);
            }
            Node::Float => column.f32().push(datum.float()?),
            Node::FloatAsDouble => column.f64().push(f64::from(datum.float()?)),
            Node::Double => column.f64().push(datum.double()?),
            Node::Bytes => return column.var().push(datum.bytes()?),
            Node::Text => return column.var().push(datum.text()?),
            Node::Decimal { size, precision, wide } => {
                let raw = match size {
                    Some(size) => datum.raw(*size)?,
                    None => datum.bytes()?,
                };
                if *wide {
                    column.decimal256().push(precision.wide(datum, raw)?);
                } else {
                    column.decimal128().push(precision.narrow(datum, raw)?);
                }
            }
            Node::Fixed(size) => return column.var().push(datum.raw(*size)?),
            Node::Uuid => return column.var().push(&uuid_text(datum.array()?)),
            Node::Duration => {
                let raw: [u8; 12] = datum.array()?;
                let part = |at: usize| u32::from_le_bytes(raw[at..at + 4].try_into().expect("four bytes"));
                let (months, days, millis) = (part(0), part(4), part(8));
                if months > i32::MAX as u32 || days > i32::MAX as u32 {
                    return datum.fault("a duration has more months or days than a column can hold");
                }
                let days_and_months = u64::from(months) | u64::from(days) << 32;
                column.interval().push([days_and_months, u64::from(millis) * 1_000_000]);
            }
            Node::Enum { name, symbols } => {
                let index = datum.int()?;
                match usize::try_from(index).ok().and_then(|at| symbols.get(at)) {
                    Some(Ok(symbol)) => return column.var().push(symbol),
                    Some(Err(why)) => return datum.fault(why),
                    None => return datum.fault(format_args!("the enum {name} has no symbol {index}")),
                }
            }
            Node::List(item) => {
                let list = column.list();
                loop {
                    let count = datum.block()?;
                    if count == 0 {
                        break;
                    }
                    for _ in 0..count {
                        item.read(datum, &mut list.items)?;
                    }
                }
                let end = list.items.len();
                return list.close(end);
            }
            Node::Map(value) => return read_map(value, datum, column.map()),
            Node::Branches(branches) => return branch(datum, branches)?.read(datum, column),
            Node::Unreadable(why) => return datum.fault(why),
            Node::Member(place, inner) => {
                let members = column.record();
                inner.read(datum, &mut members.children[*place])?;
                for (at, other) in members.children.iter_mut().enumerate() {
                    if at != *place {
                        other.null();
                    }
                }
                members.close();
            }
            Node::Record { steps, defaults } => {
                let record = column.record();
                for step in steps {
                    match step {
                        Step::Read(child, node) => node.read(datum, &mut record.children[*child])?,
                        Step::Skip(skip) => skip.over(datum)?,
                    }
                }
                for one in defaults {
                    one.node.read(&mut Datum::new(&one.datum), &mut record.children[one.child])?;
                }
                record.close();
            }
        }
        Ok(())
    }
}

impl Whole {
    #[inline]
    fn push(self, datum: &Datum, column: &mut Column, value: i64) -> Read<()> {
        match self {
            Whole::I32 => column.i32().push(value as i32),
            Whole::I64 => column.i64().push(value),
            // as the reference has it, which knows only doubles
            Whole::F32 => column.f32().push(value as f64 as f32),
            Whole::F64 => column.f64().push(value as f64),
            Whole::Times(factor) => match value.checked_mul(factor) {
                Some(found) => column.i64().push(found),
                None => return datum.fault(format_args!("the time {value} does not fit the unit of its column")),
            },
        }
        Ok(())
    }
}

#[inline]
fn branch<'a, T>(datum: &mut Datum, branches: &'a [T]) -> Read<&'a T> {
    let index = datum.number()?;
    match usize::try_from(index).ok().and_then(|at| branches.get(at)) {
        Some(found) => Ok(found),
        None => datum.fault(format_args!("the union has no branch {index}")),
    }
}

fn read_map(value: &Node, datum: &mut Datum, map: &mut List<Entries>) -> Read<()> {
    let start = map.last();
    loop {
        let count = datum.block()?;
        if count == 0 {
            break;
        }
        for _ in 0..count {
            map.items.keys.var().push(datum.text()?)?;
            value.read(datum, &mut map.items.values)?;
        }
    }
    let keys = map.items.keys.var();
    let end = keys.offsets.len() - 1;
    if has_twice(keys, start, end) {
        return Err(Box::new(Fault::Odd));
    }
    map.close(end)
}

pub fn has_twice(keys: &Var, start: usize, end: usize) -> bool {
    if end - start <= FEW_ENTRIES {
        return (start + 1..end).any(|one| (start..one).any(|other| keys.get(one) == keys.get(other)));
    }
    let mut seen = HashSet::with_capacity(end - start);
    !(start..end).all(|row| seen.insert(keys.get(row)))
}

fn uuid_text(raw: [u8; 16]) -> [u8; 36] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (index, byte) in raw.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = DIGITS[usize::from(byte >> 4)];
        text[at + 1] = DIGITS[usize::from(byte & 15)];
        at += 2;
    }
    text
}

impl Skip {
    pub fn over(&self, datum: &mut Datum) -> Read<()> {
        match self {
            Skip::Nothing => {}
            Skip::Bool => {
                datum.boolean()?;
            }
            Skip::Int => {
                datum.int()?;
            }
            Skip::Long => {
                datum.number()?;
            }
            Skip::Fixed(size) => {
                datum.raw(*size)?;
            }
            Skip::Bytes => {
                datum.bytes()?;
            }
            Skip::List(item) => loop {
                let count = datum.block()?;
                if count == 0 {
                    break;
                }
                for _ in 0..count {
                    item.over(datum)?;
                }
            },
            Skip::Map(value) => loop {
                let count = datum.block()?;
                if count == 0 {
                    break;
                }
                for _ in 0..count {
                    datum.bytes()?;
                    value.over(datum)?;
                }
            },
            Skip::Branches(branches) => return branch(datum, branches)?.over(datum),
            Skip::Record(fields) => {
                for one in fields {
                    one.over(datum)?;
                }
            }
        }
        Ok(())
    }
}
