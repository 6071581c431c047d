//! A map of bounded size: beyond it the oldest entry goes. It grows as it fills.

use std::borrow::Borrow;
use std::hash::Hash;

use lru::LruCache;

/// The most entries.
pub(super) const MOST: usize = 100_000;

pub(super) struct Recent<K: Hash + Eq, V> {
    entries: LruCache<K, V>,
    most: usize,
}

impl<K: Hash + Eq, V> Recent<K, V> {
    pub fn new(most: usize) -> Recent<K, V> {
        Recent { entries: LruCache::unbounded(), most }
    }

    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.entries.peek(key)
    }

    /// Puts an entry in as the newest; the one that had to go for it.
    pub fn put(&mut self, key: K, value: V) -> Option<V> {
        self.entries.put(key, value);
        if self.entries.len() <= self.most {
            return None;
        }
        self.entries.pop_lru().map(|(_, value)| value)
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes() {
        let mut recent = Recent::new(2);
        assert_eq!(recent.put("a", 1), None);
        assert_eq!(recent.put("b", 2), None);
        assert_eq!(recent.put("a", 3), None);
        assert_eq!(recent.put("c", 4), Some(2));
        assert_eq!(["a", "b", "c"].map(|k| recent.get(k).copied()), [Some(3), None, Some(4)]);
        recent.clear();
        assert_eq!(recent.get("a"), None);
    }
}
