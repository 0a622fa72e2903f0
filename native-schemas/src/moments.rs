//! Dates and times as RFC 3339 writes them.

const MICROS: i64 = 1_000_000;
const MAX_OFFSET_HOURS: i64 = 14;

/// Returns the days since 1970 of a date such as 2026-11-03; None for another text.
pub fn date(text: &[u8]) -> Option<i32> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text else {
        return None;
    };
    let (year, month, day) = (number(&[y1, y2, y3, y4])?, number(&[m1, m2])?, number(&[d1, d2])?);
    if year == 0 || !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    // years begin in March: the day that is not in each of them is the last
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    i32::try_from(before + (153 * month + 2) / 5 + day - 1 - 719_468).ok()
}

/// Returns the microseconds since 1970 of a moment such as 2026-11-03T04:05:06.789Z.
pub fn timestamp(text: &[u8]) -> Option<i64> {
    let (day, rest) = text.split_at_checked(10)?;
    let [b'T', h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = rest else {
        return None;
    };
    let (hours, minutes, seconds) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let (fraction, zone) = match rest {
        [b'.', rest @ ..] => {
            let end = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            (fraction(&rest[..end])?, &rest[end..])
        }
        _ => (0, rest),
    };
    let since = i64::from(date(day)?) * 86_400 + hours * 3_600 + minutes * 60 + seconds - offset(zone)?;
    Some(since * MICROS + fraction)
}

/// Appends the date of a day since 1970; None where its year has not four digits.
pub fn write_date(day: i64, out: &mut Vec<u8>) -> Option<()> {
    // eras of 400 years that begin in March: the day that is not in each year is the last
    let since = day.checked_add(719_468)?;
    let (era, of_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let of_march = (5 * of_year + 2) / 153;
    let month = if of_march < 10 { of_march + 3 } else { of_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    if !(1..=9_999).contains(&year) {
        return None;
    }
    digits(year, 4, out);
    out.push(b'-');
    digits(month, 2, out);
    out.push(b'-');
    digits(of_year - (153 * of_march + 2) / 5 + 1, 2, out);
    Some(())
}

/// Appends a moment, given in microseconds since 1970; None where its year has not four digits.
pub fn write_timestamp(micros: i64, out: &mut Vec<u8>) -> Option<()> {
    let (seconds, rest) = (micros.div_euclid(MICROS), micros.rem_euclid(MICROS));
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    write_date(day, out)?;
    out.push(b'T');
    digits(second / 3_600, 2, out);
    out.push(b':');
    digits(second / 60 % 60, 2, out);
    out.push(b':');
    digits(second % 60, 2, out);
    if rest > 0 {
        out.push(b'.');
        digits(rest, 6, out);
    }
    out.push(b'Z');
    Some(())
}

fn digits(value: i64, count: u32, out: &mut Vec<u8>) {
    for place in (0..count).rev() {
        out.push(b'0' + (value / 10i64.pow(place) % 10) as u8);
    }
}

/// Returns the seconds by which a zone is before UTC.
fn offset(zone: &[u8]) -> Option<i64> {
    let (sign, rest) = match zone {
        [b'Z'] => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let [h1, h2, b':', m1, m2] = *rest else {
        return None;
    };
    let (hours, minutes) = (number(&[h1, h2])?, number(&[m1, m2])?);
    (hours <= MAX_OFFSET_HOURS && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Returns the microseconds of digits behind a point; more than six are cut off.
fn fraction(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() {
        return None;
    }
    let kept = &digits[..digits.len().min(6)];
    Some(number(kept)? * 10i64.pow(6 - kept.len() as u32))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
