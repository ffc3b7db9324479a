//! The bytes of records: a tag each, LEB128 numbers, and texts and blocks with their length first.

use crate::{
    ids::{BodyAt, BodyId, Millis, QueueId, Seq, TenantId},
    record::{BadRecord, Copied, Deduplicated, Image, Record, Standing},
    settings::Origin,
};

const TENANT: u8 = 1;
const TENANT_GONE: u8 = 2;
const QUEUE: u8 = 3;
const QUEUE_GONE: u8 = 4;
const TOMBSTONE: u8 = 5;
const PURGED: u8 = 6;
const SENT: u8 = 7;
const GONE: u8 = 8;
const LEASE: u8 = 9;
const ACKED: u8 = 10;
const DEFERRED: u8 = 11;
const MOVED: u8 = 12;
const SOUGHT: u8 = 13;
const DOCUMENT: u8 = 14;
const RELOCATED: u8 = 15;
const PROGRESS: u8 = 16;
const REMEMBERED: u8 = 17;
const ENTRY: u8 = 18;
const COUNTERS: u8 = 19;
const SEEN: u8 = 20;
const SERVED: u8 = 21;

impl<'a> Record<'a> {
    /// Appends the record.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer(out);
        match self {
            Self::Tenant {
                id,
                account,
                name,
                at,
            } => w.tag(TENANT).num(id.0).num(*account).text(name).num(at.0),
            Self::TenantGone { id } => w.tag(TENANT_GONE).num(id.0),
            Self::Seen { tenant, served } => w.tag(SEEN).num(tenant.0).num(served.0),
            Self::Served { served } => w.tag(SERVED).num(served.0),
            Self::Queue {
                id,
                tenant,
                name,
                created_at,
                modified_at,
                origin,
                settings,
            } => w
                .tag(QUEUE)
                .num(id.0)
                .num(tenant.0)
                .text(name)
                .num(created_at.0)
                .num(modified_at.0)
                .num(u64::from(*origin == Origin::ByUse))
                .block(settings),
            Self::QueueGone { id } => w.tag(QUEUE_GONE).num(id.0),
            Self::Tombstone {
                tenant,
                name,
                until,
            } => w.tag(TOMBSTONE).num(tenant.0).text(name).num(until.0),
            Self::Purged { queue, below, at } => w.tag(PURGED).num(queue.0).num(below.0).num(at.0),
            Self::Sent {
                body,
                index,
                charge,
                at,
                copies,
            } => {
                w.tag(SENT)
                    .num(body.0)
                    .num(u64::from(*index))
                    .num(u64::from(*charge))
                    .num(at.0)
                    .num(copies.len() as u64);
                for copy in copies {
                    copy.write(&mut w);
                }
                &mut w
            }
            Self::Gone { queue, seq } => w.tag(GONE).num(queue.0).num(seq.0),
            Self::Lease {
                queue,
                seq,
                standing,
                due,
                deliveries,
                first_delivered_at,
            } => w
                .tag(LEASE)
                .num(queue.0)
                .num(seq.0)
                .num(*standing as u64)
                .num(due.0)
                .num(u64::from(*deliveries))
                .num(first_delivered_at.0),
            Self::Acked { queue, seq, until } => w.tag(ACKED).num(queue.0).num(seq.0).num(until.0),
            Self::Deferred { queue, seq } => w.tag(DEFERRED).num(queue.0).num(seq.0),
            Self::Moved { queue, seq, to } => {
                w.tag(MOVED).num(queue.0).num(seq.0);
                to.write(&mut w)
            }
            Self::Sought {
                queue,
                boundary,
                end,
                acked_until,
            } => w
                .tag(SOUGHT)
                .num(queue.0)
                .num(boundary.0)
                .num(end.0)
                .num(acked_until.0),
            Self::Document { tenant, key, value } => w
                .tag(DOCUMENT)
                .num(tenant.0)
                .text(key)
                .option(*value, |w, value| {
                    w.block(value);
                }),
            Self::Relocated { body, index } => w.tag(RELOCATED).num(body.0).num(u64::from(*index)),
            Self::Progress {
                queue,
                next_seq,
                purged_at,
            } => w
                .tag(PROGRESS)
                .num(queue.0)
                .num(next_seq.0)
                .num(purged_at.0),
            Self::Remembered {
                queue,
                hash,
                id,
                seq,
                expires_at,
                charge,
            } => w
                .tag(REMEMBERED)
                .num(queue.0)
                .wide(*hash)
                .wide(*id)
                .num(seq.0)
                .num(expires_at.0)
                .num(u64::from(*charge)),
            Self::Entry(image) => image.write(w.tag(ENTRY)),
            Self::Counters {
                queue,
                tenant,
                account,
                body,
                now,
            } => w
                .tag(COUNTERS)
                .num(*queue)
                .num(*tenant)
                .num(*account)
                .num(*body)
                .num(now.0),
        };
    }

    /// Reads the record at the front of `bytes` and moves past it.
    pub(crate) fn read(bytes: &mut &'a [u8]) -> Result<Self, BadRecord> {
        let mut r = Reader(bytes);
        Ok(match r.byte()? {
            TENANT => Self::Tenant {
                id: r.tenant()?,
                account: r.id()?,
                name: r.text()?,
                at: r.millis()?,
            },
            TENANT_GONE => Self::TenantGone { id: r.tenant()? },
            SEEN => Self::Seen {
                tenant: r.tenant()?,
                served: r.millis()?,
            },
            SERVED => Self::Served {
                served: r.millis()?,
            },
            QUEUE => Self::Queue {
                id: r.queue()?,
                tenant: r.tenant()?,
                name: r.text()?,
                created_at: r.millis()?,
                modified_at: r.millis()?,
                origin: if r.num()? == 0 {
                    Origin::Explicit
                } else {
                    Origin::ByUse
                },
                settings: r.block()?,
            },
            QUEUE_GONE => Self::QueueGone { id: r.queue()? },
            TOMBSTONE => Self::Tombstone {
                tenant: r.tenant()?,
                name: r.text()?,
                until: r.millis()?,
            },
            PURGED => Self::Purged {
                queue: r.queue()?,
                below: r.seq()?,
                at: r.millis()?,
            },
            SENT => {
                let (body, index, charge, at) = (r.body()?, r.num32()?, r.num32()?, r.millis()?);
                let count = r.num()?;
                let copies = (0..count)
                    .map(|_| Copied::read(&mut r))
                    .collect::<Result<_, _>>()?;
                Self::Sent {
                    body,
                    index,
                    charge,
                    at,
                    copies,
                }
            }
            GONE => Self::Gone {
                queue: r.queue()?,
                seq: r.seq()?,
            },
            LEASE => Self::Lease {
                queue: r.queue()?,
                seq: r.seq()?,
                standing: Standing::from_number(r.num()?)?,
                due: r.millis()?,
                deliveries: r.num32()?,
                first_delivered_at: r.millis()?,
            },
            ACKED => Self::Acked {
                queue: r.queue()?,
                seq: r.seq()?,
                until: r.millis()?,
            },
            DEFERRED => Self::Deferred {
                queue: r.queue()?,
                seq: r.seq()?,
            },
            MOVED => Self::Moved {
                queue: r.queue()?,
                seq: r.seq()?,
                to: Image::read(&mut r)?,
            },
            SOUGHT => Self::Sought {
                queue: r.queue()?,
                boundary: Seq(r.num()?),
                end: Seq(r.num()?),
                acked_until: r.millis()?,
            },
            DOCUMENT => Self::Document {
                tenant: r.tenant()?,
                key: r.text()?,
                value: r.option(Reader::block)?,
            },
            RELOCATED => Self::Relocated {
                body: r.body()?,
                index: r.num32()?,
            },
            PROGRESS => Self::Progress {
                queue: r.queue()?,
                next_seq: r.seq()?,
                purged_at: r.millis()?,
            },
            REMEMBERED => Self::Remembered {
                queue: r.queue()?,
                hash: r.wide()?,
                id: r.wide()?,
                seq: r.seq()?,
                expires_at: r.millis()?,
                charge: r.num32()?,
            },
            ENTRY => Self::Entry(Image::read(&mut r)?),
            COUNTERS => Self::Counters {
                queue: r.id()?,
                tenant: r.id()?,
                account: r.id()?,
                body: r.id()?,
                now: r.millis()?,
            },
            _ => return Err(BadRecord("an unknown kind")),
        })
    }
}

