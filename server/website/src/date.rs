//! Dates as RFC 3339 writes them.

/// Seconds since 1970 as `2026-12-01T00:00:00Z`, to the day: the civil calendar from a count of days, with years that
/// begin in March, so that the leap day is their last.
pub(crate) fn rfc3339(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T00:00:00Z")
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn leap_days_and_ends_of_years_are_dates() {
        for (seconds, date) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_735_603_200, "2024-12-31"),
            (1_796_083_200, "2026-12-01"),
        ] {
            assert_eq!(rfc3339(seconds), format!("{date}T00:00:00Z"));
        }
    }
}
