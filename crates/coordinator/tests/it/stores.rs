//! The stores that every story is told on, by name: one for stories that need it quick, one for those that need it to last,
//! how much of a long story is told, and how often a short one.

/// What one machine has: in memory, and in a file.
pub(crate) mod embedded {
    use crate::fleet::Bench;

    pub(crate) fn quick() -> Bench {
        Bench::memory()
    }

    pub(crate) fn lasting() -> Bench {
        Bench::sqlite()
    }

    pub(crate) fn share_of(rounds: usize) -> usize {
        rounds
    }

    pub(crate) fn retold(times: usize) -> usize {
        times
    }
}

/// PostgreSQL.
pub(crate) mod postgres {
    use crate::fleet::Bench;

    pub(crate) fn quick() -> Bench {
        Bench::postgres()
    }

    pub(crate) fn lasting() -> Bench {
        Bench::postgres()
    }

    /// Everything is a round trip there, and the rules that are raced for are the same.
    pub(crate) fn share_of(rounds: usize) -> usize {
        rounds / 20
    }

    /// Each time takes a server of its own.
    pub(crate) fn retold(times: usize) -> usize {
        times / 10
    }
}

/// A database that promises little, on a bad day.
pub(crate) mod weak {
    use crate::fleet::Bench;

    pub(crate) fn quick() -> Bench {
        Bench::weak()
    }

    pub(crate) fn lasting() -> Bench {
        Bench::weak()
    }

    /// Everything is several requests there, and the rules that are raced for are the same.
    pub(crate) fn share_of(rounds: usize) -> usize {
        rounds / 10
    }

    pub(crate) fn retold(times: usize) -> usize {
        times
    }
}