impl<'a> Copied<'a> {
    fn write(&self, w: &mut Writer<'_>) {
        w.num(self.queue.0)
            .num(self.seq.0)
            .num(self.due.0)
            .num(self.expires_at.0);
        w.num(u64::from(self.priority) << 1 | u64::from(self.own_ttl));
        w.option(self.group, |w, group| {
            w.text(group);
        });
        w.option(self.dedup, |w, dedup| {
            w.wide(dedup.hash)
                .wide(dedup.id)
                .num(dedup.expires_at.0)
                .num(u64::from(dedup.charge));
        });
    }

    fn read(r: &mut Reader<'_, 'a>) -> Result<Self, BadRecord> {
        let (queue, seq, due, expires_at, packed) =
            (r.queue()?, r.seq()?, r.millis()?, r.millis()?, r.num()?);
        Ok(Self {
            queue,
            seq,
            due,
            expires_at,
            own_ttl: packed & 1 == 1,
            priority: (packed >> 1) as u8,
            group: r.option(Reader::text)?,
            dedup: r.option(|r| {
                Ok(Deduplicated {
                    hash: r.wide()?,
                    id: r.wide()?,
                    expires_at: r.millis()?,
                    charge: r.num32()?,
                })
            })?,
        })
    }
}

impl<'a> Image<'a> {
    fn write<'w, 'b>(&self, w: &'w mut Writer<'b>) -> &'w mut Writer<'b> {
        w.num(self.queue.0).num(self.seq.0).num(self.body.0);
        w.option(self.at, |w, at| {
            w.num(at.position).num(u64::from(at.len));
        });
        w.num(u64::from(self.charge))
            .num(self.enqueued_at.0)
            .num(self.expires_at.0)
            .num(self.due.0);
        w.num(self.first_delivered_at.0)
            .num(u64::from(self.deliveries));
        w.num(u64::from(self.priority) << 3 | u64::from(self.own_ttl) << 2 | self.standing as u64);
        w.option(self.group, |w, group| {
            w.text(group);
        });
        w.option(self.dead_letter_source, |w, source| {
            w.text(source);
        });
        w.option(self.id, |w, id| {
            w.wide(id);
        })
    }

