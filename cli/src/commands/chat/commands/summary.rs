//! The dim line below an answer.

use longhand::Chat;
use longhand::generation::Generated;
use terminal::format;

use crate::session::sampling::Sampling;
use crate::session::turn;

/// What the conversation takes, how it is sampled and why, and how fast the answer was:
/// `13,360/21,500 tokens · razor · 9.60 of 32.0 MiB · temp 0 (documents) · 41.0 t/s · 79 % of drafts right`.
pub fn summary(chat: &Chat, answer: &Generated, sampling: &Sampling) -> String {
    let session = chat.session();
    let (options, usage) = (session.options(), session.kv_usage());
    let policy = options.policy.to_string();
    let mut parts = vec![
        format!("{}/{} tokens", format::count(chat.context_used()), format::count(options.context)),
        policy.split(':').next().unwrap_or_default().to_owned(),
        match usage.bytes < usage.full_bytes {
            true => format::bytes_of(usage.bytes, usage.full_bytes),
            false => format::bytes(usage.bytes),
        },
    ];
    parts.push(sampling.temperature());
    if answer.steps > 0 {
        parts.push(format!("{} t/s", format::speed(answer.steps_per_second())));
        parts.extend(turn::drafts(answer.drafts));
    }
    parts.join(" · ")
}
