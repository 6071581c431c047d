//! What stands before the replicas: a caller that goes to whichever of them answers.
//!
//! What must hold: a 5xx is a `503` that says when to come again, or the test fails; whatever is asked
//! again is asked under the same name, so that asking twice is harmless.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::blackbox::api::{Answer, Api, KEY};
use crate::blackbox::daemon::Daemon;

/// The replicas as they can be reached now; clones share them.
#[derive(Clone)]
pub struct Front {
    replicas: Arc<Vec<RwLock<Api>>>,
}

impl Front {
    pub fn of(daemons: &[Daemon<'_>]) -> Front {
        let replicas = daemons.iter().map(|d| RwLock::new((**d).clone())).collect();
        Front { replicas: Arc::new(replicas) }
    }

    /// A replica was started anew, at another address.
    pub fn set(&self, replica: usize, daemon: &Daemon<'_>) {
        *self.replicas[replica].write().expect("ok") = (**daemon).clone();
    }

    fn replica(&self, n: usize) -> Api {
        self.replicas[n % self.replicas.len()].read().expect("ok").clone()
    }

    /// Asks one replica after the other, `first` first, until one takes it. Who refuses the
    /// connection, hangs up, or says 503 is asked again later.
    pub async fn post(&self, first: usize, path: &str, key: &str, body: &Value) -> Answer {
        for n in first..first + 2_000 {
            let request = self.replica(n).request(Method::POST, path).header(KEY, key).json(body);
            match Answer::try_of(request).await {
                Ok(answer) if answer.status == 503 => answer.is_problem(),
                Ok(answer) => {
                    assert!(answer.status < 500, "{path}: {} {}", answer.status, answer.text);
                    return answer;
                }
                Err(error) => assert!(!error.is_timeout(), "{path} is not answered: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no replica takes it: {path} {body}");
    }

    pub async fn place(&self, first: usize, basket: &Value) -> Answer {
        let key = format!("place-{}", basket["external_id"]);
        self.post(first, "/v1/orders", &key, basket).await
    }

    /// Pays for so many units at 10.00; the payment has the order's name.
    pub async fn pay(&self, first: usize, id: &str, name: &str, units: i64) -> Answer {
        let body = json!({"id": format!("pay-{name}"), "amount": format!("{}.00", units * 10)});
        self.post(first, &format!("/v1/orders/{id}/payments"), &format!("pay-{name}"), &body).await
    }

    pub async fn cancel(&self, first: usize, id: &str) -> Answer {
        let body = json!({"reason": "customer"});
        self.post(first, &format!("/v1/orders/{id}/cancel"), &format!("cancel-{id}"), &body).await
    }
}
