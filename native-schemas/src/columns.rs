//! Columns under construction. A row that could not be read is taken back by `truncate`.

use crate::datum::{full, Read};

/// Rows that a column has room for from the beginning: schemas can be made to have very many columns.
const MOST_RESERVED: usize = 65_536;

/// What a column is made of; the physical side of Arrow's types.
#[derive(Clone, Debug, PartialEq)]
pub enum Layout {
    Null,
    Bool,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
    Decimal128,
    Decimal256,
    Interval,
    Var,
    List(Box<Layout>),
    Map(Box<Layout>),
    Struct(Vec<Layout>),
}

/// Bits, one for each row.
#[derive(Default)]
pub struct Bits {
    pub bytes: Vec<u8>,
    pub len: usize,
}

impl Bits {
    #[inline]
    pub fn push(&mut self, value: bool) {
        if self.len % 8 == 0 {
            self.bytes.push(0);
        }
        if value {
            self.bytes[self.len / 8] |= 1 << (self.len % 8);
        }
        self.len += 1;
    }

    fn ones(len: usize) -> Self {
        let mut made = Bits { bytes: vec![0xff; len.div_ceil(8)], len };
        made.trim();
        made
    }

    fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.len = len;
            self.bytes.truncate(len.div_ceil(8));
            self.trim();
        }
    }

    fn trim(&mut self) {
        if self.len % 8 != 0 {
            if let Some(last) = self.bytes.last_mut() {
                *last &= (1 << (self.len % 8)) - 1;
            }
        }
    }

    pub fn zeros(&self) -> usize {
        self.len - self.bytes.iter().map(|byte| byte.count_ones() as usize).sum::<usize>()
    }
}

/// Which rows are not null; nothing is kept as long as none is.
#[derive(Default)]
pub struct Validity(pub Option<Bits>);

impl Validity {
    #[inline]
    pub fn valid(&mut self) {
        if let Some(bits) = &mut self.0 {
            bits.push(true);
        }
    }

    /// Takes note of a null behind `len` rows.
    fn null(&mut self, len: usize) {
        self.0.get_or_insert_with(|| Bits::ones(len)).push(false);
    }

    fn truncate(&mut self, len: usize) {
        if let Some(bits) = &mut self.0 {
            bits.truncate(len);
        }
    }
}

/// Values of one width.
pub struct Fixed<T> {
    pub values: Vec<T>,
    pub valid: Validity,
}

impl<T: Copy + Default> Fixed<T> {
    fn new(rows: usize) -> Self {
        Fixed { values: Vec::with_capacity(rows), valid: Validity::default() }
    }

    #[inline]
    pub fn push(&mut self, value: T) {
        self.values.push(value);
        self.valid.valid();
    }

    fn null(&mut self) {
        self.valid.null(self.values.len());
        self.values.push(T::default());
    }

    fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.valid.truncate(len);
    }
}

/// Texts or bytes.
pub struct Var {
    pub offsets: Vec<i32>,
    pub data: Vec<u8>,
    pub valid: Validity,
}

impl Var {
    pub fn new(rows: usize) -> Self {
        Var { offsets: offsets(rows), data: Vec::new(), valid: Validity::default() }
    }

    #[inline]
    pub fn push(&mut self, value: &[u8]) -> Read<()> {
        let Ok(end) = i32::try_from(self.data.len() + value.len()) else {
            return full();
        };
        self.data.extend_from_slice(value);
        self.offsets.push(end);
        self.valid.valid();
        Ok(())
    }

    pub fn get(&self, row: usize) -> &[u8] {
        &self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    pub fn null(&mut self) {
        self.valid.null(self.offsets.len() - 1);
        self.offsets.push(self.data.len() as i32);
    }

    fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.data.truncate(self.offsets[len] as usize);
        self.valid.truncate(len);
    }
}

