//! What was measured, in rings: an hour, a day and a week. Pure: whoever samples brings the time.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The figures of a point, in the order of [`SERIES`].
type Figures = [f64; 6];
const SERIES: [&str; 6] = [
    "in_per_second",
    "out_per_second",
    "refusals_per_second",
    "messages",
    "connections",
    "tenants",
];

/// A span of time that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// 1 hour, at 5 s.
    Hour,
    /// 1 day, at 1 min.
    Day,
    /// 1 week, at 10 min.
    Week,
}

impl Window {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Week];

    /// As in an address.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    /// Seconds from point to point, and points.
    const fn shape(self) -> (u64, u64) {
        match self {
            Self::Hour => (5, 720),
            Self::Day => (60, 1440),
            Self::Week => (600, 1008),
        }
    }
}

/// What only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Messages sent.
    pub sent: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Requests.
    pub requests: u64,
    /// Requests, connections and tenants refused for their address.
    pub refusals: u64,
    /// Bans begun.
    pub bans: u64,
    /// Tenants made.
    pub tenants_created: u64,
}

impl Totals {
    /// Each figure of both together, as `f` says.
    fn with(self, other: Self, f: fn(u64, u64) -> u64) -> Self {
        Self {
            sent: f(self.sent, other.sent),
            delivered: f(self.delivered, other.delivered),
            requests: f(self.requests, other.requests),
            refusals: f(self.refusals, other.refusals),
            bans: f(self.bans, other.bans),
            tenants_created: f(self.tenants_created, other.tenants_created),
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Milliseconds since 1970.
    pub time: u64,
    /// Since the start of the process.
    pub totals: Totals,
    /// Messages held.
    pub messages: u64,
    /// Connections open.
    pub connections: u64,
    /// Tenants.
    pub tenants: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Point {
    slot: u64,
    count: u32,
    figures: Figures,
}

/// What is kept over a restart.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kept {
    /// The totals of all processes before this one.
    before: Totals,
    rings: [VecDeque<Point>; 3],
}

/// Rings and totals.
#[derive(Clone, Debug, Default)]
pub struct History {
    kept: Kept,
    last: Option<Sample>,
    rates: [f64; 4],
}

impl History {
    /// An earlier process's history, from what [`save`](Self::save) gave.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn restore(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(Self {
            kept: serde_json::from_slice(bytes)?,
            ..Self::default()
        })
    }

    /// Everything, for the next process.
    ///
    /// # Errors
    /// If a figure cannot be written.
    pub fn save(&self) -> Result<Vec<u8>, serde_json::Error> {
        let kept = Kept {
            before: self.totals(),
            rings: self.kept.rings.clone(),
        };
        serde_json::to_vec(&kept)
    }

    /// Takes up a measurement. The first one of a process gives no rates; neither does one that is not later.
    pub fn add(&mut self, sample: Sample) {
        let Some(last) = self.last.replace(sample) else {
            return;
        };
        let millis = sample.time.saturating_sub(last.time);
        if millis == 0 {
            return;
        }
        let grown = sample.totals.with(last.totals, u64::saturating_sub);
        let rate = |count: u64| count as f64 * 1000.0 / millis as f64;
        self.rates = [grown.sent, grown.delivered, grown.requests, grown.refusals].map(rate);
        let [sent, delivered, _, refusals] = self.rates;
        let figures = [
            sent,
            delivered,
            refusals,
            sample.messages as f64,
            sample.connections as f64,
            sample.tenants as f64,
        ];
        for (window, ring) in Window::ALL.into_iter().zip(&mut self.kept.rings) {
            put(ring, window, sample.time / 1000, figures);
        }
    }

    /// Messages in and out, requests and refusals a second, between the last two measurements.
    pub fn rates(&self) -> [f64; 4] {
        self.rates
    }

    /// Over all processes.
    pub fn totals(&self) -> Totals {
        let now = self.last.map(|sample| sample.totals).unwrap_or_default();
        self.kept.before.with(now, u64::saturating_add)
    }

    /// A window until a time in seconds. What was not measured is null.
    pub fn window(&self, window: Window, now: u64) -> Value {
        let (step, most) = window.shape();
        let [hour, day, week] = &self.kept.rings;
        let ring = match window {
            Window::Hour => hour,
            Window::Day => day,
            Window::Week => week,
        };
        let last = now / step;
        let first = (last + 1).saturating_sub(most);
        let mut points = ring
            .iter()
            .skip_while(|point| point.slot < first)
            .peekable();
        let mut series: [Vec<Value>; SERIES.len()] = Default::default();
        for slot in first..=last {
            let point = points.next_if(|point| point.slot == slot);
            for (index, values) in series.iter_mut().enumerate() {
                values.push(
                    point
                        .and_then(|point| point.figures.get(index))
                        .map_or(Value::Null, |figure| {
                            json!((figure * 100.0).round() / 100.0)
                        }),
                );
            }
        }
        let named: Map<String, Value> = SERIES
            .iter()
            .zip(series)
            .map(|(name, values)| ((*name).to_owned(), Value::Array(values)))
            .collect();
        let time: Vec<u64> = (first..=last).map(|slot| slot * step).collect();
        json!({ "window": window.as_str(), "step_seconds": step, "time": time, "series": named })
    }
}

