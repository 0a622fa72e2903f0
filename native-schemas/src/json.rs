//! A JSON text into a row of a column, by a shape.
//!
//! What is taken here is what the reference takes, with the same values. Whatever is damaged, doubtful or
//! rare (a property twice, half a surrogate pair, a number that does not fit) is `Odd`: the reference reads
//! it again, and its words say what is wrong.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::columns::Column;
use crate::datum::{Fault, Read};
use crate::read::has_twice;
use crate::{base64, moments};

const MAX_DEPTH: usize = 200;
const MOST_DIGITS: usize = 1_000;
/// Properties of an object, as far as one is kept in mind by bits.
pub const MAX_FIELDS: usize = 256;
/// Keys that are compared each with each; more go through a set.
const FEW_KEYS: usize = 8;

pub enum Shape {
    Text,
    Bytes,
    Date,
    Timestamp,
    Boolean,
    Integer(Bits),
    Number { short: bool },
    Array(Box<Shape>),
    Map(Box<Shape>),
    Object(Fields),
    Null,
    Any,
}

#[derive(Clone, Copy)]
pub enum Bits {
    I8,
    I16,
    I32,
    I64,
}

pub struct Fields {
    names: Vec<Vec<u8>>,
    shapes: Vec<Shape>,
    places: HashMap<Vec<u8>, usize>,
}

impl Fields {
    /// There are at most MAX_FIELDS, and each name is there once.
    pub fn new(fields: Vec<(String, Shape)>) -> Self {
        let (names, shapes): (Vec<_>, Vec<_>) =
            fields.into_iter().map(|(name, shape)| (name.into_bytes(), shape)).unzip();
        let places = names.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect();
        Fields { names, shapes, places }
    }

    /// Returns the place of a property; most come in the schema's order.
    #[inline]
    fn place(&self, name: &[u8], expected: usize) -> Option<usize> {
        match self.names.get(expected) {
            Some(next) if next == name => Some(expected),
            _ => self.places.get(name).copied(),
        }
    }
}

#[cold]
fn odd<T>() -> Read<T> {
    Err(Box::new(Fault::Odd))
}

/// Reads one message.
pub fn read(shape: &Shape, message: &[u8], column: &mut Column) -> Read<()> {
    if std::str::from_utf8(message).is_err() {
        return odd();
    }
    let mut text = Text { data: message, pos: 0, depth: 0 };
    shape.read(&mut text, column)?;
    text.space();
    if text.pos < message.len() {
        return odd();
    }
    Ok(())
}

struct Text<'a> {
    data: &'a [u8],
    pos: usize,
    depth: usize,
}

