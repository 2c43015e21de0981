//! *Auto*: how a cache is kept where nobody said it. Everything is kept if that fits the memory; else what costs the
//! fewest answers of what fits.
//!
//! - `recipes`: the ways of keeping a cache that are advised, in the order of what they cost.
//! - `offers`: a recipe as a change of what was asked for, and the list of offers that errors show.
//! - `choice`: which of them is the first that fits. Arithmetic decides; graphs are built for the winner.
//! - `budget`: the same for a budget that was given without a policy.
//!
//! This file has what is told of it: the [`Advice`] of a setup.

mod budget;
mod choice;
mod offers;
pub mod recipes;
#[cfg(test)]
mod tests;

use ggml::Type;

pub(super) use self::budget::for_budget;
pub(super) use self::choice::choose;
pub use self::offers::{Offer, Offers};
use crate::EngineError;
use crate::devices::memory::MemoryBound;
use crate::error::Shortage;

/// What auto changed, and why.
///
/// ```
/// use longhand::setup::{Advice, Reason};
///
/// fn tell(advice: &Advice) -> String {
///     match advice.reason {
///         Reason::Memory(shortage) => format!("{} bytes are needed, {} are free", shortage.needed, shortage.free),
///         _ => advice.offer.known_cost().to_owned(),
///     }
/// }
/// # let _ = tell;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Why what was asked for is not what runs.
    pub reason: Reason,
    /// The change.
    pub offer: Offer,
}

/// Why auto changed something.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// A session that keeps everything does not fit the free memory.
    Memory(Shortage),
    /// With a cache that keeps everything not all layers fit the GPU.
    Layers {
        /// Types of its keys and values.
        types: (Type, Type),
    },
    /// The weights and a cache that keeps everything do not fit the memory together.
    Weights {
        /// Types of its keys and values.
        types: (Type, Type),
        /// What limits the memory, if that is known.
        bound: Option<MemoryBound>,
    },
    /// A budget was given without a policy.
    Budget {
        /// Whether the budget is enough for a recipe. Otherwise less is kept than was ever measured.
        is_advised: bool,
    },
}

impl Reason {
    /// The reason of a session that does not fit; `None` of another error.
    fn of_error(error: &EngineError) -> Option<Reason> {
        match error {
            EngineError::Memory(shortage) => Some(Reason::Memory(*shortage)),
            _ => None,
        }
    }
}