    fn read(r: &mut Reader<'_, 'a>) -> Result<Self, BadRecord> {
        let (queue, seq, body) = (r.queue()?, r.seq()?, r.body()?);
        let at = r.option(|r| {
            Ok(BodyAt {
                position: r.num()?,
                len: r.num32()?,
            })
        })?;
        let (charge, enqueued_at, expires_at, due) =
            (r.num32()?, r.millis()?, r.millis()?, r.millis()?);
        let (first_delivered_at, deliveries, packed) = (r.millis()?, r.num32()?, r.num()?);
        Ok(Self {
            queue,
            seq,
            body,
            at,
            charge,
            enqueued_at,
            expires_at,
            due,
            first_delivered_at,
            deliveries,
            priority: (packed >> 3) as u8,
            own_ttl: packed & 4 != 0,
            standing: Standing::from_number(packed & 3)?,
            group: r.option(Reader::text)?,
            dead_letter_source: r.option(Reader::text)?,
            id: r.option(Reader::wide)?,
        })
    }
}

impl Standing {
    fn from_number(number: u64) -> Result<Self, BadRecord> {
        Ok(match number {
            0 => Self::Waiting,
            1 => Self::Leased,
            2 => Self::Deferred,
            3 => Self::Acked,
            _ => return Err(BadRecord("an unknown state")),
        })
    }
}

/// Appends to a record being made.
struct Writer<'b>(&'b mut Vec<u8>);

impl Writer<'_> {
    fn tag(&mut self, tag: u8) -> &mut Self {
        self.0.push(tag);
        self
    }

    fn num(&mut self, mut number: u64) -> &mut Self {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }

    fn wide(&mut self, number: u128) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn block(&mut self, bytes: &[u8]) -> &mut Self {
        self.num(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.block(text.as_bytes())
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) -> &mut Self {
        match value {
            None => self.0.push(0),
            Some(value) => {
                self.0.push(1);
                write(self, value);
            }
        }
        self
    }
}

/// Reads from the front of what is left, and moves past it.
struct Reader<'r, 'a>(&'r mut &'a [u8]);

