//! Acts as mail: an act for a run that no host owns is stored with it, and applied when it is
//! recovered.
//!
//! Mail has the id of its act. The act's record consumes the mail: from then on the record is
//! durable and the mail is gone. An act that came another way consumes mail too, so that the same
//! act is recognized if it is stored later.

use super::acts::{Act, Resolution};
use crate::process::Pid;
use crate::run::record::arrived::{ActId, News};
use crate::run::record::wire::{Damaged, Source, Wire, unknown};
use crate::run::seam::log::Mail;
use std::sync::Arc;

/// The kind of mail that is an act, in the format of this release's records.
const KIND: &str = "act-1";

impl Act {
    /// Encodes the act as mail with that id.
    #[must_use]
    pub fn to_mail(&self, id: &str) -> Mail {
        mail(id.into(), &self.clone().into_news())
    }

    /// Decodes the act that mail holds.
    ///
    /// # Errors
    /// Fails if the mail is no act, or is damaged.
    pub fn of_mail(mail: &Mail) -> Result<Self, Damaged> {
        if &*mail.kind != KIND {
            return Err(unknown("kind of mail", 0));
        }
        let mut source = Source(mail.body.clone());
        let news = News::take(&mut source)?;
        source.end()?;
        Ok(match news {
            News::Signal { name, body } => Self::Signal { name, body },
            News::Cancel { pid: Pid::ROOT, reason, grace } => Self::Cancel { reason, grace },
            News::TimedOut { after } => Self::TimeOut { after },
            News::Paused(true) => Self::Pause,
            News::Paused(false) => Self::Resume,
            News::Answered { pid, tag, answer } => Self::Resolve { pid, tag, resolution: Resolution::Answered(answer) },
            News::Again { pid, tag } => Self::Resolve { pid, tag, resolution: Resolution::Again },
            _ => return Err(unknown("act", 0)),
        })
    }
}

/// The mail that holds this act.
pub(in crate::run) fn of_act(act: &ActId, news: &News) -> Mail {
    mail(Arc::clone(&act.id), news)
}

fn mail(id: Arc<str>, news: &News) -> Mail {
    let mut body = Vec::new();
    news.put(&mut body);
    Mail { id, kind: KIND.into(), body: body.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Micros, Payload, Problem, Tag};

    #[test]
    fn an_act_is_read_from_its_mail() {
        let answered = |answer| Act::Resolve { pid: Pid(3), tag: Tag(7), resolution: Resolution::Answered(answer) };
        for act in [
            Act::Signal { name: "approve".into(), body: Payload::json(&[1, 2]) },
            Act::Cancel { reason: "enough".into(), grace: None },
            Act::Cancel { reason: String::new().into(), grace: Some(Micros(0)) },
            Act::TimeOut { after: Micros(7) },
            Act::Pause,
            Act::Resume,
            answered(Ok(Payload::NULL)),
            answered(Err(Arc::new(Problem::new("no", "No")))),
            Act::Resolve { pid: Pid(1), tag: Tag(1), resolution: Resolution::Again },
        ] {
            let mail = act.to_mail("it");
            assert_eq!((&*mail.id, Act::of_mail(&mail).unwrap()), ("it", act));
        }
    }

    #[test]
    fn what_is_no_act_is_refused() {
        let act = Act::Pause.to_mail("it");
        assert!(Act::of_mail(&Mail { kind: "signal".into(), ..act.clone() }).is_err());
        let due = News::Due { pid: Pid(1), tag: Tag(1) };
        assert!(Act::of_mail(&mail("it".into(), &due)).is_err());
        let mut longer = act.body.to_vec();
        longer.push(0);
        assert!(Act::of_mail(&Mail { body: longer.into(), ..act.clone() }).is_err());
        assert!(Act::of_mail(&Mail { body: act.body.slice(..1), ..act }).is_err());
    }
}
