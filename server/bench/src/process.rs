//! What the kernel says about a process and the machine.

use std::{collections::HashMap, fs, time::Duration};

use anyhow::Context;

/// `USER_HZ`, which Linux fixes for everything it shows in /proc.
const TICKS: u64 = 100;

/// What a process and its descendants have used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Time on a processor, the kernel's work for it included.
    pub(crate) cpu: Duration,
    /// Memory resident now.
    pub(crate) resident: u64,
}

impl Usage {
    /// Of this process.
    pub(crate) fn own() -> anyhow::Result<Self> {
        let stat = Stat::read("/proc/self/stat").context("/proc/self/stat")?;
        Ok(stat.usage())
    }

    /// Of a process and all that descend from it.
    pub(crate) fn of(pid: u32) -> anyhow::Result<Self> {
        let mut stats = HashMap::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // A process that has ended meanwhile is none of ours.
            if let Ok(stat) = Stat::read(&format!("/proc/{pid}/stat")) {
                stats.insert(pid, stat);
            }
        }
        anyhow::ensure!(stats.contains_key(&pid), "there is no process {pid}");
        let (mut sum, mut left) = (Self::default(), vec![pid]);
        while let Some(pid) = left.pop() {
            let children = stats.iter().filter(|(_, stat)| stat.parent == pid);
            left.extend(children.map(|(child, _)| *child));
            let usage = stats.remove(&pid).map(|stat| stat.usage());
            let usage = usage.unwrap_or_default();
            sum.cpu += usage.cpu;
            sum.resident += usage.resident;
        }
        Ok(sum)
    }
}

/// The fields of /proc/PID/stat that matter here (proc(5)).
struct Stat {
    parent: u32,
    /// Own time and that of children waited for.
    ticks: u64,
    pages: u64,
}

impl Stat {
    fn read(path: &str) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path)?;
        // The second field, the command, may hold spaces and parentheses.
        let (_, rest) = text.rsplit_once(')').context("an unknown format")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| {
            let text = fields.get(number - 3).context("too few fields")?;
            text.parse::<u64>().context("not a number")
        };
        let ticks = (14..=17).map(field).sum::<anyhow::Result<u64>>()?;
        Ok(Self {
            parent: u32::try_from(field(4)?)?,
            ticks,
            pages: field(24)?,
        })
    }

    fn usage(&self) -> Usage {
        Usage {
            cpu: Duration::from_millis(self.ticks * 1000 / TICKS),
            resident: self.pages * rustix::param::page_size() as u64,
        }
    }
}

/// The load average of the last minute: what else the machine was doing.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}

/// Says when and under what load a table was made.
pub(crate) fn print_load(before: &str) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "load average {before} before, {} after, {cores} cores\n",
        load_average()
    );
}