impl<'a> Reader<'_, 'a> {
    fn byte(&mut self) -> Result<u8, BadRecord> {
        let (first, rest) = self.0.split_first().ok_or(BadRecord("it ends early"))?;
        *self.0 = rest;
        Ok(*first)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], BadRecord> {
        let (taken, rest) = self
            .0
            .split_at_checked(len)
            .ok_or(BadRecord("it ends early"))?;
        *self.0 = rest;
        Ok(taken)
    }

    fn num(&mut self) -> Result<u64, BadRecord> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(BadRecord("a number has no end"))
    }

    /// A number that is given out by counting, below any that arithmetic could carry past the largest.
    fn id(&mut self) -> Result<u64, BadRecord> {
        let number = self.num()?;
        (number < 1 << 62)
            .then_some(number)
            .ok_or(BadRecord("an id is too large"))
    }

    fn tenant(&mut self) -> Result<TenantId, BadRecord> {
        self.id().map(TenantId)
    }

    fn queue(&mut self) -> Result<QueueId, BadRecord> {
        self.id().map(QueueId)
    }

    fn seq(&mut self) -> Result<Seq, BadRecord> {
        self.id().map(Seq)
    }

    fn body(&mut self) -> Result<BodyId, BadRecord> {
        self.id().map(BodyId)
    }

    fn num32(&mut self) -> Result<u32, BadRecord> {
        u32::try_from(self.num()?).map_err(|_| BadRecord("a number is too large"))
    }

    fn millis(&mut self) -> Result<Millis, BadRecord> {
        self.num().map(Millis)
    }

    fn wide(&mut self) -> Result<u128, BadRecord> {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(self.take(16)?);
        Ok(u128::from_le_bytes(bytes))
    }

    fn block(&mut self) -> Result<&'a [u8], BadRecord> {
        let len = usize::try_from(self.num()?).map_err(|_| BadRecord("a length is too large"))?;
        self.take(len)
    }

    fn text(&mut self) -> Result<&'a str, BadRecord> {
        std::str::from_utf8(self.block()?).map_err(|_| BadRecord("a text is not UTF-8"))
    }

    fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, BadRecord>,
    ) -> Result<Option<T>, BadRecord> {
        Ok(match self.byte()? {
            0 => None,
            1 => Some(read(self)?),
            _ => return Err(BadRecord("an option is neither there nor not")),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn image() -> Image<'static> {
        Image {
            queue: QueueId(1 << 40),
            seq: Seq(77),
            body: BodyId(9),
            at: Some(BodyAt {
                position: u64::MAX,
                len: 1 << 20,
            }),
            charge: 300,
            enqueued_at: Millis(1_800_000_000_000),
            expires_at: Millis::NEVER,
            due: Millis(5),
            first_delivered_at: Millis(6),
            deliveries: 3,
            priority: 255,
            own_ttl: true,
            standing: Standing::Acked,
            group: Some("gröup"),
            dead_letter_source: Some("arn"),
            id: Some(u128::MAX),
        }
    }

    #[test]
    fn records_read_back_as_written() {
        let copies = vec![Copied {
            queue: QueueId(3),
            seq: Seq(4),
            due: Millis(5),
            expires_at: Millis::NEVER,
            own_ttl: true,
            priority: 9,
            group: Some("g"),
            dedup: Some(Deduplicated {
                hash: 1 << 100,
                id: 2,
                expires_at: Millis(3),
                charge: 200,
            }),
        }];
        let records = [
            Record::Sent {
                body: BodyId(1),
                index: 2,
                charge: 3,
                at: Millis(4),
                copies,
            },
            Record::Moved {
                queue: QueueId(1),
                seq: Seq(2),
                to: image(),
            },
            Record::Document {
                tenant: TenantId(1),
                key: "k",
                value: None,
            },
            Record::Document {
                tenant: TenantId(1),
                key: "k",
                value: Some(b""),
            },
            Record::Entry(image()),
        ];
        let mut bytes = Vec::new();
        for record in &records {
            record.write(&mut bytes);
        }
        let mut rest = bytes.as_slice();
        for record in &records {
            assert_eq!(&Record::read(&mut rest).unwrap(), record);
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn an_id_that_counting_never_reaches_is_refused() {
        for (id, good) in [((1 << 62) - 1, true), (1 << 62, false), (u64::MAX, false)] {
            let mut bytes = Vec::new();
            Record::QueueGone { id: QueueId(id) }.write(&mut bytes);
            assert_eq!(Record::read(&mut bytes.as_slice()).is_ok(), good, "{id}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused_or_read_and_never_panic(bytes: Vec<u8>) {
            let mut rest = bytes.as_slice();
            while !rest.is_empty() && Record::read(&mut rest).is_ok() {}
        }
    }
}
