//! Which schema each message names, where a number behind a few fixed bytes says so.

use std::collections::HashMap;

use crate::arrow::Messages;

/// What messages begin with.
pub struct Prefix {
    pub marker: Vec<u8>,
    /// Bytes of the number: 0, 4 or 8.
    pub width: usize,
    pub little: bool,
}

impl Prefix {
    pub fn len(&self) -> usize {
        self.marker.len() + self.width
    }

    /// Returns the number of a message, None where it does not begin as it should.
    #[inline]
    fn number(&self, message: &[u8]) -> Option<u64> {
        let number = message.get(..self.len())?.strip_prefix(self.marker.as_slice())?;
        let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        Some(if self.little { number.iter().rev().fold(0, fold) } else { number.iter().fold(0, fold) })
    }
}

/// Of each row the place of its number among `numbers`, or -1: of nulls, and of those in `bad`.
#[derive(Default)]
pub struct Scan {
    pub groups: Vec<i32>,
    pub numbers: Vec<u64>,
    pub bad: Vec<usize>,
}

pub fn scan(messages: &Messages, prefix: &Prefix) -> Scan {
    let mut found = Scan { groups: Vec::with_capacity(messages.len()), ..Scan::default() };
    let mut places = HashMap::new();
    let mut last = None;
    for row in 0..messages.len() {
        let place = match messages.get(row).map(|message| prefix.number(message)) {
            None => -1,
            Some(None) => {
                found.bad.push(row);
                -1
            }
            Some(Some(number)) => match last {
                Some((same, place)) if same == number => place,
                _ => {
                    let place = *places.entry(number).or_insert_with(|| {
                        found.numbers.push(number);
                        found.numbers.len() as i32 - 1
                    });
                    last = Some((number, place));
                    place
                }
            },
        };
        found.groups.push(place);
    }
    found
}
