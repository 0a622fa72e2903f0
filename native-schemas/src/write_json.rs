//! Rows of columns into JSON texts, byte for byte as the reference writes them. What does not fit is left to the
//! reference, whose words say why.

use std::collections::HashSet;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyTuple};

use crate::base64;
use crate::input::Input;
use crate::moments;
use crate::write::{Misfit, Rows, MAX_DEPTH};
use crate::Unsupported;

/// What writes a column of one type.
pub enum Json {
    Null,
    Bool,
    /// Bytes that a number has in the column, and bits that it has to fit.
    Whole {
        width: usize,
        bits: u32,
    },
    Real {
        from_float: bool,
        short: bool,
    },
    Text {
        wide: bool,
    },
    Bytes {
        wide: bool,
    },
    Date,
    /// How many microseconds a unit has.
    Timestamp(i64),
    Array(Box<Json>),
    Map(Box<Json>),
    Object(Vec<Property>),
}

pub struct Property {
    /// The name as a text of JSON, and a colon.
    name: Vec<u8>,
    null: Absent,
    inner: Json,
}

/// What is written where there is no value.
#[derive(Clone, Copy)]
enum Absent {
    LeftOut,
    Null,
    Misfit,
}

/// A plan together with the arrays that it reads.
pub struct JsonWriter<'a> {
    json: &'a Json,
    input: Input<'a>,
    inner: Vec<JsonWriter<'a>>,
}

static KEYS: Json = Json::Text { wide: false };

