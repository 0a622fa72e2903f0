//! Rows of columns into datums. What does not fit is left to the reference, whose words say why.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyTuple};

use crate::columns::Var;
use crate::input::Input;
use crate::Unsupported;

pub const MAX_DEPTH: usize = 100;

/// What writes a column of one type as a schema says.
pub enum Write {
    Null,
    Bool,
    /// Bytes that a number has in the column, what it is divided by, whether it has to fit 32 bits.
    Whole {
        width: usize,
        divide: i64,
        short: bool,
    },
    Float,
    Double {
        from_float: bool,
    },
    Bytes {
        wide: bool,
        text: bool,
    },
    Fixed {
        wide: bool,
        size: usize,
    },
    Enum {
        wide: bool,
        symbols: HashMap<Vec<u8>, i64>,
    },
    Decimal {
        bound: u128,
        size: Option<usize>,
    },
    List(Box<Write>),
    Map(Box<Write>),
    Optional {
        null: Option<i64>,
        branch: i64,
        inner: Box<Write>,
    },
    Record(Vec<Field>),
}

pub enum Field {
    Column(usize, Write),
    /// The datum of a default.
    Absent(Vec<u8>),
}

/// A value does not fit; the reference finds out why.
pub struct Misfit;

/// What writes rows of a column.
pub trait Rows {
    fn input(&self) -> &Input<'_>;
    /// Appends the data of a row.
    fn row(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Misfit>;
}

/// A plan together with the arrays that it reads.
pub struct Writer<'a> {
    write: &'a Write,
    input: Input<'a>,
    inner: Vec<Writer<'a>>,
}

static KEYS: Write = Write::Bytes { wide: false, text: true };

