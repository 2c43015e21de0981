//! The policies of this crate. A new one is added here.

use super::{PolicyEntry, by_attention, by_content, by_position};

/// All of them, in the order in which they are listed.
pub(super) static BUILT_IN: [PolicyEntry; 15] = [
    by_position::full::ENTRY,
    by_position::streaming::ENTRY,
    by_position::razor::ENTRY,
    by_content::l2::ENTRY,
    by_content::lagkv::LAGKV,
    by_content::lagkv::LOCALLAG,
    by_content::lagkv::LAG_L2,
    by_attention::snapkv::ENTRY,
    by_attention::slimkv::ENTRY,
    by_attention::ahakv::ENTRY,
    by_attention::h2o::ENTRY,
    by_attention::tova::ENTRY,
    by_attention::kvzip::ENTRY,
    by_attention::kvzip_plus::ENTRY,
    by_attention::kvzap::ENTRY,
];