/// A number as it is written.
enum Number<'a> {
    Whole(&'a str),
    Real(&'a str),
}

impl<'a> Text<'a> {
    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.data.get(self.pos) {
            self.pos += 1;
        }
    }

    /// Returns the next byte that is no space, and does not pass it.
    #[inline]
    fn peek(&mut self) -> Read<u8> {
        self.space();
        match self.data.get(self.pos) {
            Some(byte) => Ok(*byte),
            None => odd(),
        }
    }

    /// Passes over a byte that has to stand here.
    #[inline]
    fn take(&mut self, wanted: u8) -> Read<()> {
        if self.peek()? != wanted {
            return odd();
        }
        self.pos += 1;
        Ok(())
    }

    fn word(&mut self, wanted: &[u8]) -> Read<()> {
        if !self.data[self.pos..].starts_with(wanted) {
            return odd();
        }
        self.pos += wanted.len();
        Ok(())
    }

    #[inline]
    fn null(&mut self) -> Read<bool> {
        if self.peek()? != b'n' {
            return Ok(false);
        }
        self.word(b"null").map(|()| true)
    }

    fn enter(&mut self, open: u8) -> Read<()> {
        self.take(open)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return odd();
        }
        Ok(())
    }

    /// Returns whether another member follows; the first one needs no comma before it.
    #[inline]
    fn more(&mut self, close: u8, first: &mut bool) -> Read<bool> {
        let next = self.peek()?;
        if next == close {
            self.pos += 1;
            self.depth -= 1;
            return Ok(false);
        }
        if !std::mem::take(first) {
            self.take(b',')?;
        }
        Ok(true)
    }

    fn key(&mut self) -> Read<Cow<'a, [u8]>> {
        let key = self.string()?;
        self.take(b':')?;
        Ok(key)
    }

    /// Returns the next string, without quotes and escapes.
    #[inline]
    fn string(&mut self) -> Read<Cow<'a, [u8]>> {
        self.take(b'"')?;
        let start = self.pos;
        match self.plain_end()? {
            b'"' => {
                let found = &self.data[start..self.pos];
                self.pos += 1;
                Ok(Cow::Borrowed(found))
            }
            _ => self.escaped(start).map(Cow::Owned),
        }
    }

    /// Goes on to the next quote or backslash, and returns it.
    #[inline]
    fn plain_end(&mut self) -> Read<u8> {
        let rest = &self.data[self.pos..];
        match rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
            Some(at) if rest[at] >= 0x20 => {
                self.pos += at;
                Ok(rest[at])
            }
            _ => odd(),
        }
    }

    fn escaped(&mut self, start: usize) -> Read<Vec<u8>> {
        let mut found = self.data[start..self.pos].to_vec();
        loop {
            let start = self.pos;
            let end = self.plain_end()?;
            found.extend_from_slice(&self.data[start..self.pos]);
            self.pos += 1;
            if end == b'"' {
                return Ok(found);
            }
            let Some(&escape) = self.data.get(self.pos) else {
                return odd();
            };
            self.pos += 1;
            match escape {
                b'"' | b'\\' | b'/' => found.push(escape),
                b'b' => found.push(8),
                b'f' => found.push(12),
                b'n' => found.push(b'\n'),
                b'r' => found.push(b'\r'),
                b't' => found.push(b'\t'),
                b'u' => {
                    let mut code = self.hex()?;
                    if (0xd800..0xdc00).contains(&code) {
                        self.word(b"\\u")?;
                        let low = self.hex()?;
                        if !(0xdc00..0xe000).contains(&low) {
                            return odd();
                        }
                        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                    }
                    match char::from_u32(code) {
                        Some(one) => found.extend_from_slice(one.encode_utf8(&mut [0; 4]).as_bytes()),
                        None => return odd(),
                    }
                }
                _ => return odd(),
            }
        }
    }

    fn hex(&mut self) -> Read<u32> {
        let mut value = 0;
        for _ in 0..4 {
            match self.data.get(self.pos).and_then(|byte| char::from(*byte).to_digit(16)) {
                Some(digit) => value = value * 16 + digit,
                None => return odd(),
            }
            self.pos += 1;
        }
        Ok(value)
    }

    fn digits(&mut self) -> usize {
        let start = self.pos;
        while self.data.get(self.pos).is_some_and(u8::is_ascii_digit) {
            self.pos += 1;
        }
        self.pos - start
    }

    fn number(&mut self) -> Read<Number<'a>> {
        self.space();
        let start = self.pos;
        let mut real = false;
        if self.data.get(self.pos) == Some(&b'-') {
            self.pos += 1;
        }
        let first = self.data.get(self.pos).copied();
        let whole = self.digits();
        if whole == 0 || whole > MOST_DIGITS || (first == Some(b'0') && whole > 1) {
            return odd();
        }
        if self.data.get(self.pos) == Some(&b'.') {
            self.pos += 1;
            real = true;
            if self.digits() == 0 {
                return odd();
            }
        }
        if let Some(b'e' | b'E') = self.data.get(self.pos) {
            self.pos += 1;
            real = true;
            if let Some(b'+' | b'-') = self.data.get(self.pos) {
                self.pos += 1;
            }
            if self.digits() == 0 {
                return odd();
            }
        }
        let Ok(text) = std::str::from_utf8(&self.data[start..self.pos]) else {
            return odd();
        };
        Ok(if real { Number::Real(text) } else { Number::Whole(text) })
    }

    /// Passes over a value, which has to be as JSON wants it.
    fn skip(&mut self) -> Read<()> {
        match self.peek()? {
            b'"' => drop(self.string()?),
            b'{' => {
                let mut first = true;
                self.enter(b'{')?;
                while self.more(b'}', &mut first)? {
                    self.key()?;
                    self.skip()?;
                }
            }
            b'[' => {
                let mut first = true;
                self.enter(b'[')?;
                while self.more(b']', &mut first)? {
                    self.skip()?;
                }
            }
            b't' => self.word(b"true")?,
            b'f' => self.word(b"false")?,
            b'n' => self.word(b"null")?,
            _ => {
                self.number()?;
            }
        }
        Ok(())
    }

    /// Appends a value as Python's json writes it without spaces; numbers as they are.
    fn copy(&mut self, out: &mut Vec<u8>) -> Read<()> {
        match self.peek()? {
            b'"' => quote(&self.string()?, out),
            b'{' => {
                let mut first = true;
                let mut keys: Vec<(usize, usize)> = Vec::new();
                self.enter(b'{')?;
                out.push(b'{');
                while self.more(b'}', &mut first)? {
                    if !keys.is_empty() {
                        out.push(b',');
                    }
                    let start = out.len();
                    quote(&self.key()?, out);
                    keys.push((start, out.len()));
                    out.push(b':');
                    self.copy(out)?;
                }
                if twice(&keys, out) {
                    return odd();
                }
                out.push(b'}');
            }
            b'[' => {
                let (mut first, mut count) = (true, 0usize);
                self.enter(b'[')?;
                out.push(b'[');
                while self.more(b']', &mut first)? {
                    if count > 0 {
                        out.push(b',');
                    }
                    count += 1;
                    self.copy(out)?;
                }
                out.push(b']');
            }
            b't' => {
                self.word(b"true")?;
                out.extend_from_slice(b"true");
            }
            b'f' => {
                self.word(b"false")?;
                out.extend_from_slice(b"false");
            }
            b'n' => {
                self.word(b"null")?;
                out.extend_from_slice(b"null");
            }
            _ => match self.number()? {
                Number::Whole(text) | Number::Real(text) => out.extend_from_slice(text.as_bytes()),
            },
        }
        Ok(())
    }
}

