//! Error kinds and bounds, as `parley/kernel/contract.py` names them.

/// Arrow's int32 offsets end here, and so does every decompressed batch.
pub const MAX_COLUMN_BYTES: usize = i32::MAX as usize;
/// Headers of one span: a record is refused that has more, and a batch is cut.
pub const MAX_SPAN_HEADERS: usize = 1 << 20;
const DEFAULT_BATCH_LIMIT: usize = 64 * 1024 * 1024;
const DEFAULT_BATCH_RATIO: usize = 64;

/// What is wrong; the names are the values of Python's KernelErrorKind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Malformed,
    Crc,
    Count,
    Magic,
    Codec,
    Compressed,
    TooLarge,
    Nested,
    TooMany,
    Argument,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Malformed => "malformed",
            Kind::Crc => "crc",
            Kind::Count => "count",
            Kind::Magic => "magic",
            Kind::Codec => "codec",
            Kind::Compressed => "compressed",
            Kind::TooLarge => "too large",
            Kind::Nested => "nested",
            Kind::TooMany => "too many",
            Kind::Argument => "argument",
        }
    }
}

/// An error without a place: cheap enough to be the error type of every small read.
#[derive(Clone, Copy, Debug)]
pub struct Flaw {
    pub kind: Kind,
    pub what: &'static str,
}

pub const fn flaw(kind: Kind, what: &'static str) -> Flaw {
    Flaw { kind, what }
}

pub const fn malformed(what: &'static str) -> Flaw {
    flaw(Kind::Malformed, what)
}

pub const TOO_MANY: Flaw = flaw(Kind::TooMany, "more records or headers than a decode of one span may hold");

/// An error with its place; -1 where an index does not apply.
#[derive(Debug)]
pub struct Failure {
    pub flaw: Flaw,
    pub span: i64,
    pub record: i64,
}

impl From<Flaw> for Failure {
    fn from(flaw: Flaw) -> Self {
        Failure { flaw, span: -1, record: -1 }
    }
}

impl Flaw {
    pub fn at_record(self, record: usize) -> Failure {
        Failure { flaw: self, span: -1, record: record as i64 }
    }
}

/// Returns how many bytes a batch may decompress to.
pub fn batch_limit(compressed_bytes: usize, max_batch_bytes: usize) -> usize {
    let limit = if max_batch_bytes > 0 {
        max_batch_bytes
    } else {
        DEFAULT_BATCH_LIMIT.max(compressed_bytes.saturating_mul(DEFAULT_BATCH_RATIO))
    };
    limit.min(MAX_COLUMN_BYTES)
}
