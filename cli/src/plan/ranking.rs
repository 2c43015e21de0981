//! In which order policies and types of the cache are advised: those that lose fewer answers first.
//!
//! The order follows tests/results/2026-11-21-recall.md and 2026-11-22-cache-types.md:
//!
//! - `full` is the reference. `razor` answers as many questions with 15 to 50 % of the cache.
//! - Other policies lose no answers while retrieval heads keep everything (`heads=on`). Fewer questions show
//!   that, so they come after `razor`. `l2` loses answers even then, and `lag-l2` was not measured.
//! - Without that, all of them lose answers at every budget. They are never advised. Neither is `kvzip`, which was
//!   measured with few texts so far (2026-11-23-kvzip.md).
//! - q8_0 loses no answers. Values in q4_0 may lose a few, so they come last. Keys in q4_0 lose nearly all answers on a
//!   model whose keys have large biases (2026-11-22-ruler.md). They are never advised.

use ggml::Type;
use kernels::RowType;
use kernels::graph::tensor_type;
use longhand::policy::PolicyChoice;

/// The place in the order, 0 first; `None` for what is never advised.
pub fn rank(policy: &PolicyChoice, types: (Type, Type)) -> Option<usize> {
    const POLICIES: usize = 3;
    let policy = match policy.name() {
        "full" => 0,
        "l2" | "lag-l2" => return None,
        _ if !policy.uses_profile() || policy.uses_shares() => return None,
        "razor" => 1,
        _ => 2,
    };
    let is = |ty: Type, row: RowType| ty == tensor_type(row);
    if is(types.0, RowType::Q4_0) {
        return None;
    }
    if is(types.1, RowType::Q4_0) {
        return Some(2 * POLICIES + policy);
    }
    let in_8_bits = is(types.0, RowType::Q8_0) || is(types.1, RowType::Q8_0);
    Some(2 * policy + usize::from(in_8_bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_more_is_advised_first() {
        let rank = |policy: &str, ty: RowType| {
            rank(&policy.parse().expect("a policy"), (tensor_type(ty), tensor_type(ty)))
        };
        let order = [
            ("full", RowType::F16),
            ("full", RowType::Q8_0),
            ("razor", RowType::F16),
            ("razor:buffer=256", RowType::Q8_0),
            ("h2o:heads=on", RowType::F16),
            ("h2o:heads=on", RowType::Q8_0),
        ];
        for pair in order.windows(2) {
            assert!(rank(pair[0].0, pair[0].1) < rank(pair[1].0, pair[1].1), "{pair:?}");
        }
        assert_eq!(rank("full", RowType::F32), rank("full", RowType::F16));
        assert_eq!(rank("full", RowType::Q4_0), None);
        let values = |policy: &str| {
            let types = (tensor_type(RowType::Q8_0), tensor_type(RowType::Q4_0));
            super::rank(&policy.parse().expect("a policy"), types)
        };
        assert!(rank("h2o:heads=on", RowType::Q8_0) < values("full") && values("full") < values("razor"));
        for policy in ["streaming", "lagkv", "snapkv", "razor:heads=off", "l2:heads=on", "kvzip"] {
            assert_eq!(rank(policy, RowType::F16), None, "{policy}");
        }
    }
}
