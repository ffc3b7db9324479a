//! A segment file: its header, and the walk over its frames.
//!
//! A file `<base>.seg` holds the log from position `base` on, after a header of its own. It gets that name only once
//! its header is synced and everything before `base` is on the disk, so the name itself is evidence.

use std::{io, sync::Arc};

use crate::{
    frame::{ALIGN, Frame, HEADER, Header, u32_at, u64_at},
    fs::{File, Fs},
};

/// The length of a segment's own header.
pub(crate) const SEGMENT_HEADER: u64 = 64;
/// The format that this code reads and writes. One that reads an older format as well is a new number with a reader.
pub const FORMAT: u32 = 1;

const MAGIC: [u8; 8] = *b"PQSEGMNT";
const WINDOW: u64 = 4 << 20;
/// What is read at a time where the disk fails.
const BLOCK: usize = 4096;

/// What a segment says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) version: u32,
    /// The opening of the store that made it.
    pub(crate) generation: u32,
    /// The position of its first frame.
    pub(crate) base: u64,
    /// Random; every frame repeats it.
    pub(crate) nonce: u64,
    /// The largest hint of any group before it: an empty newest segment still knows.
    pub(crate) high_water: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER as usize] {
        let mut bytes = [0; SEGMENT_HEADER as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.generation.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.base.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.high_water.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` if the header is damaged or another segment's.
    pub(crate) fn read(file: &dyn File, base: u64) -> io::Result<Option<Self>> {
        let mut bytes = [0; SEGMENT_HEADER as usize];
        match file.read_at(0, &mut bytes) {
            Ok(()) => Ok(Self::parse(&bytes).filter(|header| header.base == base)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..8)? != MAGIC || u32_at(bytes, 60)? != crc32c::crc32c(bytes.get(..60)?) {
            return None;
        }
        Some(Self {
            version: u32_at(bytes, 8)?,
            generation: u32_at(bytes, 12)?,
            base: u64_at(bytes, 16)?,
            nonce: u64_at(bytes, 24)?,
            high_water: u64_at(bytes, 32)?,
        })
    }
}

/// The file name of the segment that begins at `base`.
pub(crate) fn segment_name(base: u64) -> String {
    format!("{base:016x}.seg")
}

/// The base in a segment's file name; `None` for any other file.
pub(crate) fn segment_base(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    let base = u64::from_str_radix(digits, 16).ok()?;
    (segment_name(base) == name).then_some(base)
}

/// The bases of all segments, in order.
pub(crate) fn list_segments(fs: &dyn Fs) -> io::Result<Vec<u64>> {
    let mut bases: Vec<u64> = fs.list()?.iter().filter_map(|n| segment_base(n)).collect();
    bases.sort_unstable();
    Ok(bases)
}

/// One step of a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A frame whose header holds and whose bytes are all there; see [`Walk::frame`].
    Frame(Header),
    /// Bytes that are no frame, up to the next header that holds or the end of the walk.
    Bad { from: u64, to: u64 },
}

/// Walks a segment's frames in order with large reads, over anything unreadable.
pub(crate) struct Walk {
    file: Arc<dyn File>,
    base: u64,
    nonce: Option<u64>,
    position: u64,
    limit: u64,
    check_crc: bool,
    /// Whether blocks that the disk cannot read count as damage instead of ending the walk.
    tolerant: bool,
    window: Vec<u8>,
    /// The position of the window's first byte.
    window_at: u64,
}

impl Walk {
    /// Walks from the segment's first frame up to `limit` (exclusive), or the end of the file if that comes first.
    pub(crate) fn new(
        file: Arc<dyn File>,
        header: &SegmentHeader,
        limit: u64,
        check_crc: bool,
    ) -> io::Result<Self> {
        let capacity = file.len()?.saturating_sub(SEGMENT_HEADER);
        Ok(Self {
            file,
            base: header.base,
            nonce: Some(header.nonce),
            position: header.base,
            limit: limit.min(header.base.saturating_add(capacity)),
            check_crc,
            tolerant: false,
            window: Vec::new(),
            window_at: header.base,
        })
    }

    /// Takes blocks that the disk cannot read for zeros. For replay, which names what is missing; the search for the
    /// log's end must not mistake a failing disk for a torn tail.
    pub(crate) fn tolerant(mut self) -> Self {
        self.tolerant = true;
        self
    }

    /// The header of a segment whose own is lost, from its first frame: each repeats the nonce.
    pub(crate) fn rebuild_header(
        file: &Arc<dyn File>,
        base: u64,
    ) -> io::Result<Option<SegmentHeader>> {
        let mut header = SegmentHeader {
            version: FORMAT,
            generation: 0,
            base,
            nonce: 0,
            high_water: 0,
        };
        let mut walk = Self::new(file.clone(), &header, u64::MAX, true)?;
        walk.nonce = None;
        while let Some(step) = walk.next()? {
            if let Step::Frame(frame) = step {
                header.nonce = frame.nonce;
                header.generation = frame.generation;
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    /// The end of the walk.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<Step>> {
        if self.position >= self.limit {
            return Ok(None);
        }
        let from = self.position;
        if let Some(header) = self.header_at(from)? {
            if header.end() <= self.limit {
                self.fill(from, header.frame_len())?;
                self.position = header.end();
                return Ok(Some(Step::Frame(header)));
            }
            self.position = self.limit;
        } else {
            self.position = self.find_header(from + ALIGN)?;
        }
        Ok(Some(Step::Bad {
            from,
            to: self.position,
        }))
    }

    /// The frame that the last step found; `None` if its table is damaged.
    pub(crate) fn frame(&self, header: Header) -> Option<Frame<'_>> {
        Frame::new(header, self.view(header.position))
    }

    fn header_at(&mut self, at: u64) -> io::Result<Option<Header>> {
        if at + HEADER as u64 > self.limit {
            return Ok(None);
        }
        self.fill(at, HEADER as u64)?;
        Ok(Header::parse(self.view(at), at, self.nonce, self.check_crc))
    }

    /// The next place from `at` on where a header holds, or the limit.
    fn find_header(&mut self, mut at: u64) -> io::Result<u64> {
        while at + HEADER as u64 <= self.limit {
            self.fill(at, HEADER as u64)?;
            let view = self.view(at);
            // Most of what is searched is preallocated zeros: skip them without a look at each header.
            let zeros = view
                .chunks_exact(64)
                .take_while(|c| c.iter().all(|b| *b == 0));
            let skip = (zeros.count() as u64).saturating_sub(1) * 64;
            if skip > 0 {
                at += skip;
                continue;
            }
            if Header::parse(view, at, self.nonce, self.check_crc).is_some() {
                return Ok(at);
            }
            at += ALIGN;
        }
        Ok(self.limit)
    }

    fn view(&self, at: u64) -> &[u8] {
        &self.window[(at - self.window_at) as usize..]
    }

    /// Makes the window hold `need` bytes from `at`. The caller has checked them against the limit, so the window
    /// never outgrows the file.
    fn fill(&mut self, at: u64, need: u64) -> io::Result<()> {
        let held = self.window_at..self.window_at + self.window.len() as u64;
        if held.contains(&at) && at + need <= held.end {
            return Ok(());
        }
        let len = WINDOW.max(need).min(self.limit - at) as usize;
        self.window.resize(len, 0);
        self.window_at = at;
        let offset = SEGMENT_HEADER + (at - self.base);
        let mut read = self.file.read_at(offset, &mut self.window);
        if self.tolerant
            && let Err(error) = &read
        {
            tracing::error!(at, %error, "part of a segment cannot be read");
            read = Ok(());
            for (number, block) in self.window.chunks_mut(BLOCK).enumerate() {
                let block_at = offset + (number * BLOCK) as u64;
                if self.file.read_at(block_at, block).is_err() {
                    block.fill(0);
                }
            }
        }
        if read.is_err() {
            // What the window now holds is nobody's.
            self.window.clear();
        }
        read
    }
}

/// Where the log ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    /// The position after the last frame that counts.
    pub(crate) end: u64,
    /// The largest hint of any frame that counts, the segment's own included.
    pub(crate) high_water: u64,
}

/// Finds the end of the newest segment.
///
/// A bad frame is a torn tail iff nothing claims to have synced past it: not `floor` (checkpoints, the clean mark),
/// and no later frame's `synced_through`. What is bad but claimed is corruption; it stays in the log, for replay to
/// name. From the last claim on every byte is checked, bodies included: a frame is taken whole or not at all.
pub(crate) fn find_tail(
    file: &Arc<dyn File>,
    header: &SegmentHeader,
    floor: u64,
    rules: TailRules,
) -> io::Result<Tail> {
    let mut proven = floor;
    if rules.use_claims {
        let mut walk = Walk::new(file.clone(), header, u64::MAX, rules.check_crc)?;
        while let Some(step) = walk.next()? {
            if let Step::Frame(frame) = step {
                proven = proven.max(frame.synced_through);
            }
        }
    } else {
        proven = header.base;
    }

    let mut tail = Tail {
        end: header.base,
        high_water: header.high_water,
    };
    let mut walk = Walk::new(file.clone(), header, u64::MAX, rules.check_crc)?;
    while let Some(step) = walk.next()? {
        match step {
            Step::Frame(frame) => {
                let tail_frame = frame.position >= proven;
                if tail_frame && !walk.frame(frame).is_some_and(|frame| frame.intact()) {
                    break;
                }
                tail.end = frame.end();
                tail.high_water = tail.high_water.max(frame.high_water);
            }
            Step::Bad { from, .. } if from >= proven => break,
            Step::Bad { to, .. } => {
                tail.end = to.min(proven);
                if to > proven {
                    break;
                }
            }
        }
    }
    // What a claim covers is part of the log even if the file has lost it: positions are never used twice.
    tail.end = tail.end.max(proven);
    Ok(tail)
}

/// Rules that a mutation can switch off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailRules {
    pub(crate) check_crc: bool,
    pub(crate) use_claims: bool,
}
