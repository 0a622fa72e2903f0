//! The bytes of one datum, and how far they were read. The words of faults are those of
//! parley/serdes/avro/reading.py: a test compares them.

/// Items without bytes (nulls, empty records) that one datum may have.
const FREE_ITEMS: u64 = 65_536;

/// Why a datum has no row.
#[derive(Debug)]
pub enum Fault {
    /// It is damaged; the text says how, and at which byte.
    Damaged(String),
    /// The reference reads it: a map has a key twice.
    Odd,
    /// A column has no room for it: offsets of columns are 32 bits wide.
    Full,
}

pub type Read<T> = Result<T, Box<Fault>>;

#[cold]
pub fn full<T>() -> Read<T> {
    Err(Box::new(Fault::Full))
}

pub struct Datum<'a> {
    data: &'a [u8],
    pos: usize,
    items: u64,
}

impl<'a> Datum<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Datum { data, pos: 0, items: data.len() as u64 + FREE_ITEMS }
    }

    /// Returns the fault for what stands here.
    #[cold]
    pub fn fault<T>(&self, why: impl std::fmt::Display) -> Read<T> {
        Err(Box::new(Fault::Damaged(format!("{why} at byte {} of {}", self.pos, self.data.len()))))
    }

    /// Fails where bytes are left.
    pub fn finish(&self) -> Read<()> {
        match self.data.len() - self.pos {
            0 => Ok(()),
            left => self.fault(format_args!("{left} bytes too many")),
        }
    }

    #[inline]
    pub fn raw(&mut self, size: i64) -> Read<&'a [u8]> {
        let left = &self.data[self.pos..];
        match usize::try_from(size).ok().and_then(|size| left.get(..size)) {
            Some(found) => {
                self.pos += found.len();
                Ok(found)
            }
            None => self.fault(format_args!("{size} bytes are announced and {} are left", left.len())),
        }
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let mut found = [0; N];
        found.copy_from_slice(self.raw(N as i64)?);
        Ok(found)
    }

    /// Returns the next bytes, with their length before them.
    #[inline]
    pub fn bytes(&mut self) -> Read<&'a [u8]> {
        let size = self.number()?;
        self.raw(size)
    }

    /// Returns the next zigzag varint.
    #[inline]
    pub fn number(&mut self) -> Read<i64> {
        match self.data.get(self.pos) {
            Some(&first) if first < 0x80 => {
                self.pos += 1;
                Ok(zigzag(u64::from(first)))
            }
            _ => self.long_number(),
        }
    }

    /// Reads a number of several bytes: where eight are left, without a loop.
    #[inline]
    fn long_number(&mut self) -> Read<i64> {
        let rest = &self.data[self.pos..];
        if let Some(eight) = rest.first_chunk::<8>() {
            let word = u64::from_le_bytes(*eight);
            let ends = !word & 0x8080_8080_8080_8080;
            if ends != 0 {
                self.pos += ends.trailing_zeros() as usize / 8 + 1;
                // everything up to the first byte that ends the number
                return Ok(zigzag(seven_bits_each(word & (ends ^ (ends - 1)))));
            }
        }
        self.number_by_bytes()
    }

    fn number_by_bytes(&mut self) -> Read<i64> {
        let (mut value, mut shift, mut pos) = (0u64, 0u32, self.pos);
        loop {
            let Some(&byte) = self.data.get(pos).filter(|_| shift <= 63) else {
                return self.fault("a number has no end");
            };
            pos += 1;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 && byte < 0x80 {
                let whole = u128::from(value) | u128::from(bits) << 63;
                return self.too_large((whole >> 1) as i128 ^ -((whole & 1) as i128));
            }
            value |= bits << shift;
            if byte < 0x80 {
                self.pos = pos;
                return Ok(zigzag(value));
            }
            shift += 7;
        }
    }

    #[cold]
    fn too_large<T>(&self, found: i128) -> Read<T> {
        self.fault(format_args!("the number {found} is too large"))
    }

    /// Returns the next zigzag varint, which has to fit 32 bits.
    #[inline]
    pub fn int(&mut self) -> Read<i32> {
        let start = self.pos;
        let found = self.number()?;
        match i32::try_from(found) {
            Ok(found) => Ok(found),
            Err(_) => {
                self.pos = start;
                self.too_large(i128::from(found))
            }
        }
    }

    #[inline]
    pub fn boolean(&mut self) -> Read<bool> {
        match self.array::<1>()?[0] {
            0 => Ok(false),
            1 => Ok(true),
            byte => self.fault(format_args!("a boolean is {byte}")),
        }
    }

    #[inline]
    pub fn float(&mut self) -> Read<f32> {
        Ok(f32::from_le_bytes(self.array()?))
    }

    #[inline]
    pub fn double(&mut self) -> Read<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// Returns how many items the next block of a list or map has, 0 at the end.
    #[inline]
    pub fn block(&mut self) -> Read<u64> {
        let said = self.number()?;
        let count = said.unsigned_abs();
        if said < 0 {
            let size = self.number()?;
            if size < 0 || size as u64 > (self.data.len() - self.pos) as u64 {
                return self.fault(format_args!("a block of {size} bytes is announced"));
            }
        }
        match self.items.checked_sub(count) {
            Some(left) => {
                self.items = left;
                Ok(count)
            }
            None => self.fault(format_args!("{count} items are announced")),
        }
    }

    /// Returns the next text. What is not UTF-8 is named as Python's decoder names it.
    #[inline]
    pub fn text(&mut self) -> Read<&'a [u8]> {
        let found = self.bytes()?;
        self.check_text(found)?;
        Ok(found)
    }

    #[inline]
    pub fn check_text(&self, found: &[u8]) -> Read<()> {
        match std::str::from_utf8(found) {
            Ok(_) => Ok(()),
            Err(error) => {
                let reason = match (error.error_len(), found[error.valid_up_to()]) {
                    (None, _) => "unexpected end of data",
                    (_, 0x80..=0xc1 | 0xf5..=0xff) => "invalid start byte",
                    _ => "invalid continuation byte",
                };
                self.fault(format_args!("a text is not UTF-8 ({reason})"))
            }
        }
    }
}

/// Joins the lower seven bits of eight bytes.
#[inline]
fn seven_bits_each(word: u64) -> u64 {
    let pairs = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    (fours & 0x0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4
}

#[inline]
fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
