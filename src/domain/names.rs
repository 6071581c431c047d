//! Typed names of things. Each is opaque text, cheap to clone, ordered bytewise (the database
//! compares them the same way, which the global lock order rests on).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::supply::Item;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
        impl From<$name> for Arc<str> {
            fn from(name: $name) -> Self {
                name.0
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

name!(
    /// A SKU key as the seller writes it: trimmed, NFC, case-sensitive, 1 to 128 characters.
    SkuKey
);
name!(
    /// An order's id: 32 lower hex characters of a UUID v7.
    OrderId
);
name!(
    /// A warehouse's or supplier's id, as in the configuration.
    SourceId
);
name!(
    /// One item at one source. See [`LevelId::warehouse`] and [`LevelId::supplier`].
    LevelId
);
name!(
    /// A purchase order's id, which is also the reference given to the supplier:
    /// `{order}-{supplier}-{generation}`.
    PurchaseId
);
name!(
    /// A refund's id, derived from order, cause and payment.
    RefundId
);

impl LevelId {
    /// The level of a SKU in one of our own warehouses: `source:sku`.
    pub fn warehouse(source: &SourceId, sku: &SkuKey) -> LevelId {
        LevelId::from(format!("{source}:{sku}"))
    }
    /// The level of an upstream item, shared by every SKU mapped to it: `source:offer:spec`.
    pub fn supplier(source: &SourceId, item: &Item) -> LevelId {
        let spec = item.spec_id.as_deref().unwrap_or("");
        LevelId::from(format!("{source}:{}:{spec}", item.offer_id))
    }
    /// Whose level it is: source ids hold no `:`.
    pub fn source(&self) -> SourceId {
        SourceId::from(self.0.split(':').next().unwrap_or_default())
    }
    /// What follows the source: of a warehouse's level the SKU's key.
    pub fn at_source(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, rest)| rest)
    }
}

impl PurchaseId {
    pub fn of(order: &OrderId, supplier: &SourceId, generation: i64) -> PurchaseId {
        PurchaseId::from(format!("{order}-{supplier}-{generation}"))
    }
    /// Of whom it is bought: order ids and generations hold no `-`, a supplier's id may.
    pub fn supplier(&self) -> Option<SourceId> {
        let (_, rest) = self.0.split_once('-')?;
        let (supplier, _) = rest.rsplit_once('-')?;
        Some(SourceId::from(supplier))
    }
}

/// Declares an enum whose variants have fixed texts, used in the tables and on the wire.
macro_rules! texts {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
            /// The variant written `text`.
            pub fn parse(text: &str) -> Option<$name> {
                match text { $($text => Some($name::$variant),)+ _ => None }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use texts;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whose_it_is() {
        let (main, s1) = (SourceId::from("main"), SourceId::from("s-1"));
        assert_eq!(LevelId::warehouse(&main, &"A:B".into()).source(), main);
        let item = Item { offer_id: "61".into(), spec_id: Some("b2".into()) };
        assert_eq!(LevelId::supplier(&s1, &item).source(), s1);
        let purchase = PurchaseId::of(&"0af3".into(), &s1, 2);
        assert_eq!(purchase.supplier(), Some(s1));
        assert_eq!(PurchaseId::from("nonsense").supplier(), None);
    }
}