/// Adds figures to their place in a ring: the mean of what fell into it. Time that goes back is left out.
fn put(ring: &mut VecDeque<Point>, window: Window, seconds: u64, figures: Figures) {
    let (step, most) = window.shape();
    let slot = seconds / step;
    match ring.back_mut() {
        Some(last) if last.slot > slot => return,
        Some(last) if last.slot == slot => {
            last.count += 1;
            for (mean, figure) in last.figures.iter_mut().zip(figures) {
                *mean += (figure - *mean) / f64::from(last.count);
            }
        }
        _ => ring.push_back(Point {
            slot,
            count: 1,
            figures,
        }),
    }
    while ring.front().is_some_and(|first| first.slot + most <= slot) {
        ring.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64, sent: u64) -> Sample {
        Sample {
            time: seconds * 1000,
            totals: Totals {
                sent,
                ..Totals::default()
            },
            messages: sent,
            ..Sample::default()
        }
    }

    #[test]
    fn rates_are_growth_over_time_and_a_day_shows_the_mean_of_a_minute() {
        let mut history = History::default();
        for tick in 0..=12 {
            history.add(sample(600 + tick * 5, tick * 50));
        }
        assert_eq!(history.rates()[0], 10.0);
        let day = history.window(Window::Day, 659);
        assert_eq!(
            day["series"]["in_per_second"].as_array().unwrap().last(),
            Some(&json!(10.0))
        );
    }

    #[test]
    fn rings_stay_as_long_as_their_window() {
        let mut history = History::default();
        for tick in 0..2000 {
            history.add(sample(tick * 5, tick));
        }
        assert_eq!(history.kept.rings[0].len(), 720);
        let hour = history.window(Window::Hour, 1999 * 5);
        assert_eq!(hour["time"].as_array().unwrap().len(), 720);
        assert!(
            hour["series"]["messages"]
                .as_array()
                .unwrap()
                .iter()
                .all(|value| !value.is_null())
        );
    }

    #[test]
    fn a_restart_is_a_gap_and_totals_go_on() {
        let mut first = History::default();
        first.add(sample(1000, 0));
        first.add(sample(1005, 7));
        let mut second = History::restore(&first.save().unwrap()).unwrap();
        second.add(sample(1100, 0));
        second.add(sample(1105, 3));
        assert_eq!(second.totals().sent, 10);
        let hour = second.window(Window::Hour, 1105);
        let values = hour["series"]["messages"].as_array().unwrap();
        let shown = values.iter().filter(|value| !value.is_null()).count();
        assert_eq!(shown, 2);
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        assert!(History::restore(b"{\"before\":").is_err());
    }
}