/// Lists, or maps as lists of entries.
pub struct List<T> {
    pub offsets: Vec<i32>,
    pub items: T,
    pub valid: Validity,
}

impl<T> List<T> {
    fn new(rows: usize, items: T) -> Self {
        List { offsets: offsets(rows), items, valid: Validity::default() }
    }

    /// Ends a row whose items are there; `end` is how many there are of all rows.
    #[inline]
    pub fn close(&mut self, end: usize) -> Read<()> {
        let Ok(end) = i32::try_from(end) else {
            return full();
        };
        self.offsets.push(end);
        self.valid.valid();
        Ok(())
    }

    pub fn last(&self) -> usize {
        self.offsets[self.offsets.len() - 1] as usize
    }

    fn null(&mut self) {
        self.valid.null(self.offsets.len() - 1);
        self.offsets.push(self.last() as i32);
    }

    /// Returns how many items are left.
    fn truncate(&mut self, len: usize) -> usize {
        self.offsets.truncate(len + 1);
        self.valid.truncate(len);
        self.last()
    }
}

pub struct Entries {
    pub keys: Column,
    pub values: Column,
}

pub struct Struct {
    pub len: usize,
    pub children: Vec<Column>,
    pub valid: Validity,
}

impl Struct {
    /// Ends a row whose fields are there.
    #[inline]
    pub fn close(&mut self) {
        self.len += 1;
        self.valid.valid();
    }

    pub fn null(&mut self) {
        self.valid.null(self.len);
        self.len += 1;
        self.children.iter_mut().for_each(Column::null);
    }
}

fn offsets(rows: usize) -> Vec<i32> {
    let mut made = Vec::with_capacity(rows + 1);
    made.push(0);
    made
}

pub enum Column {
    Null(usize),
    Bool(Bits, Validity),
    I8(Fixed<i8>),
    I16(Fixed<i16>),
    I32(Fixed<i32>),
    I64(Fixed<i64>),
    F32(Fixed<f32>),
    F64(Fixed<f64>),
    Decimal128(Fixed<i128>),
    Decimal256(Fixed<[u64; 4]>),
    /// Months and days in the lower half, nanoseconds in the upper one.
    Interval(Fixed<[u64; 2]>),
    Var(Var),
    List(Box<List<Column>>),
    Map(Box<List<Entries>>),
    Struct(Struct),
}

impl Column {
    /// Makes a column with room for `rows`, up to a limit; what is within lists grows.
    pub fn new(layout: &Layout, rows: usize) -> Self {
        let rows = rows.min(MOST_RESERVED);
        match layout {
            Layout::Null => Column::Null(0),
            Layout::Bool => Column::Bool(Bits::default(), Validity::default()),
            Layout::I8 => Column::I8(Fixed::new(rows)),
            Layout::I16 => Column::I16(Fixed::new(rows)),
            Layout::I32 => Column::I32(Fixed::new(rows)),
            Layout::I64 => Column::I64(Fixed::new(rows)),
            Layout::F32 => Column::F32(Fixed::new(rows)),
            Layout::F64 => Column::F64(Fixed::new(rows)),
            Layout::Decimal128 => Column::Decimal128(Fixed::new(rows)),
            Layout::Decimal256 => Column::Decimal256(Fixed::new(rows)),
            Layout::Interval => Column::Interval(Fixed::new(rows)),
            Layout::Var => Column::Var(Var::new(rows)),
            Layout::List(inner) => Column::List(Box::new(List::new(rows, Column::new(inner, 0)))),
            Layout::Map(inner) => {
                let entries = Entries { keys: Column::new(&Layout::Var, 0), values: Column::new(inner, 0) };
                Column::Map(Box::new(List::new(rows, entries)))
            }
            Layout::Struct(fields) => Column::Struct(Struct {
                len: 0,
                children: fields.iter().map(|one| Column::new(one, rows)).collect(),
                valid: Validity::default(),
            }),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Column::Null(len) => *len,
            Column::Bool(bits, _) => bits.len,
            Column::I8(one) => one.values.len(),
            Column::I16(one) => one.values.len(),
            Column::I32(one) => one.values.len(),
            Column::I64(one) => one.values.len(),
            Column::F32(one) => one.values.len(),
            Column::F64(one) => one.values.len(),
            Column::Decimal128(one) => one.values.len(),
            Column::Decimal256(one) => one.values.len(),
            Column::Interval(one) => one.values.len(),
            Column::Var(one) => one.offsets.len() - 1,
            Column::List(one) => one.offsets.len() - 1,
            Column::Map(one) => one.offsets.len() - 1,
            Column::Struct(one) => one.len,
        }
    }

