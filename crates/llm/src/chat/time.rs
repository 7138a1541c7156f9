//! Dates as `strftime` writes them, in universal time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Year, month and day from 1, of a number of days since 1970.
fn civil(days: i64) -> (i64, usize, i64) {
    // eras of 400 years, which begin in March so that the leap day is the last
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + (month <= 2) as i64, month as usize, date)
}

/// A time by a format; what is no directive stays as it is.
pub(crate) fn strftime(time: SystemTime, format: &str) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs() as i64;
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let weekday = DAYS[(days + 4).rem_euclid(7) as usize];
    let name = MONTHS[month - 1];
    let of_year = days - (0..).find(|d| civil(days - d).0 < year).map_or(days, |d| days - d);
    let twelve = (hour + 11) % 12 + 1;
    let (mut out, mut rest) = (String::new(), format.chars());
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = rest.next();
        let plain = directive == Some('-');
        if plain {
            directive = rest.next();
        }
        let number = |n: i64, width: usize| if plain { n.to_string() } else { format!("{n:0width$}") };
        out.push_str(&match directive {
            Some('Y') => year.to_string(),
            Some('y') => number(year.rem_euclid(100), 2),
            Some('m') => number(month as i64, 2),
            Some('d') => number(day, 2),
            Some('e') => format!("{day:2}"),
            Some('H') => number(hour, 2),
            Some('I') => number(twelve, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('j') => number(of_year, 3),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.into(),
            Some('B') => name.into(),
            Some('b' | 'h') => name[..3].into(),
            Some('A') => weekday.into(),
            Some('a') => weekday[..3].into(),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('Z') => "UTC".into(),
            Some('z') => "+0000".into(),
            Some('%') => "%".into(),
            Some(other) => format!("%{other}"),
            None => "%".into(),
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |s| UNIX_EPOCH + Duration::from_secs(s);
        // of `date -u -d @N`
        let all = "%Y-%m-%d %H:%M:%S %a %b %-d %j %I%p %y %A %B %% %q";
        assert_eq!(strftime(at(0), all), "1970-01-01 00:00:00 Thu Jan 1 001 12AM 70 Thursday January % %q");
        assert_eq!(strftime(at(1_772_874_302), "%d %b %Y %T %j"), "07 Mar 2026 09:05:02 066");
        assert_eq!(strftime(at(1_709_164_800), "%F %j"), "2024-02-29 060");
        assert_eq!(strftime(at(1_735_689_599), "%F %T %j %I%p"), "2024-12-31 23:59:59 366 11PM");
    }
}
