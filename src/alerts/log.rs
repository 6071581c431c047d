//! Alerts as lines of the program's own log: a warning while one stands, information once it closed.

use std::time::Duration;

use async_trait::async_trait;

use super::{Channel, Error, Event, Notice};

/// The log.
#[derive(Clone, Debug)]
pub struct Log {
    name: String,
}

impl Log {
    pub fn new(name: String) -> Log {
        Log { name }
    }
}

#[async_trait]
impl Channel for Log {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, notice: &Notice) -> Result<(), Error> {
        let data = &notice.data;
        // `tracing` fixes a line's level at compile time.
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    alert.id = data.id,
                    alert.kind = data.kind,
                    alert.subject = data.subject,
                    alert.event = notice.event.as_str(),
                    "{}",
                    data.detail
                )
            };
        }
        match notice.event {
            Event::Opened | Event::Reminder => line!(warn),
            Event::Closed => line!(info),
        }
        Ok(())
    }

    fn timeout(&self) -> Duration {
        Duration::ZERO
    }
}