    /// Appends a null; below a null record all is null.
    pub fn null(&mut self) {
        match self {
            Column::Null(len) => *len += 1,
            Column::Bool(bits, valid) => {
                valid.null(bits.len);
                bits.push(false);
            }
            Column::I8(one) => one.null(),
            Column::I16(one) => one.null(),
            Column::I32(one) => one.null(),
            Column::I64(one) => one.null(),
            Column::F32(one) => one.null(),
            Column::F64(one) => one.null(),
            Column::Decimal128(one) => one.null(),
            Column::Decimal256(one) => one.null(),
            Column::Interval(one) => one.null(),
            Column::Var(one) => one.null(),
            Column::List(one) => one.null(),
            Column::Map(one) => one.null(),
            Column::Struct(one) => one.null(),
        }
    }

    /// Takes back all rows from `len` on, those that are only half there as well.
    pub fn truncate(&mut self, len: usize) {
        match self {
            Column::Null(now) => *now = len.min(*now),
            Column::Bool(bits, valid) => {
                bits.truncate(len);
                valid.truncate(len);
            }
            Column::I8(one) => one.truncate(len),
            Column::I16(one) => one.truncate(len),
            Column::I32(one) => one.truncate(len),
            Column::I64(one) => one.truncate(len),
            Column::F32(one) => one.truncate(len),
            Column::F64(one) => one.truncate(len),
            Column::Decimal128(one) => one.truncate(len),
            Column::Decimal256(one) => one.truncate(len),
            Column::Interval(one) => one.truncate(len),
            Column::Var(one) => one.truncate(len),
            Column::List(one) => {
                let items = one.truncate(len);
                one.items.truncate(items);
            }
            Column::Map(one) => {
                let items = one.truncate(len);
                one.items.keys.truncate(items);
                one.items.values.truncate(items);
            }
            Column::Struct(one) => {
                one.len = len.min(one.len);
                one.valid.truncate(len);
                one.children.iter_mut().for_each(|child| child.truncate(len));
            }
        }
    }

    #[inline]
    pub fn push_bool(&mut self, value: bool) {
        let Column::Bool(bits, valid) = self else { unreachable!("checked when the plan was made") };
        bits.push(value);
        valid.valid();
    }
}

macro_rules! inner {
    ($($name:ident, $variant:ident, $kind:ty;)*) => {
        impl Column {
            $(
                #[inline]
                pub fn $name(&mut self) -> &mut $kind {
                    match self {
                        Column::$variant(one) => one,
                        _ => unreachable!("checked when the plan was made"),
                    }
                }
            )*
        }
    };
}

inner! {
    i8, I8, Fixed<i8>;
    i16, I16, Fixed<i16>;
    i32, I32, Fixed<i32>;
    i64, I64, Fixed<i64>;
    f32, F32, Fixed<f32>;
    f64, F64, Fixed<f64>;
    decimal128, Decimal128, Fixed<i128>;
    decimal256, Decimal256, Fixed<[u64; 4]>;
    interval, Interval, Fixed<[u64; 2]>;
    var, Var, Var;
    list, List, Box<List<Column>>;
    map, Map, Box<List<Entries>>;
    record, Struct, Struct;
}
