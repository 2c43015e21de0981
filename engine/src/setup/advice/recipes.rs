//! The ways of keeping a cache that are advised: what auto takes, what an error offers, and what `longhand plan` names.
//! They are listed from what costs no answers to what costs some. `offers.rs` has the order in which auto tries them, and when
//! it reads chunk by chunk.
//!
//! The order is that of the measurements in tests/results:
//!
//! - `full` is the reference. q8_0 costs no answers, nor do values in q4_0 or iq4_nl (2026-11-22-cache-types.md,
//!   2026-11-22-ruler.md). Keys in iq4_nl cost fewer answers than evicting rows does (2026-11-23-key-offset.md,
//!   2026-11-24-iq4-nl.md).
//! - `kvzip` whose retrieval heads keep everything costs the fewest answers in long texts (2026-11-23-kvzip.md). More
//!   rows in iq4_nl answer more than fewer rows in q8_0 do (2026-11-24-iq4-nl.md). In iq4_nl 85 % of the rows are a
//!   quarter of the bytes of f16, and 47 % an eighth.
//! - `razor` takes as many bytes and reads a text once. It answers as `full` does in texts of 4,096 tokens, and costs
//!   more answers than `kvzip` in longer ones (2026-11-22-ruler-1.5b.md, 2026-11-24-iq4-nl.md).
//! - `kvzip` with 30 % of the rows costs few answers in texts of up to 8,192 tokens, and fewer than `razor` with as many
//!   bytes (2026-11-23-kvzip.md).
//! - The others lose answers, also where retrieval heads keep everything.

use ggml::Type;
use kernels::RowType;
use kernels::graph::row_type;

use crate::kv::{KvBudget, PolicyChoice};

/// A way of keeping a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// The policy.
    pub policy: &'static str,
    /// Its rows, in % of a full cache's; `None` for what its parameters say.
    pub percent: Option<u8>,
    /// Types of keys and values.
    pub types: (Type, Type),
}

/// The policy that keeps everything.
pub const FULL: &str = "full";
/// The policy that keeps everything in retrieval heads.
pub(super) const RAZOR: &str = "razor";
/// The policy that reads a text twice.
pub(super) const KVZIP: &str = "kvzip";
/// The same, where retrieval heads keep everything.
pub(super) const KVZIP_HEADS: &str = "kvzip:heads=on";

/// Types of keys and values, the largest first.
pub const TYPES: [(Type, Type); 4] = [F16, Q8_0, VALUES_IQ4_NL, IQ4_NL];
/// Those that have cost no answers.
pub(super) const EXACT_TYPES: &[(Type, Type)] = TYPES.split_at(3).0;
/// Those that have cost few.
pub(super) const OTHER_TYPES: &[(Type, Type)] = TYPES.split_at(3).1;
const F16: (Type, Type) = (Type::F16, Type::F16);
const Q8_0: (Type, Type) = (Type::Q8_0, Type::Q8_0);
const VALUES_IQ4_NL: (Type, Type) = (Type::Q8_0, Type::IQ4_NL);
const IQ4_NL: (Type, Type) = (Type::IQ4_NL, Type::IQ4_NL);

/// All ways that are advised, the best first.
pub fn recipes() -> impl Iterator<Item = Recipe> {
    let order = [
        (FULL, None, &TYPES[..]),
        (KVZIP_HEADS, Some(85), &TYPES),
        (KVZIP_HEADS, Some(65), &TYPES),
        (KVZIP_HEADS, Some(47), &TYPES),
        (RAZOR, Some(65), &TYPES),
        (RAZOR, None, &[F16, Q8_0]),
        (KVZIP, Some(30), &TYPES),
        (RAZOR, None, &[VALUES_IQ4_NL, IQ4_NL]),
    ];
    order.into_iter().flat_map(|(policy, percent, types)| {
        types.iter().map(move |types| Recipe { policy, percent, types: *types })
    })
}

/// The budget for so many % of a full cache.
pub fn share(percent: u8) -> KvBudget {
    KvBudget::Share(f64::from(percent) / 100.0)
}

/// The place among [`recipes`] of a session of `context` tokens; `None` for what is never advised. Its rows in % are
/// those of a recipe, or `None` where the policy was given.
pub fn rank(
    policy: &PolicyChoice,
    percent: Option<u8>,
    types: (Type, Type),
    context: usize,
) -> Option<usize> {
    let kept = policy.policy().map_or(context, |bounded| bounded.budget(context)) as f64 / context as f64;
    // Of all rows somewhat less than the recipe says: rows in reserve are part of a budget.
    let (policy, least) = match policy.name() {
        FULL => (FULL, None),
        RAZOR if policy.uses_retrieval_heads() => (RAZOR, None),
        KVZIP if policy.uses_retrieval_heads() && kept >= 0.1 => (KVZIP_HEADS, Some(47)),
        KVZIP if policy.uses_shares() && kept >= 0.25 => (KVZIP, Some(30)),
        _ => return None,
    };
    let has_four_bits = |ty| row_type(ty).is_some_and(RowType::has_four_bits);
    let types = match types {
        (k, _) if has_four_bits(k) => IQ4_NL,
        (_, v) if has_four_bits(v) => VALUES_IQ4_NL,
        (k, v) if k == Type::Q8_0 || v == Type::Q8_0 => Q8_0,
        _ => F16,
    };
    recipes().position(|recipe| recipe == Recipe { policy, percent: percent.or(least), types })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planned_has_the_place_of_its_recipe() {
        let rank = |policy: &str, types| rank(&policy.parse().expect("a policy"), None, types, 10_000);
        let of = |number: usize| Some(number);
        assert_eq!(rank("full", (Type::F32, Type::F16)), of(0));
        assert_eq!(rank("full", (Type::Q8_0, Type::Q4_0)), of(2));
        assert_eq!(rank("full", (Type::Q4_0, Type::Q4_0)), of(3));
        assert_eq!(rank("kvzip:heads=on,capacity=1700", Q8_0), of(13));
        assert_eq!(rank("razor:buffer=256", (Type::Q8_0, Type::F16)), of(21));
        assert_eq!(rank("kvzip:capacity=2600", Q8_0), of(23));
        assert_eq!(rank("razor", VALUES_IQ4_NL), of(26));
        for policy in [
            "streaming",
            "lagkv:heads=on",
            "snapkv",
            "razor:heads=off",
            "l2:heads=on",
            "kvzip",
            "kvzip:heads=off",
        ] {
            assert_eq!(rank(policy, Q8_0), None, "{policy}");
        }
        // What a recipe plans for 10,000 tokens, a third of whose rows are in retrieval heads.
        for (number, recipe) in recipes().enumerate() {
            let rows = recipe.percent.map_or(String::new(), |percent| match recipe.policy {
                KVZIP_HEADS => format!(",capacity={}", (usize::from(percent) * 100 - 3300) * 100 / 67),
                RAZOR => format!(":buffer={}", (usize::from(percent) * 100 - 3300) * 100 / 67),
                _ => format!(":capacity={}", usize::from(percent) * 100),
            });
            let policy = format!("{}{rows}", recipe.policy).parse().expect("a policy");
            assert_eq!(
                super::rank(&policy, recipe.percent, recipe.types, 10_000),
                Some(number),
                "{recipe:?}"
            );
        }
    }
}