impl Json {
    pub fn parse(plan: &Bound<'_, PyAny>, depth: usize) -> PyResult<Self> {
        if depth > MAX_DEPTH {
            return Err(Unsupported::new_err("the schema is nested too deep"));
        }
        let plan = plan.cast::<PyTuple>()?;
        let get = |at: usize| plan.get_item(at);
        let inner = |at: usize| Json::parse(&plan.get_item(at)?, depth + 1).map(Box::new);
        Ok(match get(0)?.extract::<String>()?.as_str() {
            "null" => Json::Null,
            "boolean" => Json::Bool,
            "whole" => Json::Whole { width: get(1)?.extract()?, bits: get(2)?.extract()? },
            "real" => Json::Real { from_float: get(1)?.extract()?, short: get(2)?.extract()? },
            "text" => Json::Text { wide: get(1)?.extract()? },
            "bytes" => Json::Bytes { wide: get(1)?.extract()? },
            "date" => Json::Date,
            "timestamp" => Json::Timestamp(get(1)?.extract()?),
            "array" => Json::Array(inner(1)?),
            "map" => Json::Map(inner(1)?),
            "object" => {
                let mut properties = Vec::new();
                for one in get(1)?.try_iter()? {
                    let (name, null, plan): (String, String, Bound<'_, PyAny>) = one?.extract()?;
                    let null = match null.as_str() {
                        "" => Absent::LeftOut,
                        "null" => Absent::Null,
                        _ => Absent::Misfit,
                    };
                    let mut text = Vec::new();
                    quoted(name.as_bytes(), &mut text);
                    text.push(b':');
                    properties.push(Property { name: text, null, inner: Json::parse(&plan, depth + 1)? });
                }
                Json::Object(properties)
            }
            name => return Err(PyValueError::new_err(format!("a plan has {name} to write"))),
        })
    }

    /// Puts the plan beside the arrays that it reads.
    pub fn bind<'a>(&'a self, input: Input<'a>) -> PyResult<JsonWriter<'a>> {
        let mut inner = Vec::new();
        match self {
            Json::Null => {}
            Json::Bool | Json::Whole { .. } | Json::Real { .. } | Json::Date | Json::Timestamp(_) => {
                input.check(2, 0)?
            }
            Json::Text { .. } | Json::Bytes { .. } => input.check(3, 0)?,
            Json::Array(item) => {
                input.check(2, 1)?;
                inner.push(item.bind(input.child(0)?)?);
            }
            Json::Map(value) => {
                input.check(2, 1)?;
                let entries = input.child(0)?;
                entries.check(1, 2)?;
                inner.push(KEYS.bind(entries.field(0)?)?);
                inner.push(value.bind(entries.field(1)?)?);
            }
            Json::Object(properties) => {
                input.check(1, properties.len())?;
                for (at, one) in properties.iter().enumerate() {
                    inner.push(one.inner.bind(input.field(at)?)?);
                }
            }
        }
        Ok(JsonWriter { json: self, input, inner })
    }
}

impl Rows for JsonWriter<'_> {
    fn input(&self) -> &Input<'_> {
        &self.input
    }

    /// Appends the text of a row; null where there is no value.
    fn row(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Misfit> {
        if !self.input.is_valid(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match self.json {
            Json::Null => out.extend_from_slice(b"null"),
            Json::Bool => out.extend_from_slice(if self.input.boolean(row) { b"true" } else { b"false" }),
            Json::Whole { width, bits } => whole(self.input.whole(*width, row), *bits, out)?,
            Json::Real { from_float, short } => {
                let value = if *from_float { f64::from(self.input.value::<f32>(row)) } else { self.input.value(row) };
                let largest = if *short { f64::from(f32::MAX) } else { f64::MAX };
                if !(-largest..=largest).contains(&value) {
                    return Err(Misfit);
                }
                real(value, out);
            }
            Json::Text { wide } => {
                let text = self.input.var(*wide, row);
                if std::str::from_utf8(text).is_err() {
                    return Err(Misfit);
                }
                quoted(text, out);
            }
            Json::Bytes { wide } => {
                out.push(b'"');
                base64::encode(self.input.var(*wide, row), out);
                out.push(b'"');
            }
            Json::Date => {
                out.push(b'"');
                moments::write_date(i64::from(self.input.value::<i32>(row)), out).ok_or(Misfit)?;
                out.push(b'"');
            }
            Json::Timestamp(micros) => {
                let value = self.input.value::<i64>(row).checked_mul(*micros).ok_or(Misfit)?;
                out.push(b'"');
                moments::write_timestamp(value, out).ok_or(Misfit)?;
                out.push(b'"');
            }
            Json::Array(_) => {
                out.push(b'[');
                let (start, end) = self.input.span::<i32>(row);
                for item in start..end {
                    if item > start {
                        out.push(b',');
                    }
                    self.inner[0].row(item, out)?;
                }
                out.push(b']');
            }
            Json::Map(_) => self.map(row, out)?,
            Json::Object(properties) => self.object(properties, row, out)?,
        }
        Ok(())
    }
}

impl JsonWriter<'_> {
    fn map(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Misfit> {
        let (start, end) = self.input.span::<i32>(row);
        let mut seen = HashSet::new();
        out.push(b'{');
        for item in start..end {
            // the reference knows which of two equal keys counts
            if end - start > 1 && !seen.insert(self.inner[0].input.var(false, item)) {
                return Err(Misfit);
            }
            if item > start {
                out.push(b',');
            }
            self.inner[0].row(item, out)?;
            out.push(b':');
            self.inner[1].row(item, out)?;
        }
        out.push(b'}');
        Ok(())
    }

    fn object(&self, properties: &[Property], row: usize, out: &mut Vec<u8>) -> Result<(), Misfit> {
        out.push(b'{');
        let begin = out.len();
        let mut missing = false;
        for (property, inner) in properties.iter().zip(&self.inner) {
            if inner.has(row) {
                separate(begin, out);
                out.extend_from_slice(&property.name);
                inner.row(row, out)?;
            } else {
                missing |= !matches!(property.null, Absent::LeftOut);
            }
        }
        if missing {
            for (property, inner) in properties.iter().zip(&self.inner) {
                match property.null {
                    Absent::Misfit if !inner.has(row) => return Err(Misfit),
                    Absent::Null if !inner.has(row) => {
                        separate(begin, out);
                        out.extend_from_slice(&property.name);
                        out.extend_from_slice(b"null");
                    }
                    _ => {}
                }
            }
        }
        out.push(b'}');
        Ok(())
    }

    fn has(&self, row: usize) -> bool {
        !matches!(self.json, Json::Null) && self.input.is_valid(row)
    }
}

fn separate(begin: usize, out: &mut Vec<u8>) {
    if out.len() > begin {
        out.push(b',');
    }
}

fn whole(value: i64, bits: u32, out: &mut Vec<u8>) -> Result<(), Misfit> {
    if bits < 64 && !(-(1i64 << (bits - 1))..1i64 << (bits - 1)).contains(&value) {
        return Err(Misfit);
    }
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut left = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
    Ok(())
}

/// Appends the shortest digits that stand for a number, laid out as Python's repr does.
fn real(value: f64, out: &mut Vec<u8>) {
    let shortest = format!("{value:e}");
    let exact;
    let (mut digits, mut exponent) = parts(&shortest);
    if let Some(found) = even(value, digits, exponent) {
        exact = found;
        (digits, exponent) = parts(&exact);
    }
    let digits = match digits.strip_prefix('-') {
        Some(rest) => {
            out.push(b'-');
            rest
        }
        None => digits,
    };
    let (first, rest) = digits.split_once('.').unwrap_or((digits, ""));
    if !(-4..16).contains(&exponent) {
        out.extend_from_slice(digits.as_bytes());
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(first.as_bytes());
        out.extend_from_slice(rest.as_bytes());
    } else {
        let places = exponent as usize;
        out.extend_from_slice(first.as_bytes());
        match rest.split_at_checked(places) {
            Some((before, behind)) if !behind.is_empty() => {
                out.extend_from_slice(before.as_bytes());
                out.push(b'.');
                out.extend_from_slice(behind.as_bytes());
            }
            _ => {
                out.extend_from_slice(rest.as_bytes());
                out.resize(out.len() + places - rest.len(), b'0');
                out.extend_from_slice(b".0");
            }
        }
    }
}

/// Returns the text that ends with an even digit where a number lies in the middle of two shortest ones: Python takes
/// that one, and so does exact formatting.
fn even(value: f64, digits: &str, exponent: i32) -> Option<String> {
    let places = digits.split_once('.').map_or(0, |(_, rest)| rest.len());
    let decimals = i32::try_from(places).unwrap_or(0) - exponent;
    // in the middle of two numbers with so many decimals lie only multiples of this power of two
    if !(1..60).contains(&decimals) || (value * 2f64.powi(decimals + 1)).fract() != 0.0 {
        return None;
    }
    let exact = format!("{value:.places$e}");
    (exact.parse() == Ok(value)).then_some(exact)
}

fn parts(text: &str) -> (&str, i32) {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (digits, exponent.parse().unwrap_or(0))
}

/// Appends a text in quotes, with what JSON has to escape.
fn quoted(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut begin = 0;
    for (at, byte) in text.iter().enumerate() {
        let short = match byte {
            b'"' | b'\\' => *byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            0..=0x1f => 0,
            _ => continue,
        };
        out.extend_from_slice(&text[begin..at]);
        if short == 0 {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
        } else {
            out.extend_from_slice(&[b'\\', short]);
        }
        begin = at + 1;
    }
    out.extend_from_slice(&text[begin..]);
    out.push(b'"');
}