fn finite(text: &str) -> Read<f64> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => odd(),
    }
}

fn twice(keys: &[(usize, usize)], out: &[u8]) -> bool {
    let text = |(start, end): &(usize, usize)| &out[*start..*end];
    if keys.len() <= FEW_KEYS {
        return (1..keys.len()).any(|one| (0..one).any(|other| text(&keys[one]) == text(&keys[other])));
    }
    let mut seen = HashSet::with_capacity(keys.len());
    !keys.iter().all(|key| seen.insert(text(key)))
}

fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            0..=0x1f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

impl Shape {
    fn read(&self, text: &mut Text, column: &mut Column) -> Read<()> {
        if text.null()? {
            column.null();
            return Ok(());
        }
        match self {
            Shape::Text => return column.var().push(&text.string()?),
            Shape::Bytes => match base64::decode(&text.string()?) {
                Some(raw) => return column.var().push(&raw),
                None => return odd(),
            },
            Shape::Date => match moments::date(&text.string()?) {
                Some(days) => column.i32().push(days),
                None => return odd(),
            },
            Shape::Timestamp => match moments::timestamp(&text.string()?) {
                Some(micros) => column.i64().push(micros),
                None => return odd(),
            },
            Shape::Boolean => {
                let value = text.peek()? == b't';
                text.word(if value { b"true" } else { b"false" })?;
                column.push_bool(value);
            }
            Shape::Integer(bits) => {
                let value = whole(text.number()?)?;
                return bits.push(value, column);
            }
            Shape::Number { short } => {
                let value = match text.number()? {
                    Number::Whole(digits) => match digits.parse::<i64>() {
                        Ok(value) => value as f64,
                        Err(_) => return odd(),
                    },
                    Number::Real(digits) => finite(digits)?,
                };
                if !*short {
                    column.f64().push(value);
                } else if value.abs() <= f64::from(f32::MAX) {
                    column.f32().push(value as f32);
                } else {
                    return odd();
                }
            }
            Shape::Array(items) => {
                let list = column.list();
                let mut first = true;
                text.enter(b'[')?;
                while text.more(b']', &mut first)? {
                    items.read(text, &mut list.items)?;
                }
                let end = list.items.len();
                return list.close(end);
            }
            Shape::Map(values) => {
                let map = column.map();
                let (start, mut first) = (map.last(), true);
                text.enter(b'{')?;
                while text.more(b'}', &mut first)? {
                    map.items.keys.var().push(&text.key()?)?;
                    values.read(text, &mut map.items.values)?;
                }
                let keys = map.items.keys.var();
                let end = keys.offsets.len() - 1;
                if has_twice(keys, start, end) {
                    return odd();
                }
                return map.close(end);
            }
            Shape::Object(fields) => return read_object(fields, text, column),
            Shape::Null => return odd(),
            Shape::Any => {
                let mut copied = Vec::new();
                text.copy(&mut copied)?;
                return column.var().push(&copied);
            }
        }
        Ok(())
    }
}

fn read_object(fields: &Fields, text: &mut Text, column: &mut Column) -> Read<()> {
    let record = column.record();
    let mut seen = [0u64; MAX_FIELDS / 64];
    let (mut first, mut expected, mut found) = (true, 0, 0);
    text.enter(b'{')?;
    while text.more(b'}', &mut first)? {
        let key = text.key()?;
        let Some(place) = fields.place(&key, expected) else {
            text.skip()?;
            continue;
        };
        let bit = 1 << (place % 64);
        if seen[place / 64] & bit != 0 {
            return odd();
        }
        seen[place / 64] |= bit;
        fields.shapes[place].read(text, &mut record.children[place])?;
        expected = place + 1;
        found += 1;
    }
    if found < fields.shapes.len() {
        for (place, child) in record.children.iter_mut().enumerate() {
            if seen[place / 64] & (1 << (place % 64)) == 0 {
                child.null();
            }
        }
    }
    record.close();
    Ok(())
}

fn whole(number: Number) -> Read<i64> {
    match number {
        Number::Whole(text) => match text.parse() {
            Ok(value) => Ok(value),
            Err(_) => odd(),
        },
        // a double has too few digits for all whole numbers
        Number::Real(text) => match text.trim_end_matches('0').strip_suffix('.') {
            Some(whole) => whole.parse().or_else(|_| odd()),
            None => odd(),
        },
    }
}

impl Bits {
    #[inline]
    fn push(self, value: i64, column: &mut Column) -> Read<()> {
        macro_rules! narrow {
            ($column:ident) => {
                match value.try_into() {
                    Ok(value) => column.$column().push(value),
                    Err(_) => return odd(),
                }
            };
        }
        match self {
            Bits::I8 => narrow!(i8),
            Bits::I16 => narrow!(i16),
            Bits::I32 => narrow!(i32),
            Bits::I64 => column.i64().push(value),
        }
        Ok(())
    }
}
