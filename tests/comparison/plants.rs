//! Faults that are planted into answers of ours as they arrive, to see that the comparison finds each.

use super::answer::{CD, NOERROR, NXDOMAIN, Question};
use crate::support::wire::{A, AAAA, CNAME, Message, NS, OPT, PTR, Record, SOA, SRV, TXT};

/// A fault.
pub struct Plant {
    pub name: &'static str,
    /// Puts it into a reply where it can be.
    pub change: fn(&Question, &mut Option<Message>),
}

/// A fault of messages that are there.
macro_rules! plant {
    ($name:literal, |$question:pat_param, $message:ident| $change:expr) => {
        Plant {
            name: $name,
            change: |$question, reply| {
                if let Some($message) = reply {
                    $change;
                }
            },
        }
    };
}

pub const PLANTS: &[Plant] = &[
    plant!(
        "a TTL of an answer",
        |_, it| for record in it.answers.iter_mut().take(1) {
            record.ttl += 1;
        }
    ),
    plant!(
        "the TTL of a denial",
        |_, it| for record in &mut it.authority {
            record.ttl += 1;
        }
    ),
    plant!("the TTL of an additional record", |_, it| {
        let mut plain = it.additional.iter_mut().filter(|one| one.rtype != OPT);
        if let Some(record) = plain.next() {
            record.ttl = 0;
        }
    }),
    plant!(
        "one of several records is missing",
        |_, it| if it.answers.len() > 1 {
            it.answers.pop();
        }
    ),
    plant!(
        "the only record is missing",
        |_, it| if it.answers.len() == 1 {
            it.answers.pop();
        }
    ),
    plant!("the SOA of a denial is missing", |_, it| it
        .authority
        .clear()),
    plant!("an additional record is missing", |_, it| {
        it.additional.retain(|one| one.rtype == OPT);
    }),
    plant!("an extra glue record", |_, it| it.additional.insert(
        0,
        Record::parse("ns.dns.cluster.local. 5 IN A 192.0.2.99")
    )),
    plant!("NS beside an answer", |_, it| if !it.answers.is_empty() {
        let ns = "cluster.local. 5 IN NS ns.dns.cluster.local.";
        it.authority.push(Record::parse(ns));
    }),
    plant!(
        "a record twice",
        |_, it| if let Some(last) = it.answers.last().cloned() {
            it.answers.push(last);
        }
    ),
    plant!("AA is clear", |_, it| it.flags &= !0x0400),
    plant!("RA is set", |_, it| it.flags |= 0x0080),
    plant!("AD is set", |_, it| it.flags |= 0x0020),
    plant!("RD is not the question's", |_, it| it.flags ^= 0x0100),
    plant!(
        "CD is copied",
        |question, it| if question.style().checking_disabled {
            it.flags |= CD;
        }
    ),
    plant!("NODATA for a name that is not there", |_, it| {
        recode(it, NXDOMAIN, NOERROR);
    }),
    plant!("NXDOMAIN for a name that is there", |_, it| {
        recode(it, NOERROR, NXDOMAIN);
    }),
    plant!("SERVFAIL with records", |_, it| if !it.answers.is_empty() {
        it.flags |= 2;
    }),
    plant!("another minimum of the SOA", |_, it| {
        change_soa(it, |fields| fields[6] = "30".to_owned());
    }),
    plant!("another refresh of the SOA", |_, it| {
        change_soa(it, |fields| fields[3] = "7200".to_owned());
    }),
    plant!("the serial of another version", |_, it| {
        change_soa(it, |fields| fields[2] = "1".to_owned());
    }),
    plant!("the SOA of a parent", |_, it| {
        for record in &mut it.authority {
            record.owner = "local.".to_owned();
        }
    }),
    plant!("another weight", |_, it| change_data(it, SRV, |data| {
        *data = data.replacen(" 100 ", " 50 ", 1);
    })),
    plant!("another port", |_, it| change_data(it, SRV, |data| {
        let mut parts: Vec<&str> = data.split(' ').collect();
        parts[2] = "1";
        *data = parts.join(" ");
    })),
    plant!("another target of SRV", |_, it| change_data(
        it,
        SRV,
        |data| data.insert_str(data.rfind(' ').unwrap() + 1, "x.")
    )),
    plant!("another target of PTR", |_, it| change_data(
        it,
        PTR,
        |data| data.insert_str(0, "x.")
    )),
    plant!("another target of an alias", |_, it| change_data(
        it,
        CNAME,
        |data| data.insert_str(0, "x.")
    )),
    plant!("another name server", |_, it| change_data(it, NS, |data| {
        data.insert_str(0, "x.")
    })),
    plant!("another address", |_, it| {
        change_data(it, A, |data| "192.0.2.99".clone_into(data));
    }),
    plant!("another IPv6 address", |_, it| {
        change_data(it, AAAA, |data| "2001:db8::99".clone_into(data));
    }),
    plant!("another text", |_, it| change_data(it, TXT, |data| data
        .insert(1, 'v'))),
    plant!("another class", |_, it| for record in &mut it.answers {
        record.class = 3;
    }),
    plant!(
        "capital letters in an answer",
        |_, it| if let Some(record) = it.answers.first() {
            let spelled = format!("{} {} ", record.owner.to_uppercase(), record.rtype);
            it.spelled.push(spelled);
        }
    ),
    plant!("small letters for the question's", |_, it| it.spelled[0]
        .make_ascii_lowercase()),
    plant!("no OPT", |_, it| {
        it.additional.retain(|one| one.rtype != OPT);
        it.options.clear();
    }),
    plant!("DO is not the question's", |_, it| {
        for opt in it.additional.iter_mut().filter(|one| one.rtype == OPT) {
            opt.ttl ^= 0x8000;
        }
    }),
    plant!("an option that was not asked for", |_, it| {
        if it.additional.iter().any(|one| one.rtype == OPT) {
            it.options.push((15, vec![0, 0]));
        }
    }),
    Plant {
        name: "no reply",
        change: |_, reply| *reply = None,
    },
];

/// Gives denials of the one code the other.
fn recode(message: &mut Message, from: u16, to: u16) {
    if message.answers.is_empty() && message.rcode() == from {
        message.flags = message.flags & !15 | to;
    }
}

/// Changes the fields of SOAs: names, serial, refresh, retry, expire, minimum.
fn change_soa(message: &mut Message, change: fn(&mut Vec<String>)) {
    for record in message.answers.iter_mut().chain(&mut message.authority) {
        if record.rtype == SOA {
            let mut fields: Vec<String> = record.data.split(' ').map(str::to_owned).collect();
            change(&mut fields);
            record.data = fields.join(" ");
        }
    }
}

/// Changes the data of the first answer of a type.
fn change_data(message: &mut Message, rtype: u16, change: fn(&mut String)) {
    let mut own = message.answers.iter_mut().filter(|it| it.rtype == rtype);
    if let Some(record) = own.next() {
        change(&mut record.data);
    }
}