impl Write {
    pub fn parse(plan: &Bound<'_, PyAny>, depth: usize) -> PyResult<Self> {
        if depth > MAX_DEPTH {
            return Err(Unsupported::new_err("the schema is nested too deep"));
        }
        let plan = plan.cast::<PyTuple>()?;
        let get = |at: usize| plan.get_item(at);
        let inner = |at: usize| Write::parse(&plan.get_item(at)?, depth + 1);
        Ok(match get(0)?.extract::<String>()?.as_str() {
            "null" => Write::Null,
            "boolean" => Write::Bool,
            "whole" => {
                Write::Whole { width: get(1)?.extract()?, divide: get(2)?.extract()?, short: get(3)?.extract()? }
            }
            "float" => Write::Float,
            "double" => Write::Double { from_float: get(1)?.extract()? },
            "bytes" => Write::Bytes { wide: get(1)?.extract()?, text: get(2)?.extract()? },
            "fixed" => Write::Fixed { wide: get(1)?.extract()?, size: get(2)?.extract()? },
            "enum" => {
                let symbols = get(2)?.extract::<Vec<String>>()?;
                let numbered = symbols.into_iter().map(String::into_bytes).zip(0..);
                Write::Enum { wide: get(1)?.extract()?, symbols: numbered.collect() }
            }
            "decimal" => {
                let digits: u32 = get(1)?.extract()?;
                let bound = 10u128.checked_pow(digits).ok_or_else(|| PyValueError::new_err("too many digits"))?;
                Write::Decimal { bound, size: get(2)?.extract()? }
            }
            "list" => Write::List(Box::new(inner(1)?)),
            "map" => Write::Map(Box::new(inner(1)?)),
            "optional" => {
                Write::Optional { null: get(1)?.extract()?, branch: get(2)?.extract()?, inner: Box::new(inner(3)?) }
            }
            "record" => {
                let mut fields = Vec::new();
                for one in get(1)?.try_iter()? {
                    let (at, plan): (Option<usize>, Bound<'_, PyAny>) = one?.extract()?;
                    fields.push(match at {
                        Some(at) => Field::Column(at, Write::parse(&plan, depth + 1)?),
                        None => Field::Absent(plan.extract()?),
                    });
                }
                Write::Record(fields)
            }
            name => return Err(PyValueError::new_err(format!("a plan has {name} to write"))),
        })
    }

    /// Puts the plan beside the arrays that it reads.
    pub fn bind<'a>(&'a self, input: Input<'a>) -> PyResult<Writer<'a>> {
        let mut inner = Vec::new();
        match self {
            Write::Null => {}
            Write::Bool | Write::Whole { .. } | Write::Float | Write::Double { .. } | Write::Decimal { .. } => {
                input.check(2, 0)?
            }
            Write::Bytes { .. } | Write::Fixed { .. } | Write::Enum { .. } => input.check(3, 0)?,
            Write::List(item) => {
                input.check(2, 1)?;
                inner.push(item.bind(input.child(0)?)?);
            }
            Write::Map(value) => {
                input.check(2, 1)?;
                let entries = input.child(0)?;
                entries.check(1, 2)?;
                inner.push(KEYS.bind(entries.field(0)?)?);
                inner.push(value.bind(entries.field(1)?)?);
            }
            Write::Optional { inner: only, .. } => inner.push(only.bind(input)?),
            Write::Record(fields) => {
                for one in fields {
                    if let Field::Column(at, write) = one {
                        inner.push(write.bind(input.field(*at)?)?);
                    }
                }
            }
        }
        Ok(Writer { write: self, input, inner })
    }
}

impl Rows for Writer<'_> {
    fn input(&self) -> &Input<'_> {
        &self.input
    }

    fn row(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Misfit> {
        let there = self.input.is_valid(row);
        if let Write::Optional { null, branch, .. } = self.write {
            if there {
                number(out, *branch);
                return self.inner[0].row(row, out);
            }
            number(out, null.ok_or(Misfit)?);
            return Ok(());
        }
        if !there && !matches!(self.write, Write::Null) {
            return Err(Misfit);
        }
        match self.write {
            Write::Null | Write::Optional { .. } => {}
            Write::Bool => out.push(u8::from(self.input.boolean(row))),
            Write::Whole { width, divide, short } => {
                let value = self.input.whole(*width, row);
                if value % divide != 0 {
                    return Err(Misfit);
                }
                let value = value / divide;
                if *short && i32::try_from(value).is_err() {
                    return Err(Misfit);
                }
                number(out, value);
            }
            Write::Float => out.extend_from_slice(&self.input.value::<f32>(row).to_le_bytes()),
            Write::Double { from_float: false } => {
                out.extend_from_slice(&self.input.value::<f64>(row).to_le_bytes());
            }
            Write::Double { from_float: true } => {
                out.extend_from_slice(&f64::from(self.input.value::<f32>(row)).to_le_bytes());
            }
            Write::Bytes { wide, text } => {
                let found = self.input.var(*wide, row);
                if *text && std::str::from_utf8(found).is_err() {
                    return Err(Misfit);
                }
                number(out, found.len() as i64);
                out.extend_from_slice(found);
            }
            Write::Fixed { wide, size } => {
                let found = self.input.var(*wide, row);
                if found.len() != *size {
                    return Err(Misfit);
                }
                out.extend_from_slice(found);
            }
            Write::Enum { wide, symbols } => {
                let place = symbols.get(self.input.var(*wide, row)).ok_or(Misfit)?;
                number(out, *place);
            }
            Write::Decimal { bound, size } => return decimal(self.input.value(row), *bound, *size, out),
            Write::List(_) | Write::Map(_) => {
                let (start, end) = self.input.span::<i32>(row);
                if end > start {
                    number(out, (end - start) as i64);
                    for item in start..end {
                        for one in &self.inner {
                            one.row(item, out)?;
                        }
                    }
                }
                out.push(0);
            }
            Write::Record(fields) => {
                let mut columns = self.inner.iter();
                for field in fields {
                    match field {
                        Field::Absent(datum) => out.extend_from_slice(datum),
                        Field::Column(..) => columns.next().ok_or(Misfit)?.row(row, out)?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// Makes messages of all rows: a prefix and the data, null for null.
pub fn write(writer: &impl Rows, prefix: &[u8]) -> Result<Var, Misfit> {
    let rows = writer.input().len();
    let mut made = Var::new(rows);
    for row in 0..rows {
        if !writer.input().is_valid(row) {
            made.null();
            continue;
        }
        made.data.extend_from_slice(prefix);
        writer.row(row, &mut made.data)?;
        made.offsets.push(i32::try_from(made.data.len()).map_err(|_| Misfit)?);
        made.valid.valid();
    }
    Ok(made)
}

#[inline]
fn number(out: &mut Vec<u8>, value: i64) {
    let mut left = (value << 1 ^ value >> 63) as u64;
    while left > 0x7f {
        out.push(left as u8 & 0x7f | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// Appends the shortest bytes of a number, or `size` of them.
fn decimal(value: i128, bound: u128, size: Option<usize>, out: &mut Vec<u8>) -> Result<(), Misfit> {
    if value.unsigned_abs() >= bound {
        return Err(Misfit);
    }
    let spare = (if value < 0 { value.leading_ones() } else { value.leading_zeros() } as usize - 1) / 8;
    let bytes = value.to_be_bytes();
    let short = &bytes[spare.min(15)..];
    match size {
        None => {
            number(out, short.len() as i64);
            out.extend_from_slice(short);
        }
        Some(size) if size < short.len() => return Err(Misfit),
        Some(size) => {
            let fill = if value < 0 { 0xff } else { 0 };
            out.resize(out.len() + size - short.len(), fill);
            out.extend_from_slice(short);
        }
    }
    Ok(())
}
