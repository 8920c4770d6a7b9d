//! What the system says of a process: its CPU time and its memory.

use std::fs;

use anyhow::{Context, Result};

/// The unit of the times in `/proc/PID/stat`, which Linux has fixed for user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// The CPU time of all its threads, in the kernel too; of no other process.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the program's name in parentheses, which may itself hold blanks.
    let fields = stat.rsplit_once(')').context("no name in stat")?.1;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / TICKS_PER_SECOND)
}

/// Its memory that is not on disk.
pub(crate) fn resident_kilobytes(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = resident.and_then(|resident| resident.trim().strip_suffix(" kB"));
    Ok(kilobytes.context("no VmRSS in status")?.parse()?)
}
